//! What the buffer manager needs of the log: three questions, and one demand.
//!
//! Paper: LIBTP 3.2.2, "checks with the Log Manager". A trait, so that tests can refuse.

use libtp_log::{FlushedTo, LogManager, Lsn};
use libtp_process::Session;

/// A log that pages wait for. Whatever implements it, only the log itself can make a [`FlushedTo`].
pub trait WriteAhead: Send + Sync {
    /// Where the log ends now. No page is younger.
    fn tail(&self) -> Lsn;

    /// How far it is durable now.
    fn flushed(&self) -> FlushedTo;

    /// Makes the record at `lsn` durable.
    ///
    /// # Errors
    /// The log's own.
    fn force(&self, session: &Session, lsn: Lsn) -> libtp_log::Result<FlushedTo>;

    /// Told when a data file could not be synced: nothing more may be acknowledged.
    fn poison(&self) {}
}

impl WriteAhead for LogManager {
    fn tail(&self) -> Lsn {
        LogManager::tail(self)
    }

    fn flushed(&self) -> FlushedTo {
        LogManager::flushed(self)
    }

    fn force(&self, session: &Session, lsn: Lsn) -> libtp_log::Result<FlushedTo> {
        LogManager::force(self, session, lsn)
    }

    fn poison(&self) {
        LogManager::poison(self);
    }
}

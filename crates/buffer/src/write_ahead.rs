//! The calls of the log that the buffer manager needs.
//!
//! Paper: LIBTP 3.2.2, "checks with the Log Manager". The calls are a trait, so that a test's log can refuse them.

use std::num::NonZeroU16;

use libtp_log::{FlushedTo, LogManager, Lsn};
use libtp_process::Session;

/// The log that must be durable before pages are written. Other types may implement this trait, but only the log itself
/// can make a [`FlushedTo`].
pub trait WriteAhead: Send + Sync {
    /// Returns the end of the log now. No page has an LSN beyond it.
    fn tail(&self) -> Lsn;

    /// Returns the durable end of the log now.
    fn flushed(&self) -> FlushedTo;

    /// Returns the mark of the log's incarnation that wrote the record at `lsn`; `None` if it is not known.
    fn incarnation_mark(&self, lsn: Lsn) -> Option<NonZeroU16>;

    /// Makes the record at `lsn` durable.
    ///
    /// # Errors
    /// The errors of the log.
    fn force(&self, session: &Session, lsn: Lsn) -> libtp_log::Result<FlushedTo>;

    /// Called when a data file could not be synced: no commit may be acknowledged any more.
    fn poison(&self) {}
}

impl WriteAhead for LogManager {
    fn tail(&self) -> Lsn {
        LogManager::tail(self)
    }

    fn flushed(&self) -> FlushedTo {
        LogManager::flushed(self)
    }

    fn incarnation_mark(&self, lsn: Lsn) -> Option<NonZeroU16> {
        LogManager::incarnation_mark(self, lsn)
    }

    fn force(&self, session: &Session, lsn: Lsn) -> libtp_log::Result<FlushedTo> {
        LogManager::force(self, session, lsn)
    }

    fn poison(&self) {
        LogManager::poison(self);
    }
}

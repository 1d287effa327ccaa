//! Restart: recovers the environment from its state after a crash to the committed state.
//!
//! The algorithm is ARIES. [`look`](mod@look) reads the log before anything is written, so a restart that must be
//! refused changes nothing. [`analysis`] finds the transactions that did not end. [`history`] reads the log once and
//! distributes its page changes. [`redo`] repeats the changes, page by page, on pages that are older than the change.
//! [`undo`] undoes the losers with the code of an abort, in the files that exist ([`left`]). LIBTP 3.1.1 has the
//! protocol (before and after images, write-ahead), but not this algorithm. Recovery calls the access methods only
//! through the record table. After a crash during a restart, the next restart may repeat every part.

mod analysis;
mod batch;
mod history;
mod lanes;
mod left;
mod look;
mod redo;
mod undo;

pub use look::look;
pub(crate) use redo::{redo_held, redo_record};

use libtp_log::Lsn;

use crate::{Managers, Result, TxnSession};

/// The result of a restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The LSN at which redo began.
    pub redo_from: Lsn,
    /// The end of the log.
    pub end: Lsn,
    /// Records read by redo.
    pub records: u64,
    /// Page changes that were repeated. All other page changes were on their pages already.
    pub redone: u64,
    /// Transactions undone.
    pub undone: u64,
}

/// Called with the progress of restart: the part, bytes done, bytes in all.
pub type Watcher<'w> = &'w mut dyn FnMut(&'static str, u64, u64);

/// Recovers from the log, whose last checkpoint is at `checkpoint` (`None` if there never was a checkpoint). No other
/// session is attached.
///
/// # Errors
/// A damaged log record or page, an unknown record type, a full disk. The error states how far the files are recovered.
/// The next opening repeats the whole restart.
pub fn restart(
    managers: &Managers,
    txn: &TxnSession,
    checkpoint: Option<Lsn>,
    oldest: Lsn,
    watch: Watcher<'_>,
) -> Result<Recovered> {
    let mut found = analysis::begin(&|lsn| managers.log.read(lsn), checkpoint, oldest)?;
    let mut recovered = history::repeat(managers, txn, &mut found, watch)?;
    managers.txns.header.next_id.fetch_max(found.next_id);
    for open in found.open.values() {
        managers.note_open(txn.session(), *open)?;
    }
    // This may come before the undo of the losers: no loser has changed a database that another transaction has
    // dropped.
    managers.settle_databases(txn.session(), std::mem::take(&mut found.decided))?;
    recovered.undone = undo::undo_losers(managers, txn, &found)?;
    Ok(recovered)
}

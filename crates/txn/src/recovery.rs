//! Restart: it brings the environment from the state of a crash to the state that was committed, no more and no less.
//!
//! ARIES, each part in its file. [`look`](mod@look) reads the log before anything is written, so that a restart that
//! is to be refused changes nothing. [`analysis`] finds the transactions that did not end. [`history`] reads the log once
//! and deals its page changes out. [`redo`] repeats the changes, page by page, where the page is older. [`undo`] undoes
//! the losers with the code of an abort, in the files that exist ([`left`]). Not in the paper in this form; LIBTP 3.1.1
//! gives the protocol (before and after images, write-ahead). The access methods are reached through the record table
//! alone. A crash during restart is one more crash: every part may be repeated.

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
    /// Where redo began.
    pub redo_from: Lsn,
    /// The end of the log that it found.
    pub end: Lsn,
    /// Records read by redo.
    pub records: u64,
    /// Page changes repeated; the others were on the page already.
    pub redone: u64,
    /// Transactions undone.
    pub undone: u64,
}

/// Called with the progress of restart: the part, bytes done, bytes in all.
pub type Watcher<'w> = &'w mut dyn FnMut(&'static str, u64, u64);

/// Recovers from the log between `checkpoint` (`None` if there never was one) and its end. No other session is
/// attached.
///
/// # Errors
/// A damaged log record or page, an unknown record type, a full disk. The error states how far the files are recovered,
/// and opening again starts over.
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
    // Before the losers: no loser has changed a database that another transaction has dropped.
    managers.settle_databases(txn.session(), std::mem::take(&mut found.decided))?;
    recovered.undone = undo::undo_losers(managers, txn, &found)?;
    Ok(recovered)
}

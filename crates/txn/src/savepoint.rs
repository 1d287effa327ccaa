//! Savepoints: what a transaction did since a mark is taken back, and the transaction goes on.
//!
//! Paper: LIBTP, section 6, has nested transactions as future work. It is an abort that stops at the mark: each change is undone
//! with a compensation record, which says where undo goes on, so a later abort, or restart, goes on before the mark and undoes
//! nothing twice. The locks stay with the transaction (design 0009).
//!
//! If we die here: the whole transaction is undone, as of any that dies running.

use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::{Managers, Result, TxnSession};

/// How far a transaction was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its last record then; none if it had logged nothing.
    last: Lsn,
    /// The log space that undoing it would have taken.
    undo_bytes: u64,
}

impl TxnSession {
    /// How far the running transaction is now.
    pub fn mark(&self) -> Mark {
        Mark { last: self.last_lsn(), undo_bytes: self.slot().undo_bytes.get() }
    }

    /// Takes back what the running transaction did after the mark, newest first.
    ///
    /// # Errors
    /// When a page cannot be read or the log has failed: a part was taken back then, and the transaction must be aborted.
    pub fn undo_since(&self, managers: &Managers, mark: Mark) -> Result<()> {
        let to = if planted("txn: who goes back to a mark takes all back") { Lsn::NONE } else { mark.last };
        self.undo_to(managers, to)?;
        failpoint("savepoint: undone, more room promised than needed");
        self.set_undo_bytes(managers, mark.undo_bytes);
        Ok(())
    }
}

//! Savepoints: a transaction undoes its changes since a mark, and continues.
//!
//! Paper: LIBTP, section 6, has nested transactions as future work. A rollback to a savepoint is an abort that stops at
//! the mark. Each change is undone with a compensation record, which states where undo continues. So a later abort, or
//! restart, continues before the mark and undoes nothing twice. The locks stay with the transaction (docs/design/0009).
//!
//! If the session dies here: the whole transaction is undone, as after any death in a running transaction.

use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::{Managers, Result, TxnSession};

/// A point in a transaction to which the transaction can be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The transaction's last record at this place; `Lsn::NONE` if it had logged nothing.
    last: Lsn,
    /// The log space that an undo of the transaction would have taken at this place.
    undo_bytes: u64,
}

impl TxnSession {
    /// Returns the place of the running transaction now.
    pub fn mark(&self) -> Mark {
        Mark { last: self.last_lsn(), undo_bytes: self.slot().undo_bytes.get() }
    }

    /// Undoes the changes of the running transaction after the mark, newest first.
    ///
    /// # Errors
    /// A page cannot be read or the log has failed: then a part was undone, and the transaction must be aborted.
    pub fn undo_since(&self, managers: &Managers, mark: Mark) -> Result<()> {
        let to = if planted("txn: a rollback to a savepoint undoes everything") { Lsn::NONE } else { mark.last };
        self.undo_to(managers, to)?;
        failpoint("savepoint: undone, more room promised than needed");
        self.set_undo_bytes(managers, mark.undo_bytes);
        Ok(())
    }
}

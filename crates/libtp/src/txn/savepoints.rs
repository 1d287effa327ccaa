//! A transaction's record of its savepoints.

use std::cell::{Cell, RefCell};

use crate::{Error, Result};

/// The savepoints of one transaction.
#[derive(Default)]
pub(crate) struct Savepoints {
    /// The numbers of the live savepoints, oldest first.
    live: RefCell<Vec<u64>>,
    made: Cell<u64>,
    /// The error of a failed rollback to a savepoint. A transaction with such an error must not commit.
    pub(super) failed_rollback: RefCell<Option<String>>,
}

impl Savepoints {
    pub(super) fn make(&self) -> u64 {
        let number = self.made.get() + 1;
        self.made.set(number);
        self.live.borrow_mut().push(number);
        number
    }

    /// Ends a savepoint and all later savepoints. Returns false if the end of an earlier savepoint had already ended
    /// it.
    pub(super) fn end(&self, number: u64) -> bool {
        let mut live = self.live.borrow_mut();
        let Some(place) = live.iter().rposition(|&one| one == number) else { return false };
        live.truncate(place);
        true
    }

    /// Refuses to commit a transaction in which a rollback to a savepoint failed.
    pub(crate) fn refuse_after_failed_rollback(&self) -> Result<()> {
        match self.failed_rollback.borrow_mut().take() {
            Some(cause) => Err(Error::RollbackFailed { cause }),
            None => Ok(()),
        }
    }
}

//! Savepoints, and nested transactions.
//!
//! Paper: LIBTP, section 6 ("nested transactions", as future work). A nested transaction is a part of the enclosing
//! transaction. Its locks belong to the enclosing transaction from the start. Its changes are kept if the enclosing
//! transaction commits. An abort of the nested transaction undoes only its own changes.

use libtp_txn::Mark;

use crate::txn::decisions::DatabaseDecisions;
use crate::txn::failure::keep_first;
use crate::txn::going_back::{GoingBack, MemoryMark};
use crate::{Result, Txn};

/// A place in a transaction to which the transaction can be rolled back. Dropping a savepoint without
/// [`Savepoint::keep`] rolls back to it, as dropping a transaction aborts the transaction.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let stock = env.btree("stock")?;
/// let txn = env.begin()?;
/// stock.put(&txn, b"apples", b"3")?;
/// let before = txn.savepoint();
/// stock.put(&txn, b"apples", b"2")?;
/// before.roll_back()?;
/// assert_eq!(stock.get(&txn, b"apples")?.as_deref(), Some(&b"3"[..]));
/// txn.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a savepoint undoes the changes that were made after it"]
pub struct Savepoint<'t, 'e> {
    txn: &'t Txn<'e>,
    number: u64,
    mark: Mark,
    /// The marks in joined memory; `None` if the savepoint is for records only.
    memory: Option<MemoryMark>,
    /// The decisions about databases that were made before the savepoint.
    decided: DatabaseDecisions,
}

impl std::fmt::Debug for Savepoint<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Savepoint").field("txn", self.txn).field("number", &self.number).finish()
    }
}

impl<'e> Txn<'e> {
    /// Makes a savepoint of the transaction's present state, for records and joined memory.
    pub fn savepoint(&self) -> Savepoint<'_, 'e> {
        self.savepoint_with(Some(self.parts().mark()))
    }

    /// As [`Txn::savepoint`], for records only. The caller stores nothing to memory before the savepoint ends. So the
    /// program may have a living [`Joined`](crate::Joined), with which a rollback of memory would be refused.
    pub(crate) fn savepoint_of_records(&self) -> Savepoint<'_, 'e> {
        self.savepoint_with(None)
    }

    fn savepoint_with(&self, memory: Option<MemoryMark>) -> Savepoint<'_, 'e> {
        let (number, mark) = (self.savepoints().make(), self.session().mark());
        Savepoint { txn: self, number, mark, memory, decided: self.decided().clone() }
    }

    /// Runs `work` as a nested transaction: if `work` returns an error or panics, its changes are undone, and the
    /// caller decides whether this transaction continues. If `work` succeeds, its changes are kept when this
    /// transaction commits, and not before.
    ///
    /// Locks that `work` took stay until this transaction ends. So after `Deadlock`, run the whole transaction again,
    /// not only the nested transaction.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let env = libtp::Env::create(dir.path())?;
    /// # let (orders, stock) = (env.btree("orders")?, env.btree("stock")?);
    /// env.run(|txn| {
    ///     orders.put(txn, b"17", b"one apple")?;
    ///     let taken = txn.nested(|part| {
    ///         stock.put(part, b"apples", b"-1")?;
    ///         stock.put_new(part, b"apples", b"0")
    ///     });
    ///     if let Err(libtp::Error::Exists) = taken {
    ///         orders.put(txn, b"17", b"waits")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// let txn = env.begin()?;
    /// assert_eq!(orders.get(&txn, b"17")?.as_deref(), Some(&b"waits"[..]));
    /// assert_eq!(stock.get(&txn, b"apples")?, None);
    /// # txn.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`. If that error is retryable and the undo failed, this is the error of the undo.
    pub fn nested<T>(&self, work: impl FnOnce(&Txn<'e>) -> Result<T>) -> Result<T> {
        self.savepoint().around(|| work(self))
    }
}

impl Savepoint<'_, '_> {
    /// Keeps the changes of `work`, or undoes them if it returns an error.
    pub(crate) fn around<T>(self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        match work() {
            Ok(value) => {
                self.keep();
                Ok(value)
            }
            Err(error) => Err(keep_first(error, self.roll_back())),
        }
    }

    /// Keeps the changes made since this savepoint, as part of the transaction. Ends later savepoints, too.
    pub fn keep(self) {
        self.txn.savepoints().end(self.number);
    }

    /// Undoes the transaction's changes made since this savepoint, newest first. The transaction keeps all its locks,
    /// and can be continued. Ends later savepoints, too. Does nothing if this savepoint has ended together with an
    /// earlier savepoint, which was rolled back or kept.
    ///
    /// Undoes stores to joined memory, too. Memory that was joined after the savepoint returns to its state at its
    /// join. The program must declare a range again before it stores to the range, even if it declared the range
    /// before.
    ///
    /// # Errors
    /// `Segment` if a [`Joined`](crate::Joined) of the transaction is alive, or was alive when the savepoint was made:
    /// nothing was undone. `Corrupt` or `Failed` when a page or the log cannot be read. After any error the transaction
    /// cannot commit: its commit aborts it and returns `RollbackFailed`.
    pub fn roll_back(self) -> Result<()> {
        self.go_back()
    }

    fn go_back(&self) -> Result<()> {
        if !self.txn.savepoints().end(self.number) {
            return Ok(());
        }
        self.txn.decided().go_back(&self.decided);
        let parts = self.txn.parts();
        let memory = self.memory.as_ref().map(|mark| parts.take_to_go_back(mark)).transpose();
        let done = memory.and_then(|memory| {
            self.txn.guarded(|| {
                memory.map_or(Ok(()), GoingBack::go_back)?;
                Ok(self.txn.session().undo_since(&self.txn.generation().managers, self.mark)?)
            })
        });
        if let Err(error) = &done {
            *self.txn.savepoints().failed_rollback.borrow_mut() = Some(error.to_string());
        }
        done
    }
}

impl Drop for Savepoint<'_, '_> {
    fn drop(&mut self) {
        // Does nothing after `keep` or `roll_back`. If the rollback fails here, the commit is refused and reports the
        // error.
        let _ = self.go_back();
    }
}

#[cfg(test)]
mod tests {
    use crate::Env;

    #[test]
    fn a_savepoint_undoes_later_changes_and_the_transaction_continues() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let (tree, cells) = (env.btree("tree").unwrap(), env.recno("cells", 8).unwrap());
        let txn = env.begin().unwrap();
        tree.put(&txn, b"kept", b"1").unwrap();
        let first = cells.append(&txn, &[1; 8]).unwrap();
        let outer = txn.savepoint();
        tree.put(&txn, b"outer", &[7; 9000]).unwrap();
        tree.delete(&txn, b"kept").unwrap();
        let inner = txn.savepoint();
        tree.put(&txn, b"kept", b"3").unwrap();
        cells.put(&txn, first, &[3; 8]).unwrap();
        inner.roll_back().unwrap();
        assert_eq!(tree.get(&txn, b"kept").unwrap(), None);
        assert_eq!(cells.get(&txn, first).unwrap().as_deref(), Some(&[1; 8][..]));
        assert_eq!(tree.get(&txn, b"outer").unwrap().map(|value| value.len()), Some(9000));
        // Dropping a savepoint rolls back.
        drop(outer);
        assert_eq!(tree.get(&txn, b"outer").unwrap(), None);
        let late = txn.savepoint();
        tree.put(&txn, b"late", b"4").unwrap();
        late.keep();
        txn.commit().unwrap();
        let txn = env.begin().unwrap();
        let (mut cursor, mut all) = (tree.cursor(&txn), Vec::new());
        while let Some(pair) = cursor.next().unwrap() {
            all.push(pair);
        }
        drop(cursor);
        let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
        assert_eq!(all, [pair(b"kept", b"1"), pair(b"late", b"4")]);
        assert_eq!(cells.get(&txn, first).unwrap().as_deref(), Some(&[1; 8][..]));
        txn.commit().unwrap();
    }

    #[test]
    fn a_snapshot_shows_no_change_that_was_rolled_back() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        env.run(|txn| tree.put(txn, b"a", b"1")).unwrap();
        let before = env.snapshot().unwrap();
        env.run(|txn| {
            tree.put(txn, b"a", b"2")?;
            let part = txn.savepoint();
            tree.put(txn, b"a", b"3")?;
            tree.put(txn, b"b", b"3")?;
            part.roll_back()?;
            tree.put(txn, b"c", b"4")
        })
        .unwrap();
        let after = env.snapshot().unwrap();
        let look = |key: &[u8]| [tree.get(&before, key).unwrap(), tree.get(&after, key).unwrap()];
        assert_eq!(look(b"a"), [Some(b"1".to_vec()), Some(b"2".to_vec())]);
        assert_eq!(look(b"b"), [None, None]);
        assert_eq!(look(b"c"), [None, Some(b"4".to_vec())]);
    }

    #[test]
    fn a_savepoint_that_ended_with_an_earlier_savepoint_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        let txn = env.begin().unwrap();
        let first = txn.savepoint();
        let second = txn.savepoint();
        tree.put(&txn, b"a", b"1").unwrap();
        first.roll_back().unwrap();
        tree.put(&txn, b"b", b"2").unwrap();
        second.roll_back().unwrap();
        assert_eq!(tree.get(&txn, b"b").unwrap().as_deref(), Some(&b"2"[..]));
        txn.commit().unwrap();
    }

    #[test]
    fn many_rollbacks_take_no_more_room_than_one() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        let txn = env.begin().unwrap();
        for round in 0..2000_u32 {
            let part = txn.savepoint();
            tree.put(&txn, &round.to_le_bytes(), &[1; 1000]).unwrap();
            part.roll_back().unwrap();
        }
        // No room is reserved for undo: the changes are undone already.
        let room = |txn: &crate::Txn<'_>| format!("{:?}", txn.session().mark());
        assert!(room(&txn).ends_with("undo_bytes: 0 }"), "{}", room(&txn));
        txn.abort().unwrap();
    }

    #[test]
    fn a_nested_part_that_panics_is_undone() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
        let tree = env.btree("tree").unwrap();
        let txn = env.begin().unwrap();
        tree.put(&txn, b"a", b"1").unwrap();
        let part = std::panic::AssertUnwindSafe(|| {
            txn.nested(|part| {
                tree.put(part, b"a", b"2")?;
                panic!("of the program")
            })
        });
        let ended: std::thread::Result<crate::Result<()>> = std::panic::catch_unwind(part);
        assert!(ended.is_err());
        assert_eq!(tree.get(&txn, b"a").unwrap().as_deref(), Some(&b"1"[..]));
        txn.commit().unwrap();
    }
}

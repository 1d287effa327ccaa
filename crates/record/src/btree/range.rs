//! Whole ranges of keys: counted, deleted, and what is left of them cleared away.
//!
//! Not in the paper. A range is counted and deleted record by record, under the locks of a cursor that passes them: S on each
//! record (X, to delete) and on the gap below it, and on the gap in which the range ends. So the range stays as it was found,
//! empty, say, until the transaction ends. From 100,000 locks on it tries to lock the database instead (`access.rs`), and
//! then needs no more.
//!
//! What is deleted stays as ghosts until the transaction has committed. `clear_away`, called then, goes over the leaves
//! of the range once and again, removes ghosts, unlinks what is empty, and lets pages above absorb each other. `clear_around` does
//! that where single deletions have left nothing on a leaf, and on its neighbours: what stood in the way of one when it was emptied,
//! a snapshot or another who deletes, is gone when the next beside it is.

use libtp_lock::Mode;
use libtp_txn::State;

use crate::access::{Access, Tried};
use crate::btree::ghosts;
use crate::btree::node::Node;
use crate::btree::search::{self, node_of};
use crate::btree::unlink;
use crate::btree::BtreeCursor;
use crate::key_range::KeyRange;
use crate::lock_names;
use crate::snapshot::{SnapshotAccess, SnapshotCursor};
use crate::Result;

/// So often the leaves of a range are gone over: each time there are very much fewer.
const PASSES_MAX: usize = 8;
/// So many leaves to each side of an emptied one are looked at: more than one, or what has once been left would never become less ..
const AROUND_MAX: usize = 32;
/// .. and no more, where so many of them could not be cleared: a snapshot may want what was there.
const FAILED_MAX: usize = 4;

/// What came of a leaf that was to be cleared.
struct Looked {
    has_gone: bool,
    /// It was tried and is still there.
    has_failed: bool,
    left: Option<u32>,
    right: Option<u32>,
}

/// Towards which end of the file one goes.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Access<'_> {
    /// Counts the records of a range, and keeps their number as it is until the transaction ends.
    ///
    /// # Errors
    /// What locks and pages can fail with.
    pub fn count_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = BtreeCursor::new(*self).within(range).without_values();
        let mut count = 0;
        while cursor.move_next()? {
            count += 1;
        }
        Ok(count)
    }

    /// Deletes the records of a range, and returns how many there were. Until the transaction ends nobody else puts one there.
    ///
    /// # Errors
    /// As [`Access::put`]; some of the records may be deleted by then.
    pub fn delete_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = BtreeCursor::for_update(*self).within(range).without_values();
        let mut count = 0;
        while cursor.move_next()? {
            let Some((key, _)) = cursor.record() else { break };
            count += u64::from(self.delete(key)?);
        }
        Ok(count)
    }

    /// Gives back the pages of a range whose records were deleted, as far as nobody can want these back; how many leaves left
    /// the tree. For after the commit: it belongs to no transaction.
    ///
    /// # Errors
    /// What pages and the log can fail with; what was given back by then is.
    ///
    /// # Panics
    /// In a transaction.
    pub fn clear_away(&self, range: &KeyRange) -> Result<u64> {
        self.as_who_cleans(|| self.clear_away_locked(range))
    }

    /// Gives back the page of the leaf on which that key would be, and of those beside it, as far as they hold nothing; how many left the tree. For after
    /// the commit, as [`Access::clear_away`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// In a transaction.
    pub fn clear_around(&self, key: &[u8]) -> Result<u64> {
        self.as_who_cleans(|| {
            let (leaf, right) = {
                let _visit = self.pages.visit();
                let leaf = search::shared(&self.pages, key, 0)?;
                let number = leaf.id().page().raw();
                (number, node_of(&self.pages, number, &leaf)?.right())
            };
            let gone = self.clear_towards(Side::Left, Some(leaf))? + self.clear_towards(Side::Right, right)?;
            unlink::free_unlinked(self, None)?;
            Ok(gone)
        })
    }

    /// Clears, if nobody has locked the whole database.
    fn as_who_cleans(&self, clear: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let change = &self.pages.change;
        assert_eq!(change.who.state(), State::Idle, "it ends with all locks given back");
        // As everybody who cleans holds the database: one who has locked all of it has no locks on its records to be seen by, and
        // may want back what it deleted.
        if self.try_lock(lock_names::database(self.database.id()), Mode::IX)? == Tried::Busy {
            return Ok(0);
        }
        let _freeing = self.pages.session().begin_freeing();
        let cleared = clear();
        change.managers.locks.unlock_all(self.pages.session(), change.who.locker());
        cleared
    }

    /// Clears a leaf and those beyond it on one side, up to one that holds something.
    fn clear_towards(&self, side: Side, first: Option<u32>) -> Result<u64> {
        let (mut gone, mut failed, mut next) = (0, 0, first);
        for _ in 0..AROUND_MAX {
            let Some(looked) = next.map_or(Ok(None), |leaf| self.clear_leaf(leaf))? else { break };
            gone += u64::from(looked.has_gone);
            failed += usize::from(looked.has_failed);
            if failed == FAILED_MAX {
                break;
            }
            next = match side {
                Side::Left => looked.left,
                Side::Right => looked.right,
            };
        }
        Ok(gone)
    }

    /// Clears a leaf; none if it holds something, or is no leaf any more: it was found in an earlier visit, and may be something else by
    /// now, also another leaf, which is as good.
    fn clear_leaf(&self, number: u32) -> Result<Option<Looked>> {
        let _visit = self.pages.visit();
        let (left, right, is_to_be_cleaned) = {
            let page = self.pages.shared(number, 0)?;
            let is_emptied = |node: &Node<'_>| node.is_leaf() && !node.is_deleted() && ghosts::is_dead(node);
            let Some(node) = Node::over(&page).filter(is_emptied) else { return Ok(None) };
            (node.left(), node.right(), ghosts::is_to_be_cleaned(self, number, page.lsn(), &node))
        };
        let has_gone = is_to_be_cleaned && ghosts::clean(self, number, left)?;
        Ok(Some(Looked { has_gone, has_failed: is_to_be_cleaned && !has_gone, left, right }))
    }

    fn clear_away_locked(&self, range: &KeyRange) -> Result<u64> {
        let mut gone = 0;
        for _ in 0..PASSES_MAX {
            let pass = self.clear_leaves(range)?;
            gone += pass;
            if pass == 0 {
                break;
            }
        }
        unlink::free_unlinked(self, None)?;
        Ok(gone)
    }

    /// Goes over the leaves of a range once.
    fn clear_leaves(&self, range: &KeyRange) -> Result<u64> {
        let (mut gone, mut next) = (0, Some(range.low().to_vec()));
        while let Some(key) = next {
            // Until it is cleaned, and what comes with that: nobody goes through the tree outside (PROTOCOLS T2).
            let _visit = self.pages.visit();
            let (number, left, is_dead) = {
                let leaf = search::shared(&self.pages, &key, 0)?;
                let number = leaf.id().page().raw();
                let node = node_of(&self.pages, number, &leaf)?;
                next = node.high().filter(|&high| range.high().is_none_or(|end| high < end)).map(<[u8]>::to_vec);
                (number, node.left(), ghosts::is_to_be_cleaned(self, number, leaf.lsn(), &node))
            };
            if is_dead {
                gone += u64::from(ghosts::clean(self, number, left)?);
            }
        }
        Ok(gone)
    }
}

impl SnapshotAccess<'_> {
    /// Counts what is seen of a range.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn count_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = SnapshotCursor::new(*self).within(range);
        let mut count = 0;
        while cursor.move_next()? {
            count += 1;
        }
        Ok(count)
    }
}

//! Whole ranges of keys: counts and deletes their records, and cleans emptied leaves.
//!
//! Not in the paper. A range is counted and deleted record by record, under the locks of a cursor that passes the
//! records: S on each record (X, to delete) and on the gap below it, and on the gap in which the range ends. So the
//! range does not change (an empty range stays empty, for example) until the transaction ends. With 100,000 locks the
//! transaction tries to lock the database instead (`locking.rs`), and then needs no more locks.
//!
//! Deleted records stay as ghosts until the transaction has committed. Then `clear_away` passes the leaves of the range
//! several times, removes ghosts, unlinks empty leaves, and lets inner pages absorb each other. When single deletions
//! have emptied a leaf, `clear_around` does the same for the leaf and its neighbours. An empty neighbour may have been
//! kept in the tree by a snapshot or a deletion that has ended since.

use libtp_lock::Mode;
use libtp_txn::State;

use crate::btree::descent::node_of;
use crate::btree::ghosts;
use crate::btree::search;
use crate::btree::unlinked::free_unlinked;
use crate::btree::BtreeCursor;
use crate::key_range::KeyRange;
use crate::lock_names;
use crate::locking::{Access, Tried};
use crate::page::node::Node;
use crate::Result;

/// The largest number of passes over the leaves of a range. Each pass has far fewer leaves than the pass before.
const PASSES_MAX: usize = 8;
/// The number of leaves that are examined on each side of an emptied leaf. With only one, the empty leaves
/// that could not be unlinked would never become fewer.
const AROUND_MAX: usize = 32;
/// The number of failed leaves after which the session stops: a snapshot may need their records.
const FAILED_MAX: usize = 4;

/// The result of an attempt to clear a leaf.
struct LeafCleared {
    has_gone: bool,
    /// The session tried to clear the leaf, and it is still there.
    has_failed: bool,
    left: Option<u32>,
    right: Option<u32>,
}

/// The direction of a walk over leaves.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

impl Access<'_> {
    /// Counts the records of a range. The count stays valid until the transaction ends.
    ///
    /// # Errors
    /// Locks or pages failed.
    pub fn count_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = BtreeCursor::new(*self).within(range).without_values();
        let mut count = 0;
        while cursor.move_next()? {
            count += 1;
        }
        Ok(count)
    }

    /// Deletes the records of a range, and returns their number. No other transaction can put a record into the range
    /// until this transaction ends.
    ///
    /// # Errors
    /// As [`Access::put`]; some of the records may have been deleted before the error.
    pub fn delete_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = BtreeCursor::for_update(*self).within(range).without_values();
        let mut count = 0;
        while cursor.move_next()? {
            let Some((key, _)) = cursor.record() else { break };
            count += u64::from(self.delete(key)?);
        }
        Ok(count)
    }

    /// Frees the pages of a range whose records were deleted, except pages with records that a rollback may need.
    /// Returns the number of unlinked leaves. Called after the commit of the deletions: the call belongs to no
    /// transaction.
    ///
    /// # Errors
    /// Pages or the log failed. Pages that were freed before the error stay free.
    ///
    /// # Panics
    /// If the session runs a transaction.
    pub fn clear_away(&self, range: &KeyRange) -> Result<u64> {
        self.with_cleaning_lock(|| self.clear_away_locked(range))
    }

    /// Frees the leaf whose range holds `key`, and its neighbours, if they are empty. Returns the number of unlinked
    /// leaves. Called after the commit of the deletions, like [`Access::clear_away`].
    ///
    /// # Errors
    /// As [`Access::clear_away`].
    ///
    /// # Panics
    /// If the session runs a transaction.
    pub fn clear_around(&self, key: &[u8]) -> Result<u64> {
        self.with_cleaning_lock(|| {
            let (leaf, right) = {
                let _visit = self.pages.visit();
                let leaf = search::shared(&self.pages, key, 0)?;
                let number = leaf.id().page().raw();
                (number, node_of(&self.pages, number, &leaf)?.right())
            };
            let gone = self.clear_towards(Side::Left, Some(leaf))? + self.clear_towards(Side::Right, right)?;
            free_unlinked(self, None)?;
            Ok(gone)
        })
    }

    /// Runs `clear` if no transaction has locked the whole database.
    fn with_cleaning_lock(&self, clear: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let change = &self.pages.change;
        assert_eq!(change.txn.state(), State::Idle, "a cleaning would release the locks of the running transaction");
        // Every cleaning session takes this lock. It excludes a transaction that has locked the whole database: such a
        // transaction holds no locks on records that would protect its ghosts, and its rollback may need the ghosts.
        if self.try_lock(lock_names::database(self.database.id()), Mode::IX)? == Tried::Busy {
            return Ok(0);
        }
        let _freeing = self.pages.session().begin_freeing();
        let cleared = clear();
        change.managers.locks.unlock_all(self.pages.session(), change.txn.locker());
        cleared
    }

    /// Clears a leaf and the leaves after it on one side, up to a leaf with records.
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

    /// Clears a leaf. Returns `None` if the leaf has records, or is no leaf any more. The number comes from an earlier
    /// visit. If the page is another leaf now, this other leaf is cleared, which does no harm.
    fn clear_leaf(&self, number: u32) -> Result<Option<LeafCleared>> {
        let _visit = self.pages.visit();
        let (left, right, is_to_be_cleaned) = {
            let page = self.pages.shared(number, 0)?;
            let is_emptied = |node: &Node<'_>| node.is_leaf() && !node.is_deleted() && ghosts::is_dead(node);
            let Some(node) = Node::over(&page).filter(is_emptied) else { return Ok(None) };
            (node.left(), node.right(), ghosts::is_to_be_cleaned(self, number, page.lsn(), &node))
        };
        let has_gone = is_to_be_cleaned && ghosts::clean(self, number, left)?;
        Ok(Some(LeafCleared { has_gone, has_failed: is_to_be_cleaned && !has_gone, left, right }))
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
        free_unlinked(self, None)?;
        Ok(gone)
    }

    /// Makes one pass over the leaves of a range.
    fn clear_leaves(&self, range: &KeyRange) -> Result<u64> {
        let (mut gone, mut next) = (0, Some(range.low().to_vec()));
        while let Some(key) = next {
            // One visit lasts until the leaf is cleaned: every walk through the tree is inside a visit (PROTOCOLS T2).
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

//! Compaction of a tree in use: [`Db::compact`].
//!
//! Not in the paper. Neighbouring leaves that hold little are merged (`record/btree/merge.rs`), some at a time, outside
//! of any transaction. The database reuses the freed pages.

use std::time::Duration;

use libtp_lock::{OpenHere, Wait};
use libtp_record::Access;
use rio::planted;

use crate::db::handle::Db;
use crate::db::list::List;
use crate::db::multi::Multi;
use crate::{Error, Result};

/// The number of leaves visited under one lock, which limits the wait for a lock on the whole database.
const LEAVES: u64 = 256;

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// The number of leaves visited.
    pub leaves: u64,
    /// Leaves that were merged into others, or were empty: their pages are free, or will be soon.
    pub merged: u64,
}

impl Db {
    /// Merges neighbouring pages that hold little, so that the remaining pages are filled to at most `fill_percent`,
    /// which is 10 to 100. Other transactions read and write meanwhile. The database reuses the freed pages; the file
    /// does not become shorter. An interrupted compaction keeps its result so far.
    ///
    /// Deleted records are removed where no snapshot needs them and no running transaction may restore them: a second
    /// compaction may free more.
    ///
    /// # Errors
    /// `Database` for a hash database, and for an invalid fill; `LockTimeout` when a transaction has locked the whole
    /// database, `OwnThread` when that transaction belongs to this thread; `Full`, `Failed`, `Corrupt`, `Io`.
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.compact_watched(fill_percent, &mut |_| {})
    }

    /// Works as [`Db::compact`], and calls `watch` from time to time with the result so far.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        self.compact_waiting(fill_percent, self.environment().wait, watch)
    }

    /// Works as [`Db::compact`], but waits for a transaction at most for the time `longest`, whatever the environment's
    /// lock timeout is.
    ///
    /// # Errors
    /// As [`Db::compact`]. The leaves that were visited before the error stay compacted.
    pub fn compact_within(&self, fill_percent: u8, longest: Duration) -> Result<Compaction> {
        self.compact_waiting(fill_percent, Wait::For(longest), &mut |_| {})
    }

    fn compact_waiting(&self, fill_percent: u8, wait: Wait, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        if self.is_hash() {
            let what = "it is a hash database, and only B-trees and lists can be compacted; nothing was changed".into();
            return Err(Error::Database { name: self.name().into(), what });
        }
        let env = self.environment();
        env.check_writable("compaction")?;
        let mut all = Compaction::default();
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let done = env.with_session(|managers, txn| {
                // The thread counts as a thread with an open transaction. So the lock manager refuses a wait for
                // another transaction of this thread, which the thread could not end while it waits.
                let _open = (!planted("libtp: a compaction waits for its own thread")).then(OpenHere::new);
                Ok(Access::new(managers, txn, self.opened(), wait).compact(&key, LEAVES, fill_percent)?)
            })?;
            all.leaves += done.leaves;
            all.merged += done.merged;
            from = done.next;
            watch(all);
        }
        Ok(all)
    }
}

impl Multi {
    /// Works as [`Db::compact`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.tree().compact(fill_percent)
    }

    /// Works as [`Db::compact_watched`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        self.tree().compact_watched(fill_percent, watch)
    }
}

impl List {
    /// Works as [`Db::compact`], on the list's tree. The list's records keep their numbers.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.tree().compact(fill_percent)
    }

    /// Works as [`Db::compact_watched`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        self.tree().compact_watched(fill_percent, watch)
    }
}

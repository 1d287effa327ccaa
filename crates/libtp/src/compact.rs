//! Compaction of a tree while others use it: [`Db::compact`].
//!
//! Not in the paper. Neighbouring leaves that hold little are merged (`record/btree/merge.rs`), some at a time, in no
//! transaction; the pages that are won are used by whatever the database takes next.

use libtp_record::Access;

use crate::database::Db;
use crate::list::List;
use crate::multi::Multi;
use crate::{Error, Result};

/// So many leaves are gone over under one lock: who wants the whole database waits no longer than that.
const LEAVES: u64 = 256;

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Leaves that were gone over.
    pub leaves: u64,
    /// Leaves that were merged into others, or held nothing: their pages are free, or will be in a moment.
    pub merged: u64,
}

impl Db {
    /// Merges neighbouring pages that hold little, so that those that stay are filled to `fill_percent` at most, 10 to 100; others
    /// read and write meanwhile. What is won is used for what the database takes next: the file does not become shorter. What it
    /// comes to stays, whenever it is broken off.
    ///
    /// What was deleted is removed where no snapshot needs it and no running transaction may want it back: a second time it may
    /// come to more.
    ///
    /// # Errors
    /// `Database` for a hash database, and a fill that cannot be; `LockTimeout` when somebody has locked the whole database;
    /// `Full`, `Failed`, `Corrupt`, `Io`.
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.compact_watched(fill_percent, &mut |_| {})
    }

    /// As [`Db::compact`]; `watch` is told now and then what it has come to.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        if self.is_hash() {
            let what = "it is a hash database, whose buckets are not merged".into();
            return Err(Error::Database { name: self.name().into(), what });
        }
        let env = self.environment();
        let mut all = Compaction::default();
        let mut from = Some(Vec::new());
        while let Some(key) = from {
            let done = env.with_session(|managers, who| {
                Ok(Access::new(managers, who, self.opened(), env.wait).compact(&key, LEAVES, fill_percent)?)
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
    /// As [`Db::compact`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.tree().compact(fill_percent)
    }

    /// As [`Db::compact_watched`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        self.tree().compact_watched(fill_percent, watch)
    }
}

impl List {
    /// As [`Db::compact`], for the tree that the list is made of: its records keep their numbers.
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact(&self, fill_percent: u8) -> Result<Compaction> {
        self.tree().compact(fill_percent)
    }

    /// As [`Db::compact_watched`].
    ///
    /// # Errors
    /// As [`Db::compact`].
    pub fn compact_watched(&self, fill_percent: u8, watch: &mut dyn FnMut(Compaction)) -> Result<Compaction> {
        self.tree().compact_watched(fill_percent, watch)
    }
}

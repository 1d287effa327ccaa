//! Making, reopening and dropping an index.
//!
//! Making an index is one transaction, which locks the whole database: it puts the index on the list, reads every
//! record, sorts the entries, loads them, and commits. A death before the end of the load leaves a file that is on no
//! list, and the next caller makes the index again. A death after the end of the load leaves the entries in the file
//! (docs/design/0014); they are never read, and the next caller removes them.

use std::sync::Arc;

use libtp_lock::Mode;
use libtp_record::{Duplicates, KeyFormat, KeyRange, Method};
use rio::{failpoint, planted};

use super::Index;
use crate::db::handle::Db;
use crate::db::opening;
use crate::db::sort::Sorter;
use crate::region::kept_indices::{IndexKeys, Kept};
use crate::{Durability, Result, Txn};

/// The fill of leaves in percent. The rest is for later entries, which come between the present entries.
const FILL_PERCENT: u8 = 90;
/// The approximate memory for sorting.
const SORT_BYTES: u64 = 64 << 20;

impl Db {
    /// Opens the index `name` of this database. `function` gets the key and the value of a record and adds the keys
    /// under which the index finds the record. If the index is missing, the call reads all records and makes the index
    /// in one transaction. All other writers of the database wait for that transaction.
    ///
    /// From then on every change of a record, by any process, updates the index. Every process that writes to the
    /// database must first make this call, with the same function. The library calls the function while the record is
    /// locked. The function must not use the library, and must always return the same keys for the same record.
    ///
    /// # Errors
    /// `Database` when the name belongs to another database, or a database has too many indices (32); `Length` when a
    /// key is too long for an index; else as [`Db::put`]. After an error the index was not made.
    pub fn index(
        &self,
        name: &str,
        function: impl Fn(&[u8], &[u8], &mut IndexKeys) + Send + Sync + 'static,
    ) -> Result<Index> {
        let env = self.environment();
        let key_format =
            KeyFormat { duplicates: Duplicates::Sorted, index_of: Some(self.opened().id()), ..KeyFormat::default() };
        let tree = Db::open_keyed(env, name, key_format, None)?;
        let kept = Arc::new(Kept {
            tree: Arc::clone(tree.opened()),
            order: self.order().cloned(),
            function: Box::new(function),
        });
        let index = Index { of: self.clone(), tree, kept };
        if env.is_read_only {
            // A read-only handle makes no index. If the index is not on the database's list, each read of the index is
            // refused.
            return Ok(index);
        }
        // The function is noted before the index is on the list: from then on this process's writers need the function.
        let before = env.indices.note(&index.kept);
        // The index is on disk when this call returns, like the records of any load.
        if let Err(error) = crate::txn::run::run(env, Durability::Sync, |txn| index.make(txn)) {
            env.indices.forget(&index.kept, before);
            return Err(error);
        }
        Ok(index)
    }

    /// Drops an index: removes the entries of the index, and stops its updates. Returns false if the database has no
    /// index of that name on its list. The file stays, empty, for an index of the same name.
    ///
    /// # Errors
    /// `NoDatabase`; `Database` when the name is no index of this database; else as [`Db::delete_range`].
    pub fn drop_index(&self, name: &str) -> Result<bool> {
        let env = self.environment();
        env.check_writable("dropping an index")?;
        let open = opening::open(env, name, None)?;
        if open.method() != Method::Btree || open.key_format().index_of != Some(self.opened().id()) {
            return Err(opening::no_index_of(name, self.name()));
        }
        let tree = Db::open_keyed(env, name, *open.key_format(), None)?;
        crate::txn::run::run(env, env.durability, |txn| {
            if !txn.guarded(|| Ok(self.access(txn).indices()?.contains(&open.id())))? {
                return Ok(false);
            }
            txn.guarded(|| Ok(self.access(txn).set_index(open.id(), false)?))?;
            tree.clear(txn)?;
            Ok(true)
        })
    }

    /// Locks the whole tree and removes all entries.
    fn clear(&self, txn: &Txn<'_>) -> Result<()> {
        txn.guarded(|| Ok(self.access(txn).lock_database(Mode::X)?))?;
        self.delete_raw_range(txn, KeyRange::default())?;
        Ok(())
    }
}

impl Index {
    /// Makes the index, unless it is on the list.
    fn make(&self, txn: &Txn<'_>) -> Result<()> {
        let file = self.kept.tree.id();
        let is_listed = |txn: &Txn<'_>| txn.guarded(|| Ok(self.of.access(txn).indices()?.contains(&file)));
        if is_listed(txn)? {
            return Ok(());
        }
        // This lock waits for all writers, and perhaps for another maker of the same index.
        txn.guarded(|| Ok(self.of.access(txn).lock_database(Mode::X)?))?;
        if is_listed(txn)? {
            return Ok(());
        }
        txn.guarded(|| {
            self.of.access(txn).set_index(file, true)?;
            failpoint("index: listed, not made");
            Ok(())
        })?;
        // The tree may have entries of a dropped index, or of an index whose maker died after the end of the load.
        self.tree.clear(txn)?;
        self.fill(txn)?;
        txn.guarded(|| {
            failpoint("index: made, not committed");
            Ok(())
        })
    }

    /// Adds the sorted entries of all records. They are loaded (0014) if the tree is one empty leaf, as a new tree is.
    /// A tree with more pages keeps its pages, and the entries are put one by one.
    fn fill(&self, txn: &Txn<'_>) -> Result<()> {
        let directory = self.of.environment().platform.directory.as_ref();
        let mut sorter = Sorter::new(directory, self.name(), SORT_BYTES);
        let mut records = self.of.raw_cursor(txn, KeyRange::default());
        while let Some((stored, value)) = records.next()? {
            for entry in self.kept.entries(&stored, &value)? {
                txn.guarded(|| sorter.push(&entry, b""))?;
            }
        }
        let mut merge = txn.guarded(|| sorter.finish())?;
        let access = self.tree.access(txn);
        let mut loader = txn.guarded(|| match access.begin_load(FILL_PERCENT) {
            Err(libtp_record::Error::NotEmpty { .. }) => Ok(None),
            begun => Ok(Some(begun?)),
        })?;
        while let Some((entry, _)) = txn.guarded(|| merge.next())? {
            if planted("libtp: an index build loses sorted entries") && entry.len() % 4 == 1 {
                continue;
            }
            txn.guarded(|| match &mut loader {
                Some(loader) => Ok(loader.push(&entry, b"")?),
                None => Ok(access.put(&entry, b"")?),
            })?;
        }
        match loader {
            Some(loader) => txn.guarded(|| Ok(loader.finish().map(|_| ())?)),
            None => Ok(()),
        }
    }
}

//! Updates the indices of a database when a record changes.
//!
//! First the record is locked for writing and read. Each index's function computes the keys of the old and of the new
//! value. Then the record and the differing entries are changed. If a step fails, all steps are undone, so a program
//! that continues after an error has not changed the record without its entries.

use libtp_record::copies::copy_of;
use std::collections::BTreeSet;
use std::sync::Arc;

use libtp_record::{Access, KeyRange};
use rio::{failpoint, planted};

use crate::db::handle::Db;
use crate::region::kept_indices::Kept;
use crate::{Error, Result, Txn};

/// The entries of one index before and after a change.
struct Differing {
    kept: Arc<Kept>,
    before: BTreeSet<Vec<u8>>,
    after: BTreeSet<Vec<u8>>,
}

/// Returns, for each index, the entries of the record before and after the change.
fn differing(kept: &[Arc<Kept>], stored: &[u8], before: Option<&[u8]>, after: Option<&[u8]>) -> Result<Vec<Differing>> {
    let entries = |kept: &Kept, value: Option<&[u8]>| match value {
        Some(value) => kept.entries(stored, value),
        None => Ok(BTreeSet::new()),
    };
    let of_one = |kept: &Arc<Kept>| {
        let (before, after) = (entries(kept, before)?, entries(kept, after)?);
        Ok(Differing { kept: Arc::clone(kept), before, after })
    };
    kept.iter().map(of_one).collect()
}

impl Db {
    /// Returns all indices of the database, with their functions.
    fn kept_indices(&self, txn: &Txn<'_>) -> Result<Vec<Arc<Kept>>> {
        let env = self.environment();
        let files = txn.guarded(|| Ok(self.access(txn).indices()?))?;
        let of_file = |file| {
            env.indices.of(file).ok_or_else(|| {
                let info = txn.generation().managers.buffers.file_by_id(file);
                let index = info.map_or_else(|| format!("file {file}"), |info| info.name);
                let what = format!(
                    "it has the index `{index}`, and this process has not given the function that computes the keys of that index; nothing was changed. Call `Db::index` with the function before the first write"
                );
                Error::Database { name: self.name().into(), what }
            })
        };
        files.into_iter().map(of_file).collect()
    }

    /// Changes a record and its entries: `become_` computes the new state from the old state, or returns `None` to
    /// leave the record unchanged.
    fn change_indexed<T>(
        &self,
        txn: &Txn<'_>,
        stored: &[u8],
        become_: impl FnOnce(Option<&[u8]>) -> Result<Option<(T, Option<Vec<u8>>)>>,
    ) -> Result<Option<T>> {
        let kept = self.kept_indices(txn)?;
        let before = txn.guarded(|| Ok(self.access(txn).get_for_update(stored, copy_of)?.transpose()?))?;
        let Some((answer, after)) = become_(before.as_deref())? else { return Ok(None) };
        let changes = differing(&kept, stored, before.as_deref(), after.as_deref())?;
        txn.savepoint_of_records().around(|| {
            txn.guarded(|| {
                let access = self.access(txn);
                match &after {
                    Some(value) => access.put(stored, value)?,
                    None => {
                        access.delete(stored)?;
                    }
                }
                failpoint("index: record changed, its entries not");
                changes.iter().try_for_each(|change| change.apply(self, txn))
            })
        })?;
        Ok(Some(answer))
    }

    pub(crate) fn put_indexed(&self, txn: &Txn<'_>, stored: &[u8], value: &[u8]) -> Result<()> {
        self.change_indexed(txn, stored, |_| Ok(Some(((), Some(copy_of(value)?)))))?;
        Ok(())
    }

    pub(crate) fn put_new_indexed(&self, txn: &Txn<'_>, stored: &[u8], value: &[u8]) -> Result<bool> {
        let new = self.change_indexed(txn, stored, |before| match before {
            None => Ok(Some(((), Some(copy_of(value)?)))),
            Some(_) => Ok(None),
        })?;
        Ok(new.is_some())
    }

    pub(crate) fn delete_indexed(&self, txn: &Txn<'_>, stored: &[u8]) -> Result<bool> {
        Ok(self.change_indexed(txn, stored, |before| Ok(before.map(|_| ((), None))))?.is_some())
    }

    pub(crate) fn update_indexed<R>(
        &self,
        txn: &Txn<'_>,
        stored: &[u8],
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<Option<R>> {
        self.change_indexed(txn, stored, |before| {
            let Some(before) = before else { return Ok(None) };
            let mut value = copy_of(before)?;
            let answer = change(&mut value);
            Ok(Some((answer, Some(value))))
        })
    }

    pub(crate) fn delete_range_indexed(&self, txn: &Txn<'_>, range: KeyRange) -> Result<u64> {
        let mut count = 0;
        let mut records = self.raw_cursor(txn, range);
        while let Some((stored, _)) = records.next()? {
            count += u64::from(self.delete_indexed(txn, &stored)?);
        }
        Ok(count)
    }
}

impl Differing {
    fn apply(&self, of: &Db, txn: &Txn<'_>) -> Result<()> {
        let tree = &self.kept.tree;
        let access = Access::of_session(&txn.generation().managers, txn.session(), tree);
        for gone in self.before.difference(&self.after) {
            if planted("libtp: old index entries of a record are not deleted") {
                continue;
            }
            if !access.delete(gone)? {
                let what = format!(
                    "this index has no entry for a record of `{}` that is to be changed: its function gives other keys for that record than before. Nothing was changed. Drop the index (`Db::drop_index`), and make it again (`Db::index`)",
                    of.name()
                );
                return Err(Error::Database { name: tree.name().into(), what });
            }
            failpoint("index: an entry removed");
        }
        for new in self.after.difference(&self.before) {
            access.put(new, b"")?;
            failpoint("index: an entry added");
        }
        Ok(())
    }
}

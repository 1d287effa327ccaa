//! The readers of databases: transactions and snapshots.

use libtp_buffer::FileId;
use libtp_record::copies::{append_copy, copy_of};
use libtp_record::list::{Now, Seen};
use libtp_record::{KeyRange, Listed, Stretch};

use crate::db::cursor::{Cursor, RecnoCursor};
use crate::db::handle::{Db, Recno};
use crate::region::generation::Seated;
use crate::region::panics::callers;
use crate::{Result, Snapshot, Txn};

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Txn<'_> {}
    impl Sealed for crate::Snapshot<'_> {}
    impl<R: Sealed> Sealed for &R {}
}

/// A reader of databases: a [`Txn`], which locks the records that it reads, or a [`Snapshot`], which does not.
pub trait Reader: sealed::Sealed {
    #[doc(hidden)]
    fn read<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;
    #[doc(hidden)]
    fn read_copied<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;
    /// Reads several records; `read` gets the key's index with the value.
    #[doc(hidden)]
    fn read_many(&self, db: &Db, keys: &[&[u8]], read: impl FnMut(usize, &[u8])) -> Result<()>;
    #[doc(hidden)]
    fn prefetch(&self, db: &Db, key: &[u8]) -> Result<()>;
    #[doc(hidden)]
    fn read_number<T>(&self, db: &Recno, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>>;
    #[doc(hidden)]
    fn cursor<'t>(&'t self, db: &'t Db, range: KeyRange) -> Cursor<'t>;
    #[doc(hidden)]
    fn count(&self, db: &Db, range: KeyRange) -> Result<u64>;
    #[doc(hidden)]
    fn number_cursor<'t>(&'t self, db: &'t Recno) -> RecnoCursor<'t>;
    #[doc(hidden)]
    fn is_index(&self, of: &Db, index: FileId) -> Result<Listed>;
    #[doc(hidden)]
    fn list_count(&self, tree: &Db) -> Result<u64>;
    #[doc(hidden)]
    fn list_get(&self, tree: &Db, number: u64) -> Result<Option<Vec<u8>>>;
    #[doc(hidden)]
    fn list_stretch(&self, tree: &Db, number: u64) -> Result<Option<Stretch>>;
    #[doc(hidden)]
    fn list_record(&self, tree: &Db, id: u64) -> Result<Vec<u8>>;
    /// Returns the present place of a record that was seen at an earlier moment.
    #[doc(hidden)]
    fn list_now(&self, tree: &Db, seen: &Seen) -> Result<Now>;
    /// Returns the reader's stamp: a number that changes before the result of any read can change. A remembered result
    /// is valid while the stamp is the same.
    #[doc(hidden)]
    fn stamp(&self) -> u64;
}

impl Reader for Txn<'_> {
    #[inline]
    fn read<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.guarded(|| Ok(db.access(self).get(key, read)?)).map_err(|error| db.about(error, key))
    }

    #[inline]
    fn read_copied<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let copied = self.guarded(|| Ok(db.access(self).get_copied(key, |value| callers(|| read(value)))?));
        copied.map_err(|error| db.about(error, key))
    }

    fn read_many(&self, db: &Db, keys: &[&[u8]], read: impl FnMut(usize, &[u8])) -> Result<()> {
        let done = self.guarded(|| Ok(db.access(self).get_many(keys, read)?));
        done.map_err(|error| keys.iter().fold(error, |error, key| db.about(error, key)))
    }

    fn prefetch(&self, db: &Db, key: &[u8]) -> Result<()> {
        self.guarded(|| {
            db.access(self).prefetch(key);
            Ok(())
        })
    }

    #[inline]
    fn read_number<T>(&self, db: &Recno, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.guarded(|| Ok(db.access(self).recno_get(number, read)?))
    }

    fn cursor<'t>(&'t self, db: &'t Db, range: KeyRange) -> Cursor<'t> {
        Cursor::locking(self, db, range)
    }

    fn count(&self, db: &Db, range: KeyRange) -> Result<u64> {
        self.guarded(|| Ok(db.access(self).count_range(range)?))
    }

    fn number_cursor<'t>(&'t self, db: &'t Recno) -> RecnoCursor<'t> {
        RecnoCursor::locking(self, db)
    }

    fn is_index(&self, of: &Db, index: FileId) -> Result<Listed> {
        self.guarded(|| Ok(if of.access(self).is_index(index)? { Listed::Then } else { Listed::No }))
    }

    fn list_count(&self, tree: &Db) -> Result<u64> {
        self.guarded(|| Ok(tree.access(self).list_count()?))
    }

    fn list_get(&self, tree: &Db, number: u64) -> Result<Option<Vec<u8>>> {
        self.guarded(|| Ok(tree.access(self).list_get(number, copy_of)?.transpose()?))
    }

    fn list_stretch(&self, tree: &Db, number: u64) -> Result<Option<Stretch>> {
        self.guarded(|| Ok(tree.access(self).list_stretch(number)?))
    }

    fn list_record(&self, tree: &Db, id: u64) -> Result<Vec<u8>> {
        self.guarded(|| Ok(tree.access(self).list_record(id, copy_of)??))
    }

    fn list_now(&self, tree: &Db, seen: &Seen) -> Result<Now> {
        self.guarded(|| Ok(tree.access(self).list_now(seen)?))
    }

    fn stamp(&self) -> u64 {
        // Only this transaction's own changes can change the results of its reads: its locks exclude the changes of
        // other transactions until it ends.
        self.session().last_lsn().raw()
    }
}

impl Reader for Snapshot<'_> {
    #[inline]
    fn read<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.guarded(|| Ok(self.access(db.environment(), db.opened()).get(key, read)?))
    }

    #[inline]
    fn read_copied<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let Seated { session, .. } = self.seated();
        let mut copied = session.take_spare();
        let found = self.read(db, key, |stored| append_copy(&mut copied, stored))?.transpose()?;
        let result = found.map(|()| read(&copied));
        session.give_spare(copied);
        Ok(result)
    }

    fn read_many(&self, db: &Db, keys: &[&[u8]], read: impl FnMut(usize, &[u8])) -> Result<()> {
        self.guarded(|| Ok(self.access(db.environment(), db.opened()).get_many(keys, read)?))
    }

    fn prefetch(&self, db: &Db, key: &[u8]) -> Result<()> {
        self.guarded(|| {
            self.access(db.environment(), db.opened()).prefetch(key);
            Ok(())
        })
    }

    fn read_number<T>(&self, db: &Recno, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        self.guarded(|| Ok(self.access(db.environment(), db.opened()).recno_get(number, read)?))
    }

    fn cursor<'t>(&'t self, db: &'t Db, range: KeyRange) -> Cursor<'t> {
        Cursor::of_snapshot(self, db, range)
    }

    fn count(&self, db: &Db, range: KeyRange) -> Result<u64> {
        self.guarded(|| Ok(self.access(db.environment(), db.opened()).count_range(range)?))
    }

    fn number_cursor<'t>(&'t self, db: &'t Recno) -> RecnoCursor<'t> {
        RecnoCursor::of_snapshot(self, db)
    }

    fn is_index(&self, of: &Db, index: FileId) -> Result<Listed> {
        self.guarded(|| Ok(self.access(of.environment(), of.opened()).is_index(index)?))
    }

    fn list_count(&self, tree: &Db) -> Result<u64> {
        self.guarded(|| Ok(self.access(tree.environment(), tree.opened()).list_count()?))
    }

    fn list_get(&self, tree: &Db, number: u64) -> Result<Option<Vec<u8>>> {
        self.guarded(|| Ok(self.access(tree.environment(), tree.opened()).list_get(number, copy_of)?.transpose()?))
    }

    fn list_stretch(&self, tree: &Db, number: u64) -> Result<Option<Stretch>> {
        self.guarded(|| Ok(self.access(tree.environment(), tree.opened()).list_stretch(number)?))
    }

    fn list_record(&self, tree: &Db, id: u64) -> Result<Vec<u8>> {
        self.guarded(|| Ok(self.access(tree.environment(), tree.opened()).list_record(id, copy_of)??))
    }

    fn list_now(&self, _tree: &Db, seen: &Seen) -> Result<Now> {
        Ok(Now::At(seen.number))
    }

    fn stamp(&self) -> u64 {
        0
    }
}

impl<R: Reader> Reader for &R {
    #[inline]
    fn read<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        (**self).read(db, key, read)
    }

    #[inline]
    fn read_copied<T>(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        (**self).read_copied(db, key, read)
    }

    fn read_many(&self, db: &Db, keys: &[&[u8]], read: impl FnMut(usize, &[u8])) -> Result<()> {
        (**self).read_many(db, keys, read)
    }

    fn prefetch(&self, db: &Db, key: &[u8]) -> Result<()> {
        (**self).prefetch(db, key)
    }

    #[inline]
    fn read_number<T>(&self, db: &Recno, number: u64, read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        (**self).read_number(db, number, read)
    }

    fn cursor<'t>(&'t self, db: &'t Db, range: KeyRange) -> Cursor<'t> {
        (**self).cursor(db, range)
    }

    fn count(&self, db: &Db, range: KeyRange) -> Result<u64> {
        (**self).count(db, range)
    }

    fn number_cursor<'t>(&'t self, db: &'t Recno) -> RecnoCursor<'t> {
        (**self).number_cursor(db)
    }

    fn is_index(&self, of: &Db, index: FileId) -> Result<Listed> {
        (**self).is_index(of, index)
    }

    fn list_count(&self, tree: &Db) -> Result<u64> {
        (**self).list_count(tree)
    }

    fn list_get(&self, tree: &Db, number: u64) -> Result<Option<Vec<u8>>> {
        (**self).list_get(tree, number)
    }

    fn list_stretch(&self, tree: &Db, number: u64) -> Result<Option<Stretch>> {
        (**self).list_stretch(tree, number)
    }

    fn list_record(&self, tree: &Db, id: u64) -> Result<Vec<u8>> {
        (**self).list_record(tree, id)
    }

    fn list_now(&self, tree: &Db, seen: &Seen) -> Result<Now> {
        (**self).list_now(tree, seen)
    }

    fn stamp(&self) -> u64 {
        (**self).stamp()
    }
}

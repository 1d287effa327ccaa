//! Finding records by index keys.
//!
//! In a transaction the visited entries, the gaps between them, and the records to which they lead are locked. In a
//! snapshot, index and records are of the same moment. A writer locks a record before its entries, and a reader locks
//! the entries first: a deadlock between the two is resolved like any other.

use libtp_record::copies::copy_of;
use std::cell::Cell;

use libtp_record::{duplicates, Listed};
use rio::planted;

use super::Index;
use crate::db::cursor::{Cursor, EntryPlace, Pair};
use crate::{Error, Keys, Reader, Result};

/// A record found through an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The index key under which the record was found.
    pub index_key: Vec<u8>,
    /// The record's key.
    pub key: Vec<u8>,
    /// The record's value.
    pub value: Vec<u8>,
}

impl Index {
    /// Returns the keys of the records with an index key, in order.
    ///
    /// # Errors
    /// As [`crate::Db::get`]; `Database` if the index was dropped meanwhile, or made after the snapshot was taken.
    pub fn keys(&self, reader: &impl Reader, index_key: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.check_listed(reader)?;
        let mut entries = self.tree.raw_cursor(reader, duplicates::entries_of(index_key));
        let mut keys = Vec::new();
        while let Some(entry) = entries.next()? {
            let (_, stored) = self.read(&entry)?;
            keys.push(self.of.known(stored));
        }
        Ok(keys)
    }

    /// Returns the records with an index key, in the order of their keys.
    ///
    /// # Errors
    /// As [`crate::Db::get`].
    pub fn get(&self, reader: &impl Reader, index_key: &[u8]) -> Result<Vec<Pair>> {
        let mut entries = self.range(reader, index_key..=index_key);
        let mut records = Vec::new();
        while let Some(entry) = entries.next()? {
            records.push((entry.key, entry.value));
        }
        Ok(records)
    }

    /// Returns the number of records with an index key.
    ///
    /// # Errors
    /// As [`crate::Db::count`].
    pub fn count(&self, reader: &impl Reader, index_key: &[u8]) -> Result<u64> {
        self.check_listed(reader)?;
        reader.count(&self.tree, duplicates::entries_of(index_key))
    }

    /// Returns a cursor over all entries: the index keys are in order, and the records of one index key are in the
    /// order of their own keys.
    pub fn cursor<'t, R: Reader>(&'t self, reader: &'t R) -> IndexCursor<'t, R> {
        self.range(reader, ..)
    }

    /// Returns a cursor over some index keys.
    pub fn range<'t, R: Reader>(&'t self, reader: &'t R, keys: impl Into<Keys>) -> IndexCursor<'t, R> {
        let at = self.tree.raw_cursor(reader, keys.into().into_entries(None).unwrap_or_default());
        IndexCursor { index: self, reader, at, place: EntryPlace::default(), is_listed: Cell::new(false) }
    }

    /// Returns a cursor over the index keys that begin with the given bytes.
    pub fn prefix<'t, R: Reader>(&'t self, reader: &'t R, beginning: &[u8]) -> IndexCursor<'t, R> {
        self.range(reader, Keys::prefix(beginning))
    }

    /// Refuses an index that the database does not update, or did not update when the snapshot was taken. Such an index
    /// may lack entries.
    pub(in crate::db) fn check_listed(&self, reader: &impl Reader) -> Result<()> {
        let what = match reader.is_index(&self.of, self.kept.tree.id())? {
            Listed::Then => return Ok(()),
            _ if planted("libtp: an index that is not kept up to date is read") => return Ok(()),
            Listed::Later => "this index was made after the snapshot was taken; read it in a new snapshot",
            Listed::No => "this index was dropped, and is not kept up to date any more; make it again (`Db::index`)",
        };
        Err(Error::Database { name: self.name().into(), what: what.into() })
    }

    /// Returns the record of an entry.
    pub(in crate::db) fn record_of(&self, reader: &impl Reader, entry: &Pair) -> Result<IndexEntry> {
        let (index_key, stored) = self.read(entry)?;
        let Some(value) = reader.read(&self.of, stored, copy_of)?.transpose()? else {
            let what = format!(
                "this index has an entry for a record that is not in `{}`. Nothing was changed. `Index::verify` lists such entries; drop the index (`Db::drop_index`), and make it again (`Db::index`)",
                self.of.name()
            );
            return Err(Error::Database { name: self.name().into(), what });
        };
        Ok(IndexEntry { index_key, key: self.of.known(stored), value })
    }

    /// Returns the index key and the stored key of an entry.
    pub(super) fn read<'p>(&self, entry: &'p Pair) -> Result<(Vec<u8>, &'p [u8])> {
        duplicates::read(&entry.0).ok_or_else(|| {
            Error::Corrupt(format!("{}: an entry of {} bytes does not have the form of an index entry; nothing was changed. Drop the index, and make it again", self.name(), entry.0.len()).into())
        })
    }
}

/// A place among the entries of an index.
pub struct IndexCursor<'t, R: Reader> {
    index: &'t Index,
    reader: &'t R,
    at: Cursor<'t>,
    place: EntryPlace,
    /// Whether the index was found on its database's list.
    is_listed: Cell<bool>,
}

#[allow(clippy::should_implement_trait)] // as for `Cursor`
impl<'t, R: Reader> IndexCursor<'t, R> {
    /// Returns the index.
    pub(in crate::db) fn index(&self) -> &Index {
        self.index
    }

    /// Returns the index, the reader, and the cursor over the index's tree.
    pub(in crate::db) fn into_parts(self) -> (&'t Index, &'t R, Cursor<'t>) {
        (self.index, self.reader, self.at)
    }

    /// Moves to an entry whose record can be read. If the record cannot be read, the cursor stays in its place.
    fn arrive(&mut self, found: Option<Pair>) -> Result<Option<IndexEntry>> {
        let (index, reader, is_listed) = (self.index, self.reader, &self.is_listed);
        if !is_listed.replace(true) {
            let checked = index.check_listed(reader).inspect_err(|_| is_listed.set(false));
            if let Err(error) = checked {
                return self.place.stay(&mut self.at).and(Err(error));
            }
        }
        self.place.arrive(&mut self.at, found, |entry| index.record_of(reader, entry))
    }

    /// Moves to the first record of the first index key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<Option<IndexEntry>> {
        let found = self.at.first()?;
        self.arrive(found)
    }

    /// Moves to the last record of the last index key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<IndexEntry>> {
        let found = self.at.last()?;
        self.arrive(found)
    }

    /// Moves to the first record of the first index key that is `index_key` or greater.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, index_key: &[u8]) -> Result<Option<IndexEntry>> {
        let found = self.at.seek(&duplicates::beginning(index_key))?;
        self.arrive(found)
    }

    /// Moves to the next record; to the first if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<IndexEntry>> {
        let found = self.at.next()?;
        self.arrive(found)
    }

    /// Moves to the previous record; to the last if the cursor has no place.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<IndexEntry>> {
        let found = self.at.prev()?;
        self.arrive(found)
    }
}

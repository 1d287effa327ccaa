//! Databases whose keys have several values: [`Multi`].
//!
//! Paper: none; db(3)'s `R_DUP`. Each value of a key is an entry of a tree (`record/duplicates.rs`) and is locked,
//! logged and undone like any other entry: values of one key are locked one by one.

use std::sync::Arc;

use libtp_buffer::DAMAGED_FILE_REMEDY;
use libtp_record::duplicates::{self, NUMBER_BYTES};
use libtp_record::{Duplicates, KeyFormat, KeyRange, Order};
use rio::planted;

use crate::db::cursor::{Cursor, EntryPlace, Pair};
use crate::db::handle::Db;
use crate::db::keys::Keys;
use crate::db::opening::prefix_not_adjacent;
use crate::region::inner::Inner;
use crate::{Error, Reader, Result, Txn};

/// A B-tree database whose keys have several values each, sorted or in the order of insertion. If values are sorted, a
/// key has each value only once.
///
/// The tree stores a sorted value as a part of its key, so a key and a sorted value together are limited to the length
/// of a key ([`Multi::pair_bytes_max`]). Values in the order of insertion have any size.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let tags = env.multi("tags", libtp::Duplicates::Sorted)?;
/// env.run(|txn| {
///     assert!(tags.put(txn, b"pear", b"green")?);
///     assert!(tags.put(txn, b"pear", b"fruit")?);
///     assert!(!tags.put(txn, b"pear", b"green")?);
///     assert_eq!(tags.get(txn, b"pear")?.as_deref(), Some(&b"fruit"[..]));
///     assert_eq!(tags.values(txn, b"pear")?, [b"fruit", b"green"]);
///     assert!(tags.delete_value(txn, b"pear", b"green")?);
///     assert_eq!(tags.count(txn, b"pear")?, 1);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Multi {
    /// The tree of the entries, in byte order.
    tree: Db,
    kind: Duplicates,
    order: Option<Arc<dyn Order>>,
    /// Whether this is an index, which changes only with its records.
    is_index: bool,
}

impl Multi {
    pub(crate) fn open(env: &Arc<Inner>, name: &str, kind: Duplicates, order: Option<Arc<dyn Order>>) -> Result<Multi> {
        let order_name = Db::name_of(name, order.as_deref())?;
        let key_format = KeyFormat { duplicates: kind, order: order_name, ..KeyFormat::default() };
        if kind == Duplicates::None {
            let what = "a database with several values a key keeps them sorted or in the order of their insertion; nothing was opened. For one value a key, call `Env::btree`";
            return Err(Error::Database { name: name.into(), what: what.into() });
        }
        Ok(Multi { tree: Db::open_keyed(env, name, key_format, None)?, kind, order, is_index: false })
    }

    /// Wraps the entries of an index.
    pub(crate) fn of_index(tree: Db) -> Multi {
        Multi { tree, kind: Duplicates::Sorted, order: None, is_index: true }
    }

    /// Refuses to write to an index.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if !self.is_index || planted("libtp: a handle of an index can write") {
            return Ok(());
        }
        let what = "it is an index, which changes only with the records of its database; nothing was changed. Change the database".into();
        Err(Error::Database { name: self.name().into(), what })
    }

    /// Returns the database's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// Returns the name of the order of the keys, if that is not the order of their bytes.
    pub fn order_name(&self) -> Option<&str> {
        self.order.as_ref().map(|order| order.name())
    }

    /// Returns how the values of a key are ordered.
    pub fn duplicates(&self) -> crate::Duplicates {
        self.kind.into()
    }

    /// Returns the largest length of a key in bytes; if values are sorted, the largest length of a key and its value
    /// together. A zero byte in the key counts twice.
    pub fn pair_bytes_max(&self) -> usize {
        let own = if self.kind == Duplicates::Sorted { 0 } else { NUMBER_BYTES };
        self.tree.key_bytes_max() - duplicates::beginning(&[]).len() - own
    }

    pub(crate) fn tree(&self) -> &Db {
        &self.tree
    }

    pub(crate) fn ordered(&self, key: &[u8]) -> Vec<u8> {
        let Some(order) = &self.order else { return key.to_vec() };
        let mut encoded = Vec::new();
        order.encode(key, &mut encoded);
        encoded
    }

    /// Returns the pair of an entry, as the program knows it.
    pub(super) fn pair(&self, entry: Pair) -> Result<Pair> {
        let no_entry = || {
            Error::Corrupt(
                format!("{}: an entry of {} bytes does not have the form that a key with several values has; nothing was changed. `tp verify` lists all damage of the file. {DAMAGED_FILE_REMEDY}", self.name(), entry.0.len())
                    .into(),
            )
        };
        let (key, after) = duplicates::read(&entry.0).ok_or_else(no_entry)?;
        let value = duplicates::value_of(self.kind, after, entry.1);
        let Some(order) = &self.order else { return Ok((key, value)) };
        let mut decoded = Vec::new();
        order.decode(&key, &mut decoded);
        Ok((decoded, value))
    }

    /// Refuses an entry that is too long, with an error in terms of the program's key and value.
    pub(crate) fn check(&self, entry: &[u8]) -> Result<()> {
        let beyond = entry.len().saturating_sub(self.tree.key_bytes_max());
        if beyond == 0 {
            return Ok(());
        }
        let limit = self.pair_bytes_max();
        let (what, limit_of) = match self.kind {
            Duplicates::Sorted => ("a key with its value", "for both together, where values are sorted"),
            Duplicates::AsTheyCame | Duplicates::None => ("a key", "for a key that has several values"),
        };
        Err(Error::Length { what, bytes: limit + beyond, limit: format!("up to {limit} bytes {limit_of}") })
    }

    /// Adds a value to a key: at its place in the order, or as the last value. Returns false if values are sorted and
    /// the key has this value already.
    ///
    /// With values in the order of insertion, a transaction that has added a value to a key keeps a lock on the key's
    /// order until the transaction ends: another transaction that adds a value to the same key waits. So the values are
    /// in the order of the commits.
    ///
    /// # Errors
    /// As [`Db::put`]; `Length` when key, or key and value, are too long ([`Multi::pair_bytes_max`]).
    pub fn put(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.put_placed(txn, key, value)?.is_some())
    }

    /// As [`Multi::put`]; returns the pair's place ([`MultiCursor::place`]), or `None` if values are sorted and the key
    /// has this value already.
    ///
    /// # Errors
    /// As [`Multi::put`].
    pub fn put_placed(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.put_entry(txn, key, value).map_err(|error| error.of_values(key))
    }

    fn put_entry(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check_writable()?;
        let key = self.ordered(key);
        if self.kind == Duplicates::Sorted {
            let entry = duplicates::sorted_entry(&key, value);
            self.check(&entry)?;
            let is_new = txn.guarded(|| Ok(self.tree.access(txn).put_new(&entry, b"")?))?;
            return Ok(is_new.then_some(entry));
        }
        self.check(&duplicates::numbered_entry(&key, 0))?;
        txn.guarded(|| {
            let access = self.tree.access(txn);
            // PROTOCOLS K3: the transaction keeps the lock under which it chooses the number.
            if !planted("libtp: the order of a key's values is not locked") {
                access.lock_order_of(&duplicates::beginning(&key))?;
            }
            let mut number = txn.generation().managers.log.tail().raw();
            if planted("libtp: later values of a key sort first") {
                number = u64::MAX - number;
            }
            loop {
                let entry = duplicates::numbered_entry(&key, number);
                if access.put_new(&entry, value)? {
                    return Ok(Some(entry));
                }
                number += 1;
            }
        })
    }

    /// Returns the first value of a key, or `None`.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, reader: &impl Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.tree.raw_cursor(reader, self.entries_of(key));
        let entry = cursor.next().map_err(|error| error.of_values(key))?;
        entry.map(|entry| Ok(self.pair(entry)?.1)).transpose()
    }

    /// Returns all values of a key.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn values(&self, reader: &impl Reader, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut cursor = self.tree.raw_cursor(reader, self.entries_of(key));
        let mut values = Vec::new();
        while let Some(entry) = cursor.next().map_err(|error| error.of_values(key))? {
            values.push(self.pair(entry)?.1);
        }
        Ok(values)
    }

    /// Returns the number of a key's values. In a transaction the number does not change until the transaction ends.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn count(&self, reader: &impl Reader, key: &[u8]) -> Result<u64> {
        reader.count(&self.tree, self.entries_of(key))
    }

    /// Removes a key with all its values; returns the number of values. After an error, no value was removed.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, key: &[u8]) -> Result<u64> {
        self.check_writable()?;
        let entries = self.entries_of(key);
        let removed = txn.savepoint_of_records().around(|| self.tree.delete_raw_range(txn, entries));
        removed.map_err(|error| error.of_values(key))
    }

    /// Removes one value of a key: the first value that is equal to `value`. Returns false if no value is equal.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_value(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<bool> {
        self.check_writable()?;
        if self.kind == Duplicates::Sorted {
            let entry = duplicates::sorted_entry(&self.ordered(key), value);
            return txn.guarded(|| Ok(self.tree.access(txn).delete(&entry)?));
        }
        let mut cursor = self.tree.raw_cursor(txn, self.entries_of(key));
        while let Some((entry, found)) = cursor.next()? {
            if found == value {
                return txn.guarded(|| Ok(self.tree.access(txn).delete(&entry)?));
            }
        }
        Ok(false)
    }

    /// Returns the number of pairs whose keys are within `keys`. In a transaction the number does not change until the
    /// transaction ends.
    ///
    /// # Errors
    /// As [`Multi::range`].
    pub fn count_range(&self, reader: &impl Reader, keys: impl Into<Keys>) -> Result<u64> {
        reader.count(&self.tree, self.entries(keys.into())?)
    }

    /// Removes all keys within `keys` with all their values; returns the number of pairs. Locks as [`Db::delete_range`]
    /// does.
    ///
    /// # Errors
    /// As [`Db::delete_range`], and as [`Multi::range`].
    pub fn delete_range(&self, txn: &Txn<'_>, keys: impl Into<Keys>) -> Result<u64> {
        self.check_writable()?;
        self.tree.delete_raw_range(txn, self.entries(keys.into())?)
    }

    fn entries(&self, keys: Keys) -> Result<KeyRange> {
        let order = self.order.as_deref();
        keys.into_entries(order).ok_or_else(|| prefix_not_adjacent(self.name(), order))
    }

    fn entries_of(&self, key: &[u8]) -> KeyRange {
        duplicates::entries_of(&self.ordered(key))
    }

    /// Returns a cursor over all pairs: the keys in order, and the values of each. It locks as [`Db::cursor`] does.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> MultiCursor<'t> {
        MultiCursor { multi: self, at: self.tree.raw_cursor(reader, KeyRange::default()), place: EntryPlace::default() }
    }

    /// Returns a cursor over the pairs of some of the keys. In a transaction it locks these pairs and the gaps between
    /// them, and nothing beyond.
    ///
    /// # Errors
    /// `Database` when `keys` is a prefix and the database has an order of its own.
    pub fn range<'t>(&'t self, reader: &'t impl Reader, keys: impl Into<Keys>) -> Result<MultiCursor<'t>> {
        let at = self.tree.raw_cursor(reader, self.entries(keys.into())?);
        Ok(MultiCursor { multi: self, at, place: EntryPlace::default() })
    }

    /// Returns a cursor over the pairs whose keys begin with the given bytes.
    ///
    /// # Errors
    /// As [`Multi::range`].
    pub fn prefix<'t>(&'t self, reader: &'t impl Reader, beginning: &[u8]) -> Result<MultiCursor<'t>> {
        self.range(reader, Keys::prefix(beginning))
    }

    /// Removes the pair under a cursor; the cursor then stands between its neighbours. Returns false if the pair is
    /// gone, or the cursor has no place.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_at(&self, txn: &Txn<'_>, cursor: &MultiCursor<'_>) -> Result<bool> {
        self.check_writable()?;
        let Some(entry) = cursor.place.entry() else { return Ok(false) };
        txn.guarded(|| Ok(self.tree.access(txn).delete(entry)?))
    }

    /// Replaces the value under a cursor. If values are in the order of insertion, the new value takes the place of the
    /// old value. If they are sorted, the new value goes to its place in the order, and the cursor does not move.
    /// Returns false, with nothing changed, if the pair is gone or the cursor has no place.
    ///
    /// # Errors
    /// As [`Multi::put`].
    pub fn put_at(&self, txn: &Txn<'_>, cursor: &MultiCursor<'_>, value: &[u8]) -> Result<bool> {
        self.check_writable()?;
        let Some(entry) = cursor.place.entry() else { return Ok(false) };
        txn.guarded(|| {
            let access = self.tree.access(txn);
            if access.get_for_update(entry, |_| ())?.is_none() {
                return Ok(false);
            }
            if self.kind == Duplicates::AsTheyCame {
                access.put(entry, value)?;
                return Ok(true);
            }
            let (key, _) = duplicates::read(entry).unwrap_or_default();
            let new = duplicates::sorted_entry(&key, value);
            self.check(&new)?;
            if new != entry {
                txn.savepoint_of_records().around(|| {
                    access.put(&new, b"")?;
                    access.delete(entry)?;
                    Ok(())
                })?;
            }
            Ok(true)
        })
    }
}

/// A place among the pairs of a database whose keys have several values.
pub struct MultiCursor<'t> {
    multi: &'t Multi,
    at: Cursor<'t>,
    place: EntryPlace,
}

#[allow(clippy::should_implement_trait)] // as for `Cursor`
impl<'t> MultiCursor<'t> {
    /// Returns the database.
    pub(super) fn database(&self) -> &Multi {
        self.multi
    }

    /// Returns the database, and the cursor over its tree.
    pub(super) fn into_parts(self) -> (&'t Multi, Cursor<'t>) {
        (self.multi, self.at)
    }

    fn arrive(&mut self, found: Option<Pair>) -> Result<Option<Pair>> {
        let multi = self.multi;
        self.place.arrive(&mut self.at, found, |entry| multi.pair(entry.clone()))
    }

    /// Returns the key under the cursor, as the tree stores it.
    fn key(&self) -> Option<Vec<u8>> {
        Some(duplicates::read(self.place.entry()?)?.0)
    }

    /// Returns the place of the pair under the cursor: bytes for [`MultiCursor::go_to`], valid in this database only.
    /// `None` if the cursor has no place.
    pub fn place(&self) -> Option<&[u8]> {
        self.place.entry()
    }

    /// Goes to the pair at `place`, which another cursor has returned. If that pair was removed, goes to the first pair
    /// after it; [`MultiCursor::place`] then differs from `place`.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn go_to(&mut self, place: &[u8]) -> Result<Option<Pair>> {
        let found = self.at.seek(place)?;
        self.arrive(found)
    }

    /// Moves to the first value of the first key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<Option<Pair>> {
        let found = self.at.first()?;
        self.arrive(found)
    }

    /// Moves to the last value of the last key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<Pair>> {
        let found = self.at.last()?;
        self.arrive(found)
    }

    /// Moves to the first value of the first key that is `key` or greater.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        let found = self.at.seek(&duplicates::beginning(&self.multi.ordered(key)))?;
        self.arrive(found)
    }

    /// Moves to the next pair, which has the same key or the next key; to the first pair if the cursor has no place. If
    /// there is no next pair, the cursor stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        let found = self.at.next()?;
        self.arrive(found)
    }

    /// Moves to the previous pair; to the last if the cursor has no place. If there is no previous pair, the cursor
    /// stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<Pair>> {
        let found = self.at.prev()?;
        self.arrive(found)
    }

    /// Moves to the next value of the same key. If there is no next value, returns `None` and the cursor stays, even if
    /// the pair under it was removed.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_duplicate(&mut self) -> Result<Option<Pair>> {
        let Some(key) = self.key() else { return Ok(None) };
        let found = self.at.next()?.filter(|next| duplicates::read(&next.0).is_some_and(|next| next.0 == key));
        self.arrive(found)
    }

    /// Moves to the first value of the next key; to the first pair if the cursor has no place. If there is no next key,
    /// the cursor stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_key(&mut self) -> Result<Option<Pair>> {
        let Some(key) = self.key() else { return self.next() };
        let found = self.at.seek(&duplicates::after(&key))?;
        self.arrive(found)
    }

    /// Moves to the last value of the previous key; to the last pair if the cursor has no place. If there is no
    /// previous key, the cursor stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev_key(&mut self) -> Result<Option<Pair>> {
        let Some(key) = self.key() else { return self.prev() };
        let found = self.at.seek(&duplicates::beginning(&key)).and_then(|found| match found {
            Some(_) => self.at.prev(),
            None => self.at.last(),
        });
        match found {
            Ok(found) => self.arrive(found),
            Err(error) => self.place.stay(&mut self.at).and(Err(error)),
        }
    }
}

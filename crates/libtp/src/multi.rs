//! Databases whose keys have several values: [`Multi`].
//!
//! Paper: none; db(3)'s `R_DUP`. Each value of a key is an entry of a tree (`record/duplicates.rs`), so what locks, logs and undoes
//! is that of any tree: values of one key are locked one by one.

use std::sync::Arc;

use libtp_record::duplicates::{self, NUMBER_BYTES};
use libtp_record::{Duplicates, KeyRange, Keying, Order};
use rio::planted;

use crate::cursor::{Cursor, InVain, Pair, Stands};
use crate::database::{not_side_by_side, Db};
use crate::environment::Inner;
use crate::keys::Keys;
use crate::{Error, Reader, Result, Txn};

/// A B-tree database whose keys have several values each: a sorted set of them, or a list in the order in which they came.
///
/// In a sorted set a value stands in the tree with its key, so both together are as long as a key may be ([`Multi::pair_bytes_max`]).
/// In a list values have any size.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::open(dir.path())?;
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
    /// The tree of the entries, whose order is that of their bytes.
    tree: Db,
    kind: Duplicates,
    order: Option<Arc<dyn Order>>,
    /// The entries of an index, which change with its records and not otherwise.
    is_index: bool,
}

impl Multi {
    pub(crate) fn open(env: &Arc<Inner>, name: &str, kind: Duplicates, order: Option<Arc<dyn Order>>) -> Result<Multi> {
        let order_name = Db::name_of(name, order.as_deref())?;
        let keying = Keying { duplicates: kind, order: order_name, ..Keying::default() };
        if kind == Duplicates::None {
            let what = "a database with several values a key has them sorted or as they came; ask `Env::btree` for one with one";
            return Err(Error::Database { name: name.into(), what: what.into() });
        }
        Ok(Multi { tree: Db::open_keyed(env, name, keying, None)?, kind, order, is_index: false })
    }

    /// The entries of an index.
    pub(crate) fn of_index(tree: Db) -> Multi {
        Multi { tree, kind: Duplicates::Sorted, order: None, is_index: true }
    }

    /// Refuses to write to an index.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if !self.is_index || planted("libtp: who has an index open may write to it") {
            return Ok(());
        }
        let what = "it is an index, which changes with the records of its database; nothing was changed".into();
        Err(Error::Database { name: self.name().into(), what })
    }

    /// The database's name.
    pub fn name(&self) -> &str {
        self.tree.name()
    }

    /// The name of the order of its keys, if that is another than that of their bytes.
    pub fn order_name(&self) -> Option<&str> {
        self.order.as_ref().map(|order| order.name())
    }

    /// In which order the values of a key stand.
    pub fn duplicates(&self) -> Duplicates {
        self.kind
    }

    /// How long a key may be, with its value if values are sorted: bytes. A zero byte in the key counts twice.
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

    /// A pair as the program knows it, of an entry.
    fn pair(&self, entry: Pair) -> Result<Pair> {
        let no_entry = || {
            Error::Corrupt(format!(
                "{}: an entry of {} bytes is none of a key with several values",
                self.name(),
                entry.0.len()
            ))
        };
        let (key, behind) = duplicates::read(&entry.0).ok_or_else(no_entry)?;
        let value = duplicates::value_of(self.kind, behind, entry.1);
        let Some(order) = &self.order else { return Ok((key, value)) };
        let mut decoded = Vec::new();
        order.decode(&key, &mut decoded);
        Ok((decoded, value))
    }

    /// Refuses an entry that is too long, in words about what the program gave.
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

    /// Adds a value to those of a key: at its place in the order, or as the last. False if the set has it already.
    ///
    /// Where values stand as they came, a transaction that has added a value to a key keeps a lock on the key's order until the transaction
    /// ends: another transaction that adds a value to the same key waits. So the order of the values is that of the commits.
    ///
    /// # Errors
    /// As [`Db::put`]; `Length` when key, or key and value, are too long ([`Multi::pair_bytes_max`]).
    pub fn put(&self, txn: &Txn<'_>, key: &[u8], value: &[u8]) -> Result<bool> {
        Ok(self.put_placed(txn, key, value)?.is_some())
    }

    /// As [`Multi::put`]; returns where the pair stands ([`MultiCursor::place`]), none if the set has it already.
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
            // PROTOCOLS K3: the number is chosen under a lock that the transaction keeps.
            if !planted("libtp: the order of a key's values is not locked") {
                access.lock_order_of(&duplicates::beginning(&key))?;
            }
            let mut number = txn.life().managers.log.tail().raw();
            if planted("libtp: values that came later stand before") {
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

    /// The first value of a key, or none.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn get(&self, reader: &impl Reader, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut cursor = self.tree.raw_cursor(reader, self.entries_of(key));
        let entry = cursor.next().map_err(|error| error.of_values(key))?;
        entry.map(|entry| Ok(self.pair(entry)?.1)).transpose()
    }

    /// All values of a key.
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

    /// How many values a key has. In a transaction the number stays until it ends.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn count(&self, reader: &impl Reader, key: &[u8]) -> Result<u64> {
        reader.count(&self.tree, self.entries_of(key))
    }

    /// Removes a key with all its values, or none of them; returns how many there were.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete(&self, txn: &Txn<'_>, key: &[u8]) -> Result<u64> {
        self.check_writable()?;
        let entries = self.entries_of(key);
        let removed = txn.savepoint_of_records().around(|| self.tree.delete_raw_range(txn, entries));
        removed.map_err(|error| error.of_values(key))
    }

    /// Removes one value of a key: the first that is equal. False if there is none.
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

    /// How many pairs these keys have. In a transaction the number stays until it ends.
    ///
    /// # Errors
    /// As [`Multi::range`].
    pub fn count_range(&self, reader: &impl Reader, keys: impl Into<Keys>) -> Result<u64> {
        reader.count(&self.tree, self.entries(keys.into())?)
    }

    /// Removes all of these keys with all their values; returns how many pairs there were. It locks as [`Db::delete_range`] does.
    ///
    /// # Errors
    /// As [`Db::delete_range`], and as [`Multi::range`].
    pub fn delete_range(&self, txn: &Txn<'_>, keys: impl Into<Keys>) -> Result<u64> {
        self.check_writable()?;
        self.tree.delete_raw_range(txn, self.entries(keys.into())?)
    }

    fn entries(&self, keys: Keys) -> Result<KeyRange> {
        let order = self.order.as_deref();
        keys.into_entries(order).ok_or_else(|| not_side_by_side(self.name(), order))
    }

    fn entries_of(&self, key: &[u8]) -> KeyRange {
        duplicates::entries_of(&self.ordered(key))
    }

    /// A cursor over all pairs: the keys in order, and the values of each. It locks as [`Db::cursor`] does.
    pub fn cursor<'t>(&'t self, reader: &'t impl Reader) -> MultiCursor<'t> {
        MultiCursor { multi: self, at: self.tree.raw_cursor(reader, KeyRange::default()), stands: Stands::Nowhere }
    }

    /// A cursor over the pairs of some of the keys. In a transaction it locks these and the gaps between them, and no key beyond.
    ///
    /// # Errors
    /// `Database` when keys that begin alike are asked for, and the database has an order of its own.
    pub fn range<'t>(&'t self, reader: &'t impl Reader, keys: impl Into<Keys>) -> Result<MultiCursor<'t>> {
        let at = self.tree.raw_cursor(reader, self.entries(keys.into())?);
        Ok(MultiCursor { multi: self, at, stands: Stands::Nowhere })
    }

    /// A cursor over the pairs whose keys begin with some bytes.
    ///
    /// # Errors
    /// As [`Multi::range`].
    pub fn prefix<'t>(&'t self, reader: &'t impl Reader, beginning: &[u8]) -> Result<MultiCursor<'t>> {
        self.range(reader, Keys::prefix(beginning))
    }

    /// Removes the pair a cursor stands on; the cursor stays there, between its neighbours. False if it is gone, or the cursor
    /// stands nowhere.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn delete_at(&self, txn: &Txn<'_>, cursor: &MultiCursor<'_>) -> Result<bool> {
        self.check_writable()?;
        let Some(entry) = cursor.stands.entry() else { return Ok(false) };
        txn.guarded(|| Ok(self.tree.access(txn).delete(entry)?))
    }

    /// Replaces the value a cursor stands on. In a list the new one has its place; in a sorted set it goes to the place that is
    /// its own, and the cursor stays. False if the pair is gone, or the cursor stands nowhere; nothing is changed then.
    ///
    /// # Errors
    /// As [`Multi::put`].
    pub fn put_at(&self, txn: &Txn<'_>, cursor: &MultiCursor<'_>, value: &[u8]) -> Result<bool> {
        self.check_writable()?;
        let Some(entry) = cursor.stands.entry() else { return Ok(false) };
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
                access.put(&new, b"")?;
                access.delete(entry)?;
            }
            Ok(true)
        })
    }
}

/// A place among the pairs of a database with several values a key.
pub struct MultiCursor<'t> {
    multi: &'t Multi,
    at: Cursor<'t>,
    stands: Stands,
}

#[allow(clippy::should_implement_trait)] // as for `Cursor`
impl MultiCursor<'_> {
    fn arrive(&mut self, found: Option<Pair>, in_vain: InVain) -> Result<Option<Pair>> {
        let multi = self.multi;
        self.stands.arrive(&mut self.at, found, in_vain, |entry| multi.pair(entry.clone()))
    }

    /// The key it stands on, as the tree has it.
    fn key(&self) -> Option<Vec<u8>> {
        Some(duplicates::read(self.stands.entry()?)?.0)
    }

    /// Which of all pairs it stands on: bytes for [`MultiCursor::go_to`], of this database alone. None if it stands nowhere.
    pub fn place(&self) -> Option<&[u8]> {
        self.stands.entry()
    }

    /// Goes to the pair of which another cursor has said that it is at `place`, or to the first behind if that has gone
    /// ([`MultiCursor::place`] tells which).
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn go_to(&mut self, place: &[u8]) -> Result<Option<Pair>> {
        let found = self.at.seek(place)?;
        self.arrive(found, InVain::Stays)
    }

    /// The first value of the first key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn first(&mut self) -> Result<Option<Pair>> {
        let found = self.at.first()?;
        self.arrive(found, InVain::Stays)
    }

    /// The last value of the last key.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn last(&mut self) -> Result<Option<Pair>> {
        let found = self.at.last()?;
        self.arrive(found, InVain::Stays)
    }

    /// The first value of the first key that is `key` or greater.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        let found = self.at.seek(&duplicates::beginning(&self.multi.ordered(key)))?;
        self.arrive(found, InVain::Stays)
    }

    /// The next pair, of this key or the next; the first if the cursor stands nowhere. Without one the cursor stands behind all.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        let found = self.at.next()?;
        self.arrive(found, InVain::GoesAboveAll)
    }

    /// The pair before; the last if the cursor stands nowhere. Without one the cursor stands before all.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn prev(&mut self) -> Result<Option<Pair>> {
        let found = self.at.prev()?;
        self.arrive(found, InVain::GoesBelowAll)
    }

    /// The next value of the same key; none if there is no further value, and the cursor stays, also where the pair that it stood on is gone.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_duplicate(&mut self) -> Result<Option<Pair>> {
        let Some(key) = self.key() else { return Ok(None) };
        let found = self.at.next()?.filter(|next| duplicates::read(&next.0).is_some_and(|next| next.0 == key));
        self.arrive(found, InVain::Stays)
    }

    /// The first value of the next key; the first of all if the cursor stands nowhere. Without one the cursor stays.
    ///
    /// # Errors
    /// As [`Cursor::first`].
    pub fn next_key(&mut self) -> Result<Option<Pair>> {
        let Some(key) = self.key() else { return self.next() };
        let found = self.at.seek(&duplicates::behind(&key))?;
        self.arrive(found, InVain::Stays)
    }

    /// The last value of the key before; the last of all if the cursor stands nowhere. Without one the cursor stays.
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
            Ok(found) => self.arrive(found, InVain::Stays),
            Err(error) => self.stands.stay(&mut self.at).and(Err(error)),
        }
    }
}

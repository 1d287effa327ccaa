//! Tables: databases of typed keys and values.

use std::any::type_name;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::key::{Key, KeyLike};
use super::value::{Value, ValueLike};
use crate::{Db, Env, Error, Keys, Load, Pair, Pairs, Reader, Result, Txn};

/// A B-tree database whose keys are of type `K` and whose values are of type `V`, in the order of the keys.
///
/// Both are stored as bytes ([`Key`], [`Value`]); strings and bytes are stored as they are. The file does not record
/// the types: every program that opens the table must name the same types. A record of another type is an error
/// ([`Error::Database`]) when it is read. [`Table::db`] is the database of bytes.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let visits = env.table::<(String, u64), Option<String>>("visits")?;
/// env.run(|txn| {
///     visits.put(txn, ("alice", 20), Some("paris"))?;
///     visits.put(txn, ("alice", 3), None::<&str>)?;
///     visits.put(txn, ("bob", 7), Some("rome"))?;
///     for visit in visits.range(txn, ("alice", 0)..("alice", 10))? {
///         let ((name, when), to) = visit?;
///         assert_eq!((name.as_str(), when, to), ("alice", 3, None));
///     }
///     let last = visits.with_first(txn, "alice")?.next_back().transpose()?;
///     assert_eq!(last, Some((("alice".to_string(), 20), Some("paris".to_string()))));
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Table<K, V> {
    db: Db,
    types: PhantomData<fn() -> (K, V)>,
}

impl Env {
    /// Opens a table of typed keys and values; creates it if it is missing.
    ///
    /// # Errors
    /// As [`Env::btree`].
    pub fn table<K: Key, V: Value>(&self, name: &str) -> Result<Table<K, V>> {
        Table::of(self.btree(name)?)
    }
}

fn key_bytes<K>(key: impl KeyLike<K>) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode_key(&mut bytes);
    bytes
}

fn value_bytes<V>(value: impl ValueLike<V>) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode_value(&mut bytes);
    bytes
}

impl<K: Key, V: Value> Table<K, V> {
    /// Returns the table over a database of bytes: a B-tree in the order of its bytes, or a hash file, which has no
    /// ranges.
    ///
    /// # Errors
    /// `Database` if the database has an order of its own.
    pub fn of(db: Db) -> Result<Table<K, V>> {
        if let Some(order) = db.order_name() {
            let what = format!("its keys are in the order `{order}`, and the keys of a table are in the order of their type; nothing was changed. Use a database without an order of its own");
            return Err(Error::Database { name: db.name().into(), what });
        }
        Ok(Table { db, types: PhantomData })
    }

    /// Returns the database of bytes.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Returns the table's name.
    pub fn name(&self) -> &str {
        self.db.name()
    }

    /// Returns the value of a key, or `None`.
    ///
    /// # Errors
    /// As [`Db::get`]; `Database` if the value is not of the table's type.
    pub fn get(&self, reader: &impl Reader, key: impl KeyLike<K>) -> Result<Option<V>> {
        let read = self.db.get_with(reader, &key_bytes(key), |bytes| self.value(bytes))?;
        read.transpose()
    }

    /// As [`Table::get`], but locks the key for writing, not for reading ([`Db::get_for_update`]).
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_for_update(&self, txn: &Txn<'_>, key: impl KeyLike<K>) -> Result<Option<V>> {
        self.db.get_for_update(txn, &key_bytes(key))?.map(|bytes| self.value(&bytes)).transpose()
    }

    /// Returns whether the key exists.
    ///
    /// # Errors
    /// As [`Db::get`].
    pub fn contains(&self, reader: &impl Reader, key: impl KeyLike<K>) -> Result<bool> {
        Ok(self.db.get_with(reader, &key_bytes(key), |_| ())?.is_some())
    }

    /// Stores a value under a key, and replaces any earlier value.
    ///
    /// # Errors
    /// As [`Db::put`].
    pub fn put(&self, txn: &Txn<'_>, key: impl KeyLike<K>, value: impl ValueLike<V>) -> Result<()> {
        self.db.put(txn, &key_bytes(key), &value_bytes(value))
    }

    /// Stores a value under a key that does not exist yet.
    ///
    /// # Errors
    /// As [`Db::put_new`].
    pub fn put_new(&self, txn: &Txn<'_>, key: impl KeyLike<K>, value: impl ValueLike<V>) -> Result<()> {
        self.db.put_new(txn, &key_bytes(key), &value_bytes(value))
    }

    /// Removes a key and its value; returns false if the key was missing.
    ///
    /// # Errors
    /// As [`Db::delete`].
    pub fn delete(&self, txn: &Txn<'_>, key: impl KeyLike<K>) -> Result<bool> {
        self.db.delete(txn, &key_bytes(key))
    }

    /// Removes a key, and returns its value, or `None` if the key was missing.
    ///
    /// # Errors
    /// As [`Table::get_for_update`] and [`Db::delete`].
    pub fn take(&self, txn: &Txn<'_>, key: impl KeyLike<K>) -> Result<Option<V>> {
        let key = key_bytes(key);
        let Some(bytes) = self.db.get_for_update(txn, &key)? else { return Ok(None) };
        let value = self.value(&bytes)?;
        self.db.delete(txn, &key)?;
        Ok(Some(value))
    }

    /// Returns an iterator over all rows, in the order of the keys. It locks as [`Db::cursor`] does.
    pub fn iter<'t>(&'t self, reader: &'t impl Reader) -> Rows<'t, K, V> {
        self.rows(self.db.cursor(reader).into_iter())
    }

    /// Returns an iterator over the rows whose keys are within `keys`. It locks as [`Db::range`] does.
    ///
    /// # Errors
    /// As [`Db::range`].
    pub fn range<'t, Q: KeyLike<K>>(
        &'t self,
        reader: &'t impl Reader,
        keys: impl RangeBounds<Q>,
    ) -> Result<Rows<'t, K, V>> {
        Ok(self.rows(self.db.range(reader, bounds(&keys))?.into_iter()))
    }

    /// Returns the number of rows whose keys are within `keys`.
    ///
    /// # Errors
    /// As [`Db::count`].
    pub fn count<Q: KeyLike<K>>(&self, reader: &impl Reader, keys: impl RangeBounds<Q>) -> Result<u64> {
        self.db.count(reader, bounds(&keys))
    }

    /// Removes all rows whose keys are within `keys`; returns their number.
    ///
    /// # Errors
    /// As [`Db::delete_range`].
    pub fn delete_range<Q: KeyLike<K>>(&self, txn: &Txn<'_>, keys: impl RangeBounds<Q>) -> Result<u64> {
        self.db.delete_range(txn, bounds(&keys))
    }

    /// Loads rows into this empty table; returns the number of its keys afterwards. Otherwise the call works as
    /// [`Db::load`].
    ///
    /// # Errors
    /// As [`Db::load`].
    pub fn load<Q: KeyLike<K>, W: ValueLike<V>>(
        &self,
        how: &Load,
        rows: impl IntoIterator<Item = (Q, W)>,
    ) -> Result<u64> {
        self.db.load(how, rows.into_iter().map(|(key, value)| (key_bytes(key), value_bytes(value))))
    }

    fn rows<'t>(&'t self, pairs: Pairs<'t>) -> Rows<'t, K, V> {
        Rows { table: self, pairs: Some(pairs) }
    }

    fn key(&self, bytes: &[u8]) -> Result<K> {
        K::decode_key(bytes).ok_or_else(|| self.foreign("key", type_name::<K>(), bytes))
    }

    fn value(&self, bytes: &[u8]) -> Result<V> {
        V::decode_value(bytes).ok_or_else(|| self.foreign("value", type_name::<V>(), bytes))
    }

    #[cold]
    fn foreign(&self, what: &str, wanted: &str, bytes: &[u8]) -> Error {
        let what = format!(
            "a {what} of {} bytes cannot be read as the type `{wanted}`, with which this table was opened; nothing was changed. Open the \
             table with the types that its records have, or read the bytes (`Table::db`)",
            bytes.len()
        );
        Error::Database { name: self.name().into(), what }
    }
}

impl<A: Key, B, V: Value> Table<(A, B), V>
where
    (A, B): Key,
{
    /// Returns an iterator over the rows whose keys have this first part.
    ///
    /// # Errors
    /// As [`Db::prefix`].
    pub fn with_first<'t>(&'t self, reader: &'t impl Reader, first: impl KeyLike<A>) -> Result<Rows<'t, (A, B), V>> {
        let mut beginning = Vec::new();
        first.encode_key_part(&mut beginning);
        Ok(self.rows(self.db.prefix(reader, &beginning)?.into_iter()))
    }
}

/// Returns the range of encoded keys between typed bounds.
fn bounds<K, Q: KeyLike<K>>(keys: &impl RangeBounds<Q>) -> Keys {
    let low: Bound<Vec<u8>> = keys.start_bound().map(key_bytes);
    let high: Bound<Vec<u8>> = keys.end_bound().map(key_bytes);
    (low, high).into()
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Table<K, V> {
        Table { db: self.db.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table({})", self.db.name())
    }
}

/// An iterator over the rows of a [`Table`], from both ends. After an error it ends.
pub struct Rows<'t, K, V> {
    table: &'t Table<K, V>,
    /// `None` after the end.
    pairs: Option<Pairs<'t>>,
}

impl<K: Key, V: Value> Rows<'_, K, V> {
    fn row(&mut self, pair: Option<Result<Pair>>) -> Option<Result<(K, V)>> {
        let row = pair.map(|pair| pair.and_then(|(key, value)| Ok((self.table.key(&key)?, self.table.value(&value)?))));
        if !matches!(row, Some(Ok(_))) {
            self.pairs = None;
        }
        row
    }
}

impl<K: Key, V: Value> Iterator for Rows<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Result<(K, V)>> {
        let pair = self.pairs.as_mut()?.next();
        self.row(pair)
    }
}

impl<K: Key, V: Value> DoubleEndedIterator for Rows<'_, K, V> {
    fn next_back(&mut self) -> Option<Result<(K, V)>> {
        let pair = self.pairs.as_mut()?.next_back();
        self.row(pair)
    }
}

impl<K: Key, V: Value> FusedIterator for Rows<'_, K, V> {}

impl<K, V> fmt::Debug for Rows<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("table", &self.table.db.name()).field("has_ended", &self.pairs.is_none()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Descending;

    #[test]
    fn a_table_is_a_database_in_the_order_of_its_keys() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::create(dir.path()).unwrap();
        let table = env.table::<i32, String>("table").unwrap();
        env.run(|txn| {
            (-50..50).try_for_each(|number| table.put(txn, number, format!("{number}")))?;
            assert!(matches!(table.put_new(txn, 7, "seven"), Err(Error::Exists)));
            assert_eq!(table.get(txn, -7)?.as_deref(), Some("-7"));
            assert_eq!(table.get_for_update(txn, 50)?, None);
            assert_eq!((table.contains(txn, 49)?, table.contains(txn, 50)?), (true, false));
            let keys: Result<Vec<i32>> = table.iter(txn).map(|row| Ok(row?.0)).collect();
            assert_eq!(keys?, (-50..50).collect::<Vec<_>>());
            let keys: Result<Vec<i32>> = table.range(txn, -2..=2)?.rev().map(|row| Ok(row?.0)).collect();
            assert_eq!(keys?, [2, 1, 0, -1, -2]);
            assert_eq!(table.count(txn, ..0)?, 50);
            assert_eq!(table.take(txn, 0)?.as_deref(), Some("0"));
            assert_eq!(table.take(txn, 0)?, None);
            assert!(!table.delete(txn, 0)?);
            assert_eq!(table.delete_range(txn, 10..)?, 40);
            Ok(())
        })
        .unwrap();
        assert_eq!(
            format!("{table:?} {:?}", table.clone().iter(&env.snapshot().unwrap())),
            "Table(table) Rows { table: \"table\", has_ended: false }"
        );
    }

    #[test]
    fn a_record_of_another_type_is_refused_with_the_types_name() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::create(dir.path()).unwrap();
        let bytes = env.btree("bytes").unwrap();
        env.run(|txn| bytes.put(txn, b"five!", b"five!")).unwrap();
        let snapshot = env.snapshot().unwrap();
        let refused = |error: Error, what: &str| {
            assert!(matches!(error, Error::Database { .. }));
            assert!(error.to_string().contains(what), "{error}");
        };
        let numbers = Table::<String, u32>::of(bytes.clone()).unwrap();
        refused(numbers.get(&snapshot, "five!").unwrap_err(), "a value of 5 bytes cannot be read as the type `u32`");
        let mut rows = numbers.iter(&snapshot);
        refused(rows.next().unwrap().unwrap_err(), "u32");
        assert!(rows.next().is_none() && rows.next_back().is_none(), "the iterator ends after an error");
        let numbers = Table::<u32, String>::of(bytes).unwrap();
        refused(
            numbers.iter(&snapshot).next_back().unwrap().unwrap_err(),
            "a key of 5 bytes cannot be read as the type `u32`",
        );
        let down = env.btree_ordered("down", Descending).unwrap();
        refused(Table::<u32, u32>::of(down).unwrap_err(), "are in the order");
    }
}

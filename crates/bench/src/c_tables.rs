//! One interface to sorted tables in Berkeley DB and RocksDB, whose functions are called through C.
//!
//! `peers/bdb.rs` and `peers/rocksdb.rs` implement the interface. The modules `rows` (plain records) and `parts` (OO1)
//! use it.
#![allow(unsafe_code)] // Reads bytes that C functions return.

mod parts;
mod rows;

use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::path::Path;

use crate::engine::Durability;
use crate::error::Result;

pub(crate) use parts::PartsInC;
pub(crate) use rows::RowsInC;

/// Cache size of each engine, in bytes.
pub(crate) const CACHE_BYTES: u64 = 256 << 20;
/// Largest number of tables of a database.
pub(crate) const TABLES_MAX: c_int = 3;

/// A database of tables, each sorted by the bytes of its keys. Only the thread that opened it uses it.
pub(crate) trait Tables: Sized {
    /// The engine's name.
    const NAME: &'static str;

    /// A transaction or a snapshot for reads.
    type Reader<'t>: ReadTables
    where
        Self: 't;

    /// Opens the database in `directory`. If the database does not exist, makes it with `tables` tables (one to three).
    /// With [`Durability::Sync`], [`Tables::put`] returns when its pairs are on the disk.
    ///
    /// # Errors
    /// The engine's error.
    fn open(directory: &Path, tables: c_int, durability: Durability) -> Result<Self>;

    /// Puts sorted pairs into an empty table, in the fastest way that the engine offers.
    ///
    /// # Errors
    /// The engine's error.
    fn load(&self, pairs: &Pairs<'_>) -> Result<()>;

    /// Puts pairs in one transaction.
    ///
    /// # Errors
    /// The engine's error.
    fn put(&self, pairs: &[Pairs<'_>]) -> Result<()>;

    /// Waits until everything is on disk, in its final files.
    ///
    /// # Errors
    /// The engine's error.
    fn settle(&self) -> Result<()>;

    /// Begins a read-only transaction, or takes a snapshot.
    ///
    /// # Errors
    /// The engine's error.
    fn reader(&self) -> Result<Self::Reader<'_>>;
}

/// A read-only transaction or a snapshot.
pub(crate) trait ReadTables {
    /// Reads the value of a key into `value`, which must be long enough. Returns the value's length, or `None` if the
    /// key does not exist.
    ///
    /// # Errors
    /// The engine's error.
    fn get(&mut self, table: c_int, key: &[u8], value: &mut [u8]) -> Result<Option<usize>>;

    /// Calls `each` with the key and the value of each pair whose key begins with `prefix`, in order.
    ///
    /// # Errors
    /// The engine's error.
    fn prefix(&mut self, table: c_int, prefix: &[u8], each: impl FnMut(&[u8], &[u8])) -> Result<()>;

    /// Reads all pairs of a table in order. Returns the sum of their bytes.
    ///
    /// # Errors
    /// The engine's error.
    fn scan(&mut self, table: c_int) -> Result<u64>;
}

/// Pairs of a table for the C functions (`struct pairs` of `pairs.h`): the addresses of the first key and the first
/// value, and the distance from a key to the next key, and from a value to the next value.
#[repr(C)]
pub(crate) struct Pairs<'p> {
    keys: *const u8,
    values: *const u8,
    key_bytes: usize,
    value_bytes: usize,
    stride: usize,
    count: usize,
    /// The table's number, from zero.
    pub(crate) table: c_int,
    of: PhantomData<&'p [u8]>,
}

impl<'p> Pairs<'p> {
    /// Returns the pairs in the form of the C functions.
    pub(crate) fn of<const K: usize, const V: usize>(table: c_int, pairs: &'p [([u8; K], [u8; V])]) -> Pairs<'p> {
        let first: *const u8 = pairs.as_ptr().cast();
        Pairs {
            keys: first.wrapping_add(offset_of!(([u8; K], [u8; V]), 0)),
            values: first.wrapping_add(offset_of!(([u8; K], [u8; V]), 1)),
            key_bytes: K,
            value_bytes: V,
            stride: size_of::<([u8; K], [u8; V])>(),
            count: pairs.len(),
            table,
            of: PhantomData,
        }
    }
}

/// A pair that a reader has found (`struct pair` of `pairs.h`). It is valid until the next call of the reader.
#[repr(C)]
pub(crate) struct Found {
    key: *const u8,
    value: *const u8,
    key_bytes: usize,
    value_bytes: usize,
}

impl Found {
    /// No pair.
    pub(crate) const NONE: Found =
        Found { key: std::ptr::null(), value: std::ptr::null(), key_bytes: 0, value_bytes: 0 };

    /// Returns the pair's key and value.
    ///
    /// # Safety
    /// A C function has found the pair, and the caller does not call the pair's reader while it uses the slices.
    pub(crate) unsafe fn bytes(&self) -> (&[u8], &[u8]) {
        // SAFETY: a found pair has a key of this length, and the caller promises that the pair is still valid.
        let key = unsafe { bytes_at(self.key, self.key_bytes) };
        // SAFETY: a found pair has a value of this length, and the caller promises that the pair is still valid.
        (key, unsafe { bytes_at(self.value, self.value_bytes) })
    }
}

/// Returns the `count` bytes from the address `first` on. If `count` is zero, the address may be invalid.
///
/// # Safety
/// The bytes are valid as long as the caller uses the slice.
unsafe fn bytes_at<'b>(first: *const u8, count: usize) -> &'b [u8] {
    match count {
        0 => &[],
        // SAFETY: the caller promises that these bytes are valid.
        _ => unsafe { std::slice::from_raw_parts(first, count) },
    }
}

/// Panics if a database of `count` tables has no table `table`. The C functions use the number as an index without a
/// check.
#[inline]
pub(crate) fn check(table: c_int, count: c_int) {
    assert!((0..count).contains(&table), "a database of {count} tables has no table {table}");
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn pair(key: [u8; 3], value: u8) -> ([u8; 3], [u8; 2]) {
        (key, [value, 0])
    }

    fn begins_with<T: Tables>(tables: &T, table: c_int, prefix: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        let mut reader = tables.reader().unwrap();
        reader.prefix(table, prefix, |key, value| found.push((key.to_vec(), value.to_vec()))).unwrap();
        found
    }

    /// Checks that tables return the pairs that were put into them.
    pub(crate) fn tables_are_read_as_they_were_put<T: Tables>() {
        let dir = tempfile::tempdir().unwrap();
        let (loaded, more) = ([pair(*b"abc", 1), pair(*b"abd", 2), pair(*b"b..", 3)], [pair(*b"abb", 4)]);
        // These are more pairs than fit on a page or into a buffer.
        let many: Vec<([u8; 4], [u8; 30])> = (0..5000_u32).map(|id| (id.to_be_bytes(), [7; 30])).collect();
        let is_many = |tables: &T| assert_eq!(begins_with(tables, 2, &[0, 0]).len(), many.len(), "{}", T::NAME);
        {
            let tables = T::open(dir.path(), 3, Durability::Sync).unwrap();
            tables.load(&Pairs::of(1, &loaded)).unwrap();
            tables.put(&[Pairs::of(1, &more), Pairs::of(0, &[(*b"only", [])]), Pairs::of(2, &many)]).unwrap();
            is_many(&tables);
            tables.settle().unwrap();
        }
        let tables = T::open(dir.path(), 3, Durability::Sync).unwrap();
        is_many(&tables);
        let found = |(key, value): ([u8; 3], [u8; 2])| (key.to_vec(), value.to_vec());
        assert_eq!(begins_with(&tables, 1, b"ab"), [more[0], loaded[0], loaded[1]].map(found), "{}", T::NAME);
        assert_eq!(begins_with(&tables, 1, b"b"), [found(loaded[2])], "the last pair, {}", T::NAME);
        assert!(begins_with(&tables, 1, b"c").is_empty() && begins_with(&tables, 1, b"a.").is_empty());
        assert_eq!(begins_with(&tables, 0, b""), [(b"only".to_vec(), Vec::new())]);
        let (mut reader, mut value) = (tables.reader().unwrap(), [0; 2]);
        assert_eq!(reader.get(1, b"abd", &mut value).unwrap(), Some(2));
        assert_eq!(value, [2, 0]);
        assert_eq!(reader.get(1, b"abe", &mut value).unwrap(), None);
        assert_eq!((reader.scan(1).unwrap(), reader.scan(2).unwrap()), (4 * 5, 5000 * 34));
    }
}

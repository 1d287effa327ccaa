//! Berkeley DB 5.3, through the C functions of `bdb_rows.c`, which says how each step is done: commits are in its log, which is not synced.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int};
use std::path::Path;
use std::ptr::NonNull;

use super::for_c::PairsForC;
use super::{Pair, Rows, BATCH, CACHE_BYTES};
use crate::c_path::c_path;
use crate::engine_bdb::check;
use crate::error::{Error, Result};

pub(super) const NAME: &str = "BDB";

/// `struct bdb_rows` of `bdb_rows.c`.
#[repr(C)]
struct RawRows {
    _opaque: [u8; 0],
}

/// Berkeley DB's `DB_TXN`.
#[repr(C)]
struct RawTxn {
    _opaque: [u8; 0],
}

extern "C" {
    fn bdb_rows_open(home: *const c_char, cache: u64, out: *mut *mut RawRows) -> c_int;
    fn bdb_rows_close(rows: *mut RawRows) -> c_int;
    fn bdb_rows_put(rows: *mut RawRows, pairs: *const PairsForC, bulk: c_int) -> c_int;
    fn bdb_rows_checkpoint(rows: *mut RawRows) -> c_int;
    fn bdb_rows_begin(rows: *mut RawRows, txn: *mut *mut RawTxn) -> c_int;
    fn bdb_rows_end(txn: *mut RawTxn) -> c_int;
    fn bdb_rows_get(rows: *mut RawRows, txn: *mut RawTxn, key: *const u8, key_bytes: usize, size: *mut usize) -> c_int;
    fn bdb_rows_scan(rows: *mut RawRows, txn: *mut RawTxn, bytes: *mut u64) -> c_int;
}

/// A B-tree in a Berkeley DB environment of its own.
///
/// Invariant: `raw` came from `bdb_rows_open` and is closed once, when this is dropped. It stays on one thread: a pointer is not `Send`.
pub struct Bdb {
    raw: NonNull<RawRows>,
}

impl Bdb {
    /// Opens the environment in `directory`, and makes it if it is not there.
    ///
    /// # Errors
    /// Berkeley DB's.
    pub fn open(directory: &Path) -> Result<Bdb> {
        let doing = "opening its environment";
        let home = c_path(directory, NAME, doing)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `home` is a C string and `raw` a place for a pointer; both outlive the call.
        let ret = unsafe { bdb_rows_open(home.as_ptr(), CACHE_BYTES as u64, &mut raw) };
        check(ret, doing)?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))?;
        Ok(Bdb { raw })
    }

    fn put(&self, pairs: &[Pair], is_bulk: bool, doing: &'static str) -> Result<()> {
        // SAFETY: `raw` is an open environment (invariant), and the pairs outlive the call.
        let ret = unsafe { bdb_rows_put(self.raw.as_ptr(), &PairsForC::of(pairs), c_int::from(is_bulk)) };
        check(ret, doing)
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open environment (invariant) and nobody uses it after its drop. What its answer could say is lost was lost
        // after a checkpoint, which is what counts.
        unsafe { bdb_rows_close(self.raw.as_ptr()) };
    }
}

impl Rows for Bdb {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        self.put(pairs, true, "loading")
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        pairs.chunks(BATCH).try_for_each(|batch| self.put(batch, false, "inserting"))
    }

    fn settle(&self) -> Result<()> {
        // SAFETY: `raw` is an open environment (invariant).
        check(unsafe { bdb_rows_checkpoint(self.raw.as_ptr()) }, "making a checkpoint")
    }

    fn get(&self, keys: &mut dyn Iterator<Item = &[u8; 16]>) -> Result<u64> {
        let (reader, mut bytes) = (Reader::begin(self)?, 0);
        for key in keys {
            bytes += reader.size(key)?;
        }
        Ok(bytes)
    }

    fn scan(&self) -> Result<u64> {
        Reader::begin(self)?.size_of_all()
    }
}

/// A transaction that reads.
///
/// Invariant: `txn` came from `bdb_rows_begin` and ends once, when this is dropped.
struct Reader<'r> {
    txn: NonNull<RawTxn>,
    rows: &'r Bdb,
}

impl Reader<'_> {
    fn begin(rows: &Bdb) -> Result<Reader<'_>> {
        let mut txn = std::ptr::null_mut();
        // SAFETY: `raw` is an open environment (invariant of `Bdb`), `txn` a place for a pointer.
        check(unsafe { bdb_rows_begin(rows.raw.as_ptr(), &mut txn) }, "reading")?;
        let txn = NonNull::new(txn).ok_or_else(|| Error::engine(NAME, "reading")("it began nothing"))?;
        Ok(Reader { txn, rows })
    }

    /// A value's bytes; none are 0.
    fn size(&self, key: &[u8]) -> Result<u64> {
        let (rows, txn, mut size) = (self.rows.raw.as_ptr(), self.txn.as_ptr(), 0);
        // SAFETY: the environment is open and the transaction at work (invariants), the key has as many bytes, and `size` is a place
        // for the answer.
        let ret = unsafe { bdb_rows_get(rows, txn, key.as_ptr(), key.len(), &mut size) };
        check(ret, "reading")?;
        Ok(size as u64)
    }

    fn size_of_all(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the environment is open and the transaction at work (invariants), `bytes` is a place for the answer.
        let ret = unsafe { bdb_rows_scan(self.rows.raw.as_ptr(), self.txn.as_ptr(), &mut bytes) };
        check(ret, "reading")?;
        Ok(bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the transaction is at work (invariant), and nobody uses it after this. It changed nothing that its answer could be
        // about.
        unsafe { bdb_rows_end(self.txn.as_ptr()) };
    }
}

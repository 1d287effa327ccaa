//! RocksDB, through the C functions of `rocksdb_rows.c`, which says how each step is done: commits are in its log, which is not synced.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::for_c::PairsForC;
use super::{Pair, Rows, BATCH, CACHE_BYTES};
use crate::c_path::c_path;
use crate::engine_rocksdb::{check, threads, Why};
use crate::error::{Error, Result};

pub(super) const NAME: &str = "RocksDB";

/// `struct rocks_rows` of `rocksdb_rows.c`.
#[repr(C)]
struct RawRows {
    _opaque: [u8; 0],
}

/// `struct rocks_reader`.
#[repr(C)]
struct RawReader {
    _opaque: [u8; 0],
}

extern "C" {
    fn rocks_rows_open(path: *const c_char, cache: u64, threads: c_int, out: *mut *mut RawRows, why: *mut Why)
        -> c_int;
    fn rocks_rows_close(rows: *mut RawRows);
    fn rocks_rows_load(rows: *mut RawRows, table: *const c_char, pairs: *const PairsForC, why: *mut Why) -> c_int;
    fn rocks_rows_insert(rows: *mut RawRows, pairs: *const PairsForC, why: *mut Why) -> c_int;
    fn rocks_rows_flush(rows: *mut RawRows, why: *mut Why) -> c_int;
    fn rocks_reader_begin(rows: *mut RawRows) -> *mut RawReader;
    fn rocks_reader_end(reader: *mut RawReader);
    fn rocks_reader_get(
        reader: *mut RawReader,
        key: *const u8,
        key_bytes: usize,
        size: *mut usize,
        why: *mut Why,
    ) -> c_int;
    fn rocks_reader_scan(reader: *mut RawReader, bytes: *mut u64, why: *mut Why) -> c_int;
}

/// A RocksDB database of one column family.
///
/// Invariant: `raw` came from `rocks_rows_open` and is closed once, when this is dropped. It stays on one thread: a pointer is not `Send`.
pub struct RocksDb {
    raw: NonNull<RawRows>,
    directory: PathBuf,
}

impl RocksDb {
    /// Opens the database in `directory`, and makes it if it is not there.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open(directory: &Path) -> Result<RocksDb> {
        let doing = "opening";
        let path = c_path(directory, NAME, doing)?;
        let (mut raw, mut why) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `path` is a C string, `raw` and `why` are places for pointers; all outlive the call.
        let ret = unsafe { rocks_rows_open(path.as_ptr(), CACHE_BYTES as u64, threads(), &mut raw, &mut why) };
        // Closed, too, if it is none that could be opened.
        let rows = NonNull::new(raw).map(|raw| RocksDb { raw, directory: directory.to_path_buf() });
        check(ret, doing, why)?;
        rows.ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: `raw` came from rocks_rows_open (invariant); readers borrow this and are gone.
        unsafe { rocks_rows_close(self.raw.as_ptr()) };
    }
}

impl Rows for RocksDb {
    fn load_sorted(&self, pairs: &[Pair]) -> Result<()> {
        let table = c_path(&self.directory.join("sorted.sst"), NAME, "loading")?;
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant), `table` a C string, and the pairs outlive the call.
        let ret = unsafe { rocks_rows_load(self.raw.as_ptr(), table.as_ptr(), &PairsForC::of(pairs), &mut why) };
        check(ret, "loading", why)
    }

    fn insert(&self, pairs: &[Pair]) -> Result<()> {
        for batch in pairs.chunks(BATCH) {
            let mut why = std::ptr::null_mut();
            // SAFETY: `raw` is an open database (invariant), and the batch's pairs outlive the call.
            let ret = unsafe { rocks_rows_insert(self.raw.as_ptr(), &PairsForC::of(batch), &mut why) };
            check(ret, "inserting", why)?;
        }
        Ok(())
    }

    fn settle(&self) -> Result<()> {
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant).
        let ret = unsafe { rocks_rows_flush(self.raw.as_ptr(), &mut why) };
        check(ret, "writing everything to disk", why)
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

/// Sees records as they were when it began.
///
/// Invariant: `raw` came from `rocks_reader_begin` and ends once, when this is dropped.
struct Reader<'r> {
    raw: NonNull<RawReader>,
    _rows: &'r RocksDb,
}

impl Reader<'_> {
    fn begin(rows: &RocksDb) -> Result<Reader<'_>> {
        // SAFETY: `raw` is an open database (invariant of `RocksDb`), and stays one while the reader borrows it.
        let raw = unsafe { rocks_reader_begin(rows.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "reading")("there is no memory"))?;
        Ok(Reader { raw, _rows: rows })
    }

    /// A value's bytes; none are 0.
    fn size(&self, key: &[u8]) -> Result<u64> {
        let (mut size, mut why) = (0, std::ptr::null_mut());
        // SAFETY: the reader is at work (invariant), the key has as many bytes, and the others are places for the answers.
        let ret = unsafe { rocks_reader_get(self.raw.as_ptr(), key.as_ptr(), key.len(), &mut size, &mut why) };
        check(ret, "reading", why)?;
        Ok(size as u64)
    }

    fn size_of_all(&self) -> Result<u64> {
        let (mut bytes, mut why) = (0, std::ptr::null_mut());
        // SAFETY: the reader is at work (invariant), and the others are places for the answers.
        let ret = unsafe { rocks_reader_scan(self.raw.as_ptr(), &mut bytes, &mut why) };
        check(ret, "reading", why)?;
        Ok(bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader is at work (invariant), and nobody uses it after this.
        unsafe { rocks_reader_end(self.raw.as_ptr()) };
    }
}

//! RocksDB, through the C functions of `rocksdb_tables.c`, which documents each step.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use super::{Found, Pairs, ReadTables, Tables, CACHE_BYTES};
use crate::c_path::c_path;
use crate::engine::Durability;
use crate::engine_rocksdb::{check, threads, Why, NAME, ROCKS_END, ROCKS_MISSING};
use crate::error::{Error, Result};

/// `struct rocks_tables` of `rocksdb_tables.c`.
#[repr(C)]
struct RawTables {
    _opaque: [u8; 0],
}

/// `struct rocks_reader`.
#[repr(C)]
struct RawReader {
    _opaque: [u8; 0],
}

extern "C" {
    fn rocks_tables_open(
        path: *const c_char,
        count: c_int,
        sync: c_int,
        cache: u64,
        threads: c_int,
        out: *mut *mut RawTables,
        why: *mut Why,
    ) -> c_int;
    fn rocks_tables_close(tables: *mut RawTables);
    fn rocks_tables_load(tables: *mut RawTables, file: *const c_char, pairs: *const Pairs<'_>, why: *mut Why) -> c_int;
    fn rocks_tables_put(tables: *mut RawTables, pairs: *const Pairs<'_>, count: usize, why: *mut Why) -> c_int;
    fn rocks_tables_flush(tables: *mut RawTables, why: *mut Why) -> c_int;
    fn rocks_reader_begin(tables: *mut RawTables) -> *mut RawReader;
    fn rocks_reader_end(reader: *mut RawReader);
    fn rocks_reader_get(
        reader: *mut RawReader,
        table: c_int,
        key: *const c_void,
        key_bytes: usize,
        value: *mut c_void,
        room: usize,
        size: *mut usize,
        why: *mut Why,
    ) -> c_int;
    fn rocks_reader_first(
        reader: *mut RawReader,
        table: c_int,
        key: *const c_void,
        key_bytes: usize,
        found: *mut Found,
        why: *mut Why,
    ) -> c_int;
    fn rocks_reader_next(reader: *mut RawReader, table: c_int, found: *mut Found, why: *mut Why) -> c_int;
    fn rocks_reader_scan(reader: *mut RawReader, table: c_int, bytes: *mut u64, why: *mut Why) -> c_int;
}

/// Column families of a RocksDB database.
///
/// Invariant: `raw` comes from `rocks_tables_open` and is closed once, when this is dropped. It stays on one thread: a
/// pointer is not `Send`.
pub(crate) struct RocksDb {
    raw: NonNull<RawTables>,
    count: c_int,
    directory: PathBuf,
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: `raw` comes from rocks_tables_open (invariant); readers borrow this and are gone.
        unsafe { rocks_tables_close(self.raw.as_ptr()) };
    }
}

impl Tables for RocksDb {
    const NAME: &'static str = NAME;

    type Reader<'t> = Reader<'t>;

    fn open(directory: &Path, count: c_int, durability: Durability) -> Result<RocksDb> {
        let doing = "opening";
        super::check(count - 1, super::TABLES_MAX);
        let path = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let (mut raw, mut why) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `path` is a C string, `raw` and `why` are places for pointers; all outlive the call. There is room
        // for `count` tables.
        let ret = unsafe { rocks_tables_open(path.as_ptr(), count, sync, CACHE_BYTES, threads(), &mut raw, &mut why) };
        // Before the check, so that a half-opened database is closed, too.
        let tables = NonNull::new(raw).map(|raw| RocksDb { raw, count, directory: directory.to_path_buf() });
        check(ret, doing, why)?;
        tables.ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))
    }

    fn load(&self, pairs: &Pairs<'_>) -> Result<()> {
        super::check(pairs.table, self.count);
        let file = c_path(&self.directory.join(format!("sorted-{}.sst", pairs.table)), NAME, "loading")?;
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant) with this table, `file` is a C string, and the pairs outlive
        // the call.
        let ret = unsafe { rocks_tables_load(self.raw.as_ptr(), file.as_ptr(), pairs, &mut why) };
        check(ret, "loading", why)
    }

    fn put(&self, pairs: &[Pairs<'_>]) -> Result<()> {
        pairs.iter().for_each(|pairs| super::check(pairs.table, self.count));
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant) with these tables, and the pairs outlive the call.
        let ret = unsafe { rocks_tables_put(self.raw.as_ptr(), pairs.as_ptr(), pairs.len(), &mut why) };
        check(ret, "inserting", why)
    }

    fn settle(&self) -> Result<()> {
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant).
        let ret = unsafe { rocks_tables_flush(self.raw.as_ptr(), &mut why) };
        check(ret, "writing everything to disk", why)
    }

    fn reader(&self) -> Result<Reader<'_>> {
        // SAFETY: `raw` is an open database (invariant), and stays one while the reader borrows it.
        let raw = unsafe { rocks_reader_begin(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "reading")("there is no memory"))?;
        Ok(Reader { raw, tables: self })
    }
}

/// A view of the records as they were when the reader began.
///
/// Invariant: `raw` comes from `rocks_reader_begin` and ends once, when this is dropped.
pub(crate) struct Reader<'t> {
    raw: NonNull<RawReader>,
    tables: &'t RocksDb,
}

impl ReadTables for Reader<'_> {
    fn get(&mut self, table: c_int, key: &[u8], value: &mut [u8]) -> Result<Option<usize>> {
        super::check(table, self.tables.count);
        let (raw, room) = (self.raw.as_ptr(), value.len());
        let (mut size, mut why) = (0, std::ptr::null_mut());
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_mut_ptr().cast());
        // SAFETY: the reader is open (invariant) and has this table, key and value have the given lengths, and the
        // others are places for the answers.
        let ret = unsafe { rocks_reader_get(raw, table, key_at, key.len(), value_at, room, &mut size, &mut why) };
        is_there(ret, why).map(|is_there| is_there.then_some(size))
    }

    fn prefix(&mut self, table: c_int, prefix: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        super::check(table, self.tables.count);
        let (raw, prefix_at) = (self.raw.as_ptr(), prefix.as_ptr().cast());
        let (mut found, mut why) = (Found::NONE, std::ptr::null_mut());
        // SAFETY: the reader is open (invariant) and has this table, the prefix has the given length, and the others
        // are places for the answers.
        let mut ret = unsafe { rocks_reader_first(raw, table, prefix_at, prefix.len(), &mut found, &mut why) };
        while is_there(ret, why)? {
            // SAFETY: the pair was found, and its reader is not called before the next turn.
            let (key, value) = unsafe { found.bytes() };
            if !key.starts_with(prefix) {
                break;
            }
            each(key, value);
            // SAFETY: as above; `rocks_reader_first` was called for this table.
            ret = unsafe { rocks_reader_next(raw, table, &mut found, &mut why) };
        }
        Ok(())
    }

    fn scan(&mut self, table: c_int) -> Result<u64> {
        super::check(table, self.tables.count);
        let (mut bytes, mut why) = (0, std::ptr::null_mut());
        // SAFETY: the reader is open (invariant) and has this table, and the others are places for the answers.
        let ret = unsafe { rocks_reader_scan(self.raw.as_ptr(), table, &mut bytes, &mut why) };
        is_there(ret, why).map(|_| bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader is open (invariant), and no code uses it after this.
        unsafe { rocks_reader_end(self.raw.as_ptr()) };
    }
}

/// Returns whether the pair exists.
fn is_there(ret: c_int, why: Why) -> Result<bool> {
    match ret {
        ROCKS_END | ROCKS_MISSING => Ok(false),
        ret => check(ret, "reading", why).map(|()| true),
    }
}

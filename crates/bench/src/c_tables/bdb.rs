//! Berkeley DB 5.3, through the C functions of `bdb_tables.c`, which documents each step.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;
use std::ptr::NonNull;

use super::{Found, Pairs, ReadTables, Tables, CACHE_BYTES};
use crate::c_path::c_path;
use crate::engine::Durability;
use crate::engine_bdb::{check, BDB_END, NAME};
use crate::error::{Error, Result};

/// `struct bdb_tables` of `bdb_tables.c`.
#[repr(C)]
struct RawTables {
    _opaque: [u8; 0],
}

/// `struct bdb_reader`.
#[repr(C)]
struct RawReader {
    _opaque: [u8; 0],
}

extern "C" {
    fn bdb_tables_open(home: *const c_char, count: c_int, sync: c_int, cache: u64, out: *mut *mut RawTables) -> c_int;
    fn bdb_tables_close(tables: *mut RawTables) -> c_int;
    fn bdb_tables_put(tables: *mut RawTables, pairs: *const Pairs<'_>, count: usize, bulk: c_int) -> c_int;
    fn bdb_tables_checkpoint(tables: *mut RawTables) -> c_int;
    fn bdb_reader_begin(tables: *mut RawTables, out: *mut *mut RawReader) -> c_int;
    fn bdb_reader_end(reader: *mut RawReader) -> c_int;
    fn bdb_reader_get(
        reader: *mut RawReader,
        table: c_int,
        key: *const c_void,
        key_bytes: usize,
        value: *mut c_void,
        room: usize,
        size: *mut usize,
    ) -> c_int;
    fn bdb_reader_first(
        reader: *mut RawReader,
        table: c_int,
        key: *const c_void,
        key_bytes: usize,
        found: *mut Found,
    ) -> c_int;
    fn bdb_reader_next(reader: *mut RawReader, table: c_int, found: *mut Found) -> c_int;
    fn bdb_reader_scan(reader: *mut RawReader, table: c_int, bytes: *mut u64) -> c_int;
}

/// B-trees of a Berkeley DB environment of its own.
///
/// Invariant: `raw` comes from `bdb_tables_open` and is closed once, when this is dropped. It stays on one thread: a
/// pointer is not `Send`.
pub(crate) struct Bdb {
    raw: NonNull<RawTables>,
    count: c_int,
}

impl Bdb {
    fn put_as(&self, pairs: &[Pairs<'_>], is_bulk: bool, doing: &'static str) -> Result<()> {
        pairs.iter().for_each(|pairs| super::check(pairs.table, self.count));
        // SAFETY: `raw` is an open environment (invariant) with these tables, and the pairs outlive the call.
        let ret = unsafe { bdb_tables_put(self.raw.as_ptr(), pairs.as_ptr(), pairs.len(), c_int::from(is_bulk)) };
        check(ret, doing)
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open environment (invariant), and no code uses it after this drop. The answer could only
        // report a loss after the last checkpoint, which does not matter here.
        unsafe { bdb_tables_close(self.raw.as_ptr()) };
    }
}

impl Tables for Bdb {
    const NAME: &'static str = NAME;

    type Reader<'t> = Reader<'t>;

    fn open(directory: &Path, count: c_int, durability: Durability) -> Result<Bdb> {
        let doing = "opening its environment";
        super::check(count - 1, super::TABLES_MAX);
        let home = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let mut raw = std::ptr::null_mut();
        // SAFETY: `home` is a C string and `raw` a place for a pointer; both outlive the call. There is room for
        // `count` tables.
        let ret = unsafe { bdb_tables_open(home.as_ptr(), count, sync, CACHE_BYTES, &mut raw) };
        check(ret, doing)?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))?;
        let tables = Bdb { raw, count };
        if durability == Durability::Sync {
            // With synced commits, the first write to a log file fills its 256 MiB with zeros. This happens here, not
            // in the first of those commits.
            tables.settle()?;
        }
        Ok(tables)
    }

    fn load(&self, pairs: &Pairs<'_>) -> Result<()> {
        self.put_as(std::slice::from_ref(pairs), true, "loading")
    }

    fn put(&self, pairs: &[Pairs<'_>]) -> Result<()> {
        self.put_as(pairs, false, "inserting")
    }

    fn settle(&self) -> Result<()> {
        // SAFETY: `raw` is an open environment (invariant).
        check(unsafe { bdb_tables_checkpoint(self.raw.as_ptr()) }, "making a checkpoint")
    }

    fn reader(&self) -> Result<Reader<'_>> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is an open environment (invariant), and stays one while the reader borrows it.
        check(unsafe { bdb_reader_begin(self.raw.as_ptr(), &mut raw) }, "reading")?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "reading")("it began nothing"))?;
        Ok(Reader { raw, tables: self })
    }
}

/// A transaction that reads.
///
/// Invariant: `raw` comes from `bdb_reader_begin` and ends once, when this is dropped.
pub(crate) struct Reader<'t> {
    raw: NonNull<RawReader>,
    tables: &'t Bdb,
}

impl ReadTables for Reader<'_> {
    fn get(&mut self, table: c_int, key: &[u8], value: &mut [u8]) -> Result<Option<usize>> {
        super::check(table, self.tables.count);
        let (raw, mut size, room) = (self.raw.as_ptr(), 0, value.len());
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_mut_ptr().cast());
        // SAFETY: the reader is open (invariant) and has this table, key and value have the given lengths, and `size`
        // is a place for the answer.
        let ret = unsafe { bdb_reader_get(raw, table, key_at, key.len(), value_at, room, &mut size) };
        is_there(ret).map(|is_there| is_there.then_some(size))
    }

    fn prefix(&mut self, table: c_int, prefix: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        super::check(table, self.tables.count);
        let (raw, mut found) = (self.raw.as_ptr(), Found::NONE);
        // SAFETY: the reader is open (invariant) and has this table, the prefix has the given length, and `found` is a
        // place for the answer.
        let mut ret = unsafe { bdb_reader_first(raw, table, prefix.as_ptr().cast(), prefix.len(), &mut found) };
        while is_there(ret)? {
            // SAFETY: the pair was found, and its reader is not called before the next turn.
            let (key, value) = unsafe { found.bytes() };
            if !key.starts_with(prefix) {
                break;
            }
            each(key, value);
            // SAFETY: as above; `bdb_reader_first` was called for this table.
            ret = unsafe { bdb_reader_next(raw, table, &mut found) };
        }
        Ok(())
    }

    fn scan(&mut self, table: c_int) -> Result<u64> {
        super::check(table, self.tables.count);
        let mut bytes = 0;
        // SAFETY: the reader is open (invariant) and has this table, and `bytes` is a place for the answer.
        let ret = unsafe { bdb_reader_scan(self.raw.as_ptr(), table, &mut bytes) };
        is_there(ret).map(|_| bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader is open (invariant), and no code uses it after this. It changed nothing, so its answer
        // does not matter.
        unsafe { bdb_reader_end(self.raw.as_ptr()) };
    }
}

/// Returns whether the pair exists.
fn is_there(ret: c_int) -> Result<bool> {
    match ret {
        BDB_END => Ok(false),
        ret => check(ret, "reading").map(|()| true),
    }
}

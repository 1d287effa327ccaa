//! RocksDB from the system's package, through the C functions of `rocksdb_bank.c`, which documents the settings.
//!
//! Transactions are pessimistic: a read for a change locks the record, and every transfer takes its locks in the same
//! order. `Relaxed` has the write-ahead log and no sync: a commit survives the death of the process. `Sync` syncs the
//! log at each commit, and one sync serves all commits that wait at that time. Read-only transactions read from a
//! snapshot. RocksDB's lock allows one process at a time.
//!
//! Plain records and OO1 use column families, through the C functions of `rocksdb_tables.c`, which documents each step.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use crate::c_path::c_path;
use crate::c_tables::{
    check as check_table, Found, Pairs, ReadTables, Tables, CACHE_BYTES as TABLES_CACHE_BYTES, TABLES_MAX,
};
use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{new_record, Scale, Table, Transfer, RECORD_BYTES};

const NAME: &str = "rocksdb";
const CACHE_BYTES: u64 = 512 << 20;
/// Number of records in one batch of the load.
const LOAD_BATCH: u32 = 10_000;

const ROCKS_ABORTED: c_int = -1;
/// There is no next record.
const ROCKS_END: c_int = -2;
/// The record does not exist.
const ROCKS_MISSING: c_int = -3;

/// `struct rocks_bank` of `rocksdb_bank.c`.
#[repr(C)]
struct RawBank {
    _opaque: [u8; 0],
}

/// `struct rocks_session` of `rocksdb_bank.c`.
#[repr(C)]
struct RawSession {
    _opaque: [u8; 0],
}

/// `struct rocks_walk` of `rocksdb_bank.c`.
#[repr(C)]
struct RawWalk {
    _opaque: [u8; 0],
}

/// RocksDB's error text, which [`check`] converts and frees.
type Why = *mut c_char;

extern "C" {
    fn rocks_free(why: Why);
    fn rocks_open(
        path: *const c_char,
        sync: c_int,
        cache: u64,
        threads: c_int,
        out: *mut *mut RawBank,
        why: *mut Why,
    ) -> c_int;
    fn rocks_close(bank: *mut RawBank);
    fn rocks_load(bank: *mut RawBank, table: c_int, first: u32, count: u32, records: *const u8, why: *mut Why)
        -> c_int;
    fn rocks_flush(bank: *mut RawBank, why: *mut Why) -> c_int;
    fn rocks_session_open(bank: *mut RawBank) -> *mut RawSession;
    fn rocks_session_close(session: *mut RawSession);
    fn rocks_transfer(
        session: *mut RawSession,
        ids: *const u32,
        amount: i64,
        id: u64,
        history: *const u8,
        balance: *mut i64,
        why: *mut Why,
    ) -> c_int;
    fn rocks_read(session: *mut RawSession, ids: *const u32, sum: *mut i64, why: *mut Why) -> c_int;
    fn rocks_walk_open(bank: *mut RawBank, table: c_int) -> *mut RawWalk;
    fn rocks_walk_next(walk: *mut RawWalk, id: *mut u64, record: *mut u8, size: *mut usize, why: *mut Why) -> c_int;
    fn rocks_walk_close(walk: *mut RawWalk);
}

/// A bank in a RocksDB database.
///
/// Invariant: `raw` comes from `rocks_open`, and only `drop` closes it.
#[derive(Debug)]
pub struct RocksDb {
    raw: NonNull<RawBank>,
}

// SAFETY: RocksDB's database may be used by any thread, and `struct rocks_bank` is not changed between rocks_open and
// rocks_close.
unsafe impl Send for RocksDb {}
// SAFETY: the same reason allows several threads to use the bank at once.
unsafe impl Sync for RocksDb {}

impl RocksDb {
    /// Opens the database in `directory`, and makes it if it does not exist.
    ///
    /// # Errors
    /// RocksDB's error.
    pub fn open(directory: &Path, durability: Durability) -> Result<RocksDb> {
        let doing = "opening";
        let path = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let (mut raw, mut why) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `path` is a C string, `raw` and `why` are places for pointers; all outlive the call.
        let ret = unsafe { rocks_open(path.as_ptr(), sync, CACHE_BYTES, threads(), &mut raw, &mut why) };
        // The bank is made before the check. If the open failed halfway, dropping the bank closes the database.
        let bank = NonNull::new(raw).map(|raw| RocksDb { raw });
        check(ret, doing, why)?;
        bank.ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))
    }

    fn load_batch(&self, table: Table, first: u32, end: u32) -> Result<()> {
        let records: Vec<u8> = (first..end).flat_map(|id| new_record(id, 0)).collect();
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`), and `records` has `end - first` records of
        // RECORD_BYTES each.
        let ret =
            unsafe { rocks_load(self.raw.as_ptr(), place(table), first, end - first, records.as_ptr(), &mut why) };
        check(ret, "loading", why)
    }

    fn flush(&self, doing: &'static str) -> Result<()> {
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`).
        let ret = unsafe { rocks_flush(self.raw.as_ptr(), &mut why) };
        check(ret, doing, why)
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        // SAFETY: `raw` comes from rocks_open (invariant of `RocksDb`). Sessions and walks borrow this value, so they
        // have ended before.
        unsafe { rocks_close(self.raw.as_ptr()) };
    }
}

impl Engine for RocksDb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "record"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        load_in_batches(scale, LOAD_BATCH, progress, |table, ids| self.load_batch(table, ids.start, ids.end))?;
        self.flush("loading")
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`), and stays open while the session borrows this value.
        let raw = unsafe { rocks_session_open(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "opening a session")("there is no memory"))?;
        Ok(Box::new(RocksDbSession { raw, _bank: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let walk = Walk::start(self, table)?;
        let mut record = [0u8; RECORD_BYTES];
        while let Some((id, size)) = walk.next(&mut record)? {
            each(id, &record[..size.min(RECORD_BYTES)]);
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush("closing")
    }
}

/// A session of one client.
///
/// Invariant: `raw` comes from `rocks_session_open`, and only `drop` closes it.
struct RocksDbSession<'b> {
    raw: NonNull<RawSession>,
    _bank: &'b RocksDb,
}

impl Drop for RocksDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open session (invariant), and no code uses it after this drop.
        unsafe { rocks_session_close(self.raw.as_ptr()) };
    }
}

impl Session for RocksDbSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let history = transfer.to_history();
        let (mut balance, mut why) = (0, std::ptr::null_mut());
        // SAFETY: `raw` is an open session (invariant) that only this thread uses; `ids` has three numbers, `history`
        // has HISTORY_BYTES bytes, and the other pointers are valid for the results.
        let ret = unsafe {
            rocks_transfer(
                self.raw.as_ptr(),
                ids.as_ptr(),
                transfer.amount,
                transfer.id,
                history.as_ptr(),
                &mut balance,
                &mut why,
            )
        };
        outcome(ret, "carrying out a transfer", balance, transfer, why)
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let (mut sum, mut why) = (0, std::ptr::null_mut());
        // SAFETY: `raw` is an open session (invariant) that only this thread uses; `ids` has three numbers, and the
        // other pointers are valid for the results.
        let ret = unsafe { rocks_read(self.raw.as_ptr(), ids.as_ptr(), &mut sum, &mut why) };
        outcome(ret, "reading three records", sum, transfer, why)
    }
}

/// An iterator over one table. Dropping the value closes the iterator.
///
/// Invariant: `raw` comes from `rocks_walk_open`, and only `drop` closes it.
struct Walk<'b> {
    raw: NonNull<RawWalk>,
    _bank: &'b RocksDb,
}

impl<'b> Walk<'b> {
    fn start(bank: &'b RocksDb, table: Table) -> Result<Walk<'b>> {
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`), and stays open while the walk borrows it.
        let raw = unsafe { rocks_walk_open(bank.raw.as_ptr(), place(table)) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "opening an iterator")("there is no memory"))?;
        Ok(Walk { raw, _bank: bank })
    }

    /// Returns the next record's id and size.
    fn next(&self, record: &mut [u8; RECORD_BYTES]) -> Result<Option<(u64, usize)>> {
        let (mut id, mut size, mut why) = (0, 0, std::ptr::null_mut());
        // SAFETY: the walk is open (invariant), `record` has RECORD_BYTES bytes, and the other pointers are valid for
        // the results.
        let ret = unsafe { rocks_walk_next(self.raw.as_ptr(), &mut id, record.as_mut_ptr(), &mut size, &mut why) };
        if ret == ROCKS_END {
            return Ok(None);
        }
        check(ret, "reading all records", why)?;
        Ok(Some((id, size)))
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        // SAFETY: the walk is open (invariant), and no code uses it after this drop.
        unsafe { rocks_walk_close(self.raw.as_ptr()) };
    }
}

fn place(table: Table) -> c_int {
    match table {
        Table::Account => 0,
        Table::Teller => 1,
        Table::Branch => 2,
        Table::History => 3,
    }
}

fn outcome(ret: c_int, doing: &'static str, balance: i64, transfer: &Transfer, why: Why) -> Result<Outcome> {
    match ret {
        0 => Ok(Outcome::Committed { balance }),
        ROCKS_ABORTED => Ok(Outcome::Aborted),
        ROCKS_MISSING => Err(Error::missing(NAME, Table::Account, transfer.account)),
        _ => check(ret, doing, why).map(|()| Outcome::Aborted),
    }
}

/// Returns the number of RocksDB's background threads.
fn threads() -> c_int {
    std::thread::available_parallelism().map_or(1, |count| c_int::try_from(count.get()).unwrap_or(1))
}

/// Returns an error with RocksDB's text if `ret` is an error code. Frees the text.
fn check(ret: c_int, doing: &'static str, why: Why) -> Result<()> {
    if ret == 0 {
        return Ok(());
    }
    if why.is_null() {
        return Err(Error::engine(NAME, doing)(format!("the call returned {ret}")));
    }
    // SAFETY: the text is a C string that RocksDB allocated, and is freed only below.
    let words = unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned();
    // SAFETY: the text is freed once, by the library that allocated it; `words` is a copy.
    unsafe { rocks_free(why) };
    Err(Error::engine(NAME, doing)(words))
}

/// `struct rocks_tables` of `rocksdb_tables.c`.
#[repr(C)]
struct RawTables {
    _opaque: [u8; 0],
}

/// `struct rocks_reader` of `rocksdb_tables.c`.
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

/// The column families of a RocksDB database.
///
/// Invariant: `raw` comes from `rocks_tables_open`, and only `drop` closes it. Only the thread that opened the
/// database uses it, because a pointer is not `Send`.
pub(crate) struct RocksTables {
    raw: NonNull<RawTables>,
    count: c_int,
    directory: PathBuf,
}

impl Drop for RocksTables {
    fn drop(&mut self) {
        // SAFETY: `raw` comes from rocks_tables_open (invariant). Readers borrow this value, so they have ended before.
        unsafe { rocks_tables_close(self.raw.as_ptr()) };
    }
}

impl Tables for RocksTables {
    const NAME: &'static str = NAME;

    type Reader<'t> = Reader<'t>;

    fn open(directory: &Path, count: c_int, durability: Durability) -> Result<RocksTables> {
        let doing = "opening";
        check_table(count - 1, TABLES_MAX);
        let path = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let (mut raw, mut why) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: `path` is a C string, `raw` and `why` are places for pointers; all outlive the call. There is room
        // for `count` tables.
        let ret =
            unsafe { rocks_tables_open(path.as_ptr(), count, sync, TABLES_CACHE_BYTES, threads(), &mut raw, &mut why) };
        // The value is made before the check. If the open failed halfway, dropping the value closes the database.
        let tables = NonNull::new(raw).map(|raw| RocksTables { raw, count, directory: directory.to_path_buf() });
        check(ret, doing, why)?;
        tables.ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))
    }

    fn load(&self, pairs: &Pairs<'_>) -> Result<()> {
        check_table(pairs.table, self.count);
        let file = c_path(&self.directory.join(format!("sorted-{}.sst", pairs.table)), NAME, "loading")?;
        let mut why = std::ptr::null_mut();
        // SAFETY: `raw` is an open database (invariant) with this table, `file` is a C string, and the pairs outlive
        // the call.
        let ret = unsafe { rocks_tables_load(self.raw.as_ptr(), file.as_ptr(), pairs, &mut why) };
        check(ret, "loading", why)
    }

    fn put(&self, pairs: &[Pairs<'_>]) -> Result<()> {
        pairs.iter().for_each(|pairs| check_table(pairs.table, self.count));
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
        // SAFETY: `raw` is an open database (invariant), and stays open while the reader borrows it.
        let raw = unsafe { rocks_reader_begin(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "reading")("there is no memory"))?;
        Ok(Reader { raw, tables: self })
    }
}

/// A snapshot, taken when the reader began.
///
/// Invariant: `raw` comes from `rocks_reader_begin`, and only `drop` ends it.
pub(crate) struct Reader<'t> {
    raw: NonNull<RawReader>,
    tables: &'t RocksTables,
}

impl ReadTables for Reader<'_> {
    fn get(&mut self, table: c_int, key: &[u8], value: &mut [u8]) -> Result<Option<usize>> {
        check_table(table, self.tables.count);
        let (raw, room) = (self.raw.as_ptr(), value.len());
        let (mut size, mut why) = (0, std::ptr::null_mut());
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_mut_ptr().cast());
        // SAFETY: the reader is open (invariant) and has this table, key and value have the given lengths, and the
        // other pointers are valid for the results.
        let ret = unsafe { rocks_reader_get(raw, table, key_at, key.len(), value_at, room, &mut size, &mut why) };
        is_there(ret, why).map(|is_there| is_there.then_some(size))
    }

    fn prefix(&mut self, table: c_int, prefix: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        check_table(table, self.tables.count);
        let (raw, prefix_at) = (self.raw.as_ptr(), prefix.as_ptr().cast());
        let (mut found, mut why) = (Found::NONE, std::ptr::null_mut());
        // SAFETY: the reader is open (invariant) and has this table, the prefix has the given length, and the other
        // pointers are valid for the results.
        let mut ret = unsafe { rocks_reader_first(raw, table, prefix_at, prefix.len(), &mut found, &mut why) };
        while is_there(ret, why)? {
            // SAFETY: the pair was found, and the reader is not called while the slices are in use.
            let (key, value) = unsafe { found.bytes() };
            if !key.starts_with(prefix) {
                break;
            }
            each(key, value);
            // SAFETY: the reader is open (invariant), `rocks_reader_first` was called for this table, and the pointers
            // are valid for the results.
            ret = unsafe { rocks_reader_next(raw, table, &mut found, &mut why) };
        }
        Ok(())
    }

    fn scan(&mut self, table: c_int) -> Result<u64> {
        check_table(table, self.tables.count);
        let (mut bytes, mut why) = (0, std::ptr::null_mut());
        // SAFETY: the reader is open (invariant) and has this table, and the pointers are valid for the results.
        let ret = unsafe { rocks_reader_scan(self.raw.as_ptr(), table, &mut bytes, &mut why) };
        is_there(ret, why).map(|_| bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader is open (invariant), and no code uses it after this drop.
        unsafe { rocks_reader_end(self.raw.as_ptr()) };
    }
}

/// Returns whether the pair exists, from the answer of a C function.
fn is_there(ret: c_int, why: Why) -> Result<bool> {
    match ret {
        ROCKS_END | ROCKS_MISSING => Ok(false),
        ret => check(ret, "reading", why).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_are_read_as_they_were_put() {
        crate::c_tables::tests::tables_are_read_as_they_were_put::<super::RocksTables>();
    }
}

//! Berkeley DB 5.3, a descendant of the paper's LIBTP, through the C functions of `bdb_bank.c`.
//!
//! Berkeley DB's `Relaxed` writes the log at commit and does not sync it (DB_TXN_WRITE_NOSYNC): commits survive the
//! death of the process, as libtp's do. `Sync` is the library's default. Locks are on pages; those of the history are
//! on records. The victim of a deadlock is `Aborted`, and the driver sends it again. Several processes may open one
//! bank; the first process recovers it. No checkpoint runs during a measurement. This favours Berkeley DB, whose log
//! grows by about 60 MB a second.
//!
//! Plain records and OO1 use B-trees, through the C functions of `bdb_tables.c`, which documents each step.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::path::Path;
use std::ptr::NonNull;

use crate::c_path::c_path;
use crate::c_tables::{
    check as check_table, Found, Pairs, ReadTables, Tables, CACHE_BYTES as TABLES_CACHE_BYTES, TABLES_MAX,
};
use crate::engine::{load_in_batches, Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{new_record, Scale, Table, Transfer, HISTORY_BYTES, RECORD_BYTES};

const NAME: &str = "bdb";
/// Bytes of the cache: room for the paper's whole bank and some minutes of history.
const CACHE_BYTES: u64 = 512 << 20;
/// Number of records in one transaction of the load. Their pages stay locked until the transaction commits.
const LOAD_BATCH: u32 = 10_000;

const BDB_ABORTED: c_int = -1;
/// The record does not exist, or there is no next record.
const BDB_END: c_int = -2;

/// `struct bank` of `bdb_bank.c`.
#[repr(C)]
struct RawBank {
    _opaque: [u8; 0],
}

/// Berkeley DB's `DBC`.
#[repr(C)]
struct RawCursor {
    _opaque: [u8; 0],
}

extern "C" {
    fn bank_version() -> *const c_char;
    fn bdb_error(ret: c_int) -> *const c_char;
    fn bank_open(home: *const c_char, recover: c_int, sync: c_int, cache: u64, out: *mut *mut RawBank) -> c_int;
    fn bank_close(bank: *mut RawBank) -> c_int;
    fn bank_load(bank: *mut RawBank, which: c_int, first: u32, count: u32, records: *mut u8) -> c_int;
    fn bank_transfer(bank: *mut RawBank, ids: *const u32, amount: i64, history: *mut u8, balance: *mut i64) -> c_int;
    fn bank_read(bank: *mut RawBank, ids: *const u32, sum: *mut i64) -> c_int;
    fn bank_walk_open(bank: *mut RawBank, which: c_int, cursor: *mut *mut RawCursor) -> c_int;
    fn bank_walk_next(cursor: *mut RawCursor, which: c_int, id: *mut u64, record: *mut u8, size: *mut u32) -> c_int;
    fn bank_walk_close(cursor: *mut RawCursor) -> c_int;
    fn bank_checkpoint(bank: *mut RawBank) -> c_int;
    fn bank_log_bytes(bank: *mut RawBank, bytes: *mut u64) -> c_int;
}

/// Returns the version that the library reports: `5.3.28`.
pub(crate) fn version() -> String {
    // SAFETY: `bank_version` has no preconditions, and returns a static C string.
    let words = unsafe { bank_version() };
    // SAFETY: the string is a static C string.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
    words.trim_start_matches("Berkeley DB ").split(':').next().unwrap_or_default().to_owned()
}

/// A bank in a Berkeley DB environment.
///
/// Invariant: `raw` comes from `bank_open`, and only `drop` closes it.
#[derive(Debug)]
pub struct Bdb {
    raw: NonNull<RawBank>,
}

// SAFETY: the environment and its files are opened with DB_THREAD, which makes their handles
// free-threaded; `struct bank` itself is not changed between bank_open and bank_close.
unsafe impl Send for Bdb {}
// SAFETY: the same reason allows several threads to use the bank at once.
unsafe impl Sync for Bdb {}

impl Bdb {
    /// Opens the environment in `directory` as its first process: makes the environment, or recovers it after a crash.
    ///
    /// # Errors
    /// Berkeley DB's error.
    pub fn open(directory: &Path, durability: Durability) -> Result<Bdb> {
        Bdb::open_as(directory, durability, true)
    }

    /// Opens an environment that another process has open already.
    ///
    /// # Errors
    /// Berkeley DB's error.
    pub fn join(directory: &Path, durability: Durability) -> Result<Bdb> {
        Bdb::open_as(directory, durability, false)
    }

    fn open_as(directory: &Path, durability: Durability, recover: bool) -> Result<Bdb> {
        let doing = "opening its environment";
        let home = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let mut raw = std::ptr::null_mut();
        // SAFETY: `home` is a C string and `raw` a place for a pointer; both outlive the call.
        let ret = unsafe { bank_open(home.as_ptr(), c_int::from(recover), sync, CACHE_BYTES, &mut raw) };
        check(ret, doing)?;
        let raw = NonNull::new(raw).expect("bank_open returns a bank or an error");
        Ok(Bdb { raw })
    }

    fn load_batch(&self, table: Table, first: u32, end: u32) -> Result<()> {
        let mut records: Vec<u8> = (first..end).flat_map(|id| new_record(id, 0)).collect();
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), `table` is one of its files, and
        // `records` has `end - first` records of RECORD_BYTES each.
        let ret = unsafe { bank_load(self.raw.as_ptr(), place(table), first, end - first, records.as_mut_ptr()) };
        check(ret, "loading")
    }
}

impl Drop for Bdb {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), and no code uses it after this drop. An error is ignored,
        // because `close` has made a checkpoint before.
        unsafe { bank_close(self.raw.as_ptr()) };
    }
}

impl Engine for Bdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lock_granularity(&self) -> &'static str {
        "page"
    }

    fn load(&self, scale: &Scale, progress: &mut dyn FnMut(u64)) -> Result<()> {
        load_in_batches(scale, LOAD_BATCH, progress, |table, ids| self.load_batch(table, ids.start, ids.end))?;
        checkpoint(self)
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(BdbSession { bank: self }))
    }

    fn walk(&self, table: Table, each: &mut dyn FnMut(u64, &[u8])) -> Result<()> {
        let mut walk = Walk::start(self, table)?;
        let mut record = [0u8; RECORD_BYTES];
        while let Some((id, size)) = walk.next(&mut record)? {
            each(id, &record[..size.min(RECORD_BYTES)]);
        }
        Ok(())
    }

    fn log_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), `bytes` is valid for the result.
        let ret = unsafe { bank_log_bytes(self.raw.as_ptr(), &mut bytes) };
        check(ret, "reading the size of its log")?;
        Ok(bytes)
    }

    fn close(self: Box<Self>) -> Result<()> {
        checkpoint(&self)
    }
}

struct BdbSession<'a> {
    bank: &'a Bdb,
}

impl Session for BdbSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let mut history: [u8; HISTORY_BYTES] = transfer.to_history();
        let mut balance = 0;
        // SAFETY: `raw` is an open bank (invariant of `Bdb`); `ids` has three numbers, `history`
        // HISTORY_BYTES bytes, and `balance` is valid for the result, as bank_transfer asks.
        let ret = unsafe {
            bank_transfer(self.bank.raw.as_ptr(), ids.as_ptr(), transfer.amount, history.as_mut_ptr(), &mut balance)
        };
        outcome(ret, "carrying out a transfer", balance, transfer)
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let mut sum = 0;
        // SAFETY: `raw` is an open bank (invariant of `Bdb`); `ids` has three numbers, and `sum`
        // is valid for the result, as bank_read asks.
        let ret = unsafe { bank_read(self.bank.raw.as_ptr(), ids.as_ptr(), &mut sum) };
        outcome(ret, "reading three records", sum, transfer)
    }
}

/// A cursor over one table. Dropping the value closes the cursor.
struct Walk<'a> {
    cursor: NonNull<RawCursor>,
    table: Table,
    _bank: &'a Bdb,
}

impl<'a> Walk<'a> {
    fn start(bank: &'a Bdb, table: Table) -> Result<Walk<'a>> {
        let mut cursor = std::ptr::null_mut();
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), `table` is one of its files, and
        // `cursor` is a place for a pointer.
        let ret = unsafe { bank_walk_open(bank.raw.as_ptr(), place(table), &mut cursor) };
        check(ret, "opening a cursor")?;
        let cursor = NonNull::new(cursor).expect("bank_walk_open returns a cursor or an error");
        Ok(Walk { cursor, table, _bank: bank })
    }

    /// Returns the next record's id and size.
    fn next(&mut self, record: &mut [u8; RECORD_BYTES]) -> Result<Option<(u64, usize)>> {
        let (mut id, mut size) = (0, 0);
        let (cursor, which) = (self.cursor.as_ptr(), place(self.table));
        // SAFETY: the cursor is open until `self` is dropped and is over file `which`; `record`
        // has RECORD_BYTES, and `id` and `size` are valid for the results.
        let ret = unsafe { bank_walk_next(cursor, which, &mut id, record.as_mut_ptr(), &mut size) };
        if ret == BDB_END {
            return Ok(None);
        }
        check(ret, "reading all records")?;
        Ok(Some((id, usize::try_from(size).expect("a size of 32 bits fits"))))
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and no code uses it after this drop. An error is ignored: a cursor that only
        // reads has nothing to lose.
        unsafe { bank_walk_close(self.cursor.as_ptr()) };
    }
}

fn checkpoint(bank: &Bdb) -> Result<()> {
    // SAFETY: `raw` is an open bank (invariant of `Bdb`).
    check(unsafe { bank_checkpoint(bank.raw.as_ptr()) }, "making a checkpoint")
}

#[inline]
fn outcome(ret: c_int, doing: &'static str, balance: i64, transfer: &Transfer) -> Result<Outcome> {
    match ret {
        0 => Ok(Outcome::Committed { balance }),
        BDB_ABORTED => Ok(Outcome::Aborted),
        BDB_END => Err(Error::missing(NAME, Table::Account, transfer.account)),
        _ => check(ret, doing).map(|()| Outcome::Aborted),
    }
}

/// Returns an error with Berkeley DB's text if `ret` is an error code.
fn check(ret: c_int, doing: &'static str) -> Result<()> {
    if ret == 0 {
        return Ok(());
    }
    // SAFETY: db_strerror takes any number and returns a C string.
    let words = unsafe { bdb_error(ret) };
    // SAFETY: the string is static, or in a buffer that the next call with an unknown error number
    // overwrites. It is copied before such a call.
    let words = unsafe { CStr::from_ptr(words) };
    Err(Error::Engine { engine: NAME, doing, why: words.to_string_lossy().into_owned() })
}

/// Returns the table's index in `struct bank`.
fn place(table: Table) -> c_int {
    match table {
        Table::Account => 0,
        Table::Teller => 1,
        Table::Branch => 2,
        Table::History => 3,
    }
}

/// `struct bdb_tables` of `bdb_tables.c`.
#[repr(C)]
struct RawTables {
    _opaque: [u8; 0],
}

/// `struct bdb_reader` of `bdb_tables.c`.
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

/// The B-trees of a Berkeley DB environment that has no other files.
///
/// Invariant: `raw` comes from `bdb_tables_open`, and only `drop` closes it. Only the thread that opened it uses it,
/// because a pointer is not `Send`.
pub(crate) struct BdbTables {
    raw: NonNull<RawTables>,
    count: c_int,
}

impl BdbTables {
    fn put_as(&self, pairs: &[Pairs<'_>], is_bulk: bool, doing: &'static str) -> Result<()> {
        pairs.iter().for_each(|pairs| check_table(pairs.table, self.count));
        // SAFETY: `raw` is an open environment (invariant) with these tables, and the pairs outlive the call.
        let ret = unsafe { bdb_tables_put(self.raw.as_ptr(), pairs.as_ptr(), pairs.len(), c_int::from(is_bulk)) };
        check(ret, doing)
    }
}

impl Drop for BdbTables {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open environment (invariant), and no code uses it after this drop. An error is ignored:
        // it could only report that changes after the last checkpoint are lost, and no measurement reads these changes.
        unsafe { bdb_tables_close(self.raw.as_ptr()) };
    }
}

impl Tables for BdbTables {
    const NAME: &'static str = NAME;

    type Reader<'t> = Reader<'t>;

    fn open(directory: &Path, count: c_int, durability: Durability) -> Result<BdbTables> {
        let doing = "opening its environment";
        check_table(count - 1, TABLES_MAX);
        let home = c_path(directory, NAME, doing)?;
        let sync = c_int::from(durability == Durability::Sync);
        let mut raw = std::ptr::null_mut();
        // SAFETY: `home` is a C string and `raw` a place for a pointer; both outlive the call. There is room for
        // `count` tables.
        let ret = unsafe { bdb_tables_open(home.as_ptr(), count, sync, TABLES_CACHE_BYTES, &mut raw) };
        check(ret, doing)?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, doing)("there is no memory"))?;
        let tables = BdbTables { raw, count };
        if durability == Durability::Sync {
            // With synced commits, the first write to a log file fills its 256 MiB with zeros. The checkpoint makes
            // this happen here, and not in the first measured commit.
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
        // SAFETY: `raw` is an open environment (invariant), and stays open while the reader borrows it.
        check(unsafe { bdb_reader_begin(self.raw.as_ptr(), &mut raw) }, "reading")?;
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "reading")("it returned no transaction"))?;
        Ok(Reader { raw, tables: self })
    }
}

/// A read-only transaction.
///
/// Invariant: `raw` comes from `bdb_reader_begin`, and only `drop` ends it.
pub(crate) struct Reader<'t> {
    raw: NonNull<RawReader>,
    tables: &'t BdbTables,
}

impl ReadTables for Reader<'_> {
    fn get(&mut self, table: c_int, key: &[u8], value: &mut [u8]) -> Result<Option<usize>> {
        check_table(table, self.tables.count);
        let (raw, mut size, room) = (self.raw.as_ptr(), 0, value.len());
        let (key_at, value_at) = (key.as_ptr().cast(), value.as_mut_ptr().cast());
        // SAFETY: the reader is open (invariant) and has this table, key and value have the given lengths, and `size`
        // is valid for the result.
        let ret = unsafe { bdb_reader_get(raw, table, key_at, key.len(), value_at, room, &mut size) };
        is_there(ret).map(|is_there| is_there.then_some(size))
    }

    fn prefix(&mut self, table: c_int, prefix: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        check_table(table, self.tables.count);
        let (raw, mut found) = (self.raw.as_ptr(), Found::NONE);
        // SAFETY: the reader is open (invariant) and has this table, the prefix has the given length, and `found` is
        // valid for the result.
        let mut ret = unsafe { bdb_reader_first(raw, table, prefix.as_ptr().cast(), prefix.len(), &mut found) };
        while is_there(ret)? {
            // SAFETY: the pair was found, and the reader is not called while the slices are in use.
            let (key, value) = unsafe { found.bytes() };
            if !key.starts_with(prefix) {
                break;
            }
            each(key, value);
            // SAFETY: the reader is open (invariant), `bdb_reader_first` was called for this table, and `found` is
            // valid for the result.
            ret = unsafe { bdb_reader_next(raw, table, &mut found) };
        }
        Ok(())
    }

    fn scan(&mut self, table: c_int) -> Result<u64> {
        check_table(table, self.tables.count);
        let mut bytes = 0;
        // SAFETY: the reader is open (invariant) and has this table, and `bytes` is valid for the result.
        let ret = unsafe { bdb_reader_scan(self.raw.as_ptr(), table, &mut bytes) };
        is_there(ret).map(|_| bytes)
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        // SAFETY: the reader is open (invariant), and no code uses it after this drop. An error is ignored, because the
        // transaction changed nothing.
        unsafe { bdb_reader_end(self.raw.as_ptr()) };
    }
}

/// Returns whether the pair exists, from the answer of a C function.
fn is_there(ret: c_int) -> Result<bool> {
    match ret {
        BDB_END => Ok(false),
        ret => check(ret, "reading").map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn tables_are_read_as_they_were_put() {
        crate::c_tables::tests::tables_are_read_as_they_were_put::<super::BdbTables>();
    }
}

//! Berkeley DB 5.3, LIBTP's own descendant, through the C functions of `bdb_bank.c`.
//!
//! `Relaxed` writes the log at commit and does not sync it (DB_TXN_WRITE_NOSYNC): commits survive the death of the
//! process, as libtp's do. `Sync` is its default. Locks are on pages, for the history on records. A deadlock's victim
//! is `Aborted`, and the driver sends it again. Several processes may open one bank; the first one recovers it. No
//! checkpoint runs during a measurement: that favours it, and its log grows by about 60 MB a second.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, CStr};
use std::path::Path;
use std::ptr::NonNull;

use crate::c_path::c_path;
use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{new_record, Scale, Table, Transfer, HISTORY_BYTES, RECORD_BYTES};

pub(crate) const NAME: &str = "bdb";
/// Room for all of the paper's bank and some minutes of history.
const CACHE_BYTES: u64 = 512 << 20;
/// Records of one transaction of the load. Their pages stay locked until it commits.
const LOAD_BATCH: u32 = 10_000;

const BDB_ABORTED: c_int = -1;
/// There is no such record, or no next one.
pub(crate) const BDB_END: c_int = -2;

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
    // SAFETY: db_version takes places for numbers, or null for unwanted ones, and returns a static C string.
    let words = unsafe { bank_version() };
    // SAFETY: the string is a static C string.
    let words = unsafe { CStr::from_ptr(words) }.to_string_lossy();
    words.trim_start_matches("Berkeley DB ").split(':').next().unwrap_or_default().to_owned()
}

/// A bank in a Berkeley DB environment.
///
/// Invariant: `raw` came from `bank_open` and is closed once, when this is dropped.
#[derive(Debug)]
pub struct Bdb {
    raw: NonNull<RawBank>,
}

// SAFETY: the environment and its files are opened with DB_THREAD, which makes their handles
// free-threaded; `struct bank` itself is not changed between bank_open and bank_close.
unsafe impl Send for Bdb {}
// SAFETY: as for `Send`.
unsafe impl Sync for Bdb {}

impl Bdb {
    /// Opens the environment in `directory` as its only process: makes it, or recovers it after a crash.
    pub fn open(directory: &Path, durability: Durability) -> Result<Bdb> {
        Bdb::open_as(directory, durability, true)
    }

    /// Joins an environment that another process has open.
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
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), and no code uses it after this drop. An error is lost
        // here: `close` makes the checkpoint that matters before.
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
        let mut loaded = 0;
        for table in Table::BALANCES {
            let mut id = 0;
            while id < scale.count(table) {
                let end = scale.count(table).min(id + LOAD_BATCH);
                self.load_batch(table, id, end)?;
                loaded += u64::from(end - id);
                id = end;
                progress(loaded);
            }
        }
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
        // SAFETY: `raw` is an open bank (invariant of `Bdb`), `bytes` a place for the answer.
        let ret = unsafe { bank_log_bytes(self.raw.as_ptr(), &mut bytes) };
        check(ret, "asking for its log's size")?;
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
        // HISTORY_BYTES bytes, and `balance` is a place for the answer, as bank_transfer asks.
        let ret = unsafe {
            bank_transfer(self.bank.raw.as_ptr(), ids.as_ptr(), transfer.amount, history.as_mut_ptr(), &mut balance)
        };
        outcome(ret, "carrying out a transfer", balance, transfer)
    }

    fn read_only(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let mut sum = 0;
        // SAFETY: `raw` is an open bank (invariant of `Bdb`); `ids` has three numbers, and `sum`
        // is a place for the answer, as bank_read asks.
        let ret = unsafe { bank_read(self.bank.raw.as_ptr(), ids.as_ptr(), &mut sum) };
        outcome(ret, "reading three records", sum, transfer)
    }
}

/// A cursor over one file, closed when dropped.
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
        // has RECORD_BYTES, and `id` and `size` are places for the answer.
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
        // SAFETY: the cursor is open, and no code uses it after this. Closing a cursor that only read loses nothing, so
        // its answer is not needed.
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
        BDB_END => Err(Error::Missing { engine: NAME, table: Table::Account.name(), id: u64::from(transfer.account) }),
        _ => check(ret, doing).map(|()| Outcome::Aborted),
    }
}

/// Turns an error code into an error with a text.
pub(crate) fn check(ret: c_int, doing: &'static str) -> Result<()> {
    if ret == 0 {
        return Ok(());
    }
    // SAFETY: db_strerror takes any number and returns a C string.
    let words = unsafe { bdb_error(ret) };
    // SAFETY: the string is static, or in a buffer that the next unknown error number replaces;
    // it is copied at once.
    let words = unsafe { CStr::from_ptr(words) };
    Err(Error::Engine { engine: NAME, doing, why: words.to_string_lossy().into_owned() })
}

/// Returns the file's index in `struct bank`.
fn place(table: Table) -> c_int {
    match table {
        Table::Account => 0,
        Table::Teller => 1,
        Table::Branch => 2,
        Table::History => 3,
    }
}

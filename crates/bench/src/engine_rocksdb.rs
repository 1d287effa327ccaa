//! RocksDB, the system's, through the C functions of `rocksdb_bank.c`, which documents its settings.
//!
//! Pessimistic transactions: a read for a change locks the record, and every transfer locks in the same order.
//! `Relaxed` has the write-ahead log and no sync: a commit survives the death of the process. `Sync` syncs the log at
//! each commit; commits that wait together are written together. Read-only transactions read at a snapshot. Its own
//! lock allows one process at a time.
#![allow(unsafe_code)] // A C library.

use std::ffi::{c_char, c_int, CStr};
use std::path::Path;
use std::ptr::NonNull;

use crate::c_path::c_path;
use crate::engine::{Durability, Engine, Outcome, Session};
use crate::error::{Error, Result};
use crate::tpcb::{new_record, Scale, Table, Transfer, RECORD_BYTES};

pub(crate) const NAME: &str = "rocksdb";
const CACHE_BYTES: u64 = 512 << 20;
/// Records of one batch of the load.
const LOAD_BATCH: u32 = 10_000;

const ROCKS_ABORTED: c_int = -1;
/// There is no next record.
pub(crate) const ROCKS_END: c_int = -2;
/// There is no such record.
pub(crate) const ROCKS_MISSING: c_int = -3;

/// `struct rocks_bank` of `rocksdb_bank.c`.
#[repr(C)]
struct RawBank {
    _opaque: [u8; 0],
}

/// `struct rocks_session`.
#[repr(C)]
struct RawSession {
    _opaque: [u8; 0],
}

/// `struct rocks_walk`.
#[repr(C)]
struct RawWalk {
    _opaque: [u8; 0],
}

/// RocksDB's error text, for [`check`] to take.
pub(crate) type Why = *mut c_char;

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
/// Invariant: `raw` came from `rocks_open` and is closed once, when this is dropped.
#[derive(Debug)]
pub struct RocksDb {
    raw: NonNull<RawBank>,
}

// SAFETY: RocksDB's database may be used by any thread, and `struct rocks_bank` is not changed between rocks_open and
// rocks_close.
unsafe impl Send for RocksDb {}
// SAFETY: as for `Send`.
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
        // Before the check, so that a half-opened database is closed, too.
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
        // SAFETY: `raw` comes from rocks_open (invariant of `RocksDb`); sessions and walks borrow this and are gone.
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
        self.flush("loading")
    }

    fn session(&self) -> Result<Box<dyn Session + '_>> {
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`), and stays one while the session borrows this.
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

    fn log_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.flush("closing")
    }
}

/// Invariant: `raw` came from `rocks_session_open` and is closed once, when this is dropped.
struct RocksDbSession<'b> {
    raw: NonNull<RawSession>,
    _bank: &'b RocksDb,
}

impl Drop for RocksDbSession<'_> {
    fn drop(&mut self) {
        // SAFETY: `raw` is an open session (invariant), and no code uses it after this.
        unsafe { rocks_session_close(self.raw.as_ptr()) };
    }
}

impl Session for RocksDbSession<'_> {
    fn transact(&mut self, transfer: &Transfer) -> Result<Outcome> {
        let ids = Table::BALANCES.map(|table| transfer.record_in(table));
        let history = transfer.to_history();
        let (mut balance, mut why) = (0, std::ptr::null_mut());
        // SAFETY: `raw` is an open session (invariant) that only this thread uses; `ids` has three numbers, `history`
        // HISTORY_BYTES bytes, and the others are places for the answers.
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
        // SAFETY: as in `transact`.
        let ret = unsafe { rocks_read(self.raw.as_ptr(), ids.as_ptr(), &mut sum, &mut why) };
        outcome(ret, "reading three records", sum, transfer, why)
    }
}

/// An iterator over one table, closed when dropped.
///
/// Invariant: `raw` came from `rocks_walk_open`.
struct Walk<'b> {
    raw: NonNull<RawWalk>,
    _bank: &'b RocksDb,
}

impl<'b> Walk<'b> {
    fn start(bank: &'b RocksDb, table: Table) -> Result<Walk<'b>> {
        // SAFETY: `raw` is an open bank (invariant of `RocksDb`), and stays one while the walk borrows it.
        let raw = unsafe { rocks_walk_open(bank.raw.as_ptr(), place(table)) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::engine(NAME, "opening an iterator")("there is no memory"))?;
        Ok(Walk { raw, _bank: bank })
    }

    /// Returns the next record's id and size.
    fn next(&self, record: &mut [u8; RECORD_BYTES]) -> Result<Option<(u64, usize)>> {
        let (mut id, mut size, mut why) = (0, 0, std::ptr::null_mut());
        // SAFETY: the walk is open (invariant); `record` has RECORD_BYTES, and the others are places for the answers.
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
        // SAFETY: the walk is open (invariant), and no code uses it after this.
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
        ROCKS_MISSING => {
            Err(Error::Missing { engine: NAME, table: Table::Account.name(), id: u64::from(transfer.account) })
        }
        _ => check(ret, doing, why).map(|()| Outcome::Aborted),
    }
}

/// Returns the number of RocksDB's background threads.
pub(crate) fn threads() -> c_int {
    std::thread::available_parallelism().map_or(1, |count| c_int::try_from(count.get()).unwrap_or(1))
}

/// Turns RocksDB's error text into an error.
pub(crate) fn check(ret: c_int, doing: &'static str, why: Why) -> Result<()> {
    if ret == 0 {
        return Ok(());
    }
    if why.is_null() {
        return Err(Error::engine(NAME, doing)(format!("it answered {ret}")));
    }
    // SAFETY: the text is a C string that RocksDB allocated and passed to us.
    let words = unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned();
    // SAFETY: the text is freed once, here, by its own library; `words` is a copy.
    unsafe { rocks_free(why) };
    Err(Error::engine(NAME, doing)(words))
}

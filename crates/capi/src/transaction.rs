//! `tp_txn`: a transaction, or a snapshot, with the savepoints and cursors that C has in it.
//!
//! In Rust these borrow from each other, and the compiler sees to their order. Here one value owns them all, in the order in which
//! they have to go; its slot is held by one thread at a time.
//!
//! Invariants
//! 1. What borrows from the transaction (`cursors`, `savepoints`) goes before it, and it before the pin of its environment.
//! 2. Nothing that borrows leaves this value.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;

use libtp::{CommitLsn, Cursor, Db, Durability, Recno, RecnoCursor, Savepoint, Snapshot, Txn};

use crate::answer::{door, is_retryable, Outcome, Trouble, TP_OK};
use crate::arguments::Out;
use crate::database::{KeyedDatabase, NumberedDatabase};
use crate::environment::{environment, Environment};
use crate::handles::{Handle, Held, Kind, Pinned, Table};

static TRANSACTIONS: Table<Transaction> = Table::new();
static COMMITS: Table<Pending> = Table::new();

/// So often `tp_run` tries.
const TRIES: u32 = 1000;

/// What C calls `tp_txn`.
pub struct Transaction {
    /// By numbers that are not used again.
    cursors: BTreeMap<u64, (Cursor<'static>, Pinned<KeyedDatabase>)>,
    number_cursors: BTreeMap<u64, (RecnoCursor<'static>, Pinned<NumberedDatabase>)>,
    /// Oldest first.
    savepoints: Vec<(u64, Savepoint<'static, 'static>)>,
    made: u64,
    reader: Reading,
    env: Pinned<Environment>,
}

enum Reading {
    Locking(Rc<Txn<'static>>),
    Snapshot(Rc<Snapshot<'static>>),
}

// A transaction goes from thread to thread as a whole.
const _: () = {
    const fn goes_to_other_threads<T: Send>() {}
    goes_to_other_threads::<Txn<'static>>();
    goes_to_other_threads::<Snapshot<'static>>();
};

// SAFETY: a transaction may go to another thread, and what borrows from it goes along: all of it is in this value, which one thread
// uses at a time. That `Cursor` and `Savepoint` are not `Send` by themselves is for the transaction that would stay behind.
unsafe impl Send for Transaction {}

impl Kind for Transaction {
    const CODE: usize = 1;
    fn table() -> &'static Table<Transaction> {
        &TRANSACTIONS
    }
}

/// The transaction of a handle, for this call alone.
pub(crate) fn transaction(handle: Handle<Transaction>) -> Outcome<Held<Transaction>> {
    TRANSACTIONS.hold(handle)
}

/// Whether it has not ended.
pub(crate) fn goes_on(handle: Handle<Transaction>) -> bool {
    TRANSACTIONS.has(handle)
}

impl Transaction {
    fn new(reader: Reading, env: Pinned<Environment>) -> Transaction {
        let (cursors, number_cursors) = (BTreeMap::new(), BTreeMap::new());
        Transaction { cursors, number_cursors, savepoints: Vec::new(), made: 0, reader, env }
    }

    fn begin(env: Pinned<Environment>, durability: Option<Durability>) -> Outcome<Transaction> {
        // SAFETY: what borrows from it goes before the pin (invariant 1).
        let lasting = &unsafe { env.beyond() }.env;
        let txn = match durability {
            Some(durability) => lasting.begin_with(durability)?,
            None => lasting.begin()?,
        };
        Ok(Transaction::new(Reading::Locking(Rc::new(txn)), env))
    }

    fn snapshot(env: Pinned<Environment>) -> Outcome<Transaction> {
        // SAFETY: as in `begin`.
        let snapshot = unsafe { env.beyond() }.env.snapshot()?;
        Ok(Transaction::new(Reading::Snapshot(Rc::new(snapshot)), env))
    }

    /// To change something.
    pub(crate) fn writer(&self) -> Outcome<&Txn<'static>> {
        match &self.reader {
            Reading::Locking(txn) => Ok(txn),
            Reading::Snapshot(_) => Err(Trouble::misuse("a snapshot was given, in which nothing can be changed")),
        }
    }

    /// What it works with has to be opened from the same handle of the environment.
    pub(crate) fn check_same(&self, env: &Pinned<Environment>) -> Outcome<()> {
        match self.env.is(env) {
            true => Ok(()),
            false => Err(Trouble::misuse("transaction and database belong to different handles of environments")),
        }
    }

    pub(crate) fn get(&self, db: &Db, key: &[u8], read: impl FnOnce(&[u8]) -> Outcome<()>) -> Outcome<()> {
        let read = match &self.reader {
            Reading::Locking(txn) => db.get_with(&**txn, key, read)?,
            Reading::Snapshot(snapshot) => db.get_with(&**snapshot, key, read)?,
        };
        read.unwrap_or_else(|| Err(Trouble::not_found()))
    }

    pub(crate) fn get_number(&self, recno: &Recno, number: u64) -> Outcome<Vec<u8>> {
        let record = match &self.reader {
            Reading::Locking(txn) => recno.get(&**txn, number)?,
            Reading::Snapshot(snapshot) => recno.get(&**snapshot, number)?,
        };
        record.ok_or_else(Trouble::not_found)
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Puts a cursor into it and returns its number.
    pub(crate) fn add_cursor(&mut self, db: Pinned<KeyedDatabase>) -> u64 {
        // SAFETY: the cursor goes with the pin, before it (their order in the tuple).
        let lasting = &unsafe { db.beyond() }.db;
        let cursor = match &self.reader {
            // SAFETY: the cursor goes before the transaction, which the `Rc` keeps where it is (invariant 1).
            Reading::Locking(txn) => lasting.cursor(unsafe { &*Rc::as_ptr(txn) }),
            // SAFETY: as above.
            Reading::Snapshot(snapshot) => lasting.cursor(unsafe { &*Rc::as_ptr(snapshot) }),
        };
        let number = self.number();
        self.cursors.insert(number, (cursor, db));
        number
    }

    /// As `add_cursor`, over records by number.
    pub(crate) fn add_number_cursor(&mut self, recno: Pinned<NumberedDatabase>) -> u64 {
        // SAFETY: as in `add_cursor`.
        let lasting = &unsafe { recno.beyond() }.recno;
        let cursor = match &self.reader {
            // SAFETY: as in `add_cursor`.
            Reading::Locking(txn) => lasting.cursor(unsafe { &*Rc::as_ptr(txn) }),
            // SAFETY: as in `add_cursor`.
            Reading::Snapshot(snapshot) => lasting.cursor(unsafe { &*Rc::as_ptr(snapshot) }),
        };
        let number = self.number();
        self.number_cursors.insert(number, (cursor, recno));
        number
    }

    pub(crate) fn cursor(&mut self, number: u64) -> Option<&mut Cursor<'static>> {
        self.cursors.get_mut(&number).map(|(cursor, _)| cursor)
    }

    pub(crate) fn number_cursor(&mut self, number: u64) -> Option<&mut RecnoCursor<'static>> {
        self.number_cursors.get_mut(&number).map(|(cursor, _)| cursor)
    }

    pub(crate) fn drop_cursor(&mut self, number: u64) {
        self.cursors.remove(&number);
        self.number_cursors.remove(&number);
    }

    fn savepoint(&mut self) -> Outcome<u64> {
        self.writer()?;
        let number = self.number();
        if let Reading::Locking(txn) = &self.reader {
            // SAFETY: the savepoint goes before the transaction (invariant 1).
            let lasting = unsafe { &*Rc::as_ptr(txn) };
            self.savepoints.push((number, lasting.savepoint()));
        }
        Ok(number)
    }

    /// Takes a savepoint out, and forgets those made after it, which end with it.
    fn take_savepoint(&mut self, number: u64) -> Outcome<Savepoint<'static, 'static>> {
        let Some(place) = self.savepoints.iter().rposition(|(other, _)| *other == number) else {
            let what =
                format!("the transaction has no savepoint {number}: it was kept or gone back to, or one before it was");
            return Err(Trouble::misuse(what));
        };
        while self.savepoints.len() > place + 1 {
            self.savepoints.pop().expect("there are more").1.keep();
        }
        Ok(self.savepoints.pop().expect("it was found").1)
    }

    /// What the library has of it, when everything else of it has gone; savepoints are kept. Who takes both apart lets the pin, which
    /// stands first, go last.
    fn finish(mut self) -> (Pinned<Environment>, Reading) {
        self.cursors.clear();
        self.number_cursors.clear();
        while let Some((_, savepoint)) = self.savepoints.pop() {
            savepoint.keep();
        }
        (self.env, self.reader)
    }

    fn commit(self) -> Outcome<()> {
        let (_env, reader) = self.finish();
        match reader {
            Reading::Locking(txn) => Ok(alone(txn).commit()?),
            Reading::Snapshot(_) => Ok(()),
        }
    }

    fn commit_async(self) -> Outcome<Option<Pending>> {
        let (env, reader) = self.finish();
        match reader {
            Reading::Locking(txn) => Ok(Some(Pending { commit: alone(txn).commit_async()?, env })),
            Reading::Snapshot(_) => Ok(None),
        }
    }

    fn abort(self) -> Outcome<()> {
        let (_env, reader) = self.finish();
        match reader {
            Reading::Locking(txn) => Ok(alone(txn).abort()?),
            Reading::Snapshot(_) => Ok(()),
        }
    }
}

fn alone(txn: Rc<Txn<'static>>) -> Txn<'static> {
    Rc::into_inner(txn).expect("what borrows from a transaction does so by reference")
}

fn durability(code: c_int) -> Outcome<Option<Durability>> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(Durability::Sync)),
        2 => Ok(Some(Durability::Relaxed)),
        3 => Ok(Some(Durability::Rio)),
        other => Err(Trouble::misuse(format!("{other} is no durability: TP_DEFAULT, TP_SYNC, TP_RELAXED or TP_RIO"))),
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_begin(env: Handle<Environment>, how: c_int, txn: Out<Handle<Transaction>>) -> c_int {
    door("tp_begin", || {
        let place = txn.needed("the transaction", Handle::NULL)?;
        let begun = Transaction::begin(environment(env)?, durability(how)?)?;
        place.set(TRANSACTIONS.insert(begun)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_snapshot(env: Handle<Environment>, snapshot: Out<Handle<Transaction>>) -> c_int {
    door("tp_snapshot", || {
        let place = snapshot.needed("the snapshot", Handle::NULL)?;
        place.set(TRANSACTIONS.insert(Transaction::snapshot(environment(env)?)?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_snapshot_durable(snapshot: Handle<Transaction>) -> c_int {
    door("tp_snapshot_durable", || match &transaction(snapshot)?.reader {
        Reading::Snapshot(snapshot) => Ok(snapshot.durable()?),
        Reading::Locking(_) => Err(Trouble::misuse("a transaction was given that is no snapshot")),
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_commit(txn: Handle<Transaction>) -> c_int {
    door("tp_commit", || transaction(txn)?.remove().commit())
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_abort(txn: Handle<Transaction>) -> c_int {
    door("tp_abort", || match txn.is_null() {
        true => Ok(()),
        false => transaction(txn)?.remove().abort(),
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_txn_id(txn: Handle<Transaction>, id: Out<u64>) -> c_int {
    door("tp_txn_id", || {
        let place = id.needed("the number", 0)?;
        place.set(transaction(txn)?.writer()?.id());
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint(txn: Handle<Transaction>, savepoint: Out<u64>) -> c_int {
    door("tp_savepoint", || {
        let place = savepoint.needed("the savepoint", 0)?;
        place.set(transaction(txn)?.savepoint()?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint_keep(txn: Handle<Transaction>, savepoint: u64) -> c_int {
    door("tp_savepoint_keep", || {
        transaction(txn)?.take_savepoint(savepoint)?.keep();
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint_roll_back(txn: Handle<Transaction>, savepoint: u64) -> c_int {
    door("tp_savepoint_roll_back", || Ok(transaction(txn)?.take_savepoint(savepoint)?.roll_back()?))
}

/// What C calls `tp_pending`: a commit that is made, and not yet known to be on disk.
pub struct Pending {
    commit: CommitLsn,
    env: Pinned<Environment>,
}

impl Kind for Pending {
    const CODE: usize = 6;
    fn table() -> &'static Table<Pending> {
        &COMMITS
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_commit_async(txn: Handle<Transaction>, pending: Out<Handle<Pending>>) -> c_int {
    door("tp_commit_async", || {
        let place = pending.needed("the commit", Handle::NULL)?;
        if let Some(made) = transaction(txn)?.remove().commit_async()? {
            place.set(COMMITS.insert(made)?);
        }
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_wait_durable(pending: Handle<Pending>) -> c_int {
    door("tp_wait_durable", || {
        if pending.is_null() {
            return Ok(());
        }
        let Pending { commit, env } = COMMITS.hold(pending)?.remove();
        Ok(env.env.wait_durable(commit)?)
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_pending_free(pending: Handle<Pending>) -> c_int {
    door("tp_pending_free", || {
        if !pending.is_null() {
            COMMITS.hold(pending)?.remove();
        }
        Ok(())
    })
}

/// `tp_work`.
pub type Work = extern "C" fn(txn: Handle<Transaction>, argument: *mut c_void) -> c_int;

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_run(env: Handle<Environment>, how: c_int, work: Option<Work>, argument: *mut c_void) -> c_int {
    door("tp_run", || {
        let work = work.ok_or_else(|| Trouble::misuse("NULL was given for the function"))?;
        let how = durability(how)?;
        let mut tries = 0;
        loop {
            match run_once(env, how, work, argument) {
                Err(trouble) if is_retryable(trouble.code()) && tries < TRIES => {
                    tries += 1;
                    // As the library's own `run` does: give whoever we collided with a chance, longer with each try.
                    std::thread::sleep(Duration::from_micros(u64::from(tries.min(64)) * 10));
                }
                done => return done,
            }
        }
    })
}

fn run_once(env: Handle<Environment>, how: Option<Durability>, work: Work, argument: *mut c_void) -> Outcome<()> {
    let txn = TRANSACTIONS.insert(Transaction::begin(environment(env)?, how)?)?;
    let code = work(txn, argument);
    if !goes_on(txn) {
        return Err(Trouble::misuse("the function has ended the transaction, which is for this call to do"));
    }
    let done = transaction(txn)?.remove();
    if code == TP_OK {
        return done.commit();
    }
    let told = Trouble::of_the_program(code);
    match done.abort() {
        // What it can be run again for does not help where it could not be aborted.
        Err(trouble) if is_retryable(code) => Err(trouble),
        _ => Err(told),
    }
}

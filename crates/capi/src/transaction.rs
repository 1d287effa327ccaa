//! `tp_txn`: a transaction or a snapshot, with the savepoints and cursors that C has in it.
//!
//! In Rust these borrow from each other, and the compiler checks the order in which they are dropped. Here one value
//! owns them all and drops them in that order. One thread at a time holds its slot.
//!
//! Invariants
//! 1. Values that borrow from the transaction (`places`, `savepoints`) are dropped before it, and it before the pin of
//!    its environment.
//! 2. No value that borrows leaves this one.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use libtp::{CommitLsn, Detached, Durability, PageCopy, Savepoint, Snapshot, Txn};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::Out;
use crate::environment::{environment, Environment};
use crate::handles::{Handle, Held, Kind, Pinned, Table};
use crate::places::Place;
use crate::primitives::Pages;
use crate::segment::MemorySegment;

static TRANSACTIONS: Table<Transaction> = Table::new();

/// The type that C calls `tp_txn`.
pub struct Transaction {
    /// By number. Numbers are not used again.
    places: BTreeMap<u64, Place>,
    /// Oldest first.
    savepoints: Vec<(u64, Savepoint<'static, 'static>)>,
    made: u64,
    /// Copies of pages, by file handle and page number. C works on them until it gives them back.
    copies: BTreeMap<(u64, u32), Copied>,
    /// The durability that C has asked for since the begin.
    durability: Option<Durability>,
    reader: Reading,
    /// Segments that the transaction has joined. C stores to their memory.
    segments: Vec<Pinned<MemorySegment>>,
    env: Pinned<Environment>,
}

/// A copy of a page that C works on, and the bytes before C's changes.
pub(crate) struct Copied {
    pub(crate) copy: PageCopy,
    before: Vec<u8>,
}

impl Copied {
    /// Returns whether C has changed the copy.
    pub(crate) fn is_changed(&self) -> bool {
        self.copy.bytes != self.before
    }
}

/// The parts of a transaction that its end needs, in the order in which they are dropped.
struct Ending {
    reader: Reading,
    _segments: Vec<Pinned<MemorySegment>>,
    env: Pinned<Environment>,
}

enum Reading {
    Locking(Rc<Txn<'static>>),
    Snapshot(Rc<Snapshot<'static>>),
}

/// The source of reads: a transaction or a snapshot.
#[derive(Clone, Copy)]
pub(crate) enum ReaderRef<'a> {
    Txn(&'a Txn<'static>),
    Snapshot(&'a Snapshot<'static>),
}

/// Does the same work with a transaction or with a snapshot.
macro_rules! with_reader {
    ($reader:expr, $name:ident => $work:expr) => {
        match $reader {
            $crate::transaction::ReaderRef::Txn($name) => $work,
            $crate::transaction::ReaderRef::Snapshot($name) => $work,
        }
    };
}
pub(crate) use with_reader;

impl<'a> ReaderRef<'a> {
    /// Returns the transaction, for a change. Refuses a snapshot.
    pub(crate) fn writer(self) -> Outcome<&'a Txn<'static>> {
        match self {
            ReaderRef::Txn(txn) => Ok(txn),
            ReaderRef::Snapshot(_) => Err(Trouble::misuse("a snapshot was given, in which nothing can be changed")),
        }
    }
}

/// A value opened in an environment, for transactions of the same environment handle.
pub(crate) trait Opened: Kind + Sync {
    fn environment(&self) -> &Pinned<Environment>;
}

/// Pins the opened value and holds the transaction. Refuses them if their environments differ.
pub(crate) fn both<D: Opened>(opened: Handle<D>, txn: Handle<Transaction>) -> Outcome<(Pinned<D>, Held<Transaction>)> {
    let (opened, txn) = (D::table().pin(opened)?, transaction(txn)?);
    match txn.env.is(opened.environment()) {
        true => Ok((opened, txn)),
        false => Err(Trouble::misuse("transaction and database belong to different handles of environments")),
    }
}

// A transaction with all its parts can move between threads.
const _: () = {
    const fn goes_to_other_threads<T: Send>() {}
    goes_to_other_threads::<Txn<'static>>();
    goes_to_other_threads::<Snapshot<'static>>();
};

// SAFETY: a transaction may move to another thread, and everything that borrows from it moves along: all of it is in
// this value, which one thread uses at a time. `Cursor` and `Savepoint` are not `Send` because alone they would leave
// the transaction behind.
unsafe impl Send for Transaction {}

impl Kind for Transaction {
    const CODE: usize = 1;
    fn table() -> &'static Table<Transaction> {
        &TRANSACTIONS
    }
}

/// Returns the transaction of a handle, for this call alone.
pub(crate) fn transaction(handle: Handle<Transaction>) -> Outcome<Held<Transaction>> {
    TRANSACTIONS.hold(handle)
}

/// Returns whether the transaction has not ended.
pub(crate) fn goes_on(handle: Handle<Transaction>) -> bool {
    TRANSACTIONS.has(handle)
}

impl Transaction {
    fn new(reader: Reading, env: Pinned<Environment>) -> Transaction {
        let (places, copies, savepoints, segments) = (BTreeMap::new(), BTreeMap::new(), Vec::new(), Vec::new());
        Transaction { places, savepoints, made: 0, copies, durability: None, reader, segments, env }
    }

    /// Begins a transaction by `begin` in the environment.
    fn begun(
        env: Pinned<Environment>,
        begin: impl FnOnce(&'static libtp::Env) -> libtp::Result<Txn<'static>>,
    ) -> Outcome<Transaction> {
        // SAFETY: all that borrows from the environment is dropped before the pin (invariant 1).
        let txn = begin(&unsafe { env.beyond() }.env)?;
        Ok(Transaction::new(Reading::Locking(Rc::new(txn)), env))
    }

    fn begin(env: Pinned<Environment>, durability: Option<Durability>) -> Outcome<Transaction> {
        Transaction::begun(env, |env| match durability {
            Some(durability) => env.begin_with(durability),
            None => env.begin(),
        })
    }

    fn attach(env: Pinned<Environment>, detached: &Detached) -> Outcome<Transaction> {
        Transaction::begun(env, |env| env.attach(detached))
    }

    fn snapshot(env: Pinned<Environment>) -> Outcome<Transaction> {
        // SAFETY: as in `begun`.
        let snapshot = unsafe { env.beyond() }.env.snapshot()?;
        Ok(Transaction::new(Reading::Snapshot(Rc::new(snapshot)), env))
    }

    /// Returns the source for reads.
    pub(crate) fn reader(&self) -> ReaderRef<'_> {
        match &self.reader {
            Reading::Locking(txn) => ReaderRef::Txn(txn),
            Reading::Snapshot(snapshot) => ReaderRef::Snapshot(snapshot),
        }
    }

    /// Returns the transaction, for a change. Refuses a snapshot.
    pub(crate) fn writer(&self) -> Outcome<&Txn<'static>> {
        self.reader().writer()
    }

    fn number(&mut self) -> u64 {
        self.made += 1;
        self.made
    }

    /// Makes a place from the database and the source of reads, stores it, and returns its number.
    pub(crate) fn add_place<D: Kind + Sync>(
        &mut self,
        on: Pinned<D>,
        make: impl FnOnce(&'static D, ReaderRef<'static>, Pinned<D>) -> Outcome<Place>,
    ) -> Outcome<u64> {
        // SAFETY: the place owns the pin, which is dropped after the cursor (`places`).
        let lasting = unsafe { on.beyond() };
        let reader = match &self.reader {
            // SAFETY: the place is dropped before the transaction, and the `Rc` keeps the transaction's address
            // (invariant 1).
            Reading::Locking(txn) => ReaderRef::Txn(unsafe { &*Rc::as_ptr(txn) }),
            // SAFETY: as above.
            Reading::Snapshot(snapshot) => ReaderRef::Snapshot(unsafe { &*Rc::as_ptr(snapshot) }),
        };
        let place = make(lasting, reader, on)?;
        let number = self.number();
        self.places.insert(number, place);
        Ok(number)
    }

    /// Returns a place and the source of its reads.
    pub(crate) fn place(&mut self, number: u64) -> Option<(&mut Place, ReaderRef<'_>)> {
        let reader = match &self.reader {
            Reading::Locking(txn) => ReaderRef::Txn(txn),
            Reading::Snapshot(snapshot) => ReaderRef::Snapshot(snapshot),
        };
        self.places.get_mut(&number).map(|place| (place, reader))
    }

    pub(crate) fn drop_place(&mut self, number: u64) {
        self.places.remove(&number);
    }

    /// Keeps a segment open until the transaction ends.
    pub(crate) fn keep_segment(&mut self, segment: Pinned<MemorySegment>) {
        if !self.segments.iter().any(|kept| kept.is(&segment)) {
            self.segments.push(segment);
        }
    }

    /// Returns whether the transaction has joined the segment.
    pub(crate) fn has_joined(&self, segment: &Pinned<MemorySegment>) -> bool {
        self.segments.iter().any(|kept| kept.is(segment))
    }

    /// Returns the copy that C has of a page, if it has one.
    pub(crate) fn copy(&mut self, file: Handle<Pages>, page: u32) -> Option<&mut PageCopy> {
        self.copies.get_mut(&(file.word(), page)).map(|copied| &mut copied.copy)
    }

    /// Stores a copy of a page for C.
    pub(crate) fn add_copy(&mut self, file: Handle<Pages>, page: u32, copy: PageCopy) {
        let before = copy.bytes.clone();
        self.copies.insert((file.word(), page), Copied { copy, before });
    }

    /// Removes the copy that C gives back.
    pub(crate) fn take_copy(&mut self, file: Handle<Pages>, page: u32) -> Option<Copied> {
        self.copies.remove(&(file.word(), page))
    }

    /// Refuses to commit or pass on a transaction with a changed copy of a page that C has not given back. That change
    /// would be lost without an error.
    pub(crate) fn refuse_unlogged(&self) -> Outcome<()> {
        match self.copies.iter().find(|(_, copied)| copied.is_changed()) {
            None => Ok(()),
            Some(((_, page), _)) => Err(Trouble::misuse(format!(
                "page {page} was changed and not unpinned: its change would be lost, so nothing was done, and the transaction goes on. Unpin the page (buf_unpin), or abort the transaction"
            ))),
        }
    }

    fn savepoint(&mut self) -> Outcome<u64> {
        self.writer()?;
        let number = self.number();
        if let Reading::Locking(txn) = &self.reader {
            // SAFETY: the savepoint is dropped before the transaction (invariant 1).
            let lasting = unsafe { &*Rc::as_ptr(txn) };
            self.savepoints.push((number, lasting.savepoint()));
        }
        Ok(number)
    }

    /// Removes a savepoint and keeps the changes of all later ones, which end with it.
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

    /// Drops the places, keeps the savepoints, and returns the parts that the end needs.
    fn finish(mut self) -> Ending {
        self.places.clear();
        while let Some((_, savepoint)) = self.savepoints.pop() {
            savepoint.keep();
        }
        Ending { reader: self.reader, _segments: self.segments, env: self.env }
    }

    /// Does the same as `finish` and sets the durability that C asked for.
    fn finish_durable(self) -> Ending {
        let durability = self.durability;
        let mut ending = self.finish();
        if let (Reading::Locking(txn), Some(durability)) = (&mut ending.reader, durability) {
            Rc::get_mut(txn).expect("what borrowed from it has gone").set_durability(durability);
        }
        ending
    }

    pub(crate) fn commit(self) -> Outcome<()> {
        let ending = self.finish_durable();
        match ending.reader {
            Reading::Locking(txn) => Ok(alone(txn).commit()?),
            Reading::Snapshot(_) => Ok(()),
        }
    }

    /// Commits without waiting for durability. Returns `None` for a snapshot.
    pub(crate) fn commit_async(self) -> Outcome<Option<(CommitLsn, Pinned<Environment>)>> {
        let ending = self.finish_durable();
        match ending.reader {
            Reading::Locking(txn) => Ok(Some((alone(txn).commit_async()?, ending.env))),
            Reading::Snapshot(_) => Ok(None),
        }
    }

    pub(crate) fn detach(self) -> Outcome<Detached> {
        let ending = self.finish();
        match ending.reader {
            Reading::Locking(txn) => Ok(alone(txn).detach()?),
            Reading::Snapshot(_) => Err(Trouble::misuse("a snapshot was given, which is not passed on: take another")),
        }
    }

    pub(crate) fn abort(self) -> Outcome<()> {
        let ending = self.finish();
        match ending.reader {
            Reading::Locking(txn) => Ok(alone(txn).abort()?),
            Reading::Snapshot(_) => Ok(()),
        }
    }
}

fn alone(txn: Rc<Txn<'static>>) -> Txn<'static> {
    Rc::into_inner(txn).expect("what borrows from a transaction does so by reference")
}

pub(crate) fn durability(code: c_int) -> Outcome<Option<Durability>> {
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
    c_call("tp_begin", || {
        let place = txn.needed("the transaction", Handle::NULL)?;
        place.set(begin(env, durability(how)?)?);
        Ok(())
    })
}

/// Begins a transaction for the library itself; C has no handle of it yet.
pub(crate) fn begin(env: Handle<Environment>, how: Option<Durability>) -> Outcome<Handle<Transaction>> {
    TRANSACTIONS.insert(Transaction::begin(environment(env)?, how)?)
}

/// Continues a transaction that was passed on.
pub(crate) fn attach(env: Handle<Environment>, detached: &Detached) -> Outcome<Handle<Transaction>> {
    TRANSACTIONS.insert(Transaction::attach(environment(env)?, detached)?)
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_set_durability(txn: Handle<Transaction>, how: c_int) -> c_int {
    c_call("tp_set_durability", || {
        let (how, mut txn) = (durability(how)?, transaction(txn)?);
        txn.writer()?;
        txn.durability = how;
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_set_lock_timeout(txn: Handle<Transaction>, millis: i64) -> c_int {
    c_call("tp_set_lock_timeout", || {
        // A negative number means no timeout.
        let longest = u64::try_from(millis).ok().map(Duration::from_millis);
        transaction(txn)?.writer()?.set_lock_timeout(longest);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_snapshot(env: Handle<Environment>, snapshot: Out<Handle<Transaction>>) -> c_int {
    c_call("tp_snapshot", || {
        let place = snapshot.needed("the snapshot", Handle::NULL)?;
        place.set(TRANSACTIONS.insert(Transaction::snapshot(environment(env)?)?)?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_snapshot_durable(snapshot: Handle<Transaction>) -> c_int {
    c_call("tp_snapshot_durable", || match &transaction(snapshot)?.reader {
        Reading::Snapshot(snapshot) => Ok(snapshot.durable()?),
        Reading::Locking(_) => Err(Trouble::misuse("a transaction was given that is no snapshot")),
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_commit(txn: Handle<Transaction>) -> c_int {
    c_call("tp_commit", || {
        let held = transaction(txn)?;
        held.refuse_unlogged()?;
        held.remove().commit()
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_abort(txn: Handle<Transaction>) -> c_int {
    c_call("tp_abort", || match txn.is_null() {
        true => Ok(()),
        false => transaction(txn)?.remove().abort(),
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_txn_id(txn: Handle<Transaction>, id: Out<u64>) -> c_int {
    c_call("tp_txn_id", || {
        let place = id.needed("the number", 0)?;
        place.set(transaction(txn)?.writer()?.id());
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint(txn: Handle<Transaction>, savepoint: Out<u64>) -> c_int {
    c_call("tp_savepoint", || {
        let place = savepoint.needed("the savepoint", 0)?;
        place.set(transaction(txn)?.savepoint()?);
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint_keep(txn: Handle<Transaction>, savepoint: u64) -> c_int {
    c_call("tp_savepoint_keep", || {
        transaction(txn)?.take_savepoint(savepoint)?.keep();
        Ok(())
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint_roll_back(txn: Handle<Transaction>, savepoint: u64) -> c_int {
    c_call("tp_savepoint_roll_back", || Ok(transaction(txn)?.take_savepoint(savepoint)?.roll_back()?))
}

//! `tp_txn`: a transaction or a snapshot, with the savepoints and cursors that C has in it.
//!
//! In a Rust program these values borrow from each other, and the compiler checks the order in which they are dropped.
//! Here one value, the `Transaction`, owns all of them and drops them in the right order. Only one thread at a time can
//! hold the `Transaction`.
//!
//! Invariants
//! 1. Values that borrow from the transaction (`places`, `savepoints`) are dropped before it. The transaction is
//!    dropped before the pin of its environment.
//! 2. No value that borrows leaves the `Transaction`.
#![allow(unsafe_code)]

use std::any::Any;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Duration;

use libtp::{
    CommitLsn, Cursor, Detached, Durability, IndexCursor, ListCursor, MultiCursor, PageCopy, RecnoCursor, Savepoint,
    Snapshot, Txn,
};

use crate::answer::{c_call, Outcome, Trouble};
use crate::arguments::Out;
use crate::environment::{environment, Environment};
use crate::handles::{kind, Handle, Held, Kind, Pinned};

/// The type that C calls `tp_txn`.
pub struct Transaction {
    /// Cursors by number, each in a pair with the pin of its database. Numbers are never used again.
    places: BTreeMap<u64, Box<dyn Any>>,
    /// The savepoints, the oldest first.
    savepoints: Vec<(u64, Savepoint<'static, 'static>)>,
    made: u64,
    /// Copies of pages, by the word of the file's handle and the page number. C changes a copy until `buf_unpin`.
    copies: BTreeMap<(u64, u32), Copied>,
    /// The durability that C has set with `tp_set_durability`.
    durability: Option<Durability>,
    reader: Reading,
    /// Pins of the segments that the transaction has joined, by the words of their handles. The pins keep the segments'
    /// memory mapped while C stores to it.
    kept: BTreeMap<u64, Box<dyn Any + Send>>,
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
    _kept: BTreeMap<u64, Box<dyn Any + Send>>,
    env: Pinned<Environment>,
}

/// A value that has one type in a transaction and another in a snapshot.
#[derive(Clone, Copy)]
pub(crate) enum Either<T, S> {
    Txn(T),
    Snapshot(S),
}

type Reading = Either<Rc<Txn<'static>>, Rc<Snapshot<'static>>>;

/// A reference to the source of reads: a transaction or a snapshot.
pub(crate) type ReaderRef<'a> = Either<&'a Txn<'static>, &'a Snapshot<'static>>;

/// Does the same work with either value.
macro_rules! with_reader {
    ($reader:expr, $name:ident => $work:expr) => {
        match $reader {
            $crate::transaction::Either::Txn($name) => $work,
            $crate::transaction::Either::Snapshot($name) => $work,
        }
    };
}
pub(crate) use with_reader;

/// A cursor that borrows from its transaction, and that is stored in the transaction's value.
pub(crate) trait Borrowing: 'static {}

impl Borrowing for Cursor<'static> {}
impl Borrowing for RecnoCursor<'static> {}
impl Borrowing for MultiCursor<'static> {}
impl Borrowing for Either<ListCursor<'static, Txn<'static>>, ListCursor<'static, Snapshot<'static>>> {}
impl Borrowing for Either<IndexCursor<'static, Txn<'static>>, IndexCursor<'static, Snapshot<'static>>> {}

pub(crate) fn in_snapshot() -> Trouble {
    Trouble::misuse("a snapshot was given, in which nothing can be changed: give a transaction")
}

impl<'a> ReaderRef<'a> {
    /// Returns the transaction, for a change. Refuses a snapshot.
    pub(crate) fn writer(self) -> Outcome<&'a Txn<'static>> {
        match self {
            Either::Txn(txn) => Ok(txn),
            Either::Snapshot(_) => Err(in_snapshot()),
        }
    }
}

/// A value that was opened in an environment. Only transactions of the same environment handle can use it.
pub(crate) trait Opened: Kind + Sync {
    fn environment(&self) -> &Pinned<Environment>;
}

/// Defines the type of a value opened in an environment, with its table and the pin of its environment.
macro_rules! opened {
    ($(#[$doc:meta])* $name:ident { $field:ident: $type:ty } = $code:literal) => {
        $(#[$doc])*
        pub struct $name {
            pub(crate) $field: $type,
            pub(crate) env: $crate::handles::Pinned<$crate::environment::Environment>,
        }

        $crate::handles::kind!($name = $code);

        impl $crate::transaction::Opened for $name {
            fn environment(&self) -> &$crate::handles::Pinned<$crate::environment::Environment> {
                &self.env
            }
        }
    };
}
pub(crate) use opened;

/// Pins the opened value and holds the transaction. Refuses the pair if their environments differ.
pub(crate) fn both<D: Opened>(opened: Handle<D>, txn: Handle<Transaction>) -> Outcome<(Pinned<D>, Held<Transaction>)> {
    let (opened, txn) = (opened.pin()?, transaction(txn)?);
    match txn.env.is(opened.environment()) {
        true => Ok((opened, txn)),
        false => Err(Trouble::misuse("the transaction and the database belong to different environment handles: open the database with the transaction's handle")),
    }
}

// A transaction with all its parts can move between threads.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Txn<'static>>();
    is_send::<Snapshot<'static>>();
};

// SAFETY: a transaction may move to another thread. Every value that borrows from the transaction moves with it,
// because all of them are in this value, which one thread uses at a time. The only reason why cursors and `Savepoint`
// are not `Send` is that they could move to another thread without their transaction; here they cannot. A place has
// only a cursor, whose type implements `Borrowing`, and a pin, which is `Send`.
unsafe impl Send for Transaction {}

kind!(Transaction = 1);

/// Holds the transaction of a handle, so that no other call can use it.
pub(crate) fn transaction(handle: Handle<Transaction>) -> Outcome<Held<Transaction>> {
    handle.hold()
}

/// Returns whether the transaction is still running.
pub(crate) fn goes_on(handle: Handle<Transaction>) -> bool {
    Transaction::table().has(handle)
}

impl Transaction {
    fn new(reader: Reading, env: Pinned<Environment>) -> Transaction {
        let (places, copies, kept) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Transaction { places, savepoints: Vec::new(), made: 0, copies, durability: None, reader, kept, env }
    }

    /// Returns the transaction that `begin` begins or attaches in the environment.
    fn begun(
        env: Pinned<Environment>,
        begin: impl FnOnce(&'static libtp::Env) -> libtp::Result<Txn<'static>>,
    ) -> Outcome<Transaction> {
        // SAFETY: everything that borrows from the environment is dropped before the pin (invariant 1).
        let txn = begin(&unsafe { env.beyond() }.env)?;
        Ok(Transaction::new(Either::Txn(Rc::new(txn)), env))
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
        Ok(Transaction::new(Either::Snapshot(Rc::new(snapshot)), env))
    }

    /// Returns the source of reads.
    pub(crate) fn reader(&self) -> ReaderRef<'_> {
        match &self.reader {
            Either::Txn(txn) => Either::Txn(&**txn),
            Either::Snapshot(snapshot) => Either::Snapshot(&**snapshot),
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

    /// Makes a cursor from the database and the source of reads. Stores it with the pin of the database, and returns
    /// its number.
    pub(crate) fn add_place<C: Borrowing, D: Kind + Sync>(
        &mut self,
        on: Pinned<D>,
        make: impl FnOnce(&'static D, ReaderRef<'static>) -> Outcome<C>,
    ) -> Outcome<u64> {
        // SAFETY: the place stores the cursor before the pin, so the pin is dropped after the cursor.
        let lasting = unsafe { on.beyond() };
        let reader = match &self.reader {
            // SAFETY: the place is dropped before the transaction (invariant 1), and the `Rc` keeps the transaction at
            // its address.
            Either::Txn(txn) => Either::Txn(unsafe { &*Rc::as_ptr(txn) }),
            // SAFETY: as above.
            Either::Snapshot(snapshot) => Either::Snapshot(unsafe { &*Rc::as_ptr(snapshot) }),
        };
        let cursor = make(lasting, reader)?;
        let number = self.number();
        self.places.insert(number, Box::new((cursor, on)));
        Ok(number)
    }

    /// Returns a cursor with its database, and the source of its reads.
    pub(crate) fn place<C: Borrowing, D: Kind + Sync>(
        &mut self,
        number: u64,
    ) -> Option<(&mut (C, Pinned<D>), ReaderRef<'_>)> {
        let reader = match &self.reader {
            Either::Txn(txn) => Either::Txn(&**txn),
            Either::Snapshot(snapshot) => Either::Snapshot(&**snapshot),
        };
        Some((self.places.get_mut(&number)?.downcast_mut()?, reader))
    }

    pub(crate) fn drop_place(&mut self, number: u64) {
        self.places.remove(&number);
    }

    /// Keeps a value open until the transaction ends.
    pub(crate) fn keep<D: Kind + Sync>(&mut self, word: u64, pin: Pinned<D>) {
        self.kept.entry(word).or_insert_with(|| Box::new(pin));
    }

    /// Returns whether the transaction keeps the value of the handle with this word open.
    pub(crate) fn keeps(&self, word: u64) -> bool {
        self.kept.contains_key(&word)
    }

    /// Returns the copy of a page that C has, or `None` if C has no copy.
    pub(crate) fn copy(&mut self, file: u64, page: u32) -> Option<&mut PageCopy> {
        self.copies.get_mut(&(file, page)).map(|copied| &mut copied.copy)
    }

    /// Stores a copy of a page for C.
    pub(crate) fn add_copy(&mut self, file: u64, page: u32, copy: PageCopy) {
        let before = copy.bytes.clone();
        self.copies.insert((file, page), Copied { copy, before });
    }

    /// Removes and returns the copy of a page that C unpins.
    pub(crate) fn take_copy(&mut self, file: u64, page: u32) -> Option<Copied> {
        self.copies.remove(&(file, page))
    }

    /// Refuses to commit or pass on a transaction while C has a changed copy of a page that it has not unpinned: the
    /// change would be lost without an error.
    pub(crate) fn refuse_unlogged(&self) -> Outcome<()> {
        match self.copies.iter().find(|(_, copied)| copied.is_changed()) {
            None => Ok(()),
            Some(((_, page), _)) => Err(Trouble::misuse(format!(
                "page {page} was changed and not unpinned: its change would be lost, so nothing was done, and the transaction is still running. Unpin the page (buf_unpin), or abort the transaction"
            ))),
        }
    }

    fn savepoint(&mut self) -> Outcome<u64> {
        self.writer()?;
        let number = self.number();
        if let Either::Txn(txn) = &self.reader {
            // SAFETY: the savepoint is dropped before the transaction (invariant 1).
            let lasting = unsafe { &*Rc::as_ptr(txn) };
            self.savepoints.push((number, lasting.savepoint()));
        }
        Ok(number)
    }

    /// Removes a savepoint. All later savepoints end with it, and their changes are kept.
    fn take_savepoint(&mut self, number: u64) -> Outcome<Savepoint<'static, 'static>> {
        let Some(place) = self.savepoints.iter().rposition(|(other, _)| *other == number) else {
            let what = format!(
                "the transaction has no savepoint {number}: that savepoint, or an earlier one, was kept or rolled back"
            );
            return Err(Trouble::misuse(what));
        };
        while self.savepoints.len() > place + 1 {
            self.savepoints.pop().expect("there are more").1.keep();
        }
        Ok(self.savepoints.pop().expect("a savepoint was found").1)
    }

    /// Drops the places, keeps the savepoints' changes, and returns the parts that the end needs.
    fn finish(mut self) -> Ending {
        self.places.clear();
        while let Some((_, savepoint)) = self.savepoints.pop() {
            savepoint.keep();
        }
        Ending { reader: self.reader, _kept: self.kept, env: self.env }
    }

    /// Like `finish`, and also gives the transaction the durability that C chose.
    fn finish_durable(self) -> Ending {
        let durability = self.durability;
        let mut ending = self.finish();
        if let (Either::Txn(txn), Some(durability)) = (&mut ending.reader, durability) {
            Rc::get_mut(txn).expect("every borrower of the transaction was dropped").set_durability(durability);
        }
        ending
    }

    pub(crate) fn commit(self) -> Outcome<()> {
        let ending = self.finish_durable();
        match ending.reader {
            Either::Txn(txn) => Ok(into_unshared(txn).commit()?),
            Either::Snapshot(_) => Ok(()),
        }
    }

    /// Commits, and does not wait for durability. Returns `None` for a snapshot.
    pub(crate) fn commit_async(self) -> Outcome<Option<(CommitLsn, Pinned<Environment>)>> {
        let ending = self.finish_durable();
        match ending.reader {
            Either::Txn(txn) => Ok(Some((into_unshared(txn).commit_async()?, ending.env))),
            Either::Snapshot(_) => Ok(None),
        }
    }

    pub(crate) fn detach(self) -> Outcome<Detached> {
        let ending = self.finish();
        match ending.reader {
            Either::Txn(txn) => Ok(into_unshared(txn).detach()?),
            Either::Snapshot(_) => Err(Trouble::misuse(
                "a snapshot was given, and only a transaction can be passed on: begin a new snapshot instead",
            )),
        }
    }

    pub(crate) fn abort(self) -> Outcome<()> {
        let ending = self.finish();
        match ending.reader {
            Either::Txn(txn) => Ok(into_unshared(txn).abort()?),
            Either::Snapshot(_) => Ok(()),
        }
    }
}

/// Returns the transaction, of which no other reference exists.
fn into_unshared(txn: Rc<Txn<'static>>) -> Txn<'static> {
    Rc::into_inner(txn).expect("borrowers hold plain references, so no second `Rc` exists")
}

pub(crate) fn durability(code: c_int) -> Outcome<Option<Durability>> {
    match code {
        0 => Ok(None),
        1 => Ok(Some(Durability::Sync)),
        2 => Ok(Some(Durability::Relaxed)),
        3 => Ok(Some(Durability::Rio)),
        other => {
            Err(Trouble::misuse(format!("{other} is not a durability: give TP_DEFAULT, TP_SYNC, TP_RELAXED or TP_RIO")))
        }
    }
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_begin(env: Handle<Environment>, how: c_int, txn: Out<Handle<Transaction>>) -> c_int {
    c_call("tp_begin", || txn.answer("the transaction", Handle::NULL, || begin(env, durability(how)?)))
}

/// Begins a transaction and returns its handle, which the caller may or may not pass to C.
pub(crate) fn begin(env: Handle<Environment>, how: Option<Durability>) -> Outcome<Handle<Transaction>> {
    Handle::of(Transaction::begin(environment(env)?, how)?)
}

/// Continues a transaction that another session has passed on.
pub(crate) fn attach(env: Handle<Environment>, detached: &Detached) -> Outcome<Handle<Transaction>> {
    Handle::of(Transaction::attach(environment(env)?, detached)?)
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
        snapshot.answer("the snapshot", Handle::NULL, || Handle::of(Transaction::snapshot(environment(env)?)?))
    })
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_snapshot_durable(snapshot: Handle<Transaction>) -> c_int {
    c_call("tp_snapshot_durable", || match &transaction(snapshot)?.reader {
        Either::Snapshot(snapshot) => Ok(snapshot.durable()?),
        Either::Txn(_) => Err(Trouble::misuse("a transaction was given, and the call needs a snapshot")),
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
    c_call("tp_txn_id", || id.answer("the number", 0, || Ok(transaction(txn)?.writer()?.id())))
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_savepoint(txn: Handle<Transaction>, savepoint: Out<u64>) -> c_int {
    c_call("tp_savepoint", || savepoint.answer("the savepoint", 0, || transaction(txn)?.savepoint()))
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

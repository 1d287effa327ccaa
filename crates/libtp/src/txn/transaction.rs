//! Transactions, as a program holds them.

use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use libtp_lock::OpenHere;
use libtp_record::KeyRange;
use libtp_txn::{State, TxnSession};

use crate::ground::settings::wait_of;
use crate::region::generation::{Generation, Seated};
use crate::region::inner::Inner;
use crate::region::open_database::OpenDatabase;
use crate::txn::decisions::DatabaseDecisions;
use crate::txn::emptied::Emptied;
use crate::txn::failure::LastFailure;
use crate::txn::parts::Parts;
use crate::txn::savepoints::Savepoints;
use crate::{Durability, Error, Result};

/// A running transaction. Dropping it without `commit` aborts it.
///
/// It may be moved to another thread; one thread at a time works in it.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let stock = env.btree("stock")?;
/// let txn = env.begin()?;
/// stock.put(&txn, b"apples", b"3")?;
/// txn.commit()?;
///
/// let txn = env.begin()?;
/// stock.put(&txn, b"apples", b"2")?;
/// txn.abort()?;
/// let txn = env.begin()?;
/// assert_eq!(stock.get(&txn, b"apples")?.as_deref(), Some(&b"3"[..]));
/// # txn.commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Several threads may use one transaction, with a mutex around it. They take turns, because each change builds on the
/// previous change.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
/// # let stock = env.btree("stock")?;
/// let txn = std::sync::Mutex::new(env.begin()?);
/// std::thread::scope(|scope| {
///     for name in ["pears", "plums"] {
///         let (txn, stock) = (&txn, &stock);
///         scope.spawn(move || stock.put(&txn.lock().unwrap(), name.as_bytes(), b"5").unwrap());
///     }
/// });
/// txn.into_inner().unwrap().commit()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a transaction that is dropped is aborted"]
pub struct Txn<'e> {
    pub(super) env: &'e Arc<Inner>,
    // Seat and extras are dropped by the transaction's own `drop`. A transaction that has ended has neither, and drops
    // nothing.
    pub(super) seat: ManuallyDrop<Option<Box<Seated>>>,
    pub(super) extras: ManuallyDrop<Extras>,
    pub(super) durability: Durability,
    /// The kind of the last failure of a call in this transaction.
    met: Cell<LastFailure>,
    _open: OpenHere,
    not_sync: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for Txn<'_> {
    /// Reads the number from the session: takes no lock and waits for nothing.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = self.seat.as_ref().map(|seat| seat.session.id().raw());
        f.debug_struct("Txn").field("id", &id).field("durability", &self.durability).finish()
    }
}

impl<'e> Txn<'e> {
    pub(crate) fn begin(env: &'e Arc<Inner>, durability: Durability) -> Result<Txn<'e>> {
        let open = OpenHere::new();
        loop {
            match Txn::begin_session(env, durability, &open) {
                Ok(seat) => return Ok(Txn::of(env, seat, durability, open)),
                Err(Error::Rebuilt | Error::Panicked { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a session and begins a transaction in it.
    #[inline(always)]
    fn begin_session(env: &Arc<Inner>, durability: Durability, open: &OpenHere) -> Result<Box<Seated>> {
        let seat = env.take_session()?;
        let begun = seat.generation.guarded_here(&seat.session, || {
            if durability == Durability::Rio {
                seat.generation.prepare_answer(&seat.session, Durability::Rio)?;
            }
            if open.is_only_one() {
                seat.session.wait_for_turn(&seat.generation.managers);
            }
            seat.session.begin(&seat.generation.managers);
            Ok(())
        });
        match begun {
            Ok(()) => Ok(seat),
            Err(error) => Err(refused(env, seat, error)),
        }
    }

    /// Wraps a transaction that already runs.
    #[inline]
    pub(crate) fn of(env: &'e Arc<Inner>, seat: Box<Seated>, durability: Durability, open: OpenHere) -> Txn<'e> {
        seat.session.open_here(&seat.generation.managers);
        let (seat, extras) = (ManuallyDrop::new(Some(seat)), ManuallyDrop::new(Extras::default()));
        Txn { env, seat, extras, durability, met: Cell::default(), _open: open, not_sync: PhantomData }
    }

    /// Returns the transaction's session without ending the transaction.
    pub(crate) fn part(mut self) -> Box<Seated> {
        self.seat.take().expect("a transaction holds its session until it ends")
    }

    /// Returns the transaction's number, unique in the environment.
    pub fn id(&self) -> u64 {
        self.session().id().raw()
    }

    /// Returns the log sequence number of the last record that the transaction logged, for
    /// [`Env::log_unroll`](crate::Env::log_unroll); zero if it logged no record.
    pub fn last_lsn(&self) -> u64 {
        self.session().last_lsn().raw()
    }

    /// Sets the durability of this transaction's commit. With [`Durability::Rio`], the commit fails where the memory
    /// does not outlive the system.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Sets the longest wait for each lock from now on, whatever the environment's settings: `None` waits without
    /// limit, zero does not wait. If a lock is not granted in time, the call returns [`Error::LockTimeout`]. The commit's
    /// wait for a stopped process that writes the log has the same limit ([`Durability::Sync`]), but at least a quarter
    /// of a second.
    pub fn set_lock_timeout(&self, longest: Option<Duration>) {
        self.session().set_wait(wait_of(longest));
    }

    /// Runs `calls` with another lock timeout, then restores the transaction's own lock timeout.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// use std::time::Duration;
    /// let env = libtp::Env::create(dir.path())?;
    /// let stock = env.btree("stock")?;
    /// let (one, two) = (env.begin()?, env.begin()?);
    /// stock.put(&one, b"apples", b"3")?;
    /// let refused = two.within(Some(Duration::ZERO), || stock.get(&two, b"apples"));
    /// assert!(matches!(refused, Err(libtp::Error::LockTimeout(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within<T>(&self, longest: Option<Duration>, calls: impl FnOnce() -> T) -> T {
        let before = self.session().wait();
        self.set_lock_timeout(longest);
        let done = calls();
        self.session().set_wait(before);
        done
    }

    /// Makes the transaction heed every call of [`crate::cancel_waits`] that was made after the first `cancels` calls.
    #[doc(hidden)]
    pub fn heed_cancels_since(&self, cancels: u32) {
        self.session().session().heed_cancels_since(cancels);
    }

    pub(crate) fn met(&self) -> LastFailure {
        self.met.get()
    }

    /// Aborts the transaction and undoes its changes: the paper's `txn_abort`.
    ///
    /// # Errors
    /// `Corrupt` or `Failed` when a page or the log cannot be read: the transaction keeps its locks until the
    /// environment is opened again.
    pub fn abort(mut self) -> Result<()> {
        self.abort_in_place()
    }

    fn abort_in_place(&mut self) -> Result<()> {
        if let Some(seat) = &*self.seat {
            seat.generation.check_process()?;
        }
        let Some(seat) = self.seat.take() else { return Ok(()) };
        let Seated { generation, session } = &*seat;
        let is_doubtful = session.session().is_dead() || generation.managers.region.is_broken();
        if let Some(extra) = self.extras.get_mut() {
            match session.state() {
                State::Running if !is_doubtful => extra.joined.abort(),
                _ => extra.joined.leave_to_log(),
            }
        }
        if generation.managers.region.is_broken() {
            // The transaction ends with its region.
            return Ok(());
        }
        let aborted = generation.guarded_by(session, || Ok(session.abort(&generation.managers)?));
        self.env.give_session(seat);
        match aborted {
            // The transaction ended with its region or its session.
            Err(Error::Rebuilt | Error::Panicked { .. }) => Ok(()),
            Ok(()) => {
                // After the undo no row has the names of the transaction's files, so this call removes the files. In
                // the other cases a later sweep removes them.
                self.extras.get().inspect(|extra| extra.files.discard());
                Ok(())
            }
            aborted => aborted,
        }
    }

    #[inline]
    pub(crate) fn seated(&self) -> &Seated {
        self.seat.as_ref().expect("a transaction holds its session until it ends")
    }

    #[inline]
    pub(crate) fn session(&self) -> &TxnSession {
        &self.seated().session
    }

    /// Runs `work` as part of this transaction.
    #[inline]
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Seated { session, generation } = self.seated();
        session.note_use(&generation.managers);
        generation.guarded_by(session, work).map_err(|error| self.failed(error))
    }

    #[cold]
    #[inline(never)]
    fn failed(&self, error: Error) -> Error {
        self.met.set(LastFailure::of(&error));
        error.with_blockers(self.env, self.generation(), self.session())
    }

    #[inline]
    pub(crate) fn generation(&self) -> &Generation {
        &self.seated().generation
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.extras.make().joined
    }

    pub(crate) fn files(&self) -> &Files {
        &self.extras.make().files
    }

    pub(crate) fn decided(&self) -> &DatabaseDecisions {
        &self.extras.make().decided
    }

    pub(crate) fn savepoints(&self) -> &Savepoints {
        &self.extras.make().savepoints
    }

    /// Notes that all keys of a range of the database are about to be removed.
    pub(crate) fn note_emptied(&self, database: &Arc<OpenDatabase>, range: &KeyRange) {
        self.extras.make().emptied.note(database, range);
    }

    #[inline]
    pub(crate) fn environment(&self) -> &Arc<Inner> {
        self.env
    }

    #[cold]
    #[inline(never)]
    fn drop_parts(&mut self) {
        self.end_unfinished();
        drop((self.seat.take(), self.extras.0.take()));
    }

    /// Aborts a transaction that is dropped before it has ended.
    fn end_unfinished(&mut self) {
        let Some(seat) = &*self.seat else { return };
        let inherited = seat.generation.check_process().is_err();
        if inherited || seat.session.session().is_dead() || seat.session.state() == State::Idle {
            return;
        }
        if let Err(error) = self.abort_in_place() {
            tracing::error!(%error, "a dropped transaction could not be aborted; it is undone when the environment is opened again");
        }
    }
}

impl Drop for Txn<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.seat.is_some() || self.extras.get().is_some() {
            self.drop_parts();
        }
    }
}

/// Returns `error`, because a transaction could not begin. If the transaction's session can be used again, puts the
/// session back into the pool.
#[cold]
#[inline(never)]
fn refused(env: &Inner, seat: Box<Seated>, error: Error) -> Error {
    if !matches!(error, Error::Rebuilt | Error::Panicked { .. }) {
        env.give_session(seat);
    }
    error
}

/// The parts that few transactions have. They are made at the first use, so a plain transaction carries one empty
/// pointer.
#[derive(Default)]
pub(crate) struct Extras(OnceCell<Box<Extra>>);

#[derive(Default)]
pub(crate) struct Extra {
    pub(crate) joined: Parts,
    pub(crate) savepoints: Savepoints,
    pub(crate) emptied: Emptied,
    pub(crate) files: Files,
    pub(crate) decided: DatabaseDecisions,
}

impl Extras {
    /// Returns the extras; makes them first if the transaction has none.
    pub(crate) fn make(&self) -> &Extra {
        self.0.get_or_init(Box::default)
    }

    /// Returns the extras, if the transaction has any.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Extra> {
        self.0.get().map(Box::as_ref)
    }

    /// As [`Extras::get`], but the extras can be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Extra> {
        self.0.get_mut().map(Box::as_mut)
    }
}

/// The work of one transaction on plain files. The floor `files` implements it.
pub(crate) trait FileWork: Any + Send {
    /// Does the steps that may fail before the commit.
    ///
    /// # Errors
    /// The reason why the transaction cannot commit.
    fn prepare(&self, txn: &Txn<'_>) -> Result<Box<dyn PreparedFiles>>;

    /// Removes the transaction's files after an undo.
    fn discard(&self);

    /// Returns the work as `Any`, so that the caller can convert it back to its own type.
    fn as_any(&mut self) -> &mut dyn Any;
}

/// The files of a transaction that is about to commit.
pub(crate) trait PreparedFiles {
    /// Returns the durability to use: other programs must not see files before the disk has the commit.
    fn durability(&self, asked: Durability) -> Durability;

    /// Puts the files of the committed transaction in their places.
    ///
    /// # Errors
    /// `FilesWaiting`.
    fn finish(self: Box<Self>, env: &Arc<Inner>) -> Result<()>;
}

/// A transaction's work on plain files, if it has begun any.
#[derive(Default)]
pub(crate) struct Files(RefCell<Option<Box<dyn FileWork>>>);

impl Files {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_none()
    }

    /// Runs `work` with the transaction's work on files. If the transaction has not used a file yet, `begin` makes this
    /// value first.
    pub(crate) fn with<W: FileWork, T>(
        &self,
        begin: impl FnOnce() -> Result<W>,
        work: impl FnOnce(&mut W) -> Result<T>,
    ) -> Result<T> {
        let mut own = self.0.borrow_mut();
        let own = match &mut *own {
            Some(own) => own,
            empty => empty.insert(Box::new(begin()?)),
        };
        work(own.as_any().downcast_mut().expect("all work on plain files has one type"))
    }

    /// As [`FileWork::prepare`]; returns `None` for a transaction without files.
    pub(crate) fn prepare(&self, txn: &Txn<'_>) -> Result<Option<Box<dyn PreparedFiles>>> {
        self.0.borrow().as_ref().map(|work| work.prepare(txn)).transpose()
    }

    fn discard(&self) {
        if let Some(work) = self.0.take() {
            work.discard();
        }
    }
}

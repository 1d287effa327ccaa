//! Transactions, as a program holds them.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use libtp_lock::OpenHere;
use libtp_log::Lsn;
use libtp_record::KeyRange;
use libtp_txn::{Committed, State, TxnSession};
use rio::planted;

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
/// Several threads work in one transaction by turns: behind a mutex, since each change builds on the one before.
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
    env: &'e Arc<Inner>,
    seat: Option<Box<Seated>>,
    durability: Durability,
    joined: Parts,
    savepoints: Savepoints,
    emptied: Emptied,
    files: Files,
    decided: DatabaseDecisions,
    _open: OpenHere,
    /// The kind of its last failure.
    met: Cell<LastFailure>,
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
        let seat = loop {
            let begun = env.take_session().and_then(|seat| {
                let begun = seat.generation.guarded_by(&seat.session, || {
                    if durability == Durability::Rio {
                        seat.generation.begin_rio(&seat.session)?;
                    }
                    if open.is_only_one() {
                        seat.session.wait_for_turn(&seat.generation.managers);
                    }
                    seat.session.begin(&seat.generation.managers);
                    Ok(())
                });
                match begun {
                    Ok(()) => Ok(seat),
                    Err(ended @ (Error::Rebuilt | Error::Panicked { .. })) => Err(ended),
                    Err(refused) => {
                        env.give_session(seat);
                        Err(refused)
                    }
                }
            });
            match begun {
                Err(Error::Rebuilt | Error::Panicked { .. }) => {}
                begun => break begun?,
            }
        };
        Ok(Txn::of(env, seat, durability, open))
    }

    /// Wraps a transaction that already runs.
    pub(crate) fn of(env: &'e Arc<Inner>, seat: Box<Seated>, durability: Durability, open: OpenHere) -> Txn<'e> {
        let (joined, savepoints, emptied) = (Parts::default(), Savepoints::default(), Emptied::default());
        seat.session.open_here(&seat.generation.managers);
        seat.session.set_wait(env.wait);
        let (seat, files, decided, met) = (Some(seat), Files::default(), DatabaseDecisions::default(), Cell::default());
        Txn {
            env,
            seat,
            durability,
            joined,
            savepoints,
            emptied,
            files,
            decided,
            _open: open,
            met,
            not_sync: PhantomData,
        }
    }

    /// Takes its session out; the transaction is unusable afterwards.
    pub(crate) fn part(mut self) -> Box<Seated> {
        self.seat.take().expect("a transaction holds its session until it ends")
    }

    /// Returns the transaction's number, unique in the environment.
    pub fn id(&self) -> u64 {
        self.session().id().raw()
    }

    /// Returns the log sequence number of the last record that the transaction logged, for
    /// [`Env::log_unroll`](crate::Env::log_unroll); zero if it logged none.
    pub fn last_lsn(&self) -> u64 {
        self.session().last_lsn().raw()
    }

    /// Sets the durability of this transaction's commit. With [`Durability::Rio`], the commit fails where the memory
    /// does not outlive the system.
    pub fn set_durability(&mut self, durability: Durability) {
        self.durability = durability;
    }

    /// Sets the longest wait for each lock from now on, whatever the environment's settings: `None` waits without
    /// limit, zero does not wait. A lock that is not granted in time is [`Error::LockTimeout`].
    pub fn set_lock_timeout(&self, longest: Option<Duration>) {
        self.session().set_wait(wait_of(longest));
    }

    /// Runs `calls` with another lock timeout, then restores the transaction's own.
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

    /// Makes the transaction heed each call of [`crate::cancel_waits`] made since their number was `cancels`.
    #[doc(hidden)]
    pub fn heed_cancels_since(&self, cancels: u32) {
        self.session().session().heed_cancels_since(cancels);
    }

    pub(crate) fn met(&self) -> LastFailure {
        self.met.get()
    }

    /// Commits the transaction: the paper's `txn_commit`. Returns when the commit is as durable as the transaction
    /// asks; with plain files ([`Txn::create_file`]), when it is on disk and the files are in their places.
    ///
    /// # Errors
    /// `OutcomeUnknown` with its cause when the commit record was written but could not be made durable, for example
    /// because its way to the disk failed. `FilesWaiting`: the transaction is committed. After any other error the
    /// transaction was aborted.
    pub fn commit(mut self) -> Result<()> {
        let Some(group) = self.files.prepare(&self)? else { return self.commit_records() };
        let env = self.env;
        self.durability = group.durability(self.durability);
        self.commit_records()?;
        group.finish(env)
    }

    /// Commits the records, whatever becomes of plain files.
    pub(crate) fn commit_records(self) -> Result<()> {
        let (env, durability, emptied) = (self.env, self.durability, self.emptied.take(self.session()));
        let is_early = planted("libtp: a commit returns before its record is in memory");
        if is_early {
            let read = self.session().last_lsn();
            self.session().keep(&self.generation().managers, Committed { lsn: read });
        }
        let (seat, committed) = self.finish(durability)?;
        // With the planted bug, the record is in memory already.
        let waits_for = if is_early && durability == Durability::Rio { Durability::Relaxed } else { durability };
        let waited = answer(env, &seat, committed, waits_for);
        let generation = &seat.generation;
        let ended = generation.managers.region.is_broken().then(|| generation.number());
        env.give_session(seat);
        if ended.is_none() && waited.is_ok() {
            emptied.clear_away(env);
        }
        outcome(env, ended, committed, durability, waited)
    }

    /// Commits the transaction and does not wait for the disk, whatever its durability. Other transactions see its
    /// changes at once; [`crate::Env::wait_durable`] waits for the disk. With plain files this call waits too, because
    /// other programs see them.
    ///
    /// # Errors
    /// As [`Txn::commit`].
    pub fn commit_async(self) -> Result<CommitLsn> {
        let group = self.files.prepare(&self)?;
        let (env, emptied) = (self.env, self.emptied.take(self.session()));
        let durability = group.as_ref().map_or(Durability::Relaxed, |group| group.durability(Durability::Relaxed));
        let (seat, committed) = self.finish(durability)?;
        // Every transaction sees the commit from now on, and a snapshot taken after this answer must show it.
        let waited = answer(env, &seat, committed, durability);
        let (number, has_ended) = (seat.generation.number(), seat.generation.managers.region.is_broken());
        env.give_session(seat);
        if !has_ended && waited.is_ok() {
            emptied.clear_away(env);
        }
        outcome(env, has_ended.then_some(number), committed, durability, waited)?;
        group.map_or(Ok(()), |group| group.finish(env))?;
        Ok(CommitLsn { generation: number, committed })
    }

    fn finish(mut self, durability: Durability) -> Result<(Box<Seated>, Committed)> {
        // Dropping `self` aborts.
        self.savepoints.refuse_half_undone()?;
        let seat = self.seat.take().expect("a transaction holds its session until it ends");
        let Seated { generation, session } = &*seat;
        if let Err(forked) = generation.check_process() {
            self.seat = Some(seat);
            return Err(forked);
        }
        let (managers, joined, decided) = (&generation.managers, &mut self.joined, &self.decided);
        let ended = generation.guarded_by(session, || {
            if durability == Durability::Rio {
                // Rio may have been asked for after the transaction began.
                generation.begin_rio(session)?;
            }
            if durability == Durability::Relaxed {
                generation.begin_relaxed(session)?;
            }
            match decided.is_empty() {
                true => joined.commit(managers, session, durability),
                false => decided.commit(managers, session),
            }
        });
        // The transaction is committed if its commit record was written when the region broke or the session died.
        let decided = match &ended {
            Err(Error::Rebuilt) if planted("libtp: a commit record during a rebuild is ignored") => {
                session.commit_record()
            }
            Err(Error::Rebuilt) => session.commit_record_noted(),
            Err(Error::Panicked { .. }) if !planted("libtp: a commit that panics counts as aborted") => {
                match generation.guarded(|| Ok(session.commit_record_of_dead(managers)?)) {
                    // Reading the commit record failed, too. The next life knows whether the record exists.
                    Err(Error::Rebuilt | Error::Panicked { .. }) => {
                        managers.give_up("it cannot be read whether a transaction has committed");
                        session.commit_record_noted()
                    }
                    read => read.map_err(Error::behind_a_commit)?,
                }
            }
            _ => Lsn::NONE,
        };
        match ended {
            Ok(committed) => Ok((seat, committed)),
            Err(_) if decided != Lsn::NONE => Ok((seat, Committed { lsn: decided })),
            // The commit record is written but not known to be durable; the transaction can no longer be aborted.
            Err(error) if session.commit_record() != Lsn::NONE => {
                self.env.give_session(seat);
                match planted("libtp: a commit of unknown durability is reported as aborted") {
                    true => Err(error),
                    false => Err(error.behind_a_commit()),
                }
            }
            Err(error) => {
                self.seat = Some(seat);
                // Dropping `self` aborts.
                Err(error)
            }
        }
    }

    /// Aborts the transaction and undoes its changes: the paper's `txn_abort`.
    ///
    /// # Errors
    /// `Corrupt` or `Failed` when a page or the log cannot be read: the transaction keeps its locks until the
    /// environment is opened anew.
    pub fn abort(mut self) -> Result<()> {
        self.abort_in_place()
    }

    fn abort_in_place(&mut self) -> Result<()> {
        if let Some(seat) = &self.seat {
            seat.generation.check_process()?;
        }
        let Some(seat) = self.seat.take() else { return Ok(()) };
        let Seated { generation, session } = &*seat;
        let is_doubtful = session.session().is_dead() || generation.managers.region.is_broken();
        match session.state() {
            State::Running if !is_doubtful => self.joined.abort(),
            _ => self.joined.leave_to_judge(),
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
                // No row names the files any more. In the other cases they are left to be swept.
                self.files.discard();
                Ok(())
            }
            aborted => aborted,
        }
    }

    #[inline]
    fn seated(&self) -> &Seated {
        self.seat.as_ref().expect("a transaction holds its session until it ends")
    }

    #[inline]
    pub(crate) fn session(&self) -> &TxnSession {
        &self.seated().session
    }

    /// Runs `work` as part of this transaction.
    #[inline]
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.session().note_use(&self.generation().managers);
        match self.generation().guarded_by(self.session(), work) {
            Ok(done) => Ok(done),
            Err(error) => Err(self.failed(error)),
        }
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

    #[inline]
    pub(crate) fn parts(&self) -> &Parts {
        &self.joined
    }

    #[inline]
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    #[inline]
    pub(crate) fn decided(&self) -> &DatabaseDecisions {
        &self.decided
    }

    #[inline]
    pub(crate) fn savepoints(&self) -> &Savepoints {
        &self.savepoints
    }

    /// Notes that all keys of a range of the database are about to be removed.
    pub(crate) fn note_emptied(&self, database: &Arc<OpenDatabase>, range: &KeyRange) {
        self.emptied.note(database, range);
    }

    #[inline]
    pub(crate) fn environment(&self) -> &Arc<Inner> {
        self.env
    }
}

/// Makes a commit as durable as its answer says, and notes the answer.
fn answer(env: &Arc<Inner>, seat: &Seated, committed: Committed, durability: Durability) -> Result<()> {
    let Seated { generation, session } = seat;
    let waited = match durability {
        Durability::Relaxed => Ok(()),
        Durability::Sync | Durability::Rio => {
            let last = || Ok(session.make_durable(&generation.managers, committed, durability)?);
            match generation.guarded_by(session, last) {
                // The transaction is committed although its session died here. The disk makes durable what memory did not.
                Err(Error::Panicked { .. }) => env.wait_durable(generation, committed),
                waited => waited,
            }
        }
    };
    session.note_answer(&generation.managers, durability);
    waited
}

/// Returns the answer of a commit that has waited. If the life `ended` meanwhile, the next one knows the outcome.
fn outcome(
    env: &Arc<Inner>,
    ended: Option<u64>,
    committed: Committed,
    durability: Durability,
    waited: Result<()>,
) -> Result<()> {
    let waited = waited.map_err(Error::behind_a_commit);
    let Some(number) = ended else { return waited };
    match env.outcome_of(number, committed.lsn) {
        // A record on disk is kept, whether or not a next life begins.
        Err(Error::OutcomeUnknown { .. }) if durability == Durability::Sync && waited.is_ok() => Ok(()),
        outcome => outcome,
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            let inherited = seat.generation.check_process().is_err();
            if inherited || seat.session.session().is_dead() || seat.session.state() == State::Idle {
                return;
            }
            if let Err(error) = self.abort_in_place() {
                tracing::error!(%error, "a dropped transaction could not be aborted; it is undone when the environment is opened anew");
            }
        }
    }
}

/// The work of one transaction on plain files. The floor of plain files implements it.
pub(crate) trait FileWork: Any + Send {
    /// Does the steps that may fail before the commit.
    ///
    /// # Errors
    /// The reason why the transaction cannot commit.
    fn prepare(&self, txn: &Txn<'_>) -> Result<Box<dyn PreparedFiles>>;

    /// Removes the transaction's files after an undo.
    fn discard(&self);

    /// Returns the work as a value of any type, to get its own type back.
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

    /// Runs `work` with the transaction's work on files; `begin` makes that when there is none yet.
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

/// The place of a commit in the log, for [`crate::Env::wait_durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLsn {
    pub(crate) generation: u64,
    pub(crate) committed: Committed,
}

impl CommitLsn {
    /// Returns the log sequence number; zero if there was nothing to commit.
    pub fn lsn(self) -> u64 {
        self.committed.lsn.raw()
    }
}

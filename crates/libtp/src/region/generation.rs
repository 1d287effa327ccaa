//! One life of the shared memory, as a handle knows it, and the beginning of the next (PROTOCOLS D13).
//!
//! A region that cannot be repaired is declared broken. Each thread that waits in it unwinds with [`Broken`], which is
//! caught here, at the door; each later call finds the region broken here. The first caller builds a new region from
//! disk and log, as after a crash, once no living session writes to a file any more. The others attach to that region.
//! Transactions that had not committed end with [`Error::Rebuilt`] and are run again; handles stay valid.
//!
//! Invariants
//! 1. A transaction lives in the life in which it began.
//! 2. The handle holds the present life. A life that has ended is freed, with its mapping and its open files, when the
//!    last transaction that began in it ends: each session holds its life.
//! 3. An answered commit is in the log that the next life begins with: a commit is answered only if the region was not
//!    seen broken *after* the commit record was published, and the tail is read after a barrier that follows the
//!    declaration.
//!
//! A panic of the library kills one session (PROTOCOLS D10) and does not break the region; `panics.rs` treats repeated
//! panics.
//!
//! Departure from D13: the rebuild waits only until no session writes to a file, not until every session is outside a
//! call. No other access to the old region matters any more.

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use libtp_log::{LifeEnd, Lsn};
use libtp_process::{Broken, Call, ForkMark, LeaveTimedOut};
use libtp_txn::{Committed, Managers, TxnSession};
use rio::{failpoint, planted};

use crate::environment::Inner;
use crate::ground::mutex::lock;
use crate::open::attach;
use crate::open::judge::Judge;
use crate::open::opening::Attached;
use crate::region::background::Background;
use crate::region::panics::{self, PanicEffect, Panics};
use crate::{Error, Result};

/// A handle's attachment to one region.
pub(crate) struct Generation {
    /// The life's number, counted from zero.
    number: u64,
    pub(crate) managers: Arc<Managers>,
    background: Mutex<Option<Background>>,
    judge: Arc<Judge>,
    /// Tells this process from its forked child.
    mark: ForkMark,
    /// The environment's directory, for messages.
    path: PathBuf,
    /// Shared by all lives of the handle.
    panics: Arc<Panics>,
}

/// Why a new life did not begin, and when.
pub(crate) struct Refused {
    at: Instant,
    what: String,
}

/// A session, with the life to which it belongs.
pub(crate) struct Seated {
    // First, so that it is dropped first.
    pub(crate) session: TxnSession,
    pub(crate) generation: Arc<Generation>,
}

/// Idle sessions. Boxed: a session is half a kilobyte, and moves into every transaction and out again.
#[allow(clippy::vec_box)]
pub(crate) type Sessions = Vec<Box<Seated>>;

/// The life that a handle is in. On cache lines of its own: every transaction writes it.
#[repr(align(128))]
pub(crate) struct Present(Mutex<Now>);

struct Now {
    generation: Arc<Generation>,
    /// The life's idle sessions.
    idle: Sessions,
    /// Where the log of each life ended, as the next life knows; a record published later is in no log. The next life
    /// need not have been one of this handle.
    ends: Vec<Option<LifeEnd>>,
}

impl Present {
    /// Returns the first life of a handle.
    pub(crate) fn first(attached: Attached, path: &Path) -> Present {
        let generation = Generation::new(0, attached, path, Arc::default());
        Present(Mutex::new(Now { generation: Arc::new(generation), idle: Vec::new(), ends: Vec::new() }))
    }

    /// Forgets everything in the child of a fork: threads, sessions and seat are the parent's. There is nothing to
    /// stop, to wait for or to give back, and a thread of the parent may have held the lock.
    pub(crate) fn forget_inherited(&mut self) {
        let now = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(Arc::clone(&now.generation));
        now.idle.drain(..).for_each(std::mem::forget);
    }
}

impl Generation {
    fn new(number: u64, attached: Attached, path: &Path, panics: Arc<Panics>) -> Generation {
        Generation {
            number,
            panics,
            mark: attached.managers.processes.fork_mark(),
            path: path.to_path_buf(),
            managers: attached.managers,
            background: Mutex::new(None),
            judge: attached.judge,
        }
    }

    /// Refuses the child of a fork: everything here belongs to its parent, and a thread that the child lacks may hold a
    /// lock.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(forked(&self.path, self.managers.processes.pid()))
    }

    /// Returns the judge, which knows the attached processes.
    pub(crate) fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Returns the number of this life among those of its handle.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[cold]
    fn let_leave(&self, session: TxnSession) {
        if self.managers.region.is_broken() {
            // The session ends with its region.
            return;
        }
        // The next call reports a failure.
        let _ = self.guarded(|| {
            self.managers.leave(session);
            Ok(())
        });
    }

    /// Runs `work`, which uses no session of the caller's. Catches the unwinding from a broken region. Catches a panic
    /// of the library, too, which kills the session that `work` took; the caller can try again with another session.
    #[inline]
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_process()?;
        let call = Call::begin();
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(call);
        match done {
            Ok(done) => self.unless_given_up(done),
            Err(payload) => self.ended_by(payload),
        }
    }

    /// As [`Generation::guarded`], with the session of a transaction. A panic of the library kills that session, and further
    /// calls with it are refused.
    #[inline]
    pub(crate) fn guarded_by<T>(&self, txn: &TxnSession, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_process()?;
        if txn.session().is_dead() {
            return Err(self.refusal());
        }
        let call = Call::begin();
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(call);
        match done {
            Ok(done) => self.unless_given_up(done),
            Err(payload) => {
                if !panics::is_callers() {
                    txn.session().mark_dead();
                }
                self.ended_by(payload)
            }
        }
    }

    /// Turns `Full` and `Corrupt` in a given-up region into `Rebuilt`: such a region grows no more, and pages written
    /// by the next life look damaged from here. Nothing was changed.
    // Inlined: a call would copy the result.
    #[inline(always)]
    fn unless_given_up<T>(&self, done: Result<T>) -> Result<T> {
        match done {
            Err(Error::Full { .. } | Error::Corrupt(_)) if self.managers.region.is_broken() => Err(Error::Rebuilt),
            done => done,
        }
    }

    #[cold]
    fn refusal(&self) -> Error {
        match self.managers.region.is_broken() {
            true => Error::Rebuilt,
            false => Error::Panicked { what: "an earlier call of this transaction".into() },
        }
    }

    #[cold]
    #[inline(never)]
    fn ended_by<T>(&self, payload: Box<dyn Any + Send>) -> Result<T> {
        if panics::take_callers() {
            resume_unwind(payload);
        }
        match self.rung_of(&self.managers, payload.as_ref()) {
            PanicEffect::Session => {
                self.repair_dead();
                match self.managers.region.is_broken() {
                    true => Err(Error::Rebuilt),
                    false => Err(Error::Panicked { what: panics::text_of(payload.as_ref()) }),
                }
            }
            PanicEffect::Region => Err(Error::Rebuilt),
            PanicEffect::Caller => {
                self.repair_dead();
                resume_unwind(payload)
            }
        }
    }

    /// Returns the extent of a panic inside the library. Gives the region up if that is the extent.
    pub(crate) fn rung_of(&self, managers: &Managers, payload: &(dyn Any + Send)) -> PanicEffect {
        // Any panic in a broken region is one of its consequences.
        if payload.is::<Broken>() || managers.region.is_broken() {
            return PanicEffect::Region;
        }
        if managers.processes.only_looks() {
            // A read-only process may have read memory that was about to change.
            return PanicEffect::Session;
        }
        if payload.is::<LeaveTimedOut>() {
            // Not a panic: the process leaves, and another one delays it.
            return PanicEffect::Session;
        }
        let text = panics::text_of(payload);
        let rung = self.panics.note_panic(self.number, &text);
        tracing::error!(
            text,
            ?rung,
            "the library has panicked: this is a bug in it, or damaged memory; please report it"
        );
        if rung == PanicEffect::Region {
            managers.give_up(&text);
        }
        rung
    }

    /// Repairs what a panic of this thread left. Other processes would do so soon, but this one need not wait.
    fn repair_dead(&self) {
        let bury = || {
            if !self.managers.log.is_poisoned() {
                // Another process retries a repair that fails now.
                let _ = self.managers.reap();
            }
        };
        let buried = catch_unwind(AssertUnwindSafe(bury));
        if buried.is_err_and(|payload| !payload.is::<Broken>() && !payload.is::<LeaveTimedOut>()) {
            self.managers.give_up("the repair of a session that panicked has panicked");
        }
    }

    /// Starts the life's threads, if it shall have any. After an error some may run; the caller must stop or abandon
    /// them.
    pub(crate) fn start_background(&self, env: &Arc<Inner>) -> Result<()> {
        if env.settings.no_background {
            return Ok(());
        }
        let mut background = Background::new(env);
        let started = self.guarded(|| background.start(env, &self.managers));
        *lock(&self.background) = Some(background);
        started
    }

    /// Ends the life because its handle is dropped.
    fn end(&self, env: &Inner, sessions: Sessions) -> Result<()> {
        self.managers.processes.begin_to_leave();
        self.stop_background();
        let call = Call::begin();
        let left = catch_unwind(AssertUnwindSafe(|| {
            crate::region::leave::leave(&self.managers, &self.judge, &env.platform, sessions)
        }));
        drop(call);
        match left {
            Ok(left) => left,
            // A destructor must not unwind to the caller.
            Err(payload) => match self.rung_of(&self.managers, payload.as_ref()) {
                // The next user of the environment rebuilds its memory.
                PanicEffect::Region => Err(Error::Rebuilt),
                PanicEffect::Session | PanicEffect::Caller => {
                    self.repair_dead();
                    Err(Error::Panicked { what: panics::text_of(payload.as_ref()) })
                }
            },
        }
    }

    pub(crate) fn stop_background(&self) {
        if let Some(background) = lock(&self.background).take() {
            background.stop();
        }
    }

    /// As [`Generation::stop_background`], without waiting: the caller may be one of the threads, or keep one from ending.
    fn abandon_background(&self) {
        if let Some(background) = lock(&self.background).take() {
            background.abandon();
        }
    }
}

impl Inner {
    /// As [`Generation::check_process`]. Call it first: a thread that the child of a fork lacks may hold the lock of the
    /// present life.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(forked(&self.platform.path, self.pid))
    }

    /// Returns the present life, which may be broken. Not for the child of a fork.
    pub(crate) fn newest(&self) -> Arc<Generation> {
        Arc::clone(&lock(&self.present.0).generation)
    }

    /// Returns the present life, or the next one if the present life is broken.
    pub(crate) fn generation(self: &Arc<Inner>) -> Result<Arc<Generation>> {
        self.check_process()?;
        let generation = self.newest();
        if generation.managers.region.is_broken() {
            return self.next_generation();
        }
        Ok(generation)
    }

    /// Returns a session of the present life, from the pool or new.
    ///
    /// # Errors
    /// `Rebuilt`, `Panicked`: try again.
    #[inline]
    pub(crate) fn take_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        self.check_process()?;
        // The lock of the pool is released before the session joins, which may take long.
        let pooled = lock(&self.present.0).idle.pop();
        match pooled {
            Some(pooled) if !pooled.generation.managers.region.is_broken() => {
                pooled.session.session().heed_cancels();
                Ok(pooled)
            }
            _ => self.new_session(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        let generation = self.generation()?;
        let session = generation.guarded(|| Ok(generation.managers.join()?))?;
        Ok(Box::new(Seated { generation, session }))
    }

    /// Returns a session of the present life to the pool. Leaves a dead session to the repair.
    #[inline]
    pub(crate) fn give_session(&self, seat: Box<Seated>) {
        if seat.session.session().is_dead() || seat.session.state() != libtp_txn::State::Idle {
            return seat.let_leave();
        }
        if planted("libtp: sessions that were given back are not taken again") {
            return std::mem::forget(seat);
        }
        let mut present = lock(&self.present.0);
        if Arc::ptr_eq(&present.generation, &seat.generation) {
            present.idle.push(seat);
        }
    }

    /// Marks the idle sessions dead, as a kill leaves them: for simulation.
    pub(crate) fn die(&self) {
        lock(&self.present.0).idle.iter().for_each(|idle| idle.session.session().mark_dead());
    }

    /// Ends the environment because its last handle is dropped.
    pub(crate) fn end(&self) -> Result<()> {
        let (generation, idle) = {
            let mut present = lock(&self.present.0);
            (Arc::clone(&present.generation), std::mem::take(&mut present.idle))
        };
        self.passed_on.end();
        generation.end(self, idle)
    }

    /// Waits until a commit of the present life is on disk. Uses a session of its own, and another one if a panic kills
    /// it.
    ///
    /// # Errors
    /// `Rebuilt` if that life ends before.
    pub(crate) fn wait_durable(self: &Arc<Inner>, generation: &Generation, committed: Committed) -> Result<()> {
        loop {
            let waited = self.take_session().and_then(|seat| {
                if seat.generation.number != generation.number {
                    self.give_session(seat);
                    return Err(Error::Rebuilt);
                }
                let waited = generation
                    .guarded_by(&seat.session, || Ok(seat.session.wait_durable(&generation.managers, committed)?));
                self.give_session(seat);
                waited
            });
            if !matches!(waited, Err(Error::Panicked { .. })) {
                return waited;
            }
        }
    }

    /// Begins a new life, unless another thread has.
    #[cold]
    #[inline(never)]
    fn next_generation(self: &Arc<Inner>) -> Result<Arc<Generation>> {
        let called = Instant::now();
        let mut one = lock(&self.renewing);
        let broken = self.newest();
        if !broken.managers.region.is_broken() {
            return Ok(broken);
        }
        if broken.managers.processes.only_looks() {
            return Err(libtp_process::Error::OnlyLooks.into());
        }
        // Otherwise each of several threads would wait for all before it, and then as long as they did.
        if let Some(refused) = one.as_ref().filter(|refused| refused.at >= called) {
            return Err(Error::Environment { environment: self.platform.path.clone(), what: refused.what.clone() });
        }
        // Where address space is limited, none would be left for the next region.
        broken.managers.region.give_up_growth();
        let generation = loop {
            let attached = attach::open_again(&self.platform, &self.settings, &broken.managers);
            if let Err(Error::Environment { what, .. }) = &attached {
                *one = Some(Refused { at: Instant::now(), what: what.clone() });
            }
            let attached = attached?;
            let generation =
                Generation::new(broken.number + 1, attached, &self.platform.path, Arc::clone(&broken.panics));
            match generation.start_background(self) {
                Ok(()) => break generation,
                Err(error) => {
                    generation.abandon_background();
                    // A broken life is followed by the next. A shortage, of memory for a thread for example, may be
                    // over when the threads of the broken life, or the next caller, try again.
                    if !matches!(error, Error::Rebuilt) {
                        return Err(error);
                    }
                }
            }
        };
        // Held until the life is the newest: a database opened meanwhile belongs to one of the two.
        let databases = self.databases();
        for open in databases.values() {
            if let Err(error) = crate::db::database::take_along(&generation, open) {
                generation.abandon_background();
                return Err(error);
            }
        }
        failpoint("rebuild: attached, old seat kept");
        // Not earlier: until the new region exists, no process may take this handle's sessions in the old one for dead.
        broken.judge.leave_seat();
        failpoint("rebuild: old seat given back");
        let generation = Arc::new(generation);
        let idle = {
            let mut present = lock(&self.present.0);
            present.ends.push(generation.managers.log.end_of_life(broken.managers.log.incarnation()));
            present.generation = Arc::clone(&generation);
            std::mem::take(&mut present.idle)
        };
        drop((databases, one));
        // Not earlier: until now these threads are the ones that try again.
        broken.abandon_background();
        // Sessions dropped in broken memory have nothing to report.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(idle)));
        // The same holds for transactions passed on there; they would keep the broken memory mapped.
        let _ = catch_unwind(AssertUnwindSafe(|| self.passed_on.sweep()));
        Ok(generation)
    }

    /// Returns `Ok` if the commit record at `lsn`, of a transaction of the ended life `number`, is kept. `Lsn::NONE` is
    /// always kept: such a transaction read nothing that was ever committed, and depends on no other.
    ///
    /// # Errors
    /// `Rebuilt` if it is not kept; `OutcomeUnknown` if that is unknown, also while there is no next life.
    pub(crate) fn outcome_of(self: &Arc<Inner>, number: u64, lsn: Lsn) -> Result<()> {
        if lsn == Lsn::NONE {
            return Ok(());
        }
        self.generation().map_err(Error::behind_a_commit)?;
        let end = usize::try_from(number).ok().and_then(|number| lock(&self.present.0).ends.get(number).copied()?);
        let outcome = match end {
            Some(LifeEnd::At(end)) if lsn < end => Ok(()),
            Some(LifeEnd::At(end) | LifeEnd::AtMost(end)) if lsn >= end => Err(Error::Rebuilt),
            _ => Err(Error::OutcomeUnknown {
                cause: "the shared memory was made anew from the log meanwhile, and again since".into(),
            }),
        };
        match outcome {
            Ok(()) if planted("libtp: a caught commit counts as lost") => Err(Error::Rebuilt),
            Err(_) if planted("libtp: a caught commit counts as kept") => Ok(()),
            outcome => outcome,
        }
    }

    /// Runs `work` with a session of the present life, and again after `Rebuilt` or `Panicked`.
    pub(crate) fn with_session<T>(
        self: &Arc<Inner>,
        mut work: impl FnMut(&Managers, &TxnSession) -> Result<T>,
    ) -> Result<T> {
        loop {
            let done = self.take_session().and_then(|seat| {
                let generation = Arc::clone(&seat.generation);
                let done = generation.guarded_by(&seat.session, || work(&generation.managers, &seat.session));
                let done = done.map_err(|error| error.with_blockers(self, &generation, &seat.session));
                self.give_session(seat);
                done
            });
            if !matches!(done, Err(Error::Rebuilt | Error::Panicked { .. })) {
                return done;
            }
        }
    }
}

#[cold]
fn forked(path: &Path, pid: u32) -> Error {
    if ForkMark::none_since_fork() {
        libtp_io::give_up_inherited();
    }
    Error::Forked { environment: path.to_path_buf(), pid }
}

impl Seated {
    /// Leaves its life, as far as the life allows.
    #[cold]
    fn let_leave(self: Box<Seated>) {
        let Seated { session, generation } = *self;
        generation.let_leave(session);
    }
}

#[cfg(test)]
mod tests;

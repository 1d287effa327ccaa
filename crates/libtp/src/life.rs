//! One life of the shared memory, as a handle knows it, and how the next begins (PROTOCOLS D13).
//!
//! When the region does not stand a repair, it is declared broken. Everyone who waits in it leaves it by unwinding with
//! [`Broken`], which stops here, at the door; everyone who calls next finds it broken here. Whoever comes first builds a new
//! region from disk and log, as after a crash, once no living session writes to a file any more. The others attach to
//! that. Transactions that had not committed end with [`Error::Rebuilt`], and are run again; handles stay as they are.
//!
//! Invariants
//! 1. A transaction lives in the life in which it began.
//! 2. The handle holds the present life. One that has ended goes, with its mapping and its open files, when the last
//!    transaction that began in it goes: each session holds the life it is of.
//! 3. A commit that was answered is in the log that the next life begins with: the answer is given only by who did not see
//!    the region broken *after* the commit record was published, and the tail is read after a barrier that comes after
//!    the declaration.
//!
//! A panic of the library is the death of one session (PROTOCOLS D10), and no reason to give the region up; what is done when
//! it comes again is in `panics.rs`.
//!
//! Departure from D13: it is not waited until every session is outside a call, only until none writes to a file, because
//! nothing else that they do to the old region matters any more.

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use libtp_log::{LifeEnd, Lsn};
use libtp_process::{Broken, Call, ForkMark, Late};
use libtp_txn::{Committed, Managers, TxnSession};
use rio::{failpoint, planted};

use crate::attach::{self, Attached};
use crate::background::Background;
use crate::environment::{lock, Inner};
use crate::judge::Judge;
use crate::panics::{self, Panics, Rung};
use crate::{Error, Result};

/// What a handle has of one region.
pub(crate) struct Life {
    /// Counted from zero.
    number: u64,
    pub(crate) managers: Arc<Managers>,
    background: Mutex<Option<Background>>,
    judge: Arc<Judge>,
    /// Tells us from a child that fork makes of us.
    mark: ForkMark,
    /// The environment's directory, for messages.
    path: PathBuf,
    /// Of all lives of the handle.
    panics: Arc<Panics>,
}

/// What kept a new life from beginning, and when.
pub(crate) struct Refused {
    at: Instant,
    what: String,
}

/// A session, and the life that it is of.
pub(crate) struct Seated {
    // First, so that it goes first.
    pub(crate) session: TxnSession,
    pub(crate) life: Arc<Life>,
}

/// Sessions that nobody uses. Boxed: a session is half a kilobyte, and moves into every transaction and out again.
#[allow(clippy::vec_box)]
pub(crate) type Sessions = Vec<Box<Seated>>;

/// The life that a handle is in. On cache lines of its own: every transaction writes it.
#[repr(align(128))]
pub(crate) struct Present(Mutex<Now>);

struct Now {
    life: Arc<Life>,
    /// Sessions of it that nobody uses.
    idle: Sessions,
    /// Where the log of each life ended, as the next one knows: what was published there later is in no log. The next to begin
    /// need not have been a life of this handle.
    ends: Vec<Option<LifeEnd>>,
}

impl Present {
    /// The first life of a handle.
    pub(crate) fn first(attached: Attached, path: &Path) -> Present {
        let life = Life::new(0, attached, path, Arc::default());
        Present(Mutex::new(Now { life: Arc::new(life), idle: Vec::new(), ends: Vec::new() }))
    }

    /// In the child of a fork: the threads are the parent's, and so are the sessions, and the seat. There is nothing here to
    /// stop, to wait for or to give back, and a thread of the parent may have held the lock.
    pub(crate) fn forget_inherited(&mut self) {
        let now = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(Arc::clone(&now.life));
        now.idle.drain(..).for_each(std::mem::forget);
    }
}

impl Life {
    fn new(number: u64, attached: Attached, path: &Path, panics: Arc<Panics>) -> Life {
        Life {
            number,
            panics,
            mark: attached.managers.processes.fork_mark(),
            path: path.to_path_buf(),
            managers: attached.managers,
            background: Mutex::new(None),
            judge: attached.judge,
        }
    }

    /// Refuses the child of a fork: everything here is its parent's, and a thread it does not have may hold a lock.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(forked(&self.path, self.managers.processes.pid()))
    }

    /// Who judges who is attached.
    pub(crate) fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Which life of its handle it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[cold]
    fn let_leave(&self, session: TxnSession) {
        if self.managers.region.is_broken() {
            // It goes with its region.
            return;
        }
        // What fails is the next call's to tell.
        let _ = self.guarded(|| {
            self.managers.leave(session);
            Ok(())
        });
    }

    /// Does something of this life with a session that it takes itself. What unwinds because the region is broken ends here, and
    /// so does a panic of the library: with a session that died, so that the same can be tried again with another.
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

    /// As [`Life::guarded`], with the session of a transaction, which dies of a panic of the library: whatever else is asked of it
    /// is refused.
    #[inline]
    pub(crate) fn guarded_by<T>(&self, who: &TxnSession, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_process()?;
        if who.session().is_dead() {
            return Err(self.refusal());
        }
        let call = Call::begin();
        let done = catch_unwind(AssertUnwindSafe(work));
        drop(call);
        match done {
            Ok(done) => self.unless_given_up(done),
            Err(payload) => {
                if !panics::is_callers() {
                    who.session().mark_dead();
                }
                self.ended_by(payload)
            }
        }
    }

    /// Memory that was given up has no room, and grows no more; and beside it the next life writes pages that its log knows nothing of,
    /// which look damaged from here. Nothing was changed, and the next life is another.
    // A call would copy the result.
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
            Rung::Session => {
                self.bury_the_dead();
                match self.managers.region.is_broken() {
                    true => Err(Error::Rebuilt),
                    false => Err(Error::Panicked { what: panics::text_of(payload.as_ref()) }),
                }
            }
            Rung::Region => Err(Error::Rebuilt),
            Rung::Caller => {
                self.bury_the_dead();
                resume_unwind(payload)
            }
        }
    }

    /// What a panic inside the library comes to; if it is the region's end, that is done.
    pub(crate) fn rung_of(&self, managers: &Managers, payload: &(dyn Any + Send)) -> Rung {
        // Any panic in a broken region is one of its consequences.
        if payload.is::<Broken>() || managers.region.is_broken() {
            return Rung::Region;
        }
        if managers.processes.only_looks() {
            // It may have looked at what was about to change.
            return Rung::Session;
        }
        if payload.is::<Late>() {
            // No panic: it leaves, and another keeps it from that.
            return Rung::Session;
        }
        let text = panics::text_of(payload);
        let rung = self.panics.climb(self.number, &text);
        tracing::error!(
            text,
            ?rung,
            "the library has panicked: this is a bug in it, or damaged memory; please report it"
        );
        if rung == Rung::Region {
            managers.give_up(&text);
        }
        rung
    }

    /// Repairs what a panic of this thread leaves. Others would, in a moment; but who goes on need not wait for it.
    fn bury_the_dead(&self) {
        let bury = || {
            if !self.managers.log.is_poisoned() {
                // What fails now is tried again by others.
                let _ = self.managers.reap();
            }
        };
        let buried = catch_unwind(AssertUnwindSafe(bury));
        if buried.is_err_and(|payload| !payload.is::<Broken>() && !payload.is::<Late>()) {
            self.managers.give_up("the repair of a session that panicked has panicked");
        }
    }

    /// Starts its threads, if it is to have any. After an error some may run: they are to be stopped, or abandoned.
    pub(crate) fn start_background(&self, env: &Arc<Inner>) -> Result<()> {
        if env.settings.no_background {
            return Ok(());
        }
        let mut background = Background::new(env);
        let started = self.guarded(|| background.start(env, &self.managers));
        *lock(&self.background) = Some(background);
        started
    }

    /// The handle goes.
    fn end(&self, env: &Inner, sessions: Sessions) -> Result<()> {
        self.managers.processes.begin_to_leave();
        self.stop_background();
        let call = Call::begin();
        let left = catch_unwind(AssertUnwindSafe(|| {
            crate::leave::leave(&self.managers, &self.judge, &env.platform, sessions)
        }));
        drop(call);
        match left {
            Ok(left) => left,
            // In a destructor nothing goes on to the caller.
            Err(payload) => match self.rung_of(&self.managers, payload.as_ref()) {
                // The next to use the environment makes its memory anew.
                Rung::Region => Err(Error::Rebuilt),
                Rung::Session | Rung::Caller => {
                    self.bury_the_dead();
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

    /// As [`Life::stop_background`], without waiting: by who may be one of the threads, or keep one from its end.
    fn abandon_background(&self) {
        if let Some(background) = lock(&self.background).take() {
            background.abandon();
        }
    }
}

impl Inner {
    /// As [`Life::check_process`]: first of all, because a thread that a child does not have may hold the lock of what is
    /// present.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(forked(&self.platform.path, self.pid))
    }

    /// The present life; it may have been found broken. Not for the child of a fork.
    pub(crate) fn newest(&self) -> Arc<Life> {
        Arc::clone(&lock(&self.present.0).life)
    }

    /// The present life. If that is broken, the next.
    pub(crate) fn life(self: &Arc<Inner>) -> Result<Arc<Life>> {
        self.check_process()?;
        let life = self.newest();
        if life.managers.region.is_broken() {
            return self.next_life();
        }
        Ok(life)
    }

    /// A session of the present life, from the pool or a new one.
    ///
    /// # Errors
    /// `Rebuilt`, `Panicked`: to be tried again.
    #[inline]
    pub(crate) fn take_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        self.check_process()?;
        // The pool is free again before anyone joins, which may take long.
        let pooled = lock(&self.present.0).idle.pop();
        match pooled {
            Some(pooled) if !pooled.life.managers.region.is_broken() => {
                pooled.session.session().heed_cancels();
                Ok(pooled)
            }
            _ => self.new_session(),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_session(self: &Arc<Inner>) -> Result<Box<Seated>> {
        let life = self.life()?;
        let session = life.guarded(|| Ok(life.managers.join()?))?;
        Ok(Box::new(Seated { life, session }))
    }

    /// Back into the pool, if it is of the present life; one that died stays with the repair.
    #[inline]
    pub(crate) fn give_session(&self, who: Box<Seated>) {
        if who.session.session().is_dead() || who.session.state() != libtp_txn::State::Idle {
            return who.let_leave();
        }
        if planted("libtp: sessions that were given back are not taken again") {
            return std::mem::forget(who);
        }
        let mut present = lock(&self.present.0);
        if Arc::ptr_eq(&present.life, &who.life) {
            present.idle.push(who);
        }
    }

    /// Marks the idle sessions dead, as a kill leaves them: for simulation.
    pub(crate) fn die(&self) {
        lock(&self.present.0).idle.iter().for_each(|idle| idle.session.session().mark_dead());
    }

    /// The handle goes.
    pub(crate) fn end(&self) -> Result<()> {
        let (life, idle) = {
            let mut present = lock(&self.present.0);
            (Arc::clone(&present.life), std::mem::take(&mut present.idle))
        };
        self.passed_on.end();
        life.end(self, idle)
    }

    /// Waits until a commit of the present life is on disk, with a session of its own; with another if that dies of a panic.
    ///
    /// # Errors
    /// `Rebuilt` if that life ends before.
    pub(crate) fn wait_durable(self: &Arc<Inner>, life: &Life, committed: Committed) -> Result<()> {
        loop {
            let waited = self.take_session().and_then(|who| {
                if who.life.number != life.number {
                    self.give_session(who);
                    return Err(Error::Rebuilt);
                }
                let waited =
                    life.guarded_by(&who.session, || Ok(who.session.wait_durable(&life.managers, committed)?));
                self.give_session(who);
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
    fn next_life(self: &Arc<Inner>) -> Result<Arc<Life>> {
        let called = Instant::now();
        let mut one = lock(&self.renewing);
        let broken = self.newest();
        if !broken.managers.region.is_broken() {
            return Ok(broken);
        }
        if broken.managers.processes.only_looks() {
            return Err(libtp_process::Error::OnlyLooks.into());
        }
        // Of several threads each would else wait for all before it, and then as long as they.
        if let Some(refused) = one.as_ref().filter(|refused| refused.at >= called) {
            return Err(Error::Environment { environment: self.platform.path.clone(), what: refused.what.clone() });
        }
        // Where that is limited, there would be none for the next.
        broken.managers.region.give_up_growth();
        let life = loop {
            let attached = attach::open_again(&self.platform, &self.settings, &broken.managers);
            if let Err(Error::Environment { what, .. }) = &attached {
                *one = Some(Refused { at: Instant::now(), what: what.clone() });
            }
            let attached = attached?;
            let life = Life::new(broken.number + 1, attached, &self.platform.path, Arc::clone(&broken.panics));
            match life.start_background(self) {
                Ok(()) => break life,
                Err(error) => {
                    life.abandon_background();
                    // A broken one is followed by the next. What is short now, memory for a thread say, may be there when the
                    // threads of the broken life, or the next to call, try again.
                    if !matches!(error, Error::Rebuilt) {
                        return Err(error);
                    }
                }
            }
        };
        // Held until the life is the newest: a database opened meanwhile belongs to one of the two.
        let databases = self.databases();
        for open in databases.values() {
            if let Err(error) = crate::database::take_along(&life, open) {
                life.abandon_background();
                return Err(error);
            }
        }
        failpoint("rebuild: attached, old seat kept");
        // Only now: until the region was made, nobody may take our sessions in the old one for dead.
        broken.judge.leave_seat();
        failpoint("rebuild: old seat given back");
        let life = Arc::new(life);
        let idle = {
            let mut present = lock(&self.present.0);
            present.ends.push(life.managers.log.end_of_life(broken.managers.log.incarnation()));
            present.life = Arc::clone(&life);
            std::mem::take(&mut present.idle)
        };
        drop((databases, one));
        // Only now: until then they are the ones who try again.
        broken.abandon_background();
        // What they say in broken memory is nobody's business, and what they meet there neither.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(idle)));
        // Nor is what was passed on there, which would keep the broken memory mapped.
        let _ = catch_unwind(AssertUnwindSafe(|| self.passed_on.sweep()));
        Ok(life)
    }

    /// Whether the commit record at `lsn`, of a transaction of life `number`, is kept, if that life has ended. None is kept in
    /// any case: who has read nothing that was ever committed depends on nobody.
    ///
    /// # Errors
    /// `Rebuilt` if it is not; `OutcomeUnknown`, also if there is no next life yet.
    pub(crate) fn outcome_of(self: &Arc<Inner>, number: u64, lsn: Lsn) -> Result<()> {
        if lsn == Lsn::NONE {
            return Ok(());
        }
        self.life().map_err(Error::behind_a_commit)?;
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

    /// Does something with a session of the present life.
    pub(crate) fn with_session<T>(
        self: &Arc<Inner>,
        mut work: impl FnMut(&Managers, &TxnSession) -> Result<T>,
    ) -> Result<T> {
        loop {
            let done = self.take_session().and_then(|who| {
                let life = Arc::clone(&who.life);
                let done = life.guarded_by(&who.session, || work(&life.managers, &who.session));
                let done = done.map_err(|error| error.with_who(self, &life, &who.session));
                self.give_session(who);
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
    /// It goes, as far as its life lets it.
    #[cold]
    fn let_leave(self: Box<Seated>) {
        let Seated { session, life } = *self;
        life.let_leave(session);
    }
}

#[cfg(test)]
mod tests;

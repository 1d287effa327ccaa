//! One life of the shared memory, as a handle knows it, and how the next begins (PROTOCOLS D13).
//!
//! When the region does not stand a repair, it is declared broken. Everyone who waits in it leaves it by unwinding with
//! [`Broken`], which stops here, at the door; everyone who calls next finds it broken here. Whoever comes first builds a new
//! region from disk and log, as after a crash, once no living session writes to a file any more. The others attach to
//! that. Transactions that had not committed end with [`Error::Rebuilt`], and are run again; handles stay as they are.
//!
//! Invariants
//! 1. A transaction lives in the life in which it began.
//! 2. Lives are never taken away while the handle is open: they form a chain, and its end is the present.
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
use std::sync::{Arc, Mutex, OnceLock};

use libtp_log::Lsn;
use libtp_process::{Broken, Call, ForkMark};
use libtp_txn::{Committed, Managers, TxnSession};
use rio::{failpoint, planted};

use crate::attach::{self, Attached, Opened};
use crate::background::Background;
use crate::environment::{lock, Inner, Sessions};
use crate::judge::Judge;
use crate::panics::{self, Panics, Rung};
use crate::{Error, Result};

/// What a handle has of one region.
pub(crate) struct Life {
    /// Counted from zero.
    number: u64,
    pub(crate) managers: Arc<Managers>,
    pub(crate) opened: Opened,
    /// Sessions that nobody uses.
    sessions: OwnLines<Mutex<Sessions>>,
    background: Mutex<Option<Background>>,
    judge: Arc<Judge>,
    /// Tells us from a child that fork makes of us.
    mark: ForkMark,
    /// The environment's directory, for messages.
    path: PathBuf,
    next: OnceLock<Box<Life>>,
    /// Of all lives of the handle.
    panics: Arc<Panics>,
}

/// On cache lines of its own: every transaction writes it, and every call reads what would lie beside it.
#[repr(align(128))]
struct OwnLines<T>(T);

impl Life {
    /// The first life of a handle.
    pub(crate) fn first(attached: Attached, path: &Path) -> Life {
        Life::new(0, attached, path, Arc::default())
    }

    fn new(number: u64, attached: Attached, path: &Path, panics: Arc<Panics>) -> Life {
        Life {
            number,
            panics,
            mark: attached.managers.processes.fork_mark(),
            path: path.to_path_buf(),
            managers: attached.managers,
            opened: attached.opened,
            sessions: OwnLines(Mutex::new(Vec::new())),
            background: Mutex::new(None),
            judge: attached.judge,
            next: OnceLock::new(),
        }
    }

    /// Refuses the child of a fork: everything here is its parent's, and a thread it does not have may hold a lock.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.mark.is_current() {
            return Ok(());
        }
        Err(self.forked())
    }

    #[cold]
    fn forked(&self) -> Error {
        if ForkMark::none_since_fork() {
            libtp_io::give_up_inherited();
        }
        Error::Forked { environment: self.path.clone(), pid: self.managers.processes.pid() }
    }

    /// Which life of its handle it is.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// A session from the pool, or a new one.
    #[inline]
    pub(crate) fn take_session(&self) -> Result<Box<TxnSession>> {
        self.check_process()?;
        // The pool is free again before anyone joins, which may take long.
        let pooled = lock(&self.sessions.0).pop();
        match pooled {
            Some(session) => Ok(session),
            None => Ok(Box::new(self.managers.join()?)),
        }
    }

    /// Back into the pool; one that died stays with the repair.
    #[inline]
    pub(crate) fn give_session(&self, who: Box<TxnSession>) {
        if who.session().is_dead() || who.state() != libtp_txn::State::Idle {
            return self.let_leave(who);
        }
        lock(&self.sessions.0).push(who);
    }

    #[cold]
    fn let_leave(&self, who: Box<TxnSession>) {
        if self.managers.region.is_broken() {
            // It goes with its region.
            return;
        }
        // What fails is the next call's to tell.
        let _ = self.guarded(|| {
            self.managers.leave(*who);
            Ok(())
        });
    }

    /// Marks the idle sessions dead, as a kill leaves them: for simulation.
    pub(crate) fn die(&self) {
        lock(&self.sessions.0).iter().for_each(|idle| idle.session().mark_dead());
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
            Ok(done) => done,
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
            Ok(done) => done,
            Err(payload) => {
                if !panics::is_callers() {
                    who.session().mark_dead();
                }
                self.ended_by(payload)
            }
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
        if buried.is_err_and(|payload| !payload.is::<Broken>()) {
            self.managers.give_up("the repair of a session that panicked has panicked");
        }
    }

    /// Waits until a commit of this life is on disk, with a session of its own; with another if that dies of a panic.
    pub(crate) fn wait_durable(&self, committed: Committed) -> Result<()> {
        loop {
            let waited = self.guarded(|| {
                let who = self.take_session()?;
                let waited = who.wait_durable(&self.managers, committed);
                self.give_session(who);
                Ok(waited?)
            });
            if !matches!(waited, Err(Error::Panicked { .. })) {
                return waited;
            }
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
    pub(crate) fn end(&self, env: &Inner) -> Result<()> {
        if self.check_process().is_err() {
            // The threads are the parent's: there is nothing here to stop or to wait for. So are the sessions, and the seat.
            std::mem::forget(lock(&self.background).take());
            return Ok(());
        }
        self.stop_background();
        let sessions = std::mem::take(&mut *lock(&self.sessions.0));
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
    /// As [`Life::check_process`].
    pub(crate) fn check_process(&self) -> Result<()> {
        self.first.check_process()
    }

    /// The present life, if it is not broken.
    #[inline]
    pub(crate) fn newest(&self) -> &Life {
        let mut life = &self.first;
        while let Some(next) = life.next.get() {
            life = next;
        }
        life
    }

    /// The present life. If that is broken, the next.
    #[inline]
    pub(crate) fn life(self: &Arc<Inner>) -> Result<&Life> {
        let life = self.newest();
        life.check_process()?;
        if life.managers.region.is_broken() {
            return self.next_life();
        }
        Ok(life)
    }

    /// Begins a new life, unless another thread has.
    #[cold]
    #[inline(never)]
    fn next_life(self: &Arc<Inner>) -> Result<&Life> {
        let one = lock(&self.renewing);
        let broken = self.newest();
        if !broken.managers.region.is_broken() {
            return Ok(broken);
        }
        let life = loop {
            let attached = attach::open_again(&self.platform, &self.settings, &broken.managers)?;
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
        let life: &Life = broken.next.get_or_init(|| Box::new(life));
        drop((databases, one));
        // Only now: until then they are the ones who try again.
        broken.abandon_background();
        Ok(life)
    }

    /// Whether the commit record at `lsn`, of a transaction of life `number`, is kept, if that life has ended.
    pub(crate) fn outcome_of(self: &Arc<Inner>, number: u64, lsn: Lsn) -> Result<()> {
        self.life()?;
        let mut life = &self.first;
        while life.number <= number {
            life = life.next.get().ok_or(Error::Rebuilt)?;
        }
        let is_kept = lsn < life.managers.log.began() && !planted("libtp: a caught commit counts as lost");
        if is_kept || planted("libtp: a caught commit counts as kept") {
            Ok(())
        } else {
            Err(Error::Rebuilt)
        }
    }

    /// Does something with a session of the present life.
    pub(crate) fn with_session<T>(
        self: &Arc<Inner>,
        mut work: impl FnMut(&Managers, &TxnSession) -> Result<T>,
    ) -> Result<T> {
        loop {
            let life = self.life()?;
            let done = life.guarded(|| {
                let who = life.take_session()?;
                let done = work(&life.managers, &who);
                life.give_session(who);
                done
            });
            if !matches!(done, Err(Error::Rebuilt | Error::Panicked { .. })) {
                return done;
            }
        }
    }
}

#[cfg(test)]
mod tests;

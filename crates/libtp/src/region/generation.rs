//! One generation of the shared memory, as a handle knows it (PROTOCOLS D13). `renewal.rs` begins the next generation.
//!
//! A region that cannot be repaired is declared broken. Each thread that waits in it unwinds with [`Broken`], which
//! this module catches; each later call finds out here that the region is broken. The first caller builds a new region
//! from disk and log, as after a crash, once no living session writes to a file any more. The other callers attach to
//! that region. Transactions that had not committed end with [`Error::Rebuilt`], and `Env::run` runs them again;
//! handles stay valid.
//!
//! Invariants
//! 1. A transaction belongs to the generation in which it began.
//! 2. The handle holds the present generation. A generation that has ended is freed, with its mapping and its open
//!    files, when the last transaction that began in it ends: each session holds a reference to its generation.
//! 3. An answered commit is in the log that the next generation begins with, for two reasons. A commit is answered only
//!    if a check *after* the commit record was published finds the region unbroken. The rebuild reads the log's tail
//!    after a barrier that follows the declaration.
//!
//! A panic of the library kills one session (PROTOCOLS D10) and does not break the region; `panics.rs` treats repeated
//! panics.
//!
//! As D13 demands, the rebuild waits only until no session has a role in which it writes files, not until every session
//! is outside a call: other accesses to the old region change neither a file nor the new region.

use std::any::Any;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use libtp_log::IncarnationEnd;
use libtp_process::{catch_call, Broken, ForkMark, LeaveTimedOut};
use libtp_txn::{Managers, TxnSession};
use rio::planted;

use crate::ground::mutex::lock;
use crate::open::liveness::Liveness;
use crate::open::opening::Attached;
use crate::region::idle_sessions::IdleSessions;
use crate::region::panics::{self, PanicEffect, Panics};
use crate::region::threads::Threads;
use crate::{Error, Result};

/// A handle's attachment to one region.
pub(crate) struct Generation {
    /// The generation's number, counted from zero.
    pub(super) number: u64,
    pub(crate) managers: Arc<Managers>,
    pub(super) threads: Mutex<Option<Threads>>,
    pub(super) liveness: Arc<Liveness>,
    /// Distinguishes this process from its forked child.
    pub(super) mark: ForkMark,
    /// The environment's directory, for messages.
    pub(super) path: PathBuf,
    /// The panics that the handle has seen, in all its generations.
    pub(super) panics: Arc<Panics>,
}

/// The reason why a new generation did not begin, and the time of the attempt.
pub(crate) struct Refused {
    pub(super) at: Instant,
    pub(super) what: String,
}

/// A session, with the generation to which it belongs.
pub(crate) struct Seated {
    // The session is the first field, so that Rust drops it first.
    pub(crate) session: TxnSession,
    pub(crate) generation: Arc<Generation>,
}

/// Idle sessions. They are boxed, because a session has half a kilobyte, and is moved into a transaction and back each
/// time.
#[allow(clippy::vec_box)]
pub(crate) type Sessions = Vec<Box<Seated>>;

/// The generation that a handle is in.
pub(crate) struct Present {
    pub(super) now: Mutex<Now>,
    /// The idle sessions that threads can take without a lock.
    pub(super) at_hand: IdleSessions<Seated>,
}

/// The present generation and its idle sessions.
pub(super) struct Now {
    pub(super) generation: Arc<Generation>,
    /// The generation's other idle sessions.
    pub(super) idle: Sessions,
    /// For each ended generation of this handle: the end of that generation's log, which the handle read when its next
    /// generation began. A record that the ended generation published at or after that end is in no log. Other
    /// processes may have had further generations between the ended generation and the handle's next generation.
    pub(super) ends: Vec<Option<IncarnationEnd>>,
}

impl Present {
    /// Returns the first generation of a handle.
    pub(crate) fn first(attached: Attached, path: &Path) -> Present {
        let generation = Generation::new(0, attached, path, Arc::default());
        let now = Now { generation: Arc::new(generation), idle: Vec::new(), ends: Vec::new() };
        Present { now: Mutex::new(now), at_hand: IdleSessions::default() }
    }

    /// Forgets everything in the child of a fork: threads, sessions and attachment lock are the parent's. The child has
    /// nothing to stop, to wait for or to give back. It does not lock the mutex, because a thread of the parent may
    /// have held the mutex at the fork.
    pub(crate) fn forget_inherited(&mut self) {
        let now = self.now.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(Arc::clone(&now.generation));
        now.idle.drain(..).chain(self.at_hand.take_all()).for_each(std::mem::forget);
    }
}

impl Generation {
    pub(super) fn new(number: u64, attached: Attached, path: &Path, panics: Arc<Panics>) -> Generation {
        Generation {
            number,
            panics,
            mark: attached.managers.processes.fork_mark(),
            path: path.to_path_buf(),
            managers: attached.managers,
            threads: Mutex::new(None),
            liveness: attached.liveness,
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

    /// Returns the open control file, whose locks show the attached processes.
    pub(crate) fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Returns the number of this generation among the generations of its handle.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    #[cold]
    fn let_leave(&self, session: TxnSession) {
        if self.managers.region.is_broken() {
            // The session ends with its region.
            return;
        }
        // If this fails, the next call reports the error.
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
        caught(work).map_err(|end| self.ended_by(end))
    }

    /// As [`Generation::guarded`], with the session of a transaction. A panic of the library kills that session, and
    /// further calls with it are refused.
    #[inline]
    pub(crate) fn guarded_by<T>(&self, txn: &TxnSession, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if !planted("libtp: a child of a fork works in its parent's transaction") {
            self.check_process()?;
        }
        self.guarded_here(txn, work)
    }

    /// As [`Generation::guarded_by`], for a caller that has already called [`Generation::check_process`] itself.
    // Always inlined, with the functions that it calls: the result then needs no room in memory.
    #[inline(always)]
    pub(crate) fn guarded_here<T>(&self, txn: &TxnSession, work: impl FnOnce() -> Result<T>) -> Result<T> {
        if txn.session().is_dead() && !planted("libtp: calls of a transaction whose session is dead are accepted") {
            return Err(self.refusal());
        }
        caught(work).map_err(|end| {
            if matches!(*end, End::Panicked(_)) && !panics::is_callers() {
                txn.session().mark_dead();
            }
            self.ended_by(end)
        })
    }

    #[cold]
    fn refusal(&self) -> Error {
        match self.managers.region.is_broken() {
            true => Error::Rebuilt,
            false => Error::Panicked { what: "an earlier call of this transaction".into() },
        }
    }

    /// Returns the error of a call that has no result. Resumes a panic of the caller's own function.
    #[cold]
    #[inline(never)]
    #[allow(clippy::boxed_local, reason = "its callers, which are many, move a pointer only")]
    fn ended_by(&self, end: Box<End>) -> Error {
        let payload = match *end {
            End::Failed(error) => return self.unless_given_up(error),
            End::Panicked(payload) => payload,
        };
        if panics::take_callers() {
            resume_unwind(payload);
        }
        match self.effect_of_panic(&self.managers, payload.as_ref()) {
            PanicEffect::Session => {
                self.repair_dead();
                match self.managers.region.is_broken() {
                    true => Error::Rebuilt,
                    false => Error::Panicked { what: panics::text_of(payload.as_ref()) },
                }
            }
            PanicEffect::Region => Error::Rebuilt,
            PanicEffect::Caller => {
                self.repair_dead();
                resume_unwind(payload)
            }
        }
    }

    /// Turns `Full` and `Corrupt` in a given-up region into `Rebuilt`: the region does not grow any more, and pages
    /// that the next generation has written look damaged in this generation. The failed call has changed nothing.
    fn unless_given_up(&self, error: Error) -> Error {
        match error {
            Error::Full { .. } | Error::Corrupt(_) if self.managers.region.is_broken() => Error::Rebuilt,
            error => error,
        }
    }

    /// Returns the effect of a panic of the library. Gives the region up if that is the effect.
    pub(crate) fn effect_of_panic(&self, managers: &Managers, payload: &(dyn Any + Send)) -> PanicEffect {
        // Any panic in a broken region is a consequence of the damage.
        if payload.is::<Broken>() || managers.region.is_broken() {
            return PanicEffect::Region;
        }
        if managers.processes.is_observer() {
            // An observer reads without latches, and may have read memory while it changed.
            return PanicEffect::Session;
        }
        if payload.is::<LeaveTimedOut>() {
            // This unwinding is not a panic: this process is leaving, and has waited too long for another process.
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

    /// Repairs the session that a panic of this thread killed, so that this process need not wait for another process's
    /// repair.
    pub(super) fn repair_dead(&self) {
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

    pub(crate) fn stop_background(&self) {
        if let Some(threads) = lock(&self.threads).take() {
            threads.stop();
        }
    }

    /// As [`Generation::stop_background`], without waiting: the caller may be one of the threads, or may keep one of
    /// them from ending.
    pub(super) fn abandon_background(&self) {
        if let Some(threads) = lock(&self.threads).take() {
            threads.abandon();
        }
    }
}

/// The reason why a call has no result. It is boxed, so that the return value of a call needs no room for a whole
/// error.
enum End {
    Failed(Error),
    Panicked(Box<dyn Any + Send>),
}

/// Runs a call, and catches a panic that leaves it.
#[inline(always)]
fn caught<T>(work: impl FnOnce() -> Result<T>) -> std::result::Result<T, Box<End>> {
    match catch_call(|| work().map_err(|error| boxed(End::Failed(error)))) {
        Ok(done) => done,
        Err(payload) => Err(boxed(End::Panicked(payload))),
    }
}

#[cold]
#[inline(never)]
fn boxed(end: End) -> Box<End> {
    Box::new(end)
}

#[cold]
pub(super) fn forked(path: &Path, pid: u32) -> Error {
    if ForkMark::none_since_fork() {
        libtp_io::give_up_inherited();
    }
    Error::Forked { environment: path.to_path_buf(), pid }
}

impl Seated {
    /// Ends the session in its generation, unless the region is broken.
    #[cold]
    pub(super) fn let_leave(self: Box<Seated>) {
        let Seated { session, generation } = *self;
        generation.let_leave(session);
    }
}

//! A process leaves: it waits for others where it has to, but not without end.
//!
//! What it waits for may be held by a process that is stopped. Then it goes without: the thread that waits unwinds with
//! [`Late`], and its session is dead, as after a panic of the library (PROTOCOLS D10): what it held is for the others to
//! repair, like that of one who was killed there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{ProcessManager, Session};

/// So long who leaves waits if some process is stopped.
const STOPPED: Duration = Duration::from_millis(300);
/// So long if none is seen to be: it may be paused with its container, or the disk be slow.
const UNSEEN: Duration = Duration::from_secs(5);
/// How often it is looked whether one is.
const GLANCE: Duration = Duration::from_millis(20);
/// Nobody leaves.
const NEVER: u64 = u64::MAX;

/// What a session unwinds with whose process leaves, when what it waits for does not come.
pub struct Late;

/// Since when this handle leaves.
pub(crate) struct Leaving {
    attached: Instant,
    /// Milliseconds after that.
    since: AtomicU64,
    looked: AtomicU64,
}

impl Leaving {
    pub(crate) fn new() -> Leaving {
        Leaving { attached: Instant::now(), since: AtomicU64::new(NEVER), looked: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.attached.elapsed().as_millis()).unwrap_or(NEVER - 1)
    }
}

impl ProcessManager {
    /// From now on the sessions of this handle wait for others a moment only; if one has to for longer, it unwinds with [`Late`].
    pub fn begin_to_leave(&self) {
        let leaving = &self.0.leaving;
        // Relaxed, everywhere: who sees it later waits a little longer.
        leaving.since.store(leaving.now(), Ordering::Relaxed);
    }

    /// From now on they wait as long as it takes: for who knows that nobody else is there.
    pub fn take_time(&self) {
        self.0.leaving.since.store(NEVER, Ordering::Relaxed);
    }

    /// Whether the time is over that this handle had to leave in.
    #[cold]
    fn is_late(&self) -> bool {
        let leaving = &self.0.leaving;
        let (now, since) = (leaving.now(), leaving.since.load(Ordering::Relaxed));
        let waited = Duration::from_millis(now.saturating_sub(since));
        if waited < STOPPED || waited >= UNSEEN {
            return waited >= UNSEEN;
        }
        // The same for all threads: each look is a file or two for every process there is.
        let looked = leaving.looked.load(Ordering::Relaxed);
        if Duration::from_millis(now.saturating_sub(looked)) < GLANCE {
            return false;
        }
        leaving.looked.store(now, Ordering::Relaxed);
        self.0.attachments.is_one_stopped()
    }
}

impl Session {
    /// Leaves by unwinding, with [`Late`], if its process leaves and has waited long enough. Called by who waits.
    #[inline]
    pub(crate) fn leave_if_late(&self) {
        self.processes().leave_if_late();
    }
}

impl ProcessManager {
    #[inline]
    pub(crate) fn leave_if_late(&self) {
        if self.0.leaving.since.load(Ordering::Relaxed) != NEVER {
            self.unwind_if_late();
        }
    }

    #[cold]
    fn unwind_if_late(&self) {
        // Whoever unwinds cannot begin to.
        if crate::unwinding::unwinds() || rio::planted("process: who leaves waits without end") || !self.is_late() {
            return;
        }
        // Whatever panic of the program's this is a destructor of: what unwinds from here on is ours.
        crate::unwinding::is_ours();
        std::panic::resume_unwind(Box::new(Late));
    }
}

//! The departure of a process. A departing process waits for other processes only for a bounded time.
//!
//! A stopped process may hold a latch or a role that the leaving process waits for. The waiting thread then unwinds
//! with [`LeaveTimedOut`], and its session is dead, as after a panic of the library (PROTOCOLS D10): other sessions
//! repair it like a session that was killed at that instruction.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::{ProcessManager, Session};

/// The longest wait of a leaving process if some process is stopped.
const STOPPED: Duration = Duration::from_millis(300);
/// The longest wait if no process is seen to be stopped: a process may be paused with its container, or the disk may be
/// slow.
const UNSEEN: Duration = Duration::from_secs(5);
/// The time between two searches for stopped processes.
const GLANCE: Duration = Duration::from_millis(20);
/// The value while the handle is not leaving.
const NEVER: u64 = u64::MAX;

/// The payload with which a session of a leaving process unwinds when its wait takes too long.
pub struct LeaveTimedOut;

/// The state of a handle's departure.
pub(crate) struct Leaving {
    attached: Instant,
    /// The beginning of the departure, in milliseconds after `attached`.
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
    /// Makes the sessions of this handle wait for other sessions only a moment; a session that has to wait longer
    /// unwinds with [`LeaveTimedOut`].
    pub fn begin_to_leave(&self) {
        let leaving = &self.0.leaving;
        // Relaxed, everywhere: a thread that sees the store later waits a little longer.
        leaving.since.store(leaving.now(), Ordering::Relaxed);
    }

    /// Lets the sessions of this handle wait without a bound again: for a caller that knows that no other process is
    /// attached.
    pub fn take_time(&self) {
        self.0.leaving.since.store(NEVER, Ordering::Relaxed);
    }

    /// Returns whether this handle's time to leave is over.
    #[cold]
    fn is_late(&self) -> bool {
        let leaving = &self.0.leaving;
        let (now, since) = (leaving.now(), leaving.since.load(Ordering::Relaxed));
        let waited = Duration::from_millis(now.saturating_sub(since));
        if waited < STOPPED || waited >= UNSEEN {
            return waited >= UNSEEN;
        }
        // All threads share the time of the last search, because a search reads one or two files for every process.
        let looked = leaving.looked.load(Ordering::Relaxed);
        if Duration::from_millis(now.saturating_sub(looked)) < GLANCE {
            return false;
        }
        leaving.looked.store(now, Ordering::Relaxed);
        self.0.attachments.is_one_stopped()
    }
}

impl Session {
    /// Unwinds with [`LeaveTimedOut`] if its process is leaving and has waited long enough. Waiters call this.
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
        // A thread that unwinds already cannot start to unwind again.
        if crate::unwinding::unwinds()
            || rio::planted("process: a leaving process waits without a bound")
            || !self.is_late()
        {
            return;
        }
        // This may run in a destructor during a panic of the program: from here on the panic is the library's.
        crate::unwinding::mark_library_panic();
        std::panic::resume_unwind(Box::new(LeaveTimedOut));
    }
}

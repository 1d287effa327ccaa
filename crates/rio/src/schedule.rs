//! Points at which a test may switch to another thread: every access to shared memory that other threads can observe.
//!
//! Compiled in only with the feature `scheduled`, which only a test suite switches on; without the feature every call
//! does nothing. The scheduler is a function of the test. It runs only on threads that have registered it; all other
//! threads run as usual. A thread that would sleep in the kernel goes through a point instead ([`instead_of_sleep`]).

#[cfg(feature = "scheduled")]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static SCHEDULER: Cell<Option<fn()>> = const { Cell::new(None) };
    }

    /// Calls `scheduler` at each point of the calling thread; `None` ends the calls.
    pub fn at_each_point(scheduler: Option<fn()>) {
        SCHEDULER.set(scheduler);
    }

    /// Goes through a point: the scheduler may switch to another thread here.
    pub fn point() {
        if let Some(scheduler) = SCHEDULER.get() {
            scheduler();
        }
    }

    /// Returns whether a test's scheduler runs the calling thread. All threads that a scheduler runs are one thread for
    /// the kernel.
    pub fn is_scheduled() -> bool {
        SCHEDULER.get().is_some()
    }

    /// Goes through a point in place of a sleep. Returns false if the calling thread is not scheduled and must sleep.
    pub fn instead_of_sleep() -> bool {
        let scheduler = SCHEDULER.get();
        scheduler.inspect(|scheduler| scheduler()).is_some()
    }
}

#[cfg(feature = "scheduled")]
pub use chosen::{at_each_point, instead_of_sleep, is_scheduled, point};

/// Goes through a point. Does nothing in this build.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn point() {}

/// Returns false: in this build no point takes the place of a sleep.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn instead_of_sleep() -> bool {
    false
}

/// Returns false: in this build no scheduler runs a thread.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn is_scheduled() -> bool {
    false
}

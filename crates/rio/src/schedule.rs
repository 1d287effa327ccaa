//! Points at which a test may let another thread go on: every access to shared memory that others can meet.
//!
//! Compiled in only with the feature `scheduled`, which nothing but a test suite switches on; without it every call is
//! nothing. The scheduler is a function of the test's; it is asked on its own thread only, so that threads it knows
//! nothing of run as ever. Where a thread would sleep in the kernel, it goes through a point instead ([`instead_of_sleep`]).

#[cfg(feature = "scheduled")]
mod chosen {
    use std::cell::Cell;

    thread_local! {
        static SCHEDULER: Cell<Option<fn()>> = const { Cell::new(None) };
    }

    /// Asks `scheduler` at each point that this thread comes to; none ends that.
    pub fn at_each_point(scheduler: Option<fn()>) {
        SCHEDULER.set(scheduler);
    }

    /// A point.
    pub fn point() {
        if let Some(scheduler) = SCHEDULER.get() {
            scheduler();
        }
    }

    /// Whether a test's scheduler runs this thread: then all that it runs are one thread of the kernel's.
    pub fn is_scheduled() -> bool {
        SCHEDULER.get().is_some()
    }

    /// A point in place of a sleep. False if this thread is not scheduled, and is to sleep.
    pub fn instead_of_sleep() -> bool {
        let scheduler = SCHEDULER.get();
        scheduler.inspect(|scheduler| scheduler()).is_some()
    }
}

#[cfg(feature = "scheduled")]
pub use chosen::{at_each_point, instead_of_sleep, is_scheduled, point};

/// A point: nothing, in this build.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn point() {}

/// Whether a point took the place of a sleep: never, in this build.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn instead_of_sleep() -> bool {
    false
}

/// Whether a test's scheduler runs this thread: never, in this build.
#[cfg(not(feature = "scheduled"))]
#[inline(always)]
pub const fn is_scheduled() -> bool {
    false
}

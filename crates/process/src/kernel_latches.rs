//! Ordinary latches that can be made to cost what semaphores of the kernel cost: LIBTP figure 5, in a build for it alone.
//!
//! In every other build (without the feature `kernel-latches`) nothing of this is there.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::os::{add_to_semaphore, SemaphoreSet};

/// No semaphore is paid to.
const NONE: i32 = -1;
/// More than there are latches at one time, so that nobody waits for it; half of what a semaphore may be.
const VALUE: i16 = 16_000;

/// The semaphore that latches of this process pay to.
static PAID_TO: AtomicI32 = AtomicI32::new(NONE);

/// The price of the paper's synchronisation for a program that runs on ordinary latches: as long as this lives, every latch
/// that a session of this process takes costs a call on a semaphore that nobody waits for, and another when it is let go. The figure's
/// runs were single-user, so none of its semaphores was contended either.
///
/// One at a time: where a second begins, the first costs nothing any more.
#[must_use = "latches cost what they always do when it is dropped"]
pub struct KernelLatches(SemaphoreSet);

impl KernelLatches {
    /// Makes the semaphore; latches cost from here on.
    ///
    /// # Errors
    /// The error of `semget`: none allowed here, or too many.
    pub fn begin() -> io::Result<KernelLatches> {
        let semaphore = SemaphoreSet::create()?;
        semaphore.add(VALUE)?;
        PAID_TO.store(semaphore.id(), Ordering::Relaxed);
        Ok(KernelLatches(semaphore))
    }

    /// How many more latches may be held: one less for each that is held and was paid for.
    ///
    /// # Errors
    /// The error of `semctl`.
    pub fn left(&self) -> io::Result<i32> {
        self.0.value()
    }
}

impl Drop for KernelLatches {
    fn drop(&mut self) {
        // Not another's, which began since.
        let _ = PAID_TO.compare_exchange(self.0.id(), NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// What a latch that is taken pays, if it has to.
#[inline]
pub(crate) fn pay_acquire() {
    pay(-1);
}

/// What a latch that is let go pays.
#[inline]
pub(crate) fn pay_release() {
    pay(1);
}

#[inline]
fn pay(value: i16) {
    let semaphore = PAID_TO.load(Ordering::Relaxed);
    if semaphore != NONE {
        // One that was removed this moment costs its call as well.
        let _ = add_to_semaphore(semaphore, value);
    }
}

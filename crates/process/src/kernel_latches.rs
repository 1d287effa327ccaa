//! Ordinary latches with the cost of the kernel's semaphores, for LIBTP figure 5. Only a build for that figure has
//! them.
//!
//! Without the feature `kernel-latches` this module does not exist.

use std::io;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::os::{add_to_semaphore, SemaphoreSet};

/// The value of `PAID_TO` if latches call no semaphore.
const NONE: i32 = -1;
/// The semaphore's first value: half of a semaphore's largest value. It is larger than the number of latches that are
/// held at one time, so no call waits.
const VALUE: i16 = 16_000;

/// The semaphore that the latches of this process call.
static PAID_TO: AtomicI32 = AtomicI32::new(NONE);

/// Adds the cost of the paper's synchronisation to the ordinary latches of this process. While this value exists, every
/// latch that a session of this process takes costs a call on a semaphore for which no session waits, and a second call
/// at the latch's release. The runs of the paper's figure had one user, so no session waited for a semaphore there,
/// either.
///
/// One value works at a time: if a second value is made, the first value has no effect any more.
#[must_use = "latches have their usual cost again when this is dropped"]
pub struct KernelLatches(SemaphoreSet);

impl KernelLatches {
    /// Makes the semaphore. From here on, each latch calls the semaphore.
    ///
    /// # Errors
    /// The error of `semget`: semaphores are not allowed here, or there are too many.
    pub fn begin() -> io::Result<KernelLatches> {
        let semaphore = SemaphoreSet::create()?;
        semaphore.add(VALUE)?;
        PAID_TO.store(semaphore.id(), Ordering::Relaxed);
        Ok(KernelLatches(semaphore))
    }

    /// Returns the semaphore's value: the first value minus the number of held latches that called the semaphore.
    ///
    /// # Errors
    /// The error of `semctl`.
    pub fn left(&self) -> io::Result<i32> {
        self.0.value()
    }
}

impl Drop for KernelLatches {
    fn drop(&mut self) {
        // If a second `KernelLatches` was made, its semaphore stays in `PAID_TO`.
        let _ = PAID_TO.compare_exchange(self.0.id(), NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Calls the semaphore for a latch that is taken, if there is a semaphore.
#[inline]
pub(crate) fn pay_acquire() {
    pay(-1);
}

/// Calls the semaphore for a latch that is released, if there is a semaphore.
#[inline]
pub(crate) fn pay_release() {
    pay(1);
}

#[inline]
fn pay(value: i16) {
    let semaphore = PAID_TO.load(Ordering::Relaxed);
    if semaphore != NONE {
        // The semaphore may just have been removed: the call then fails, but costs the same.
        let _ = add_to_semaphore(semaphore, value);
    }
}

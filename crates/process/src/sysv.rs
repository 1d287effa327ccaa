//! A latch over a System V semaphore: every acquire and release is a system call.
//!
//! Paper: LIBTP section 4.3 and figure 5, which compares the cost of such a latch with the cost of a spinlock. The
//! latch exists only for the benchmark that repeats the figure: it has no shared mode, no owner, and no repair after a
//! death.

use std::io;

use crate::os::SemaphoreSet;

/// A latch whose every call goes to the kernel.
pub struct SemaphoreLatch(SemaphoreSet);

impl SemaphoreLatch {
    /// Makes a free latch. The kernel keeps the semaphore until this is dropped.
    ///
    /// # Errors
    /// The error of `semget` or `semctl`: semaphores are not allowed here, or there are too many.
    pub fn new() -> io::Result<SemaphoreLatch> {
        let semaphore = SemaphoreSet::create()?;
        semaphore.add(1)?;
        Ok(SemaphoreLatch(semaphore))
    }

    /// Takes the latch exclusively. Sleeps in the kernel as long as necessary.
    ///
    /// # Panics
    /// If the semaphore was removed.
    #[inline]
    pub fn acquire(&self) -> SemaphoreGuard<'_> {
        self.0.add(-1).expect("the semaphore lives as long as its handle");
        SemaphoreGuard(self)
    }
}

/// A held [`SemaphoreLatch`]. Dropping the guard releases it.
#[must_use = "the latch is held as long as its guard lives"]
pub struct SemaphoreGuard<'l>(&'l SemaphoreLatch);

impl Drop for SemaphoreGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        let released = self.0 .0.add(1);
        debug_assert!(released.is_ok(), "the semaphore lives as long as its handle");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::SemaphoreLatch;

    #[test]
    fn one_thread_at_a_time_holds_a_semaphore_latch() {
        let latch = SemaphoreLatch::new().expect("the system has a free semaphore");
        let (inside, total) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let _guard = latch.acquire();
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0);
                        total.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4000);
    }
}

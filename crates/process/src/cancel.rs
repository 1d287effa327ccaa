//! Ending the waits of this process from outside of them: from a signal handler, say.
//!
//! [`cancel_waits`] changes one number of this process and does nothing else, so a signal handler may call it at any instruction.
//! A session notes the number when a transaction begins ([`Session::heed_cancels`]), and a wait ends when the number is another
//! ([`Session::is_cancelled`]). So a call that comes before the transaction has begun to wait is not lost. Nobody is woken: a wait
//! looks again within [`SLEEP_MAX`](crate::SLEEP_MAX).

use std::sync::atomic::{AtomicU32, Ordering};

use rio::planted;

use crate::Session;

static CANCELS: AtomicU32 = AtomicU32::new(0);

/// Ends every wait for a lock of the transactions that run in this process now. A signal handler may call it.
pub fn cancel_waits() {
    // Relaxed: the number guards nothing.
    CANCELS.fetch_add(1, Ordering::Relaxed);
}

/// How often [`cancel_waits`] was called.
pub fn cancels() -> u32 {
    CANCELS.load(Ordering::Relaxed)
}

impl Session {
    /// Calls of [`cancel_waits`] from now on concern it, those before do not.
    #[inline]
    pub fn heed_cancels(&self) {
        self.cancels.set(cancels());
    }

    /// As [`Session::heed_cancels`], at the time when there had been so many.
    pub fn heed_cancels_since(&self, cancels: u32) {
        self.cancels.set(cancels);
    }

    /// Whether [`cancel_waits`] was called since.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.cancels.get() != cancels() && !planted("process: a wait is not cancelled")
    }
}

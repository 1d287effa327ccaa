//! Cancelling the waits of this process from outside, for example from a signal handler.
//!
//! [`cancel_waits`] changes one number of this process and does nothing else, so a signal handler may call it at any
//! instruction. A session notes the number when a transaction begins
//! ([`Session::heed_cancels`](crate::Session::heed_cancels)), and a wait ends when the number has changed
//! ([`Session::is_cancelled`](crate::Session::is_cancelled)). So a call that comes before the wait begins is not lost.
//! The call wakes no session: a waiter checks the number again within [`SLEEP_MAX`](crate::SLEEP_MAX).

use std::sync::atomic::{AtomicU32, Ordering};

static CANCELS: AtomicU32 = AtomicU32::new(0);

/// Ends every wait for a lock in the transactions that this process runs at the moment of the call, and every wait of
/// these transactions for a stopped process that writes the log. A signal handler may call it.
pub fn cancel_waits() {
    // Relaxed: the number guards nothing.
    CANCELS.fetch_add(1, Ordering::Relaxed);
}

/// Returns the number of calls of [`cancel_waits`].
pub fn cancels() -> u32 {
    CANCELS.load(Ordering::Relaxed)
}

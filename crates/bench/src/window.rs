//! The window of a run: the interval of time in which the transactions of all clients count.
//!
//! The rate of several clients is their work in one common interval. If each client measured its own time, the sum
//! would include work that a client did before another client began or after another client ended. An engine never
//! reaches that sum while all clients work. So the driver sets one window for all clients, threads or processes, by the
//! clock that all processes of a machine share. A client that begins late has fewer transactions in the window.

use std::time::Duration;

use libtp_bank::clock::now_nanos;
use libtp_console::numbers::nanos;
use serde::{Deserialize, Serialize};

/// A half-open interval of time, in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The beginning. A transaction that ends earlier does not count.
    pub from_ns: u64,
    /// The end. A transaction that ends at this time or later does not count.
    pub to_ns: u64,
}

impl Window {
    /// Returns the window that begins after `warmup` and lasts for `measured`.
    pub fn after(warmup: Duration, measured: Duration) -> Window {
        let from_ns = now_nanos().saturating_add(nanos(warmup));
        Window { from_ns, to_ns: from_ns.saturating_add(nanos(measured)) }
    }

    /// Returns whether a transaction that ended at `then_ns` counts.
    #[inline]
    pub fn contains(&self, then_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&then_ns)
    }

    /// Returns the length of the part of the window that has passed, in nanoseconds.
    pub fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.min(self.to_ns).saturating_sub(self.from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_ends_outside_the_window_does_not_count() {
        let window = Window { from_ns: 10, to_ns: 20 };
        assert_eq!([9, 10, 19, 20].map(|then| window.contains(then)), [false, true, true, false]);
        assert_eq!([5, 10, 13, 25].map(|now| window.elapsed_ns(now)), [0, 0, 3, 10]);
    }

    #[test]
    fn a_window_begins_after_the_warmup_and_lasts_for_the_measured_time() {
        let before = now_nanos();
        let window = Window::after(Duration::from_millis(5), Duration::from_millis(7));
        assert!(window.from_ns >= before + 5_000_000);
        assert_eq!(window.to_ns - window.from_ns, 7_000_000);
    }
}

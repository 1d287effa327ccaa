//! A count in the region that only grows, as one process has seen it.
//!
//! Who goes by such a count (all frames, all pools) would silently leave out the rest if a wild store made it smaller: dirty
//! pages that nobody writes. So each process remembers the largest it has seen.

use std::sync::atomic::{AtomicU32, Ordering};

/// The largest value seen.
#[derive(Default)]
pub(crate) struct Grown(AtomicU32);

impl Grown {
    /// Takes a new look; the value, if it has not become smaller.
    pub(crate) fn seen(&self, now: u32) -> Option<u32> {
        // Relaxed: a number that is compared with others of its kind.
        let before = self.0.load(Ordering::Relaxed);
        if now > before {
            self.0.fetch_max(now, Ordering::Relaxed);
        }
        (now >= before).then_some(now)
    }
}

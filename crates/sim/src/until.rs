//! Waiting for a condition in a test.

use std::time::{Duration, Instant};

/// Waits until the condition holds, for at most `limit`. Returns whether it holds.
pub fn until(limit: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() >= limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

//! The distance of the processors: the time of a cache line from one to the other.
//!
//! A host moves a virtual machine's processors about. A cache line then takes thirty nanoseconds in one minute and two
//! hundred in the next, and programs that share memory are twice as fast in one as in the other. So measurements with
//! several processes are compared only with measurements at the same distance.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Transfers of the line: some milliseconds of them.
const WAYS: u32 = 100_000;

/// Returns the time of a cache line to another processor. With a single processor: the time of a thread switch.
pub fn line_transfer() -> Duration {
    let line = AtomicU32::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| pass_on(&line, 1));
        pass_on(&line, 0);
    });
    started.elapsed() / WAYS
}

/// Adds one whenever the number is even, or whenever it is odd.
fn pass_on(line: &AtomicU32, remainder: u32) {
    for way in (remainder..WAYS).step_by(2) {
        let mut looks = 0_u32;
        // Acquire and release, as in a handover of data.
        while line.load(Ordering::Acquire) != way {
            looks += 1;
            if looks % 1000 == 0 {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        line.store(way + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_line_takes_some_time() {
        assert!(!super::line_transfer().is_zero());
    }
}

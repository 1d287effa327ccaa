//! The distance of two processors: the time in which a cache line moves from one to the other.
//!
//! The host of a virtual machine may run its processors sometimes on neighbouring cores and sometimes on distant cores.
//! So a cache line may take thirty nanoseconds in one minute and two hundred in the next, and programs that share
//! memory are twice as fast in the first minute as in the second. Measurements with several processes are compared only
//! with measurements at a similar distance.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtp_console::numbers::nanos;

use crate::error::Result;

/// Number of measured transfers of the cache line. All of them together take some milliseconds.
const WAYS: u32 = 100_000;

/// Returns the time in which a cache line moves to another processor. On a machine with one processor, returns the time
/// of a thread switch.
pub fn line_transfer() -> Duration {
    let line = AtomicU32::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| pass_on(&line, 1));
        pass_on(&line, 0);
    });
    started.elapsed() / WAYS
}

/// Largest number of repetitions of work that ran while the processors were distant.
const MOVED_MAX: u32 = 3;
/// The shortest transfer that this process has measured, in nanoseconds.
static NEAREST_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Does the work of several processes. Measures the transfer of a cache line before and after the work. If either
/// transfer takes more than twice as long as the shortest transfer so far, does the work again, at most three times.
/// Returns the last result, and the longer transfer.
///
/// # Errors
/// The error of the work.
pub(crate) fn at_one_distance<T>(mut work: impl FnMut() -> Result<T>) -> Result<(T, Duration)> {
    for repetition in 0.. {
        let before = line_transfer();
        let done = work()?;
        let after = line_transfer();
        // Relaxed is enough: the number publishes no other data.
        let nearest = NEAREST_NS.fetch_min(nanos(before.min(after)), Ordering::Relaxed).min(nanos(before.min(after)));
        let line = before.max(after);
        if repetition == MOVED_MAX || nanos(line) <= nearest.saturating_mul(2) {
            return Ok((done, line));
        }
    }
    unreachable!("the last repetition returns")
}

/// Waits until the number is even (`remainder` 0) or odd (1), adds one, and repeats this until the number is `WAYS`.
fn pass_on(line: &AtomicU32, remainder: u32) {
    for way in (remainder..WAYS).step_by(2) {
        let mut looks = 0_u32;
        // This load acquires and the store below releases, because programs that share memory pass data in this way.
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
    fn work_is_repeated_a_few_times_at_most() {
        let mut times = 0;
        let done = super::at_one_distance(|| {
            times += 1;
            Ok(times)
        });
        let (last, line) = done.unwrap();
        assert!((1..=4).contains(&last) && !line.is_zero());
        assert!(super::at_one_distance(|| Err::<(), _>(crate::Error::Settings("it fails".into()))).is_err());
    }

    #[test]
    fn a_line_takes_some_time() {
        assert!(!super::line_transfer().is_zero());
    }
}

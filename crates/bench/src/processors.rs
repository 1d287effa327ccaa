//! The distance of the processors: the time of a cache line from one to the other.
//!
//! A host moves a virtual machine's processors about. A cache line then takes thirty nanoseconds in one minute and two
//! hundred in the next, and programs that share memory are twice as fast in the first minute as in the second. So
//! measurements with several processes are compared only with measurements at the same distance.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libtp_console::numbers::nanos;

use crate::error::Result;

/// The number of transfers of the cache line that are measured. They take some milliseconds.
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

/// Most repetitions of work because the processors were moved apart.
const MOVED_MAX: u32 = 3;
/// The shortest transfer that this process has seen, in nanoseconds.
static NEAREST_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Does work of several processes, and does the work again, three times at most, if a line took more than twice the
/// shortest time seen before or after the work. Returns the last result, and the longer of its two times.
///
/// # Errors
/// The error of the work.
pub(crate) fn at_one_distance<T>(mut work: impl FnMut() -> Result<T>) -> Result<(T, Duration)> {
    for repetition in 0.. {
        let before = line_transfer();
        let done = work()?;
        let after = line_transfer();
        // Relaxed: only the number counts.
        let nearest = NEAREST_NS.fetch_min(nanos(before.min(after)), Ordering::Relaxed).min(nanos(before.min(after)));
        let line = before.max(after);
        if repetition == MOVED_MAX || nanos(line) <= nearest.saturating_mul(2) {
            return Ok((done, line));
        }
    }
    unreachable!("the last repetition returns")
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

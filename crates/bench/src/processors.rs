//! How far apart the processors are: how long a cache line takes from one to the other.
//!
//! A virtual machine's processors are moved about by its host, and a line then takes thirty nanoseconds in one minute and two
//! hundred in the next; programs that share memory are twice as fast in one as in the other. So what is measured with several
//! processes is only compared with what was measured while the processors were as near.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Ways a line goes: some milliseconds of them.
const WAYS: u32 = 100_000;

/// How long a cache line takes to another processor. With a single processor: how long a switch of threads takes.
pub fn line_transfer() -> Duration {
    let line = AtomicU32::new(0);
    let started = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| pass_on(&line, 1));
        pass_on(&line, 0);
    });
    started.elapsed() / WAYS
}

/// Adds one whenever the number is even, or odd.
fn pass_on(line: &AtomicU32, remainder: u32) {
    for way in (remainder..WAYS).step_by(2) {
        let mut looks = 0_u32;
        // Acquire and release: as those who hand something on.
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

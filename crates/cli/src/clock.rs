//! A clock that all processes of the machine read alike, and that nobody sets: `CLOCK_MONOTONIC`.

use rustix::time::{clock_gettime, ClockId};

/// Nanoseconds since some moment before all of them began.
pub fn now_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).expect("the clock began at zero and goes forward");
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

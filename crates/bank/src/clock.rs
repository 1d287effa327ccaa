//! The clock `CLOCK_MONOTONIC`: all processes of the machine share it, and no program can set it.

use rustix::time::{clock_gettime, ClockId};

/// Returns the nanoseconds since a fixed moment before these processes began.
#[inline]
pub fn now_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).expect("the clock began at zero and goes forward");
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

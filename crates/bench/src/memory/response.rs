//! The time of each transaction until it is safe: a transaction that is synced with a group waits for the group's last
//! transaction (Rio Vista, section 5.3: group commit "does not improve response time").

use std::time::{Duration, Instant};

use super::change::Memory;
use super::{take, Work};
use crate::error::Result;
use crate::Histogram;

/// Smallest number of measured groups.
const GROUPS_MIN: u64 = 5;

/// Measures the next transactions, in groups of `group`, for the given time. A transaction's time includes the readings
/// of the clock.
pub(super) fn response_times<W: Work, M: Memory>(
    work: &W,
    memory: &mut M,
    next: &mut u64,
    group: u64,
    time: Duration,
) -> Result<Histogram> {
    let (start, mut times, mut begun) = (Instant::now(), Histogram::new(), Vec::new());
    memory.flush()?;
    while times.count() < GROUPS_MIN * group || start.elapsed() < time {
        for _ in 0..group.max(1) {
            begun.push(Instant::now());
            work.run(memory, take(next, 1))?;
        }
        // A truncation of the log within these transactions starts a new group, which is not full at their end. This
        // call flushes it.
        memory.flush()?;
        let ended = Instant::now();
        begun.drain(..).for_each(|begin| {
            times.record(u64::try_from((ended - begin).as_nanos()).unwrap_or(u64::MAX));
        });
    }
    Ok(times)
}

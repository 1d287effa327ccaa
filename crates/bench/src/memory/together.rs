//! Alternating rounds of several threads and of one thread.
//!
//! Threads neither begin nor end at the same moment; on a shared machine the differences are large. So each thread
//! works for a fixed time after it sees that all threads have begun, and records its progress many times. A round's
//! figure counts only the work in the time that all threads have in common: from the moment when the last thread begins
//! to the moment when the first thread ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use vista::{Threads, Worker};

use super::change::OfThread;
use super::rounds::{self, calibrate, nanoseconds, timed, Timings, ROUNDS_MIN};
use super::{take, MemorySettings, Work};
use crate::error::{Error, Result};

/// Duration of a thread's work after all threads have begun.
const ROUND: Duration = Duration::from_millis(2);
/// Number of parts of a short round's work. A thread records its progress after each part.
const PARTS: u64 = 8;

/// A thread: its worker, the offset of its part of the segment, and the number of its next transaction.
type Thread<'t> = (Worker<'t>, u64, u64);

/// A time, and the number of transactions that a thread had ended then.
type Stamp = (Duration, u64);

/// Measures: rounds of all threads alternate with rounds of one thread. Each thread has a part of the segment.
pub(super) fn measure_threads<W: Work>(
    settings: &MemorySettings,
    work: &W,
    threads: &Threads,
    part: u64,
) -> Result<Timings> {
    let refused = |why: vista::Error| Error::engine("vista", "assigning parts of the segment to threads")(why);
    let mut workers = Vec::new();
    for nth in 0..u64::from(settings.threads) {
        let mut worker = threads.worker().map_err(refused)?;
        if !settings.is_striped {
            worker.keep(nth * part, part).map_err(refused)?;
        }
        workers.push((worker, nth * part, 0_u64));
    }
    let (worker, from, next) = &mut workers[0];
    let mut memory = OfThread { worker, from: *from };
    let count = calibrate(rounds::ROUND, &mut |count| timed(count, || work.run(&mut memory, take(next, count))))?;
    let count = (count / PARTS).max(1);
    let (start, mut pairs) = (Instant::now(), Vec::new());
    while pairs.len() < ROUNDS_MIN || start.elapsed() < settings.time {
        // The round of all threads is first in even pairs, and second in odd pairs.
        if pairs.len() % 2 == 0 {
            let all = together(work, &mut workers, count)?;
            pairs.push((all, together(work, &mut workers[..1], count)?));
        } else {
            let one = together(work, &mut workers[..1], count)?;
            pairs.push((together(work, &mut workers, count)?, one));
        }
    }
    let ended = workers.iter().map(|(_, _, next)| *next).collect();
    Ok(Timings {
        pairs,
        truncation_ns: 0.0,
        truncations: 0,
        synced: Vec::new(),
        beside_vista: Vec::new(),
        responses: None,
        ended,
        audit: String::new(),
    })
}

/// Runs one round of threads that work at the same time, and returns its nanoseconds per transaction. Each thread reads
/// the clock after every `count` transactions.
fn together<W: Work>(work: &W, workers: &mut [Thread<'_>], count: u64) -> Result<f64> {
    let round = Round {
        ready: Barrier::new(workers.len()),
        begun: AtomicUsize::new(0),
        all: workers.len(),
        epoch: Instant::now(),
        count,
    };
    let stamps: Result<Vec<Vec<Stamp>>> = std::thread::scope(|scope| {
        let round = &round;
        let threads: Vec<_> =
            workers.iter_mut().map(|thread| scope.spawn(move || round.run_thread(work, thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a benchmark's thread does not panic")).collect()
    });
    Ok(in_common(&stamps?))
}

/// A round of several threads.
struct Round {
    ready: Barrier,
    /// Number of threads that have begun.
    begun: AtomicUsize,
    /// Number of all threads.
    all: usize,
    epoch: Instant,
    /// Number of transactions between two readings of the clock.
    count: u64,
}

impl Round {
    /// Does one thread's work. Returns the thread's progress over time.
    fn run_thread<W: Work>(&self, work: &W, (worker, from, next): &mut Thread<'_>) -> Result<Vec<Stamp>> {
        let mut memory = OfThread { worker, from: *from };
        self.ready.wait();
        let (mut stamps, mut until, mut ended) = (vec![(self.epoch.elapsed(), 0)], None, 0);
        // Release here and acquire below: a thread that sees this increment reads the clock later than this thread did.
        self.begun.fetch_add(1, Ordering::AcqRel);
        loop {
            work.run(&mut memory, take(next, self.count))?;
            ended += self.count;
            let now = self.epoch.elapsed();
            stamps.push((now, ended));
            if self.begun.load(Ordering::Acquire) == self.all && now >= *until.get_or_insert(now + ROUND) {
                return Ok(stamps);
            }
        }
    }
}

/// Returns the nanoseconds per transaction of all threads, in the time that they have in common.
fn in_common(threads: &[Vec<Stamp>]) -> f64 {
    let from = threads.iter().filter_map(|stamps| stamps.first()).map(|stamp| stamp.0).max().unwrap_or_default();
    let to = threads.iter().filter_map(|stamps| stamps.last()).map(|stamp| stamp.0).min().unwrap_or_default();
    let ended: f64 = threads.iter().map(|stamps| ended_by(stamps, to) - ended_by(stamps, from)).sum();
    nanoseconds(to.saturating_sub(from), 1) / ended.max(1.0)
}

/// Returns the number of transactions that a thread had ended at a moment, interpolated between two stamps.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
fn ended_by(stamps: &[Stamp], at: Duration) -> f64 {
    let Some(next) = stamps.iter().position(|stamp| stamp.0 > at) else {
        return stamps.last().map_or(0.0, |stamp| stamp.1 as f64);
    };
    let Some(before) = next.checked_sub(1).map(|before| stamps[before]) else { return 0.0 };
    let part = (at - before.0).as_secs_f64() / (stamps[next].0 - before.0).as_secs_f64();
    before.1 as f64 + part * (stamps[next].1 - before.1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_millis(stamps: &[(u64, u64)]) -> Vec<Stamp> {
        stamps.iter().map(|&(millis, ended)| (Duration::from_millis(millis), ended)).collect()
    }

    #[test]
    fn work_of_a_thread_outside_the_common_time_does_not_count() {
        // The second thread begins 5 ms later. Each thread ends 100 transactions in a millisecond while the other
        // works, and 200 while it works alone.
        let first = of_millis(&[(0, 0), (5, 1000), (10, 1500)]);
        let second = of_millis(&[(5, 0), (10, 500), (15, 1500)]);
        let each = in_common(&[first.clone(), second]);
        assert!((each - 5000.0).abs() < 1e-6, "{each} ns, wanted the 1000 transactions of the 5 ms in common");
        let alone = in_common(&[first]);
        assert!((alone - 1e7 / 1500.0).abs() < 1e-6, "{alone}");
    }

    #[test]
    fn progress_between_two_stamps_is_interpolated() {
        let stamps = of_millis(&[(10, 0), (20, 100), (40, 200)]);
        let at = |millis: u64| ended_by(&stamps, Duration::from_millis(millis));
        assert_eq!(
            [at(0), at(10), at(15), at(20), at(30), at(40), at(50)],
            [0.0, 0.0, 50.0, 100.0, 150.0, 200.0, 200.0]
        );
    }
}

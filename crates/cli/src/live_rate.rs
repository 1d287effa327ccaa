//! Throughput and latency of a running demonstration: for each second, and for the whole time.

use std::fmt;
use std::time::{Duration, Instant};

use libtp_bank::Durability;
use libtp_console::numbers::{micros, nanos, per_second};
use libtp_histogram::Histogram;
use serde::Serialize;

use crate::acknowledgements::Acknowledgement;
use crate::spelling::{grouped, time};

/// Time between two reports.
const SECOND: Duration = Duration::from_secs(1);

/// Commits of each durability: in the present second, and in total.
pub struct LiveRate {
    begin: Instant,
    /// The time at which the present second began.
    second_begin: Instant,
    second: u64,
    now: [Histogram; 2],
    all: [Histogram; 2],
}

/// Throughput and latency of one kind of commit.
#[derive(Clone, Debug, Serialize)]
pub struct Rate {
    /// Transactions a second.
    pub tps: u64,
    /// The time within which half of the commits were acknowledged.
    pub p50_us: f64,
    /// The time within which 99 of 100 commits were acknowledged.
    pub p99_us: f64,
}

/// Throughput and latency of both kinds of commits.
#[derive(Clone, Debug, Serialize)]
pub struct Rates {
    /// Transactions a second, of both kinds together.
    pub tps: u64,
    /// Commits that waited for the disk.
    pub sync: Rate,
    /// Commits that did not wait for the disk.
    pub relaxed: Rate,
}

/// The report of one second.
#[derive(Clone, Debug, Serialize)]
pub struct Second {
    /// Number of the second, from 1.
    pub second: u64,
    /// Throughput and latency in this second.
    #[serde(flatten)]
    pub rates: Rates,
}

impl LiveRate {
    /// Begins the first second at `now`.
    pub fn begin(now: Instant) -> LiveRate {
        let empty = || [Histogram::new(), Histogram::new()];
        LiveRate { begin: now, second_begin: now, second: 0, now: empty(), all: empty() }
    }

    /// Counts a commit.
    pub fn note(&mut self, acknowledgement: &Acknowledgement) {
        self.now[place(acknowledgement.durability)].record(u64::from(acknowledgement.latency_nanos));
    }

    /// Returns the report of the present second, if that second is over.
    pub fn tick(&mut self, now: Instant) -> Option<Second> {
        self.tick_after(SECOND, now)
    }

    /// Returns the report of the second that the final kill cut short, if at least half of that second has passed.
    pub fn last_tick(&mut self, now: Instant) -> Option<Second> {
        self.tick_after(SECOND / 2, now)
    }

    fn tick_after(&mut self, enough: Duration, now: Instant) -> Option<Second> {
        let elapsed = now - self.second_begin;
        if elapsed < enough {
            return None;
        }
        let rates = Rates::of(&self.now, elapsed);
        self.close(now);
        self.second += 1;
        Some(Second { second: self.second, rates })
    }

    /// Returns the figures of all seconds, up to `now`.
    pub fn finish(mut self, now: Instant) -> Rates {
        self.close(now);
        Rates::of(&self.all, now - self.begin)
    }

    fn close(&mut self, now: Instant) {
        for (all, one) in self.all.iter_mut().zip(&mut self.now) {
            all.merge(&std::mem::replace(one, Histogram::new()));
        }
        self.second_begin = now;
    }
}

fn place(durability: Durability) -> usize {
    match durability {
        Durability::Sync => 0,
        Durability::Relaxed | Durability::Rio => 1,
    }
}

impl Rates {
    fn of(latencies: &[Histogram; 2], elapsed: Duration) -> Rates {
        let rate = |latency: &Histogram| Rate {
            tps: per_second(latency.count(), nanos(elapsed)),
            p50_us: micros(latency.permille(500)),
            p99_us: micros(latency.permille(990)),
        };
        let [sync, relaxed] = latencies;
        let tps = per_second(sync.count() + relaxed.count(), nanos(elapsed));
        Rates { tps, sync: rate(sync), relaxed: rate(relaxed) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.tps == 0 {
            return write!(f, "{:>9}", "none");
        }
        write!(
            f,
            "{:>9} per second (half within {}, 99 % within {})",
            grouped(self.tps),
            time(self.p50_us),
            time(self.p99_us)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_bank::{Scale, Transfers};

    #[test]
    fn each_second_is_reported_once_and_the_result_covers_all_seconds() {
        let begin = Instant::now();
        let mut live = LiveRate::begin(begin);
        let transfer = Transfers::new(Scale::SMALL, 1, 0).next_transfer();
        let commits = |live: &mut LiveRate, count, durability| {
            (0..count)
                .for_each(|_| live.note(&Acknowledgement { transfer, durability, latency_nanos: 8_000, at_nanos: 0 }));
        };
        commits(&mut live, 30, Durability::Sync);
        commits(&mut live, 70, Durability::Relaxed);
        assert!(live.tick(begin + Duration::from_millis(999)).is_none());
        let first = live.tick(begin + SECOND).unwrap();
        assert_eq!((first.second, first.rates.tps, first.rates.sync.tps, first.rates.relaxed.tps), (1, 100, 30, 70));
        assert!((7.8..8.2).contains(&first.rates.sync.p50_us), "{first:?}");
        commits(&mut live, 300, Durability::Sync);
        assert!(live.tick(begin + SECOND * 3 / 2).is_none());
        assert!(live.last_tick(begin + SECOND * 5 / 4).is_none());
        assert_eq!(live.last_tick(begin + SECOND * 3 / 2).unwrap().rates.tps, 600);
        let all = live.finish(begin + 2 * SECOND);
        assert_eq!((all.tps, all.sync.tps, all.relaxed.tps), (200, 165, 35));
    }
}

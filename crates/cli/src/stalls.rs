//! Measures how long other processes stood still after a process was killed.
//!
//! For each kill there are two times: the time until the next acknowledged commit of any other process, and the time
//! until every process that was at work at the kill has committed again (or was killed itself). The committing process
//! reads a clock that all processes share, so the delay of its report does not count.

use serde::Serialize;

/// Kills, and the stall after each kill.
#[derive(Debug, Default)]
pub struct Stalls {
    open: Vec<Kill>,
    next: Vec<u64>,
    all: Vec<u64>,
}

/// A kill whose stall has not ended.
#[derive(Debug)]
struct Kill {
    at: u64,
    victim: u32,
    /// The time until another process's next commit. Reports come out of order, so a later report may have a shorter
    /// time.
    next: Option<u64>,
    /// The longest time until a survivor committed again, among the survivors that have committed again.
    all: u64,
    /// Survivors that have not committed again.
    missing: Vec<u32>,
}

/// The figures, in milliseconds; zero if no process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StallReport {
    /// The time from a kill to another process's next commit: the median of all kills.
    pub stall_p50_ms: f64,
    /// The 99th percentile of the time from a kill to another process's next commit.
    pub stall_p99_ms: f64,
    /// The longest time from a kill to another process's next commit.
    pub stall_max_ms: f64,
    /// The time from a kill until every survivor has committed again: the median of all kills.
    pub all_again_p50_ms: f64,
    /// The 99th percentile of the time from a kill until every survivor has committed again.
    pub all_again_p99_ms: f64,
    /// The longest time from a kill until every survivor has committed again.
    pub all_again_max_ms: f64,
}

impl Stalls {
    /// Notes that the client `victim` was killed at the time `at`. The `survivors` were at work then.
    pub fn killed(&mut self, victim: u32, at: u64, survivors: Vec<u32>) {
        for kill in &mut self.open {
            kill.missing.retain(|&client| client != victim);
        }
        self.open.push(Kill { at, victim, next: None, all: 0, missing: survivors });
        self.close();
    }

    /// Notes that a client committed at the time `at`. The times of one client are reported in order.
    #[inline]
    pub fn committed(&mut self, client: u32, at: u64) {
        if !self.open.is_empty() {
            self.note(client, at);
        }
    }

    fn note(&mut self, client: u32, at: u64) {
        for kill in self.open.iter_mut().filter(|kill| kill.victim != client) {
            let Some(after) = at.checked_sub(kill.at) else { continue };
            kill.next = Some(kill.next.map_or(after, |next| next.min(after)));
            if let Some(place) = kill.missing.iter().position(|&missing| missing == client) {
                kill.missing.swap_remove(place);
                kill.all = kill.all.max(after);
            }
        }
        self.close();
    }

    /// Moves the kills whose stall has ended to the results.
    fn close(&mut self) {
        let (next, all) = (&mut self.next, &mut self.all);
        self.open.retain(|kill| {
            let Some(first) = kill.next.filter(|_| kill.missing.is_empty()) else { return true };
            next.push(first);
            all.push(kill.all.max(first));
            false
        });
    }

    /// Returns the number of kills.
    pub fn kills(&self) -> usize {
        self.open.len() + self.next.len()
    }

    /// Returns the longest time so far between a kill and another process's next commit, in milliseconds.
    pub fn worst_ms(&self) -> f64 {
        millis(self.next.iter().copied().max().unwrap_or(0))
    }

    /// Returns the figures. A survivor that has not committed again by `end` counts as standing still until `end`.
    pub fn finish(mut self, end: u64) -> StallReport {
        for kill in std::mem::take(&mut self.open) {
            let until_end = end.saturating_sub(kill.at);
            let first = kill.next.unwrap_or(until_end);
            self.next.push(first);
            self.all.push(if kill.missing.is_empty() { kill.all.max(first) } else { until_end });
        }
        self.next.sort_unstable();
        self.all.sort_unstable();
        StallReport {
            stall_p50_ms: rank(&self.next, 50),
            stall_p99_ms: rank(&self.next, 99),
            stall_max_ms: rank(&self.next, 100),
            all_again_p50_ms: rank(&self.all, 50),
            all_again_p99_ms: rank(&self.all, 99),
            all_again_max_ms: rank(&self.all, 100),
        }
    }
}

/// Returns the smallest time of `sorted` that `percent` of the times do not exceed, in milliseconds.
fn rank(sorted: &[u64], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    millis(sorted.get(place).copied().unwrap_or(0))
}

/// Converts nanoseconds to milliseconds, to the microsecond.
fn millis(nanos: u64) -> f64 {
    (nanos as f64 / 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_stall_ends_with_another_clients_next_commit_and_the_stall_of_all_with_the_last_survivors_commit() {
        let mut stalls = Stalls::default();
        stalls.killed(1, 100 * MS, vec![2, 3]);
        // The first commit is the victim's own, and is reported late. The second commit was made before the kill. The
        // third commit is of a new client, which is no survivor.
        stalls.committed(1, 101 * MS);
        stalls.committed(2, 99 * MS);
        stalls.committed(4, 109 * MS);
        // The first survivor's commit, at 103 ms, is reported last.
        stalls.committed(3, 107 * MS);
        stalls.committed(2, 103 * MS);
        stalls.committed(2, 200 * MS);
        assert_eq!((stalls.kills(), stalls.worst_ms()), (1, 3.0));
        let report = stalls.finish(900 * MS);
        assert_eq!((report.stall_p50_ms, report.stall_max_ms, report.all_again_max_ms), (3.0, 3.0, 7.0));
    }

    #[test]
    fn a_killed_survivor_is_not_waited_for_and_a_silent_survivor_stalls_until_the_end() {
        let mut stalls = Stalls::default();
        stalls.killed(1, 10 * MS, vec![2, 3]);
        stalls.committed(2, 11 * MS);
        stalls.killed(3, 20 * MS, vec![2]);
        assert_eq!(stalls.kills(), 2);
        let report = stalls.finish(50 * MS);
        assert_eq!((report.stall_p50_ms, report.stall_max_ms), (1.0, 30.0));
        assert_eq!((report.all_again_p50_ms, report.all_again_max_ms), (1.0, 30.0));
    }

    #[test]
    fn without_survivors_both_times_end_with_the_next_commit() {
        let mut stalls = Stalls::default();
        stalls.killed(1, 10 * MS, Vec::new());
        stalls.committed(2, 15 * MS);
        stalls.killed(2, 20 * MS, Vec::new());
        let report = stalls.finish(90 * MS);
        assert_eq!((report.stall_p50_ms, report.all_again_p50_ms), (5.0, 5.0));
        assert_eq!((report.stall_max_ms, report.all_again_max_ms), (70.0, 70.0));
    }

    #[test]
    fn ranks_are_percentiles() {
        let sorted: Vec<u64> = (1..=200).map(|n| n * MS).collect();
        assert_eq!([50, 99, 100].map(|percent| rank(&sorted, percent)), [100.0, 198.0, 200.0]);
        assert_eq!([50, 99, 100].map(|percent| rank(&[], percent)), [0.0; 3]);
    }
}

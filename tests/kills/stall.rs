//! How long each kill delayed the other workers.
//!
//! There are three figures. *Any* is the time until the next acknowledgement of some survivor. *Every* is the time
//! until each survivor has had an acknowledgement. *Waited* is the time until the next acknowledgement of a survivor
//! that waited for a lock of the victim, if such a wait was observed. For comparison, the first two figures are also
//! computed for instants in a run without kills, because there are gaps between acknowledgements even without kills.

use std::fmt;

/// A kill, or an instant in a run without kills.
#[derive(Clone, Debug)]
pub struct Instant {
    /// The time, on the clock of all processes.
    pub at: u64,
    /// The numbers of the workers that were working and were not killed at this instant.
    pub survivors: Vec<u64>,
    /// The survivors that waited for the victim.
    pub waited: Vec<u64>,
}

/// The acknowledgements of one worker, in ascending order, and the time of its death if it was killed.
#[derive(Clone, Debug)]
pub struct WorkerHistory {
    pub number: u64,
    pub acknowledged: Vec<u64>,
    pub killed: Option<u64>,
}

/// The delays after many kills or instants, in nanoseconds, ascending.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    any: Vec<u64>,
    every: Vec<u64>,
    waited: Vec<u64>,
}

impl Stalls {
    /// Computes the figures.
    pub fn of(instants: &[Instant], histories: &[WorkerHistory]) -> Stalls {
        let mut stalls = Stalls::default();
        for instant in instants {
            let survivors = histories.iter().filter(|life| instant.survivors.contains(&life.number));
            let mut longest = 0;
            let mut shortest = None;
            for life in survivors {
                let next = life.acknowledged.partition_point(|&stamp| stamp <= instant.at);
                let stamp = life.acknowledged.get(next).copied();
                // A worker that was killed before its next acknowledgement was delayed at least until its death.
                let held_up = stamp.or(life.killed).map_or(0, |end| end.saturating_sub(instant.at));
                longest = longest.max(held_up);
                if instant.waited.contains(&life.number) {
                    stalls.waited.push(held_up);
                }
                let Some(gap) = stamp.map(|stamp| stamp - instant.at) else { continue };
                shortest = Some(shortest.map_or(gap, |before: u64| before.min(gap)));
            }
            if let Some(shortest) = shortest {
                stalls.any.push(shortest);
                stalls.every.push(longest);
            }
        }
        stalls.sort();
        stalls
    }

    /// Adds the figures of another run.
    pub fn add(&mut self, other: Stalls) {
        self.any.extend(other.any);
        self.every.extend(other.every);
        self.waited.extend(other.waited);
        self.sort();
    }

    fn sort(&mut self) {
        [&mut self.any, &mut self.every, &mut self.waited].into_iter().for_each(|times| times.sort_unstable());
    }

    /// Returns the number of kills after which a survivor has had an acknowledgement.
    pub fn len(&self) -> usize {
        self.any.len()
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |times: &[u64]| {
            let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().wrapping_sub(1)));
            let millis = |time: Option<&u64>| time.map_or("-".into(), |&time| format!("{:.1}", time as f64 / 1e6));
            format!("{}/{}/{}", millis(at(50)), millis(at(99)), millis(times.last()))
        };
        write!(f, "any {} ms, every {} ms", row(&self.any), row(&self.every))?;
        match self.waited.len() {
            0 => Ok(()),
            count => write!(f, ", {count} waiters for the victim {} ms", row(&self.waited)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Instant, Stalls, WorkerHistory};

    #[test]
    fn a_survivor_that_is_killed_later_counts_until_its_death() {
        let histories = [
            WorkerHistory { number: 1, acknowledged: vec![5, 30], killed: None },
            WorkerHistory { number: 2, acknowledged: vec![5, 12, 40], killed: None },
            WorkerHistory { number: 3, acknowledged: vec![5], killed: Some(25) },
            WorkerHistory { number: 4, acknowledged: vec![5], killed: Some(35) },
        ];
        let stalls = Stalls::of(&[Instant { at: 10, survivors: vec![1, 2, 3, 4], waited: vec![1, 4] }], &histories);
        assert_eq!((&stalls.any[..], &stalls.every[..]), (&[2][..], &[25][..]));
        assert_eq!((stalls.len(), &stalls.waited[..]), (1, &[20, 25][..]));
        let none = Stalls::of(&[Instant { at: 50, survivors: vec![1, 2, 3], waited: Vec::new() }], &histories);
        assert_eq!(none.len(), 0);
        assert_eq!(none.to_string(), "any -/-/- ms, every -/-/- ms");
    }
}

//! Durations of repairs, counted in the region: for `tp stat`.
//!
//! Repairing sessions write the counts, and tools read them. There are two times for each dead session. The first is
//! the time of the physical half of the repair; other sessions may wait for that half with latches held. The second is
//! the time from the moment when the repairer learned of the death until the slot is free (the burial). Neither time
//! includes the time from the end of the process until the kernel reports the death.

use std::time::Duration;

use rio::{shared, Word};

/// The number of classes: four for each power of two of microseconds.
const CLASSES: usize = 96;
const PER_OCTAVE: u32 = 4;

shared! {
    /// The counts.
    pub(crate) struct RepairCounts {
        /// Number of physical halves, by class.
        pub(crate) physical: [Word<u32>; 96],
        /// Number of repairs, by class of the time from the report of the death to the burial.
        pub(crate) total: [Word<u32>; 96],
        /// The longest physical half, in microseconds.
        pub(crate) physical_max: Word<u64>,
        /// The longest time from a report to a burial, in microseconds.
        pub(crate) total_max: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 6],
    } size 832
}

/// The distribution of a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    counts: [u64; CLASSES],
    max_micros: u64,
}

/// The durations of a region's repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairTimes {
    /// The physical halves.
    pub physical: Times,
    /// The times from the report of each death until nothing of the dead session was left.
    pub total: Times,
}

impl RepairTimes {
    /// Adds the durations of another region.
    pub fn add(&mut self, other: &RepairTimes) {
        self.physical.add(&other.physical);
        self.total.add(&other.total);
    }
}

impl Default for Times {
    fn default() -> Times {
        Times { counts: [0; CLASSES], max_micros: 0 }
    }
}

impl Times {
    fn of(counts: &[Word<u32>; CLASSES], max: &Word<u64>) -> Times {
        Times { counts: std::array::from_fn(|class| u64::from(counts[class].load())), max_micros: max.load() }
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the longest duration.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_micros)
    }

    /// Returns the duration that `percent` percent of the durations did not exceed. The exact duration is at most a
    /// fifth shorter than the result.
    pub fn percentile(&self, percent: u64) -> Duration {
        let wanted = (self.count() * percent).div_ceil(100).max(1);
        let mut seen = 0;
        for (class, count) in (0..).zip(self.counts) {
            seen += count;
            if seen >= wanted {
                return Duration::from_micros(end_of(class)).min(self.max());
            }
        }
        Duration::ZERO
    }

    /// Adds the durations of another region.
    pub fn add(&mut self, other: &Times) {
        self.counts.iter_mut().zip(other.counts).for_each(|(own, others)| *own += others);
        self.max_micros = self.max_micros.max(other.max_micros);
    }
}

impl RepairCounts {
    pub(crate) fn note_physical(&self, took: Duration) {
        note(&self.physical, &self.physical_max, took);
    }

    pub(crate) fn note_total(&self, took: Duration) {
        note(&self.total, &self.total_max, took);
    }

    pub(crate) fn times(&self) -> RepairTimes {
        RepairTimes {
            physical: Times::of(&self.physical, &self.physical_max),
            total: Times::of(&self.total, &self.total_max),
        }
    }
}

fn note(counts: &[Word<u32>; CLASSES], max: &Word<u64>, took: Duration) {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    counts[class_of(micros)].fetch_add(1);
    max.fetch_max(micros);
}

/// Returns the class of a time: four for each power of two, by its highest three bits.
fn class_of(micros: u64) -> usize {
    let micros = micros.max(u64::from(PER_OCTAVE));
    let octave = micros.ilog2();
    let quarter = (micros >> (octave - 2)) & 3;
    let class = u64::from((octave - 2) * PER_OCTAVE) + quarter;
    usize::try_from(class).map_or(CLASSES - 1, |class| class.min(CLASSES - 1))
}

/// Returns the longest time in a class.
fn end_of(class: u32) -> u64 {
    let (octave, quarter) = (class / PER_OCTAVE, u64::from(class % PER_OCTAVE));
    ((5 + quarter) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_class_with_the_next_higher_end() {
        for micros in (4..2_000).chain((1 << 20)..(1 << 20) + 50) {
            let class = u32::try_from(class_of(micros)).unwrap();
            assert!(end_of(class) >= micros, "{micros} is in class {class}, which ends at {}", end_of(class));
            assert!(class == 0 || end_of(class - 1) < micros, "{micros} is in class {class}");
        }
        assert_eq!(class_of(0), 0);
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn percentiles_cover_the_noted_times() {
        let mut times = Times::default();
        for micros in [10, 20, 30, 4000] {
            times.counts[class_of(micros)] += 1;
            times.max_micros = times.max_micros.max(micros);
        }
        assert_eq!(times.count(), 4);
        assert!((20..25).contains(&times.percentile(50).as_micros()), "{:?}", times.percentile(50));
        assert_eq!(times.percentile(99), Duration::from_micros(4000));
        let twice = {
            let mut twice = times.clone();
            twice.add(&times);
            twice
        };
        assert_eq!((twice.count(), twice.max()), (8, times.max()));
        assert_eq!(Times::default().percentile(99), Duration::ZERO);
    }
}

//! Counts latencies in buckets whose width grows with the value: little memory, an error of at most 1.6 %.
//!
//! Each power of two is cut into 32 buckets; a percentile is reported as the middle of its
//! bucket. Values are nanoseconds; the maximum is kept exactly.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// Buckets in each power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// Exact buckets below 32, then 32 for each of the 59 powers of two above.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Counts of latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

/// The serialized form, sent over a pipe: only buckets in use.
#[derive(Serialize, Deserialize)]
struct Sparse {
    max: u64,
    buckets: Vec<(usize, u64)>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new()
    }
}

impl Histogram {
    /// Makes an empty histogram.
    pub fn new() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], count: 0, max: 0 }
    }

    /// Counts one latency, in nanoseconds.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.max = self.max.max(nanos);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// Returns the number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest latency, in nanoseconds; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the latency that `permille` thousandths of the transactions do not exceed, in nanoseconds.
    pub fn permille(&self, permille: u64) -> u64 {
        let wanted = u128::from(self.count) * u128::from(permille.min(1000));
        let mut seen: u128 = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += u128::from(count) * 1000;
            if count > 0 && seen >= wanted {
                return middle(index).min(self.max);
            }
        }
        0
    }
}

impl From<Sparse> for Histogram {
    fn from(sparse: Sparse) -> Histogram {
        let mut histogram = Histogram::new();
        for (index, count) in sparse.buckets {
            // An index out of range counts in the last bucket: input from a pipe must not panic.
            histogram.counts[index.min(BUCKETS - 1)] += count;
            histogram.count += count;
        }
        histogram.max = sparse.max;
        histogram
    }
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Sparse {
        let used = histogram.counts.iter().copied().enumerate().filter(|&(_, count)| count > 0);
        Sparse { max: histogram.max, buckets: used.collect() }
    }
}

/// Returns the bucket of a value: the value itself below 32, else its power of two and the five bits after the
/// leading one.
#[inline]
fn bucket(value: u64) -> usize {
    let index = if value < SUB {
        value
    } else {
        let shift = value.ilog2() - SUB_BITS;
        (u64::from(shift) << SUB_BITS) + (value >> shift)
    };
    usize::try_from(index).expect("there are fewer than 2,000 buckets")
}

/// Returns the middle of a bucket.
fn middle(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB {
        return index;
    }
    let shift = (index >> SUB_BITS) - 1;
    let low = (index - (shift << SUB_BITS)) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_two_percent_of_the_middle_of_its_bucket() {
        let mut value: u64 = 1;
        while value < u64::MAX / 3 {
            for near in [value - 1, value, value + 1] {
                let middle = middle(bucket(near));
                assert!(middle.abs_diff(near) * 50 <= near, "{near} is reported as {middle}");
            }
            value = value + value / 7 + 1;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_follow_each_other_without_gap() {
        for value in 0..100_000u64 {
            let step = bucket(value + 1) - bucket(value);
            assert!(step <= 1, "between {value} and the next lie {step} buckets");
        }
    }

    #[test]
    fn percentiles_of_one_to_a_million_are_right() {
        let mut histogram = Histogram::new();
        (1..=1_000_000u64).rev().for_each(|value| histogram.record(value));
        for (permille, right) in [(500, 500_000u64), (990, 990_000), (999, 999_000)] {
            let said = histogram.permille(permille);
            assert!(said.abs_diff(right) * 50 <= right, "{permille}: {said}");
        }
        assert_eq!(histogram.max(), 1_000_000);
        assert_eq!(histogram.count(), 1_000_000);
        assert!(histogram.permille(1000) <= 1_000_000);
    }

    #[test]
    fn a_rare_slow_transaction_is_in_the_tail_and_not_in_the_median() {
        let mut histogram = Histogram::new();
        (0..980).for_each(|_| histogram.record(100));
        (0..20).for_each(|_| histogram.record(50_000));
        assert_eq!(histogram.permille(500), middle(bucket(100)));
        assert!(histogram.permille(990) > 49_000);
        assert_eq!(Histogram::new().permille(500), 0);
    }

    #[test]
    fn merging_and_sending_keep_every_count() {
        let (mut one, mut two, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for value in 0..10_000u64 {
            let half = if value % 3 == 0 { &mut one } else { &mut two };
            half.record(value * value);
            both.record(value * value);
        }
        let line = serde_json::to_string(&two).unwrap();
        one.merge(&serde_json::from_str(&line).unwrap());
        assert_eq!(one, both);
    }
}

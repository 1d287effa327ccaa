//! A histogram of latencies. The width of its buckets grows with the value, so it needs few buckets.
//!
//! The range from each power of two to the next has 32 buckets. A percentile is reported as the middle of its bucket,
//! with an error of at most 1.6 %. Values are nanoseconds. The maximum is exact.

#![forbid(unsafe_code)]

use serde::{Deserialize, Serialize};

/// The logarithm, to base two, of the number of buckets between a power of two and the next.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;
/// 32 buckets of one value each, for the values below 32; then 32 buckets for each of the 59 powers of two from 32 on.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) << SUB_BITS;

/// Counts of latencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    max: u64,
}

/// The serialized form, which processes send over a pipe: only the buckets that are not empty.
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

    /// Returns the number of counted latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest latency, in nanoseconds; 0 if no latency was counted.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the latency, in nanoseconds, that `permille` thousandths of the counted latencies do not exceed; 0 if no
    /// latency was counted.
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
            // A count whose index is out of range goes to the last bucket: wrong input from a pipe must not panic.
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

/// Returns the index of a value's bucket. A value below 32 is its own index. The index of a larger value consists of
/// its power of two and of the five bits after its leading bit.
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

/// Returns the value in the middle of a bucket.
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
    fn there_is_no_gap_between_buckets() {
        for value in 0..100_000u64 {
            let step = bucket(value + 1) - bucket(value);
            assert!(step <= 1, "the bucket of {value} and the bucket of the next value are {step} apart");
        }
    }

    #[test]
    fn percentiles_of_one_to_a_million_are_right() {
        let mut histogram = Histogram::new();
        (1..=1_000_000u64).rev().for_each(|value| histogram.record(value));
        for (permille, right) in [(500, 500_000u64), (990, 990_000), (999, 999_000)] {
            let said = histogram.permille(permille);
            assert!(said.abs_diff(right) * 50 <= right, "the latency of permille {permille}: {said}");
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

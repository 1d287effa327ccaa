//! Which bucket a key belongs to, and on which page a bucket begins.
//!
//! Litwin's linear hashing (1980): with `n` buckets, a key goes by as many low bits of its hash as number them; where that
//! names a bucket that is not there yet, by one bit less. One more bucket takes its records from a single other one.
//!
//! Buckets begin on pages of their own, which stand in *extents*: one page each for the first eight buckets, then eight
//! extents of equal length for each doubling. So the page of a bucket is found by arithmetic from a short table in the file's
//! header, and at most an eighth of a file waits to be used. Neither table nor number ever goes back, so a process remembers
//! what it saw last; who used an old number finds a bucket that has given the key away, and looks again.

use std::sync::atomic::{AtomicU32, Ordering};

/// Extents a file may have.
pub const EXTENTS: usize = 240;
/// Buckets a file may have.
pub const BUCKETS_MAX: u32 = 1 << 31;
/// So many buckets have an extent each; so many extents has every doubling.
const STEP_BITS: u32 = 3;

/// How many low bits of a hash number `buckets` buckets, and the bucket of a hash.
#[inline]
pub fn bucket_of(hash: u64, buckets: u32) -> u32 {
    let bits = u32::BITS - buckets.saturating_sub(1).leading_zeros();
    let wide = low_bits(hash, bits);
    if wide < buckets {
        wide
    } else {
        low_bits(hash, bits.saturating_sub(1))
    }
}

/// The lowest bits of a hash, at most 32.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the mask leaves no more than 32 bits
pub fn low_bits(hash: u64, bits: u32) -> u32 {
    (hash & ((1_u64 << bits) - 1)) as u32
}

/// The bucket that gives records to a new one of this number, and by how many bits the two are told from then on.
pub fn parent_of(new: u32) -> (u32, u32) {
    let bits = u32::BITS - new.leading_zeros();
    // Nobody gives to the first; a damaged page may say so.
    (new.saturating_sub(1 << bits.saturating_sub(1)), bits)
}

/// Where a bucket stands in the table of extents: which one, its place in it, and how many the extent has.
pub fn extent_of(bucket: u32) -> (usize, u32, u32) {
    if bucket < 1 << STEP_BITS {
        return (bucket as usize, 0, 1);
    }
    let top = bucket.ilog2();
    let shift = top - STEP_BITS;
    let step = (bucket >> shift) & ((1 << STEP_BITS) - 1);
    let index = (1 << STEP_BITS) + ((shift << STEP_BITS) | step);
    (index as usize, bucket & ((1 << shift) - 1), 1 << shift)
}

/// What a process last saw of a file's buckets.
#[derive(Debug)]
pub(crate) struct Geometry {
    buckets: AtomicU32,
    extents: [AtomicU32; EXTENTS],
}

impl Geometry {
    pub(crate) fn new() -> Geometry {
        Geometry { buckets: AtomicU32::new(0), extents: [const { AtomicU32::new(0) }; EXTENTS] }
    }

    /// How many buckets there are; zero if that was never seen.
    #[inline]
    pub(crate) fn buckets(&self) -> u32 {
        // Acquire: pairs with the release in `learn`; the extents of these buckets are there.
        self.buckets.load(Ordering::Acquire)
    }

    /// The page a bucket begins on; none if that was never seen.
    #[inline]
    pub(crate) fn page(&self, bucket: u32) -> Option<u32> {
        let (index, at, _) = extent_of(bucket);
        // Relaxed: ordered by the number of buckets.
        let first = self.extents.get(index)?.load(Ordering::Relaxed);
        (first != 0).then(|| first.saturating_add(at))
    }

    /// Notes what the file's header says.
    pub(crate) fn learn(&self, buckets: u32, extents: impl Iterator<Item = u32>) {
        for (place, first) in self.extents.iter().zip(extents) {
            // Relaxed: ordered by the number of buckets.
            place.store(first, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `buckets`.
        self.buckets.store(buckets, Ordering::Release);
    }

    /// Forgets everything: memory was given up, and what comes back may be less.
    pub(crate) fn forget(&self) {
        self.learn(0, std::iter::repeat_n(0, EXTENTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_more_takes_from_one_bucket_only() {
        for buckets in 1..300 {
            let (parent, bits) = parent_of(buckets);
            assert!(parent < buckets);
            for number in 0..2000_u64 {
                let hash = crate::key_hash::key_hash(&number.to_le_bytes());
                let (before, after) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                if after == before {
                    assert!(before != parent || low_bits(hash, bits) == parent);
                } else {
                    assert_eq!((before, after), (parent, buckets));
                    assert_eq!(low_bits(hash, bits), buckets);
                }
            }
        }
    }

    #[test]
    fn every_bucket_has_a_place_of_its_own() {
        let mut before = (usize::MAX, 0, 0);
        for bucket in 0..100_000 {
            let (index, at, count) = extent_of(bucket);
            assert!(at < count);
            if at == 0 {
                assert_eq!(index, before.0.wrapping_add(1), "{bucket}");
                assert_eq!(before.1 + u32::from(bucket != 0), before.2);
            } else {
                assert_eq!((index, at, count), (before.0, before.1 + 1, before.2));
            }
            before = (index, at, count);
        }
        assert!(extent_of(BUCKETS_MAX - 1).0 < EXTENTS);
    }
}

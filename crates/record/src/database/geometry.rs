//! Maps a key's hash to its bucket, and a bucket to its first page.
//!
//! Litwin's linear hashing (1980): with `n` buckets, the number of a key's bucket is the low bits of its hash, with as
//! many bits as `n` needs. If that bucket does not exist yet, one bit less is used. A new bucket gets its records from
//! a single other bucket.
//!
//! Each bucket has its own first page. The first pages are in *extents*: one page each for the first eight buckets,
//! then eight extents of equal length for each doubling. So a short table in the file's header and arithmetic give the
//! page of a bucket, and at most an eighth of the first pages is unused. Neither the table nor the number of buckets
//! ever shrinks, so a process can keep a copy. A session with an outdated number of buckets may find a bucket from
//! which the key has moved. It then reads the header and searches again.

use std::sync::atomic::{AtomicU32, Ordering};

/// The largest number of extents of a file.
pub const EXTENTS: usize = 240;
/// The largest number of buckets of a file.
pub const BUCKETS_MAX: u32 = 1 << 31;
/// Logarithm of the number of extents for the first buckets, and for every doubling after them.
const STEP_BITS: u32 = 3;

/// Returns the bucket of a hash among `buckets` buckets.
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

/// Returns the lowest bits of a hash, at most 32.
#[inline]
#[allow(clippy::cast_possible_truncation)] // the mask leaves no more than 32 bits
pub fn low_bits(hash: u64, bits: u32) -> u32 {
    (hash & ((1_u64 << bits) - 1)) as u32
}

/// Returns the bucket from which records move to the new bucket `new`, and the number of hash bits that both buckets
/// have after the split.
pub fn parent_of(new: u32) -> (u32, u32) {
    let bits = u32::BITS - new.leading_zeros();
    // The first bucket has no parent, but a damaged page may lead to this call.
    (new.saturating_sub(1 << bits.saturating_sub(1)), bits)
}

/// Returns a bucket's place in the table of extents: the extent's index, the bucket's place in it, and the extent's
/// length.
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

/// The last known state of a file's buckets in this process.
#[derive(Debug)]
pub(crate) struct Geometry {
    buckets: AtomicU32,
    extents: [AtomicU32; EXTENTS],
}

impl Geometry {
    pub(crate) fn new() -> Geometry {
        Geometry { buckets: AtomicU32::new(0), extents: [const { AtomicU32::new(0) }; EXTENTS] }
    }

    /// Returns the number of buckets; zero if unknown.
    #[inline]
    pub(crate) fn buckets(&self) -> u32 {
        // Acquire: pairs with the release in `learn`, so that the extents of these buckets are visible.
        self.buckets.load(Ordering::Acquire)
    }

    /// Returns the first page of a bucket; `None` if unknown.
    #[inline]
    pub(crate) fn page(&self, bucket: u32) -> Option<u32> {
        let (index, at, _) = extent_of(bucket);
        // Relaxed: ordered by the number of buckets.
        let first = self.extents.get(index)?.load(Ordering::Relaxed);
        (first != 0).then(|| first.saturating_add(at))
    }

    /// Stores the contents of the file's header.
    pub(crate) fn set(&self, buckets: u32, extents: impl Iterator<Item = u32>) {
        for (place, first) in self.extents.iter().zip(extents) {
            // Relaxed: ordered by the number of buckets.
            place.store(first, Ordering::Relaxed);
        }
        // Release: pairs with the acquire in `buckets`.
        self.buckets.store(buckets, Ordering::Release);
    }

    /// Forgets everything: the region was discarded, and the recovered file may have fewer buckets.
    pub(crate) fn forget(&self) {
        self.set(0, std::iter::repeat_n(0, EXTENTS));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_takes_records_from_one_bucket_only() {
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

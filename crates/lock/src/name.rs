//! The name of an object: opaque to the lock manager.
//!
//! Paper: LIBTP 3.2.3. Departure: the paper's object is a file id and a page number; here it is sixteen bytes whose
//! meaning the lock manager does not know, so the lock manager treats databases, pages, records and gaps alike.

use std::fmt;

/// The name of an object: sixteen bytes that the lock manager does not interpret.
///
/// By convention `kind` is 1 for a database, 2 for a page, 3 for a record, 4 for the gap below a record, 5 for a
/// segment of memory, 6 for an object that the program names, and 7 for the right to put plain files in their places,
/// which only one transaction has at a time. `space` is the database or segment. `hash` is a page number or a hash of
/// the key, fixed in the file format (PROTOCOLS K2). Two keys with the same hash share one lock. This costs
/// concurrency, but no correctness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName {
    /// Which database.
    pub space: u32,
    /// What kind of object.
    pub kind: u32,
    /// Which object of that kind.
    pub hash: u64,
}

impl LockName {
    /// Returns the first of the two words that store the name.
    #[inline]
    pub(crate) fn low(self) -> u64 {
        u64::from(self.space) | (u64::from(self.kind) << 32)
    }

    /// Makes a name from its two words.
    #[inline]
    pub(crate) fn from_words(low: u64, hash: u64) -> LockName {
        let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).expect("masked to 32 bits");
        LockName { space: half(low), kind: half(low >> 32), hash }
    }

    /// Mixes the whole name into 64 bits, which determine its place in the table. The result is stored only in the
    /// region.
    #[inline]
    pub(crate) fn mixed(self) -> u64 {
        let seed = self.hash ^ self.low().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let wide = u128::from(seed) * 0xD6E8_FEB8_6659_FD93;
        // Both halves are used, so that every bit of the name affects the low bits and the high bits.
        #[allow(clippy::cast_possible_truncation, reason = "the halves of the product are wanted")]
        let halves = (wide as u64, (wide >> 64) as u64);
        halves.0 ^ halves.1
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            1 => write!(f, "database {}", self.space),
            2 => write!(f, "page {} of database {}", self.hash, self.space),
            3 => write!(f, "record {:#x} of database {}", self.hash, self.space),
            4 => write!(f, "gap {:#x} of database {}", self.hash, self.space),
            5 => write!(f, "segment {}", self.space),
            6 => write!(f, "the program's object {:#x}", self.hash),
            7 => f.write_str("the right to put plain files in their places"),
            kind => write!(f, "object {:#x} of kind {kind} in {}", self.hash, self.space),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LockName;

    #[test]
    fn a_lock_name_is_the_same_after_a_conversion_to_words_and_back() {
        let name = LockName { space: u32::MAX, kind: 4, hash: 0x0123_4567_89AB_CDEF };
        assert_eq!(LockName::from_words(name.low(), name.hash), name);
    }

    #[test]
    fn similar_lock_names_go_to_different_buckets_and_chains() {
        for vary in 0..3 {
            let mut low = [0_u32; 64];
            let mut high = [0_u32; 8];
            for n in 0..6400_u32 {
                let name = match vary {
                    0 => LockName { space: 1, kind: 2, hash: u64::from(n) },
                    1 => LockName { space: n, kind: 1, hash: 0 },
                    _ => LockName { space: 7, kind: 3, hash: u64::from(n) << 40 },
                };
                low[usize::try_from(name.mixed() % 64).unwrap()] += 1;
                high[usize::try_from(name.mixed() >> 61).unwrap()] += 1;
            }
            assert!(low.iter().all(|&count| (50..200).contains(&count)), "{vary}: {low:?}");
            assert!(high.iter().all(|&count| (400..1600).contains(&count)), "{vary}: {high:?}");
        }
    }
}

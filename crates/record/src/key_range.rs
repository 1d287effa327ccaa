//! A range of keys, by bytes: the bounds of a cursor or of a range delete.

use std::ops::{Bound, RangeBounds};

use smallvec::SmallVec;

/// A key. Up to 16 bytes need no allocation.
pub type ShortKey = SmallVec<[u8; 16]>;

/// The keys from `low` (inclusive) to `high` (exclusive). A range without `high` has no upper bound. The default is all
/// keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    low: ShortKey,
    high: Option<ShortKey>,
}

impl KeyRange {
    /// Returns the keys between these bounds.
    pub fn between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> KeyRange {
        KeyRange::between_keys(low.map(ShortKey::from_slice), high.map(ShortKey::from_slice))
    }

    /// Returns the keys between these owned bounds.
    pub fn between_keys(low: Bound<ShortKey>, high: Bound<ShortKey>) -> KeyRange {
        // Raises a key to the first key above it.
        let raised = |mut key: ShortKey| {
            key.push(0);
            key
        };
        let low = match low {
            Bound::Included(key) => key,
            Bound::Excluded(key) => raised(key),
            Bound::Unbounded => ShortKey::new(),
        };
        let high = match high {
            Bound::Included(key) => Some(raised(key)),
            Bound::Excluded(key) => Some(key),
            Bound::Unbounded => None,
        };
        KeyRange { low, high }
    }

    /// Returns the keys in a range of Rust, as `a..b`.
    pub fn of<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> KeyRange {
        KeyRange::between(range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
    }

    /// Returns the keys that begin with `prefix`.
    pub fn with_prefix(prefix: &[u8]) -> KeyRange {
        // The first key after all these keys is the prefix without its trailing 255s, with its last byte raised by one.
        let last = prefix.iter().rposition(|&byte| byte != u8::MAX);
        let high = last.map(|last| {
            let mut high = ShortKey::from_slice(&prefix[..=last]);
            high[last] += 1;
            high
        });
        KeyRange { low: ShortKey::from_slice(prefix), high }
    }

    /// Returns the inclusive lower bound.
    #[inline]
    pub fn low(&self) -> &[u8] {
        &self.low
    }

    /// Returns the exclusive upper bound; `None` if there is no upper bound.
    #[inline]
    pub fn high(&self) -> Option<&[u8]> {
        self.high.as_deref()
    }

    /// Joins this range and a range that begins in it or at its end; `None` if `other` begins elsewhere.
    #[must_use]
    pub fn joined_with(&self, other: &KeyRange) -> Option<KeyRange> {
        let is_reached = self.high.as_ref().is_none_or(|high| other.low <= *high);
        if other.low < self.low || !is_reached {
            return None;
        }
        let high = match (&self.high, &other.high) {
            (Some(one), Some(two)) => Some(one.max(two).clone()),
            _ => None,
        };
        Some(KeyRange { low: self.low.clone(), high })
    }

    /// Returns whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_joined() {
        let range = |low: &[u8], high: Option<&[u8]>| KeyRange {
            low: ShortKey::from_slice(low),
            high: high.map(ShortKey::from_slice),
        };
        let one = range(b"b", Some(b"d"));
        assert_eq!(one.joined_with(&range(b"d", Some(b"f"))), Some(range(b"b", Some(b"f"))));
        assert_eq!(one.joined_with(&range(b"c", Some(b"c1"))), Some(one.clone()));
        assert_eq!(one.joined_with(&range(b"c", None)), Some(range(b"b", None)));
        assert_eq!(one.joined_with(&range(b"d1", None)), None);
        assert_eq!(one.joined_with(&range(b"a", None)), None);
    }

    fn has(range: &KeyRange, key: &[u8]) -> bool {
        key >= range.low() && range.high().is_none_or(|high| key < high)
    }

    #[test]
    fn a_prefix_has_all_keys_that_begin_with_it_and_no_others() {
        let keys: Vec<Vec<u8>> = (0..3)
            .flat_map(|length| {
                let bytes = [0, 1, 97, 254, 255];
                (0..bytes.len().pow(length)).map(move |mut number| {
                    let mut key = Vec::new();
                    for _ in 0..length {
                        key.push(bytes[number % bytes.len()]);
                        number /= bytes.len();
                    }
                    key
                })
            })
            .collect();
        for prefix in &keys {
            let range = KeyRange::with_prefix(prefix);
            for key in &keys {
                assert_eq!(has(&range, key), key.starts_with(prefix), "{prefix:?} {key:?}");
            }
        }
    }

    #[test]
    fn bounds_are_taken_as_they_are_written() {
        let inclusive = KeyRange::of(&(b"b".as_slice()..=b"d".as_slice()));
        assert!(has(&inclusive, b"b") && has(&inclusive, b"d") && !has(&inclusive, b"d\0"));
        let exclusive = KeyRange::between(Bound::Excluded(b"b"), Bound::Excluded(b"d"));
        assert!(!has(&exclusive, b"b") && has(&exclusive, b"b\0") && !has(&exclusive, b"d"));
        assert!(!KeyRange::default().is_empty() && KeyRange::of(&(b"b".as_slice()..b"b".as_slice())).is_empty());
    }
}

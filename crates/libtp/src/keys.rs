//! From which key to which: what a bounded cursor, a count and a range delete are given.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use libtp_record::{duplicates, KeyRange, Order, ShortKey};

/// Some of the keys of a database. Made from the ranges of the language, `b"a"..b"c"` say, or of a beginning.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::open(dir.path())?;
/// use libtp::Keys;
/// let words = env.btree("words")?;
/// env.run(|txn| {
///     for word in [&b"pear"[..], b"apple", b"plum"] {
///         words.put(txn, word, b"")?;
///     }
///     assert_eq!(words.count(txn, b"b"..)?, 2);
///     assert_eq!(words.count(txn, Keys::prefix(b"pe"))?, 1);
///     assert_eq!(words.delete_range(txn, &b"a"[..]..=b"pear")?, 2);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Which);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Which {
    Between(Bound<ShortKey>, Bound<ShortKey>),
    Prefix(ShortKey),
}

/// Where keys begin and end.
type Bounds = (Bound<ShortKey>, Bound<ShortKey>);

fn bytes(bound: &Bound<ShortKey>) -> Bound<&[u8]> {
    bound.as_ref().map(ShortKey::as_slice)
}

impl Keys {
    /// The keys that begin with these bytes.
    pub fn prefix(beginning: impl AsRef<[u8]>) -> Keys {
        Keys(Which::Prefix(ShortKey::from_slice(beginning.as_ref())))
    }

    /// The keys between two bounds.
    pub fn between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Keys {
        Keys(Which::Between(low.map(ShortKey::from_slice), high.map(ShortKey::from_slice)))
    }

    /// The same as they stand in a tree whose keys have several values each, and are in that order; none if they are not side by side there.
    pub(crate) fn into_entries(self, order: Option<&dyn Order>) -> Option<KeyRange> {
        match self.0 {
            Which::Prefix(beginning) if order.is_none() => Some(duplicates::entries_beginning(&beginning)),
            _ => {
                let (low, high) = self.bounds(order)?;
                Some(duplicates::entries_between(bytes(&low), bytes(&high)))
            }
        }
    }

    /// The same as they stand in a tree whose keys are in that order; none if they are not side by side there.
    pub(crate) fn into_range(self, order: Option<&dyn Order>) -> Option<KeyRange> {
        match self.0 {
            Which::Prefix(beginning) if order.is_none() => Some(KeyRange::with_prefix(&beginning)),
            _ => {
                let (low, high) = self.bounds(order)?;
                Some(KeyRange::between_keys(low, high))
            }
        }
    }

    /// Where the keys begin and end in that order; none if it has keys that begin alike in several places.
    fn bounds(self, order: Option<&dyn Order>) -> Option<Bounds> {
        match (self.0, order) {
            (Which::Prefix(beginning), _) if !beginning.is_empty() => None,
            (Which::Prefix(_), _) => Some((Bound::Unbounded, Bound::Unbounded)),
            (Which::Between(low, high), None) => Some((low, high)),
            (Which::Between(low, high), Some(order)) => {
                let encoded = |key: ShortKey| {
                    let mut encoded = Vec::new();
                    order.encode(&key, &mut encoded);
                    ShortKey::from_vec(encoded)
                };
                Some((low.map(encoded), high.map(encoded)))
            }
        }
    }
}

/// The ranges of the language, of anything that is bytes.
macro_rules! from_ranges {
    ($($range:ident),*) => {$(
        impl<K: AsRef<[u8]>> From<$range<K>> for Keys {
            fn from(range: $range<K>) -> Keys {
                use std::ops::RangeBounds;
                Keys::between(range.start_bound().map(AsRef::as_ref), range.end_bound().map(AsRef::as_ref))
            }
        }
    )*};
}

from_ranges!(Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive);

impl From<RangeFull> for Keys {
    fn from(_: RangeFull) -> Keys {
        Keys::between(Bound::Unbounded, Bound::Unbounded)
    }
}

impl From<&Keys> for Keys {
    fn from(keys: &Keys) -> Keys {
        keys.clone()
    }
}

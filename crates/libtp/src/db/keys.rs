//! Sets of keys for bounded cursors, counts and range deletes.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use libtp_record::{duplicates, KeyRange, Order, ShortKey};

/// Some of the keys of a database. The value is made from a range of Rust, for example `b"a"..b"c"`, `..`, `..=b"c"` or
/// a pair of [`Bound`]s, or from a prefix.
///
/// ```
/// # let dir = tempfile::tempdir()?;
/// # let env = libtp::Env::create(dir.path())?;
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
pub struct Keys(KeySet);

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeySet {
    Between(Bound<ShortKey>, Bound<ShortKey>),
    Prefix(ShortKey),
}

/// The bounds of keys.
type Bounds = (Bound<ShortKey>, Bound<ShortKey>);

fn bytes(bound: &Bound<ShortKey>) -> Bound<&[u8]> {
    bound.as_ref().map(ShortKey::as_slice)
}

impl Keys {
    /// Returns the keys that begin with these bytes.
    pub fn prefix(beginning: impl AsRef<[u8]>) -> Keys {
        Keys(KeySet::Prefix(ShortKey::from_slice(beginning.as_ref())))
    }

    /// Returns the keys between two bounds.
    pub fn between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> Keys {
        Keys(KeySet::Between(low.map(ShortKey::from_slice), high.map(ShortKey::from_slice)))
    }

    /// Returns the range of these keys in a tree in this order, whose keys have several values each; `None` if the keys
    /// are not adjacent in the order.
    pub(crate) fn into_entries(self, order: Option<&dyn Order>) -> Option<KeyRange> {
        match self.0 {
            KeySet::Prefix(beginning) if order.is_none() => Some(duplicates::entries_beginning(&beginning)),
            _ => {
                let (low, high) = self.bounds(order)?;
                Some(duplicates::entries_between(bytes(&low), bytes(&high)))
            }
        }
    }

    /// Returns the range of these keys in a tree in this order; `None` if the keys are not adjacent in the order.
    pub(crate) fn into_range(self, order: Option<&dyn Order>) -> Option<KeyRange> {
        match self.0 {
            KeySet::Prefix(beginning) if order.is_none() => Some(KeyRange::with_prefix(&beginning)),
            _ => {
                let (low, high) = self.bounds(order)?;
                Some(KeyRange::between_keys(low, high))
            }
        }
    }

    /// Returns the bounds of these keys in this order; `None` for a prefix whose keys are not adjacent in the order.
    fn bounds(self, order: Option<&dyn Order>) -> Option<Bounds> {
        match (self.0, order) {
            (KeySet::Prefix(beginning), _) if !beginning.is_empty() => None,
            (KeySet::Prefix(_), _) => Some((Bound::Unbounded, Bound::Unbounded)),
            (KeySet::Between(low, high), None) => Some((low, high)),
            (KeySet::Between(low, high), Some(order)) => {
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

/// Converts Rust's ranges of any type that can be borrowed as bytes.
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

impl<K: AsRef<[u8]>> From<(Bound<K>, Bound<K>)> for Keys {
    fn from((low, high): (Bound<K>, Bound<K>)) -> Keys {
        Keys::between(low.as_ref().map(AsRef::as_ref), high.as_ref().map(AsRef::as_ref))
    }
}

impl From<&Keys> for Keys {
    fn from(keys: &Keys) -> Keys {
        keys.clone()
    }
}

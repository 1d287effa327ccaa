//! Encodes a key with several values as different keys of a tree that has each key once.
//!
//! Paper: none; db(3)'s `R_DUP`. Each value of a key is one entry of the tree. The entry's key has two parts: the
//! program's key, encoded so that its end is marked, and a second part that differs between the values of one key:
//!
//! | duplicates | second part | the entry's value |
//! |---|---|---|
//! | sorted | the value | nothing |
//! | in insertion order | a growing number, big-endian, 8 bytes | the value |
//!
//! So the values of a key are neighbours and in their order. Logging, undo, locking, splitting and snapshots need no
//! code for such keys. In the encoded key a zero byte is followed by 255, and the end is two zeros. So entries have the
//! order of their keys, and no entry's key begins with the encoding of another key.
//!
//! The number is the LSN of the entry's insertion, or a little less, so it always grows. If two sessions insert values
//! of one key at the same moment, both may compute the same number. The second session then takes the next number.

use std::ops::Bound;

use rio::planted;

use crate::database::Duplicates;
use crate::key_range::KeyRange;

/// Bytes of the number after a key.
pub const NUMBER_BYTES: usize = 8;
/// Bytes of the end of a key.
const END: [u8; 2] = [0, 0];
/// The byte after a zero byte of the key itself.
const OWN: u8 = u8::MAX;

/// Returns the bytes that all entries of a key begin with.
pub fn beginning(key: &[u8]) -> Vec<u8> {
    let mut entry = escaped(key);
    if !planted("record: an entry has no mark at the end of its key") {
        entry.extend_from_slice(&END);
    }
    entry
}

fn escaped(key: &[u8]) -> Vec<u8> {
    let mut entry = Vec::with_capacity(key.len() + END.len() + NUMBER_BYTES);
    for &byte in key {
        entry.push(byte);
        if byte == 0 {
            entry.push(OWN);
        }
    }
    entry
}

/// Returns the entry's key for a value of a sorted set.
pub fn sorted_entry(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut entry = beginning(key);
    entry.extend_from_slice(value);
    entry
}

/// Returns the entry's key for the value with the number `number`.
pub fn numbered_entry(key: &[u8], number: u64) -> Vec<u8> {
    let mut entry = beginning(key);
    entry.extend_from_slice(&number.to_be_bytes());
    entry
}

/// Returns the entry's key with another number; unchanged if the key is too short for a number.
pub fn renumbered(entry: &[u8], number: u64) -> Vec<u8> {
    match entry.split_last_chunk::<NUMBER_BYTES>() {
        Some((key, _)) => [key, &number.to_be_bytes()].concat(),
        None => entry.to_vec(),
    }
}

/// Returns the range of a key's entries.
pub fn entries_of(key: &[u8]) -> KeyRange {
    KeyRange::with_prefix(&beginning(key))
}

/// Returns the smallest byte string that is above all entries of `key`. It is not above any entry of a later key.
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut entry = escaped(key);
    entry.extend_from_slice(&[0, 1]);
    entry
}

/// Returns the range of the entries of all keys that begin with `bytes`.
pub fn entries_beginning(bytes: &[u8]) -> KeyRange {
    KeyRange::with_prefix(&escaped(bytes))
}

/// Returns the range of the entries of the keys between two bounds.
pub fn entries_between(low: Bound<&[u8]>, high: Bound<&[u8]>) -> KeyRange {
    let low = match low {
        Bound::Included(key) => Bound::Included(beginning(key)),
        Bound::Excluded(key) => Bound::Included(after(key)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let high = match high {
        Bound::Included(key) => Bound::Excluded(after(key)),
        Bound::Excluded(key) => Bound::Excluded(beginning(key)),
        Bound::Unbounded => Bound::Unbounded,
    };
    KeyRange::between(low.as_ref().map(Vec::as_slice), high.as_ref().map(Vec::as_slice))
}

/// Returns the key of an entry, and the second part; `None` if the bytes are no entry.
pub fn read(entry: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut key = Vec::with_capacity(entry.len());
    let mut at = 0;
    loop {
        match (*entry.get(at)?, entry.get(at + 1)) {
            (0, Some(0)) => return Some((key, &entry[at + 2..])),
            (0, Some(&OWN)) => {
                key.push(0);
                at += 2;
            }
            (0, _) => return None,
            (byte, _) => {
                key.push(byte);
                at += 1;
            }
        }
    }
}

/// Returns the value of an entry.
pub fn value_of(duplicates: Duplicates, after_key: &[u8], value: Vec<u8>) -> Vec<u8> {
    match duplicates {
        Duplicates::Sorted => after_key.to_vec(),
        Duplicates::AsTheyCame | Duplicates::None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_in_the_order_of_their_keys_and_then_of_their_values() {
        let bytes = [0, 1, 97, 255];
        let mut keys = vec![vec![]];
        for length in 0..3 {
            let more: Vec<Vec<u8>> = keys.iter().filter(|key: &&Vec<u8>| key.len() == length).cloned().collect();
            keys.extend(more.iter().flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat())));
        }
        let values: [&[u8]; 4] = [b"", b"\0", b"\0\xff", b"\xff"];
        let mut pairs: Vec<(&[u8], &[u8])> =
            keys.iter().flat_map(|key| values.map(|value| (&key[..], value))).collect();
        pairs.sort_unstable();
        let entries: Vec<Vec<u8>> = pairs.iter().map(|(key, value)| sorted_entry(key, value)).collect();
        assert!(entries.windows(2).all(|two| two[0] < two[1]));
        for ((key, value), entry) in pairs.iter().zip(&entries) {
            assert_eq!(read(entry), Some((key.to_vec(), *value)));
            for (other, entry) in pairs.iter().map(|pair| pair.0).zip(&entries) {
                let range = entries_of(key);
                let is_within = &entry[..] >= range.low() && range.high().is_none_or(|high| &entry[..] < high);
                assert_eq!(is_within, other == *key, "{key:?} {other:?}");
                assert_eq!(entry[..] >= after(key)[..], other > *key);
                for bounds in [
                    (Bound::Included(*key), Bound::Unbounded),
                    (Bound::Excluded(*key), Bound::Unbounded),
                    (Bound::Unbounded, Bound::Included(*key)),
                    (Bound::Unbounded, Bound::Excluded(*key)),
                ] {
                    let range = entries_between(bounds.0, bounds.1);
                    let is_within = &entry[..] >= range.low() && range.high().is_none_or(|high| &entry[..] < high);
                    assert_eq!(
                        is_within,
                        std::ops::RangeBounds::<[u8]>::contains(&bounds, other),
                        "{bounds:?} {other:?}"
                    );
                }
                let range = entries_beginning(key);
                let is_within = &entry[..] >= range.low() && range.high().is_none_or(|high| &entry[..] < high);
                assert!(!other.starts_with(key) || is_within, "{key:?} {other:?}");
                assert!(other.starts_with(key) || !is_within, "{key:?} {other:?}");
            }
        }
        assert!(numbered_entry(b"a", 255) < numbered_entry(b"a", 256));
        assert_eq!(read(b"a\0"), None);
        assert_eq!(read(b"a"), None);
    }
}

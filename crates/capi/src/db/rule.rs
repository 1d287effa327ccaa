//! The order of the pairs of a plain file: by bytes, or by functions of the program.
//!
//! The program's function is called for every comparison of two keys, and no lock is held then. The function must
//! return: if it leaves by `longjmp`, the file's handle stays in use for ever.

use std::cmp::Ordering;
use std::ffi::{c_int, c_void};

use crate::db::dbt::Dbt;

/// `compare` of `BTREEINFO`.
pub(crate) type Compare = extern "C" fn(*const Dbt, *const Dbt) -> c_int;
/// `hash` of `HASHINFO`.
pub(crate) type HashFunction = extern "C" fn(*const c_void, usize) -> u32;

/// An order of keys.
#[derive(Clone, Copy)]
pub(crate) enum Rule {
    Bytes,
    Compared(Compare),
    /// By db(3)'s own hash function of the key, then by bytes. db 1.85 returns the pairs of a small file in this order,
    /// and programs may rely on it.
    Scattered,
    /// By the value of the program's hash function, then by bytes.
    Hashed(HashFunction),
}

impl Rule {
    /// Returns the hash value of a key; zero for a rule without a hash function.
    fn hash(self, key: &[u8]) -> u32 {
        match self {
            Rule::Hashed(hash) => hash(key.as_ptr().cast(), key.len()),
            Rule::Scattered => key.iter().fold(0, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add((*byte).into())),
            Rule::Bytes | Rule::Compared(_) => 0,
        }
    }
}

/// A pair's key, and the number that distinguishes the pair from other pairs with the same key.
pub(crate) struct Entry {
    rule: Rule,
    hash: u32,
    pub(crate) key: Box<[u8]>,
    pub(crate) number: u64,
}

impl Entry {
    pub(crate) fn new(rule: Rule, key: &[u8], number: u64) -> Entry {
        Entry { rule, hash: rule.hash(key), key: key.into(), number }
    }

    fn compare_keys(&self, other: &Entry) -> Ordering {
        match self.rule {
            Rule::Bytes => self.key.cmp(&other.key),
            Rule::Scattered | Rule::Hashed(_) => self.hash.cmp(&other.hash).then_with(|| self.key.cmp(&other.key)),
            Rule::Compared(compare) => {
                let (one, two) = (Dbt::lent(&self.key), Dbt::lent(&other.key));
                compare(&one, &two).cmp(&0)
            }
        }
    }

    pub(crate) fn has_key_of(&self, other: &Entry) -> bool {
        self.compare_keys(other) == Ordering::Equal
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.compare_keys(other).then_with(|| self.number.cmp(&other.number))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

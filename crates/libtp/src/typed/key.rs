//! Keys as bytes. The order of the bytes is the order of the keys, so ranges of typed keys are ranges of the tree.
//!
//! |type|bytes|
//! |---|---|
//! |unsigned integers|big-endian|
//! |signed integers|big-endian, with the sign bit flipped|
//! |`bool`|as the integer 0 or 1|
//! |`char`|as the code point in four bytes|
//! |strings, bytes|as they are; inside a tuple each zero byte is followed by 0xff, and two zero bytes come at the end|
//! |`[u8; N]`|as they are|
//! |`Option`|0 for `None`; 1 and the bytes of the key for `Some`|
//! |tuples|the parts, one after the other|
//!
//! A string or bytes in the last place of a tuple stay as they are: nothing follows them.

/// A value that encodes like a key of type `K`: the key itself, a reference to it, or for a `String` a `&str`.
///
/// The order of the bytes must be the order of the keys, and equal keys have equal bytes.
pub trait KeyLike<K: ?Sized> {
    /// Appends the bytes of a key that nothing follows.
    fn encode_key(&self, bytes: &mut Vec<u8>);

    /// Appends the bytes of a key that another key follows. No key's bytes may begin with the bytes of another key.
    fn encode_key_part(&self, bytes: &mut Vec<u8>);
}

/// A type of keys of a [`Table`](crate::Table). A type of the program becomes a type of keys when it implements this
/// trait and [`KeyLike`]:
///
/// ```
/// use libtp::{Key, KeyLike};
///
/// #[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
/// struct Priority(u8);
///
/// impl KeyLike<Priority> for Priority {
///     fn encode_key(&self, bytes: &mut Vec<u8>) {
///         self.0.encode_key(bytes);
///     }
///     fn encode_key_part(&self, bytes: &mut Vec<u8>) {
///         self.0.encode_key_part(bytes);
///     }
/// }
///
/// impl Key for Priority {
///     fn decode_key(bytes: &[u8]) -> Option<Priority> {
///         u8::decode_key(bytes).map(Priority)
///     }
///     fn decode_key_part(bytes: &mut &[u8]) -> Option<Priority> {
///         u8::decode_key_part(bytes).map(Priority)
///     }
/// }
///
/// # let dir = tempfile::tempdir()?;
/// let env = libtp::Env::create(dir.path())?;
/// let jobs = env.table::<(Priority, u64), String>("jobs")?;
/// env.run(|txn| jobs.put(txn, (Priority(3), 1), "sweep the yard"))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Key: KeyLike<Self> + Sized {
    /// Returns the key of these bytes; `None` if no key has them.
    fn decode_key(bytes: &[u8]) -> Option<Self>;

    /// Removes the bytes of a key from the front of `bytes`, where another key follows them. Returns the key; `None` if
    /// no key has such bytes.
    fn decode_key_part(bytes: &mut &[u8]) -> Option<Self>;
}

impl<K: ?Sized, Q: KeyLike<K> + ?Sized> KeyLike<K> for &Q {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        (**self).encode_key(bytes);
    }

    fn encode_key_part(&self, bytes: &mut Vec<u8>) {
        (**self).encode_key_part(bytes);
    }
}

/// Removes `N` bytes from the front of `bytes`, and returns them.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (front, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*front)
}

/// Decodes `bytes` as a key in the form of a part; `None` if bytes are left after the key.
fn whole<K: Key>(mut bytes: &[u8]) -> Option<K> {
    K::decode_key_part(&mut bytes).filter(|_| bytes.is_empty())
}

/// Keys of one length: such a key has the same bytes alone and as a part of a tuple.
macro_rules! of_one_length {
    ($([$($of:tt)*] $key:ty: $encode:expr, $decode:expr;)*) => {$(
        impl<$($of)*> KeyLike<$key> for $key {
            fn encode_key(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&$encode(*self));
            }

            fn encode_key_part(&self, bytes: &mut Vec<u8>) {
                KeyLike::<$key>::encode_key(self, bytes);
            }
        }

        impl<$($of)*> Key for $key {
            fn decode_key(bytes: &[u8]) -> Option<Self> {
                whole(bytes)
            }

            fn decode_key_part(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).and_then($decode)
            }
        }
    )*};
}

of_one_length! {
    [] u8: u8::to_be_bytes, |bytes| Some(u8::from_be_bytes(bytes));
    [] u16: u16::to_be_bytes, |bytes| Some(u16::from_be_bytes(bytes));
    [] u32: u32::to_be_bytes, |bytes| Some(u32::from_be_bytes(bytes));
    [] u64: u64::to_be_bytes, |bytes| Some(u64::from_be_bytes(bytes));
    [] u128: u128::to_be_bytes, |bytes| Some(u128::from_be_bytes(bytes));
    [] i8: |key: i8| (key ^ i8::MIN).to_be_bytes(), |bytes| Some(i8::from_be_bytes(bytes) ^ i8::MIN);
    [] i16: |key: i16| (key ^ i16::MIN).to_be_bytes(), |bytes| Some(i16::from_be_bytes(bytes) ^ i16::MIN);
    [] i32: |key: i32| (key ^ i32::MIN).to_be_bytes(), |bytes| Some(i32::from_be_bytes(bytes) ^ i32::MIN);
    [] i64: |key: i64| (key ^ i64::MIN).to_be_bytes(), |bytes| Some(i64::from_be_bytes(bytes) ^ i64::MIN);
    [] i128: |key: i128| (key ^ i128::MIN).to_be_bytes(), |bytes| Some(i128::from_be_bytes(bytes) ^ i128::MIN);
    [] bool: |key: bool| [u8::from(key)], |[byte]: [u8; 1]| (byte < 2).then_some(byte == 1);
    [] char: |key: char| u32::from(key).to_be_bytes(), |bytes| char::from_u32(u32::from_be_bytes(bytes));
    [const N: usize] [u8; N]: |key: [u8; N]| key, Some;
}

/// Appends the escaped bytes with their own end mark, so that no escaped key is the beginning of another.
fn encode_escaped(key: &[u8], bytes: &mut Vec<u8>) {
    for &byte in key {
        bytes.push(byte);
        if byte == 0 {
            bytes.push(0xff);
        }
    }
    bytes.extend_from_slice(&[0, 0]);
}

/// Removes an escaped key from the front of `bytes`, and returns the key.
fn decode_escaped(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::new();
    loop {
        let zero = bytes.iter().position(|&byte| byte == 0)?;
        key.extend_from_slice(&bytes[..zero]);
        let after = *bytes.get(zero + 1)?;
        *bytes = &bytes[zero + 2..];
        match after {
            0 => return Some(key),
            0xff => key.push(0),
            _ => return None,
        }
    }
}

/// Types that encode like a key of bytes.
macro_rules! bytes_like {
    ($([$($of:tt)*] $like:ty => $key:ty;)*) => {$(
        impl<$($of)*> KeyLike<$key> for $like {
            fn encode_key(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
            }

            fn encode_key_part(&self, bytes: &mut Vec<u8>) {
                encode_escaped(self.as_ref(), bytes);
            }
        }
    )*};
}

bytes_like! {
    [] String => String;
    [] str => String;
    [] Vec<u8> => Vec<u8>;
    [] [u8] => Vec<u8>;
    [const N: usize] [u8; N] => Vec<u8>;
}

impl Key for Vec<u8> {
    fn decode_key(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn decode_key_part(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        decode_escaped(bytes)
    }
}

impl Key for String {
    fn decode_key(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn decode_key_part(bytes: &mut &[u8]) -> Option<String> {
        String::from_utf8(decode_escaped(bytes)?).ok()
    }
}

impl<K, Q: KeyLike<K>> KeyLike<Option<K>> for Option<Q> {
    fn encode_key(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_key(bytes);
        }
    }

    fn encode_key_part(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(key) = self {
            key.encode_key_part(bytes);
        }
    }
}

impl<K: Key> Key for Option<K> {
    fn decode_key(bytes: &[u8]) -> Option<Option<K>> {
        match bytes.split_first()? {
            (0, []) => Some(None),
            (1, key) => K::decode_key(key).map(Some),
            _ => None,
        }
    }

    fn decode_key_part(bytes: &mut &[u8]) -> Option<Option<K>> {
        match take(bytes)? {
            [0] => Some(None),
            [1] => K::decode_key_part(bytes).map(Some),
            _ => None,
        }
    }
}

/// Tuples: every part but the last is encoded as a key that another key follows.
macro_rules! tuples {
    ($(($($part:ident $like:ident $at:tt)* ; $last:ident $last_like:ident $last_at:tt))*) => {$(
        impl<$($part, $like: KeyLike<$part>,)* $last, $last_like: KeyLike<$last>> KeyLike<($($part,)* $last,)>
            for ($($like,)* $last_like,)
        {
            fn encode_key(&self, bytes: &mut Vec<u8>) {
                $(self.$at.encode_key_part(bytes);)*
                self.$last_at.encode_key(bytes);
            }

            fn encode_key_part(&self, bytes: &mut Vec<u8>) {
                $(self.$at.encode_key_part(bytes);)*
                self.$last_at.encode_key_part(bytes);
            }
        }

        impl<$($part: Key,)* $last: Key> Key for ($($part,)* $last,) {
            #[allow(unused_mut)] // in a tuple of one
            fn decode_key(mut bytes: &[u8]) -> Option<Self> {
                Some(($($part::decode_key_part(&mut bytes)?,)* $last::decode_key(bytes)?,))
            }

            fn decode_key_part(bytes: &mut &[u8]) -> Option<Self> {
                Some(($($part::decode_key_part(bytes)?,)* $last::decode_key_part(bytes)?,))
            }
        }
    )*};
}

tuples! {
    (; A AQ 0)
    (A AQ 0 ; B BQ 1)
    (A AQ 0 B BQ 1 ; C CQ 2)
    (A AQ 0 B BQ 1 C CQ 2 ; D DQ 3)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded<K: Key>(key: &K) -> Vec<u8> {
        let mut bytes = Vec::new();
        key.encode_key(&mut bytes);
        bytes
    }

    /// Checks that two keys are decoded from their bytes unchanged, and that the order of the bytes is the order of the
    /// keys. Checks this for the keys alone and as parts of tuples.
    fn check<K: Key + Ord + std::fmt::Debug>(one: K, two: K) -> Result<(), TestCaseError> {
        for key in [&one, &two] {
            let back = K::decode_key(&encoded(key));
            prop_assert_eq!(back.as_ref(), Some(key));
            let mut part = Vec::new();
            key.encode_key_part(&mut part);
            part.push(7);
            let mut rest = &part[..];
            let back = K::decode_key_part(&mut rest);
            prop_assert_eq!(back.as_ref(), Some(key));
            prop_assert_eq!(rest, &[7][..]);
        }
        prop_assert_eq!(encoded(&one).cmp(&encoded(&two)), one.cmp(&two), "{:?} {:?}", one, two);
        let (mut part_one, mut part_two) = (Vec::new(), Vec::new());
        one.encode_key_part(&mut part_one);
        two.encode_key_part(&mut part_two);
        prop_assert_eq!(part_one.cmp(&part_two), one.cmp(&two), "as parts: {:?} {:?}", one, two);
        Ok(())
    }

    /// Short byte strings of a few values: two of them often begin with the same bytes, and many have bytes that are
    /// escaped.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 0, 1, 7, 0xfe, 0xff]), 0..5)
    }

    fn string() -> impl Strategy<Value = String> {
        prop::collection::vec(prop::sample::select(vec!['\0', '\u{1}', 'a', 'b', 'é', '\u{10ffff}']), 0..4)
            .prop_map(|chars| chars.into_iter().collect())
    }

    fn near<T: Copy + std::fmt::Debug + 'static>(some: &[T]) -> impl Strategy<Value = T> {
        prop::sample::select(some.to_vec())
    }

    proptest! {
        #[test]
        fn encoded_integers_sort_like_the_integers(
            a in any::<[u64; 2]>(), b in any::<[i64; 2]>(), c in any::<[i8; 2]>(), d in any::<[u128; 2]>(),
            e in any::<[i128; 2]>(), f in any::<[i16; 2]>(), g in any::<[i32; 2]>(), h in any::<[u16; 2]>(),
        ) {
            check(a[0], a[1])?;
            check(b[0], b[1])?;
            check(c[0], c[1])?;
            check(d[0], d[1])?;
            check(e[0], e[1])?;
            check(f[0], f[1])?;
            check(g[0], g[1])?;
            check(h[0], h[1])?;
        }

        #[test]
        fn encoded_strings_and_bytes_sort_like_the_keys(
            a in (bytes(), bytes()), b in (string(), string()), c in any::<[char; 2]>(), d in any::<[[u8; 3]; 2]>(),
            e in any::<[bool; 2]>(),
        ) {
            check(a.0, a.1)?;
            check(b.0, b.1)?;
            check(c[0], c[1])?;
            check(d[0], d[1])?;
            check(e[0], e[1])?;
        }

        #[test]
        fn encoded_options_and_tuples_sort_like_the_keys(
            a in prop::collection::vec((bytes(), string()), 2),
            b in prop::collection::vec((string(), near(&[i64::MIN, -1, 0, 1, i64::MAX]), prop::option::of(bytes())), 2),
            c in prop::collection::vec(prop::option::of((near(&[-1_i32, 0, 1]), string())), 2),
            d in prop::collection::vec((near(&[0_u8, 1]), (string(), near(&[-1_i16, 0])), prop::option::of(near(&[0_u64, 1])), bytes()), 2),
            e in prop::collection::vec(prop::option::of(prop::option::of(string())), 2),
        ) {
            check(a[0].clone(), a[1].clone())?;
            check(b[0].clone(), b[1].clone())?;
            check(c[0].clone(), c[1].clone())?;
            check(d[0].clone(), d[1].clone())?;
            check(e[0].clone(), e[1].clone())?;
        }

        #[test]
        fn bytes_that_are_no_key_are_refused_and_never_panic(given in bytes()) {
            let _ = u32::decode_key(&given);
            let _ = <(String, Option<Vec<u8>>, u16)>::decode_key(&given);
            let _ = <Option<(Vec<u8>, char)>>::decode_key(&given);
            if let Some(key) = <(Vec<u8>, u8)>::decode_key(&given) {
                prop_assert_eq!(encoded(&key), given);
            }
        }
    }

    #[test]
    fn a_value_that_encodes_like_a_key_has_the_bytes_of_the_key() {
        fn same<K: Key>(key: &K, like: impl KeyLike<K>) {
            let mut bytes = Vec::new();
            like.encode_key(&mut bytes);
            assert_eq!(bytes, encoded(key));
        }
        same(&"apple".to_string(), "apple");
        same(&b"apple".to_vec(), b"apple");
        same(&("a".to_string(), 5_u32), ("a", 5));
        same(&Some("a".to_string()), Some("a"));
        assert_eq!(encoded(&"apple".to_string()), b"apple");
        assert_eq!(encoded(&("a\0".to_string(), 5_u16)), b"a\0\xff\0\0\0\x05");
        assert_eq!(encoded(&-1_i8), [0x7f]);
    }
}

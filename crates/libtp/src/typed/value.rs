//! Values as bytes.
//!
//! |type|bytes|
//! |---|---|
//! |integers, floats|little-endian|
//! |`bool`|0 or 1|
//! |strings, bytes|as they are|
//! |`[u8; N]`|as they are|
//! |`()`|no bytes|
//! |`Option`|0 for `None`; 1 and the bytes of the value for `Some`|
//! |tuples|the parts in turn; before a part of variable length that is not the last, four bytes with its length|

use super::key::take;

/// A value that encodes like a value of type `V`: the value itself, a reference to it, or for a `String` a `&str`.
pub trait ValueLike<V: ?Sized> {
    /// Appends the bytes of a value that no other value follows.
    fn encode_value(&self, bytes: &mut Vec<u8>);

    /// Appends the bytes of a value that another value follows. By default, four bytes with the length come first.
    ///
    /// # Panics
    /// If the value has 4 GiB or more.
    fn encode_value_part(&self, bytes: &mut Vec<u8>) {
        let at = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        self.encode_value(bytes);
        let length = u32::try_from(bytes.len() - at - 4).expect("a part of a value is shorter than 4 GiB");
        bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// A type of values of a [`Table`](crate::Table). A program implements this trait for its own type, as it implements
/// [`Key`](crate::Key). With the feature `serde`, a type that serde knows is a value inside
#[cfg_attr(feature = "serde", doc = "[`Serde`](crate::Serde).")]
#[cfg_attr(not(feature = "serde"), doc = "`Serde`.")]
pub trait Value: ValueLike<Self> + Sized {
    /// Returns the value of these bytes; `None` if no value has them.
    fn decode_value(bytes: &[u8]) -> Option<Self>;

    /// Removes the bytes of a value from the front of `bytes`, where other bytes follow them. Returns the value; `None`
    /// if no value has such bytes.
    fn decode_value_part(bytes: &mut &[u8]) -> Option<Self> {
        let length = usize::try_from(u32::from_le_bytes(take(bytes)?)).ok()?;
        let (value, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        Self::decode_value(value)
    }
}

impl<V: ?Sized, Q: ValueLike<V> + ?Sized> ValueLike<V> for &Q {
    fn encode_value(&self, bytes: &mut Vec<u8>) {
        (**self).encode_value(bytes);
    }

    fn encode_value_part(&self, bytes: &mut Vec<u8>) {
        (**self).encode_value_part(bytes);
    }
}

/// Values of one length: no length is stored before such a value.
macro_rules! of_one_length {
    ($([$($of:tt)*] $value:ty: $encode:expr, $decode:expr;)*) => {$(
        impl<$($of)*> ValueLike<$value> for $value {
            fn encode_value(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&$encode(*self));
            }

            fn encode_value_part(&self, bytes: &mut Vec<u8>) {
                ValueLike::<$value>::encode_value(self, bytes);
            }
        }

        impl<$($of)*> Value for $value {
            fn decode_value(mut bytes: &[u8]) -> Option<Self> {
                Self::decode_value_part(&mut bytes).filter(|_| bytes.is_empty())
            }

            fn decode_value_part(bytes: &mut &[u8]) -> Option<Self> {
                take(bytes).and_then($decode)
            }
        }
    )*};
}

/// Numbers, little-endian.
macro_rules! numbers {
    ($($number:ty)*) => {
        of_one_length! {$([] $number: <$number>::to_le_bytes, |bytes| Some(<$number>::from_le_bytes(bytes));)*}
    };
}

numbers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

of_one_length! {
    [] bool: |value: bool| [u8::from(value)], |[byte]: [u8; 1]| (byte < 2).then_some(byte == 1);
    [] (): |()| [], |[]: [u8; 0]| Some(());
    [const N: usize] [u8; N]: |value: [u8; N]| value, Some;
}

/// Types whose bytes are the bytes of the value.
macro_rules! bytes_like {
    ($([$($of:tt)*] $like:ty => $value:ty;)*) => {$(
        impl<$($of)*> ValueLike<$value> for $like {
            fn encode_value(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(self.as_ref());
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

impl Value for Vec<u8> {
    fn decode_value(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Value for String {
    fn decode_value(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
}

impl<V, Q: ValueLike<V>> ValueLike<Option<V>> for Option<Q> {
    fn encode_value(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_value(bytes);
        }
    }

    fn encode_value_part(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.encode_value_part(bytes);
        }
    }
}

impl<V: Value> Value for Option<V> {
    fn decode_value(bytes: &[u8]) -> Option<Option<V>> {
        match bytes.split_first()? {
            (0, []) => Some(None),
            (1, value) => V::decode_value(value).map(Some),
            _ => None,
        }
    }

    fn decode_value_part(bytes: &mut &[u8]) -> Option<Option<V>> {
        match take(bytes)? {
            [0] => Some(None),
            [1] => V::decode_value_part(bytes).map(Some),
            _ => None,
        }
    }
}

/// Tuples: every part but the last is written by `encode_value_part`, because another part follows it.
macro_rules! tuples {
    ($(($($part:ident $like:ident $at:tt)* ; $last:ident $last_like:ident $last_at:tt))*) => {$(
        impl<$($part, $like: ValueLike<$part>,)* $last, $last_like: ValueLike<$last>> ValueLike<($($part,)* $last,)>
            for ($($like,)* $last_like,)
        {
            fn encode_value(&self, bytes: &mut Vec<u8>) {
                $(self.$at.encode_value_part(bytes);)*
                self.$last_at.encode_value(bytes);
            }
        }

        impl<$($part: Value,)* $last: Value> Value for ($($part,)* $last,) {
            #[allow(unused_mut)] // in a tuple of one
            fn decode_value(mut bytes: &[u8]) -> Option<Self> {
                Some(($($part::decode_value_part(&mut bytes)?,)* $last::decode_value(bytes)?,))
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

    fn encoded<V>(value: impl ValueLike<V>) -> Vec<u8> {
        let mut bytes = Vec::new();
        value.encode_value(&mut bytes);
        bytes
    }

    fn check<V: Value + PartialEq + std::fmt::Debug>(value: V) -> Result<(), TestCaseError> {
        let back = V::decode_value(&encoded::<V>(&value));
        prop_assert_eq!(back.as_ref(), Some(&value));
        Ok(())
    }

    proptest! {
        #[test]
        fn values_are_read_back_unchanged(
            a in any::<(u64, i32, bool, [u8; 5])>(), b in any::<(String, Vec<u8>, Option<String>, u16)>(),
            c in any::<Option<(Option<u8>, String)>>(), d in any::<(i128, (String, String), ())>(),
        ) {
            check(a)?;
            check(b)?;
            check(c)?;
            check(d)?;
        }

        #[test]
        fn bytes_that_are_no_value_are_refused_and_never_panic(given in prop::collection::vec(0..4_u8, 0..12)) {
            let _ = <(String, Option<Vec<u8>>, u16)>::decode_value(&given);
            if let Some(value) = <(Vec<u8>, bool)>::decode_value(&given) {
                prop_assert_eq!(encoded::<(Vec<u8>, bool)>(&value), given);
            }
        }
    }

    #[test]
    fn numbers_are_little_endian_and_text_is_unchanged() {
        assert_eq!(encoded::<u32>(1), [1, 0, 0, 0]);
        assert_eq!(encoded::<String>("text"), b"text");
        assert_eq!(encoded::<(String, String)>(("a", "b")), b"\x01\0\0\0ab");
        assert_eq!((encoded::<()>(()), <()>::decode_value(b"")), (vec![], Some(())));
        assert_eq!(u32::decode_value(&[1, 0, 0]), None);
        assert_eq!(f64::decode_value(&encoded::<f64>(-0.5)), Some(-0.5));
    }
}

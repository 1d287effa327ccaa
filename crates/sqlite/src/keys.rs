//! The encoding of keys in bytes: the order of the bytes is SQLite's order of the values.
//!
//! A row's key is its rowid: 8 bytes, most significant first, with the sign bit inverted. A key of an index is its
//! encoded columns, one after the other. No encoding of a value is the beginning of the encoding of another value. So
//! the bytes of a key's first columns are the beginning of the bytes of exactly those keys that begin with these
//! columns.
//!
//! * NULL is `05`.
//! * A number is `15` and the largest double that is not above the number, with the sign bit inverted (in a negative
//!   double, all bits). If the double's absolute value is 2^53 or more, two more bytes are the number's distance to the
//!   double. So integers and reals have one exact order.
//! * Text is `25` and its bytes, and a blob `35` and its bytes. A byte `00` is encoded as `00 ff`, and `00 01` marks
//!   the end. `NOCASE` encodes ASCII capitals as small letters, and `RTRIM` leaves out spaces at the end.
//! * A column in descending order has all bits inverted.
//!
//! A byte `ff` comes after every encoded value. Paper: none.

use std::ffi::c_int;

use crate::answer::{Outcome, Refusal, ERROR};
use crate::arguments::{bytes, Field};

/// The order of one column of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    collation: Collation,
    is_descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collation {
    Binary,
    NoCase,
    RightTrim,
}

/// Bytes to append to the beginning of keys: the result comes after all keys with this beginning.
pub(crate) const BEHIND: [u8; 2] = [0xff, 0xff];

const NULL: u8 = 0x05;
const NUMBER: u8 = 0x15;
const TEXT: u8 = 0x25;
const BLOB: u8 = 0x35;

impl Column {
    /// Returns the order that the shim describes in one byte: the collation, plus 4 for descending.
    pub(crate) fn of_code(code: u8) -> Outcome<Column> {
        let collation = match code & 3 {
            0 => Collation::Binary,
            1 => Collation::NoCase,
            2 => Collation::RightTrim,
            _ => {
                let what = "an index in an environment can have only the collations BINARY, NOCASE and RTRIM, because its keys are sorted as bytes, without calls of the program. NOCASE and RTRIM also need a database of UTF-8. A query can sort by other collations (ORDER BY .. COLLATE)";
                return Err(Refusal::new(ERROR, what));
            }
        };
        Ok(Column { collation, is_descending: code & 4 != 0 })
    }
}

/// Returns the key of a row.
pub(crate) fn of_rowid(rowid: i64) -> [u8; 8] {
    (rowid.cast_unsigned() ^ 1 << 63).to_be_bytes()
}

/// Returns the rowid of a key; zero for a key of another length.
pub(crate) fn rowid_of(key: &[u8]) -> i64 {
    key.try_into().map_or(0, |key| (u64::from_be_bytes(key) ^ 1 << 63).cast_signed())
}

/// Encodes the first columns of a key.
pub(crate) fn encode(fields: &[Field], columns: &[Column], key: &mut Vec<u8>) {
    key.clear();
    for (field, column) in fields.iter().zip(columns) {
        let start = key.len();
        match field.kind {
            0 => key.push(NULL),
            1 => number(floor(field.integer), key),
            2 => number((field.real, 0), key),
            3 => text(bytes(field.start, field.length), column.collation, field.zeros, key),
            _ => string(BLOB, bytes(field.start, field.length).iter().copied(), field.zeros, key),
        }
        if column.is_descending {
            key[start..].iter_mut().for_each(|byte| *byte = !*byte);
        }
    }
}

/// Returns the largest double that is not above an integer, and the integer's distance to it.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn floor(integer: i64) -> (f64, u16) {
    let mut double = integer as f64;
    // An integer near `i64::MAX` is rounded to the double 2^63, which is above all integers.
    if double >= 9_223_372_036_854_775_808.0 || double as i64 > integer {
        double = double.next_down();
    }
    let distance = integer.wrapping_sub(double as i64);
    (double, u16::try_from(distance).unwrap_or(u16::MAX))
}

fn number((double, distance): (f64, u16), key: &mut Vec<u8>) {
    // Zero and negative zero are equal.
    let bits = if double == 0.0 { 0 } else { double.to_bits() };
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    key.push(NUMBER);
    key.extend_from_slice(&ordered.to_be_bytes());
    if double.abs() >= 9_007_199_254_740_992.0 {
        key.extend_from_slice(&distance.to_be_bytes());
    }
}

fn text(text: &[u8], collation: Collation, zeros: c_int, key: &mut Vec<u8>) {
    match collation {
        Collation::Binary => string(TEXT, text.iter().copied(), zeros, key),
        Collation::NoCase => match text.iter().position(|&byte| byte == 0) {
            // SQLite compares such texts up to the first zero byte, and then their lengths.
            Some(end) => {
                string(TEXT, text[..=end].iter().map(u8::to_ascii_lowercase), 0, key);
                key.truncate(key.len() - 2);
                key.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
            }
            None => string(TEXT, text.iter().map(u8::to_ascii_lowercase), zeros, key),
        },
        Collation::RightTrim => {
            let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
            string(TEXT, text[..end].iter().copied(), zeros, key);
        }
    }
}

fn string(kind: u8, bytes: impl Iterator<Item = u8>, zeros: c_int, key: &mut Vec<u8>) {
    let zeros = usize::try_from(zeros).unwrap_or(0);
    key.push(kind);
    for byte in bytes.chain(std::iter::repeat_n(0, zeros)) {
        key.push(byte);
        if byte == 0 {
            key.push(0xff);
        }
    }
    key.extend_from_slice(&[0, 1]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(kind: c_int) -> Field {
        Field { kind, zeros: 0, integer: 0, real: 0.0, start: std::ptr::null(), length: 0 }
    }

    fn integer(integer: i64) -> Field {
        Field { integer, ..field(1) }
    }

    fn real(real: f64) -> Field {
        Field { real, ..field(2) }
    }

    fn bytes_of(kind: c_int, bytes: &'static [u8]) -> Field {
        Field { start: bytes.as_ptr(), length: bytes.len(), ..field(kind) }
    }

    fn encoded(field: Field, code: u8) -> Vec<u8> {
        let mut key = Vec::new();
        encode(&[field], &[Column::of_code(code).unwrap()], &mut key);
        key
    }

    #[test]
    fn keys_are_in_the_order_of_their_values() {
        let ordered = [
            field(0),
            real(f64::NEG_INFINITY),
            integer(i64::MIN),
            integer(i64::MIN + 1),
            integer(-9_007_199_254_740_993),
            real(-9_007_199_254_740_992.0),
            real(-1.5),
            integer(-1),
            integer(0),
            real(1e-300),
            integer(1),
            real(1.5),
            real(9_007_199_254_740_992.0),
            integer(9_007_199_254_740_993),
            integer(i64::MAX),
            real(9_223_372_036_854_775_808.0),
            bytes_of(3, b""),
            bytes_of(3, b"A"),
            bytes_of(3, b"a"),
            bytes_of(3, b"a\0"),
            bytes_of(3, b"a\0b"),
            bytes_of(3, b"ab"),
            bytes_of(4, b""),
            bytes_of(4, b"\0"),
            bytes_of(4, b"a"),
        ];
        let keys = |code| ordered.iter().map(move |f| encoded(Field { ..*f }, code)).collect::<Vec<_>>();
        let (up, down) = (keys(0), keys(4));
        assert!(up.windows(2).all(|pair| pair[0] < pair[1]), "{up:02x?}");
        assert!(down.windows(2).all(|pair| pair[0] > pair[1]), "{down:02x?}");
        assert!(up.iter().all(|key| up.iter().all(|other| key == other || !other.starts_with(key))));
        assert!(up.iter().chain(&down).all(|key| key[..] < BEHIND[..]));
    }

    #[test]
    fn equal_values_have_equal_keys() {
        assert_eq!(encoded(integer(3), 0), encoded(real(3.0), 0));
        assert_eq!(encoded(real(-0.0), 0), encoded(integer(0), 0));
        assert_eq!(encoded(integer(1 << 60), 0), encoded(real((1_u64 << 60) as f64), 0));
        assert_eq!(encoded(bytes_of(3, b"HeLLo"), 1), encoded(bytes_of(3, b"hello"), 1));
        assert_eq!(encoded(bytes_of(3, b"a  "), 2), encoded(bytes_of(3, b"a"), 2));
        assert_eq!(encoded(Field { zeros: 2, ..field(4) }, 0), encoded(bytes_of(4, b"\0\0"), 0));
    }

    #[test]
    fn a_rowid_is_decoded_from_its_key() {
        for rowid in [i64::MIN, -1, 0, 1, i64::MAX] {
            assert_eq!(rowid_of(&of_rowid(rowid)), rowid);
        }
        assert!(of_rowid(-1) < of_rowid(0) && of_rowid(0) < of_rowid(1));
    }

    #[test]
    fn a_collation_of_the_program_is_refused() {
        assert!(Column::of_code(3).unwrap_err().sentence.contains("BINARY, NOCASE and RTRIM"));
    }
}

//! The spelling of bytes on the command line, in text output and in JSON.
//!
//! A key or value is made of the bytes of a word or, with `--hex`, of the bytes that the word's hexadecimal digits
//! stand for. JSON has no type for bytes: UTF-8 text is stored as `key` and `value`, and other bytes are stored in
//! hexadecimal as `key_hex` and `value_hex`. With `--hex`, all bytes are in hexadecimal.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

pub use libtp_console::numbers::{grouped, some_seconds, time};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::hexadecimal::{from_hex, to_hex};

/// A JSON object in the order in which it is written.
pub type Object = Map<String, Value>;

/// The spelling of the bytes of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// The bytes as they are.
    Text,
    /// Two hexadecimal digits per byte.
    Hex,
}

impl Spelling {
    /// Returns the spelling that `--hex` asks for.
    pub fn of(hex: bool) -> Spelling {
        if hex {
            Spelling::Hex
        } else {
            Spelling::Text
        }
    }

    /// Returns the bytes that a word of the command line spells.
    pub fn read(self, word: &OsStr) -> Result<Vec<u8>> {
        match self {
            Spelling::Text => Ok(word.as_bytes().to_vec()),
            Spelling::Hex => {
                from_hex(word.as_bytes()).map_err(|what| Failure::Usage(format!("{}: {what}", word.to_string_lossy())))
            }
        }
    }

    /// Returns the bytes as text output shows them.
    pub fn write(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Spelling::Text => bytes.to_vec(),
            Spelling::Hex => to_hex(bytes).into_bytes(),
        }
    }

    /// Puts the bytes into a JSON object, as `name` or `name_hex`.
    pub fn enter(self, object: &mut Object, name: &str, bytes: &[u8]) {
        match (self, std::str::from_utf8(bytes)) {
            (Spelling::Text, Ok(text)) => object.insert(name.to_string(), text.into()),
            _ => object.insert(format!("{name}_hex"), to_hex(bytes).into()),
        };
    }
}

/// Parses a length of time with its unit, `500ms` or `1.5s`; zero needs no unit.
pub fn time_with_unit(word: &str) -> std::result::Result<Duration, String> {
    let unit = word.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(word.len());
    let number: f64 = word[..unit].parse().map_err(|_| "give a time such as 500ms".to_string())?;
    let seconds = match &word[unit..] {
        "ms" => number / 1_000.0,
        "s" => number,
        "" if number == 0.0 => number,
        _ => return Err("a time needs its unit: ms or s".to_string()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_is_read_in_both_cases_of_letters_and_written_in_lower_case() {
        let bytes = Spelling::Hex.read(OsStr::new("00fFaB")).unwrap();
        assert_eq!(bytes, [0, 255, 171]);
        assert_eq!(Spelling::Hex.write(&bytes), b"00ffab");
        for wrong in ["0", "0g", "é0"] {
            assert!(matches!(Spelling::Hex.read(OsStr::new(wrong)), Err(Failure::Usage(_))), "{wrong}");
        }
    }

    #[test]
    fn json_has_utf8_as_text_and_other_bytes_as_hexadecimal() {
        let mut object = Object::new();
        Spelling::Text.enter(&mut object, "key", "é".as_bytes());
        Spelling::Text.enter(&mut object, "value", &[0xff]);
        assert_eq!(serde_json::to_string(&object).unwrap(), r#"{"key":"é","value_hex":"ff"}"#);
        Spelling::Hex.enter(&mut object, "key", b"a");
        assert_eq!(object["key_hex"], "61");
    }

    #[test]
    fn a_time_other_than_zero_needs_a_unit() {
        let millis = |word| time_with_unit(word).map(|time| time.as_millis());
        assert_eq!(["500ms", "1.5s", "0", "0s"].map(millis), [Ok(500), Ok(1_500), Ok(0), Ok(0)]);
        for wrong in ["500", "ms", "-1s", "1h", "", "1 s x"] {
            assert!(time_with_unit(wrong).is_err(), "{wrong}");
        }
    }
}

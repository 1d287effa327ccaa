//! Bytes in hexadecimal digits.

use std::fmt::Write;

use crate::room::make_room;

/// Returns two hexadecimal digits for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a write to a string does not fail");
        text
    })
}

/// Converts hexadecimal digits, of either case, to bytes.
pub fn from_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if digits.len() % 2 != 0 {
        return Err("the number of hexadecimal digits is odd; write two digits for each byte".to_string());
    }
    let mut bytes = Vec::new();
    make_room(&mut bytes, digits.len() / 2)?;
    for pair in digits.chunks_exact(2) {
        bytes.push(byte_of(pair[0], pair[1])?);
    }
    Ok(bytes)
}

/// Converts two hexadecimal digits to a byte.
pub fn byte_of(high: u8, low: u8) -> Result<u8, String> {
    Ok(digit(high)? << 4 | digit(low)?)
}

fn digit(letter: u8) -> Result<u8, String> {
    let value = char::from(letter).to_digit(16).and_then(|value| u8::try_from(value).ok());
    value.ok_or_else(|| format!("`{}` is not a hexadecimal digit", char::from(letter)))
}

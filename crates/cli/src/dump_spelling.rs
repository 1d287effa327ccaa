//! The printable spelling of a dump's bytes.

use crate::hexadecimal::byte_of;
use crate::room::make_room;

/// Returns the bytes that `spelled` stands for in `format=print`.
///
/// # Errors
/// A message about the fault of the spelling.
pub fn from_print(spelled: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    make_room(&mut bytes, spelled.len())?;
    let mut rest = spelled;
    while let Some((&letter, after)) = rest.split_first() {
        rest = after;
        if letter != b'\\' {
            bytes.push(letter);
            continue;
        }
        match rest {
            [b'\\', after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [high, low, after @ ..] => {
                bytes.push(byte_of(*high, *low)?);
                rest = after;
            }
            _ => return Err("a backslash at the end of a line".into()),
        }
    }
    Ok(bytes)
}

/// Returns the bytes as `format=print` spells them.
pub fn to_print(bytes: &[u8]) -> String {
    let mut spelled = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\\' => spelled.push_str("\\\\"),
            b' '..=b'~' => spelled.push(char::from(byte)),
            other => spelled.push_str(&format!("\\{other:02x}")),
        }
    }
    spelled
}

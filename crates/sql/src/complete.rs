//! Detects whether a text ends with a complete statement.
#![allow(unsafe_code)]

use std::ffi::CString;

use crate::rusqlite::ffi;

/// Returns whether a text can be run: it is empty, is a shell command, or ends with a complete statement.
///
/// A semicolon completes a statement, except inside a string, a comment or the body of a trigger.
pub fn is_complete(text: &str) -> bool {
    let begin = text.trim_start();
    if begin.is_empty() || begin.starts_with('.') {
        return true;
    }
    // The newline ends a comment. A text with a zero byte counts as complete, so that SQLite refuses the text.
    let Ok(text) = CString::new(format!("{text}\n")) else { return true };
    // SAFETY: `text` ends with a zero byte and outlives the call. The call only reads `text`.
    unsafe { ffi::sqlite3_complete(text.as_ptr()) != 0 }
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn a_statement_ends_at_its_own_semicolon() {
        for text in ["", "  ", ".tables", "SELECT 1;", "SELECT ';'; -- done", "SELECT 1; SELECT 2;"] {
            assert!(is_complete(text), "{text}");
        }
        let trigger = "CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1;";
        for text in ["SELECT 1", "SELECT ';", "/* ; */", trigger] {
            assert!(!is_complete(text), "{text}");
        }
        assert!(is_complete(&format!("{trigger} END;")));
    }
}

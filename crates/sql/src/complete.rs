//! Whether a text ends a statement.
#![allow(unsafe_code)]

use std::ffi::CString;

use crate::rusqlite::ffi;

/// Returns whether a text can be run: it is a command of the shell, or its last statement has its semicolon. Semicolons
/// in texts, comments and triggers end no statement.
pub fn is_complete(text: &str) -> bool {
    let begin = text.trim_start();
    if begin.is_empty() || begin.starts_with('.') {
        return true;
    }
    // A text with a zero byte is run, and SQLite refuses it.
    // A comment ends with its line.
    let Ok(text) = CString::new(format!("{text}\n")) else { return true };
    // SAFETY: the text ends in a zero byte and lives for the call, which only reads it.
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

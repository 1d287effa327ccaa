//! The source and compiler of a report's program.

use serde::Serialize;

/// The source and the compiler, as the program's own build noted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The commit, with a mark if files had changed since; `unknown` if git did not know it.
    pub commit: String,
    /// The compiler's own version text.
    pub compiler: String,
}

impl Build {
    /// Returns the value for a program whose build recorded nothing.
    pub fn unknown() -> Build {
        Build { commit: "unknown".to_owned(), compiler: "unknown".to_owned() }
    }
}

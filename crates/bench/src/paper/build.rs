//! What a report's program was made from.

use serde::Serialize;

/// The source and the compiler, as the program's own build noted them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The commit, with a mark if files had changed since; `unknown` where git did not know it.
    pub commit: String,
    /// What the compiler says of itself.
    pub compiler: String,
}

impl Build {
    /// Of a program whose build noted nothing.
    pub fn unknown() -> Build {
        Build { commit: "unknown".to_owned(), compiler: "unknown".to_owned() }
    }
}

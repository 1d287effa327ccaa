//! The source and the compiler of the program that writes a report.

use serde::Serialize;

/// The source and the compiler, as the build script recorded them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Build {
    /// The commit, with a mark if the source differed from it; `unknown` if git does not track the source.
    pub commit: String,
    /// The version that the compiler prints.
    pub compiler: String,
}

impl Build {
    /// Returns the value for a program whose build script recorded nothing.
    pub fn unknown() -> Build {
        Build { commit: "unknown".to_owned(), compiler: "unknown".to_owned() }
    }
}

//! How a command ends: well, with something wrong found, or with a sentence that says why not.

use std::process::ExitCode;

/// The result of everything here that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// How a command that was carried out ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Done, and nothing wrong.
    Done,
    /// Done, and the answer is no: no such key, an audit or a check that disagrees.
    Disagrees,
}

impl Ending {
    /// `Done` if `well`.
    pub fn of(well: bool) -> Ending {
        if well {
            Ending::Done
        } else {
            Ending::Disagrees
        }
    }

    /// What the shell is told.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Ending::Done => ExitCode::SUCCESS,
            Ending::Disagrees => ExitCode::FAILURE,
        }
    }
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line asks for something that cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// It was tried.
    #[error("{0}")]
    Failed(String),
    /// Whoever read our standard output went away; nobody is there to be told.
    #[error("standard output was closed")]
    NobodyReads,
}

impl Failure {
    /// Wraps an error of the system; for use in `map_err`.
    pub fn doing<'a>(what: impl std::fmt::Display + 'a) -> impl FnOnce(std::io::Error) -> Failure + 'a {
        move |error| Failure::Failed(format!("cannot {what}: {error}"))
    }

    /// What the shell is told.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) | Failure::NobodyReads => ExitCode::FAILURE,
        }
    }
}

impl From<libtp::Error> for Failure {
    fn from(error: libtp::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<libtp_bench::Error> for Failure {
    fn from(error: libtp_bench::Error) -> Failure {
        match error {
            libtp_bench::Error::Settings(what) => Failure::Usage(what),
            other => Failure::Failed(other.to_string()),
        }
    }
}

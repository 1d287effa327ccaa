//! The ways in which a command ends: done, done with a negative answer, or failed with a message.

use std::process::ExitCode;

/// Exit code that shells report for a program that SIGPIPE (13) ended.
const SIGPIPE_CODE: u8 = 128 + 13;

/// The result of every function of this crate that can fail.
pub type Result<T> = std::result::Result<T, Failure>;

/// The end of a command that was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Done, and nothing is wrong.
    Done,
    /// Done, and the answer is negative: a key is missing, or an audit or check found a fault.
    Disagrees,
}

impl Ending {
    /// Returns `Done` if the answer is positive (`well`), else `Disagrees`.
    pub fn of(well: bool) -> Ending {
        if well {
            Ending::Done
        } else {
            Ending::Disagrees
        }
    }

    /// Returns the exit code.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Ending::Done => ExitCode::SUCCESS,
            Ending::Disagrees => ExitCode::FAILURE,
        }
    }
}

/// The reason why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The command was tried and failed.
    #[error("{0}")]
    Failed(String),
    /// The reader of standard output closed the pipe, as in `tp scan NAME | head`. The command writes no message.
    #[error("standard output was closed")]
    OutputClosed,
}

impl Failure {
    /// Returns a function that wraps an error of the operating system; for use in `map_err`.
    pub fn doing<'a>(what: impl std::fmt::Display + 'a) -> impl FnOnce(std::io::Error) -> Failure + 'a {
        move |error| Failure::Failed(format!("cannot {what}: {error}"))
    }

    /// Returns the exit code. For a closed pipe, returns the code that shells report for a program that SIGPIPE ended:
    /// the signal itself would end the process without closing the environment.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Usage(_) => ExitCode::from(2),
            Failure::Failed(_) => ExitCode::FAILURE,
            Failure::OutputClosed => ExitCode::from(SIGPIPE_CODE),
        }
    }
}

impl From<libtp::Error> for Failure {
    fn from(error: libtp::Error) -> Failure {
        Failure::Failed(error.to_string())
    }
}

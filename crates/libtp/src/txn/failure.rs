//! The failures of a transaction: which error is returned, and whether the transaction runs again.

use crate::{Error, Result};

/// The last failure of a transaction's calls, which decides whether to run it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LastFailure {
    /// No failure, or an error after which the transaction does not run again.
    #[default]
    Nothing,
    /// An error after which the transaction runs again.
    Retryable,
    /// A lock that was not granted in time.
    Timeout,
}

impl LastFailure {
    pub(crate) fn of(error: &Error) -> LastFailure {
        match error {
            Error::LockTimeout(_) => LastFailure::Timeout,
            error if error.is_retryable() => LastFailure::Retryable,
            _ => LastFailure::Nothing,
        }
    }
}

/// Returns the first error. If the first error is retryable and the undo failed, returns the error of the undo.
pub(crate) fn keep_first(first: Error, undone: Result<()>) -> Error {
    match undone {
        Ok(()) => first,
        Err(second) if first.is_retryable() => second,
        Err(_) => first,
    }
}

//! The answers of calls: codes of SQLite, each error with a text.
//!
//! The victim of a deadlock gets `BUSY_SNAPSHOT`. In WAL mode SQLite returns this code to a writer whose snapshot is
//! outdated, and programs for WAL mode then begin the transaction again. If a lock is not granted in time, the call
//! fails with `BUSY`, and the transaction continues.

use std::ffi::c_int;

use libtp::Error;

pub(crate) const OK: c_int = 0;
pub(crate) const ERROR: c_int = 1;
pub(crate) const INTERNAL: c_int = 2;
pub(crate) const ABORT: c_int = 4;
pub(crate) const BUSY: c_int = 5;
pub(crate) const READONLY: c_int = 8;
pub(crate) const INTERRUPT: c_int = 9;
pub(crate) const IOERR: c_int = 10;
pub(crate) const CORRUPT: c_int = 11;
pub(crate) const FULL: c_int = 13;
pub(crate) const CANTOPEN: c_int = 14;
pub(crate) const TOOBIG: c_int = 18;
pub(crate) const MISUSE: c_int = 21;
pub(crate) const DONE: c_int = 101;
pub(crate) const ABORT_ROLLBACK: c_int = 4 | 2 << 8;
pub(crate) const BUSY_SNAPSHOT: c_int = 5 | 2 << 8;
pub(crate) const READONLY_DBMOVED: c_int = 8 | 4 << 8;
pub(crate) const IOERR_FSYNC: c_int = 10 | 4 << 8;
pub(crate) const CONSTRAINT_PINNED: c_int = 19 | 11 << 8;

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: c_int,
    pub(crate) sentence: String,
    /// Whether the library has ended the transaction, or must end it.
    pub(crate) ends_transaction: bool,
    /// Whether an earlier call had this error, so that the call is not worth another try.
    pub(crate) is_repeated: bool,
}

pub(crate) type Outcome<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(code: c_int, sentence: impl Into<String>) -> Refusal {
        Refusal { code, sentence: sentence.into(), ends_transaction: false, is_repeated: false }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let ends_transaction =
            matches!(error, Error::Deadlock | Error::Rebuilt | Error::Panicked { .. } | Error::RollbackFailed { .. });
        Refusal { ends_transaction, ..Refusal::new(code_of(&error), error.to_string()) }
    }
}

fn code_of(error: &Error) -> c_int {
    match error {
        Error::Deadlock | Error::Rebuilt | Error::Panicked { .. } | Error::RollbackFailed { .. } => BUSY_SNAPSHOT,
        Error::SnapshotTooOld(_) => BUSY_SNAPSHOT,
        Error::LockTimeout(_) | Error::OwnThread(_) => BUSY,
        Error::Cancelled(_) => INTERRUPT,
        Error::Full { .. } => FULL,
        Error::Length { .. } => TOOBIG,
        Error::Corrupt(_) => CORRUPT,
        Error::ReadOnly { .. } => READONLY,
        Error::Forked { .. } => MISUSE,
        Error::Environment { .. } | Error::Settings { .. } => CANTOPEN,
        Error::OutcomeUnknown { .. } => IOERR_FSYNC,
        _ => IOERR,
    }
}

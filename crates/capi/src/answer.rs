//! The answer of every call: a code, and a text about the last failed call of the calling thread.
//!
//! Every call goes through [`c_call`], which stops every panic. A mistake of the C program is a failure like any other
//! ([`Trouble::misuse`]).
#![allow(unsafe_code)]

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

use libtp::Error;

/// The codes, each with the text that `tp_strerror` returns. `libtp.h` has the same codes, and a test compares the two.
macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        $(pub(crate) const $name: c_int = $code;)*

        #[cfg(test)]
        const ALL: &[(&str, c_int)] = &[$((stringify!($name), $code)),*];

        /// Returns the meaning of a code, or `None` if the library has no such code.
        fn meaning(code: c_int) -> Option<&'static CStr> {
            match code {
                $($code => Some($text),)*
                _ => None,
            }
        }
    };
}

codes! {
    TP_OK = 0, c"success";
    TP_NOTFOUND = -31001, c"there is no such record, or no further record";
    TP_EXISTS = -31002, c"the key is there already; nothing was changed";
    TP_DEADLOCK = -31003, c"deadlock: this transaction was chosen as the victim; abort it and run it again";
    TP_LOCK_TIMEOUT = -31004, c"a lock was not granted within the time set; tp_error names the transaction that holds it";
    TP_REBUILT = -31005, c"the shared memory was rebuilt, and this transaction was undone; abort it and run it again";
    TP_PANICKED = -31006, c"an internal error of the library, which undid this transaction; abort it and run it again";
    TP_SNAPSHOT_TOO_OLD = -31007, c"the snapshot needs log that is no longer kept; begin another snapshot";
    TP_OUTCOME_UNKNOWN = -31008, c"the commit record was written, and it is unknown whether the commit is kept; check the data before you run the transaction again";
    TP_ROLLBACK_FAILED = -31009, c"a rollback to a savepoint failed, so the whole transaction was undone; run it again";
    TP_FULL = -31010, c"a disk, a table or memory is full; nothing was changed; tp_error says which";
    TP_CORRUPT = -31011, c"a file, a page or a log record is damaged; tp_error names it";
    TP_FAILED = -31012, c"a write to disk failed, so the environment accepts no more changes; close it in every process, and open it again";
    TP_LENGTH = -31013, c"a key or a value has a length that the database does not accept; nothing was changed";
    TP_NO_DATABASE = -31014, c"there is no such database";
    TP_DATABASE = -31015, c"the database is of another kind, or its name is not a valid file name";
    TP_ENVIRONMENT = -31016, c"the directory is no environment, or cannot be opened here";
    TP_NOT_LASTING = -31017, c"this durability needs shared memory that survives a crash of the system, and the shared memory does not";
    TP_SEGMENT = -31018, c"a segment of memory cannot be opened or joined";
    TP_FORKED = -31019, c"the handle belongs to the process that this one was forked from; open the environment again";
    TP_SETTINGS = -31020, c"the settings are wrong; tp_error names the setting";
    TP_IO = -31021, c"reading or writing failed";
    TP_MISUSE = -31022, c"the call is not allowed, or an argument is wrong; nothing was changed";
    TP_IN_USE = -31023, c"the handle is in use, and stays open";
    TP_BUG = -31024, c"an internal error of the library; running the transaction again does not help";
    TP_LOG_TYPE = -31025, c"the log has records of a type that was not registered; tp_error has its name and code";
    TP_NOT_PASSED = -31026, c"the transaction cannot be detached, or is not waiting to be attached";
    TP_NOT_EMPTY = -31027, c"the database is not empty, and records can be loaded only into an empty database; nothing was loaded";
    TP_OUT_OF_ORDER = -31028, c"records that should be sorted are not; nothing was loaded";
    TP_FILE = -31029, c"a plain file cannot be read or changed; nothing was changed";
    TP_FILES_WAITING = -31030, c"the transaction is committed, and not all of its plain files are in their places yet";
    TP_BACKUP = -31031, c"a backup cannot be taken there, or nothing can be restored from it";
    TP_CANCELLED = -31032, c"the program ended the wait for a lock with tp_cancel_waits; abort the transaction";
    TP_OWN_THREAD = -31033, c"another transaction of this thread holds the lock; end that transaction first, or use one transaction";
    TP_DROPPED = -31034, c"the database was dropped; open it again";
    TP_READ_ONLY = -31035, c"the environment was opened for reading only; nothing was changed";
    TP_OTHER = -31099, c"an error without a code in this header; tp_error describes it";
}

/// A failure: its code and its text.
pub(crate) struct Trouble {
    code: c_int,
    text: Cow<'static, CStr>,
}

pub(crate) type Outcome<T> = Result<T, Trouble>;

/// Returns a copy of bytes whose number the program has chosen.
pub(crate) fn copied(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| {
        let count = bytes.len();
        Trouble::full(&format!("this process has no memory for a copy of {count} bytes; nothing was changed by this call. Raise the limit of its memory (`ulimit -v`), or use shorter values"))
    })?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

impl Trouble {
    fn new(code: c_int, text: String) -> Trouble {
        Trouble { code, text: Cow::Owned(CString::new(text.replace('\0', " ")).unwrap_or_default()) }
    }

    /// Returns a failure whose text is the meaning of its code. Allocates nothing.
    fn bare(code: c_int) -> Trouble {
        Trouble { code, text: Cow::Borrowed(meaning(code).unwrap_or_default()) }
    }

    pub(crate) fn not_found() -> Trouble {
        Trouble::bare(TP_NOTFOUND)
    }

    pub(crate) fn misuse(what: impl Into<String>) -> Trouble {
        Trouble::new(TP_MISUSE, what.into())
    }

    pub(crate) fn in_use(what: String) -> Trouble {
        Trouble::new(TP_IN_USE, what)
    }

    pub(crate) fn full(what: &str) -> Trouble {
        Trouble::new(TP_FULL, what.into())
    }

    /// Makes the failure for a code that a function of the program returned. `then` says how the call ended.
    pub(crate) fn of_the_program(code: c_int, then: &str) -> Trouble {
        match meaning(code) {
            // If the code is one of the library's, a call inside the function has failed, and its text explains the
            // code.
            Some(_) => Trouble { code, text: Cow::Owned(last_error()) },
            None => Trouble::new(code, format!("the program's function returned {code}, and {then}")),
        }
    }

    pub(crate) fn code(&self) -> c_int {
        self.code
    }

    pub(crate) fn text(&self) -> String {
        self.text.to_string_lossy().into_owned()
    }

    fn of_panic(payload: &(dyn Any + Send)) -> Trouble {
        let message = match payload.downcast_ref::<String>() {
            Some(text) => text.as_str(),
            None => payload.downcast_ref::<&str>().copied().unwrap_or("nothing"),
        };
        let text = format!(
            "the library panicked, because of a bug in it or of damaged memory: please report it. It said: {message}"
        );
        Trouble::new(TP_BUG, text)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        let code = match &error {
            // These two errors are frequent. Their text is the meaning of the code, which costs no allocation.
            Error::Deadlock => return Trouble::bare(TP_DEADLOCK),
            Error::Exists => return Trouble::bare(TP_EXISTS),
            Error::LockTimeout(_) => TP_LOCK_TIMEOUT,
            Error::Cancelled(_) => TP_CANCELLED,
            Error::OwnThread(_) => TP_OWN_THREAD,
            Error::Rebuilt => TP_REBUILT,
            Error::Panicked { .. } => TP_PANICKED,
            Error::SnapshotTooOld(_) => TP_SNAPSHOT_TOO_OLD,
            Error::OutcomeUnknown { .. } => TP_OUTCOME_UNKNOWN,
            Error::RollbackFailed { .. } => TP_ROLLBACK_FAILED,
            Error::Full { .. } => TP_FULL,
            Error::Corrupt(_) => TP_CORRUPT,
            Error::Failed(_) => TP_FAILED,
            Error::Length { .. } => TP_LENGTH,
            Error::NoDatabase { .. } => TP_NO_DATABASE,
            Error::Database { .. } | Error::FileMissing { .. } => TP_DATABASE,
            Error::Environment { .. } => TP_ENVIRONMENT,
            Error::NotLasting { .. } => TP_NOT_LASTING,
            Error::Segment { .. } | Error::Memory(_) => TP_SEGMENT,
            Error::Forked { .. } => TP_FORKED,
            Error::Settings { .. } => TP_SETTINGS,
            Error::Io(_) => TP_IO,
            Error::LogType { .. } => TP_LOG_TYPE,
            Error::NotPassed { .. } => TP_NOT_PASSED,
            Error::NotEmpty { .. } => TP_NOT_EMPTY,
            Error::OutOfOrder { .. } => TP_OUT_OF_ORDER,
            Error::File { .. } => TP_FILE,
            Error::FilesWaiting { .. } => TP_FILES_WAITING,
            Error::Backup { .. } => TP_BACKUP,
            Error::Dropped { .. } => TP_DROPPED,
            Error::ReadOnly { .. } => TP_READ_ONLY,
            // The program's function of an index has refused the record with this code.
            Error::Refused { .. } => REFUSED.get(),
            _ => TP_OTHER,
        };
        Trouble::new(code, error.to_string())
    }
}

/// Returns the reason for a code that a function of the program returned. For a code of the library, this is the last
/// text of this thread; for a code of the program, it is a text with the code.
pub(crate) fn reason(code: c_int) -> String {
    match meaning(code) {
        Some(_) => last_error().to_string_lossy().into_owned(),
        None => format!("it returned {code}"),
    }
}

thread_local! {
    /// The code with which a function of the program last refused a record in this thread.
    static REFUSED: Cell<c_int> = const { Cell::new(TP_OK) };
    static LAST_ERROR: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

fn last_error() -> CString {
    LAST_ERROR.try_with(|message| message.borrow().clone().into_owned()).unwrap_or_default()
}

/// Stores the code with which a function of the program refuses a record.
pub(crate) fn refuse_with(code: c_int) {
    REFUSED.set(code);
}

/// Stores the text that `tp_error` returns.
pub(crate) fn say(text: &str) {
    let text = Cow::Owned(CString::new(text.replace('\0', " ")).unwrap_or_default());
    // While a thread is ending, its text no longer exists.
    let _ = LAST_ERROR.try_with(|message| *message.borrow_mut() = text);
}

/// Does the work. If the work panics, returns a text about the panic instead.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Trouble::of_panic(&*payload).text())
}

/// Does the work of a call and returns the call's code.
pub(crate) fn c_call(call: &str, work: impl FnOnce() -> Outcome<()>) -> c_int {
    let done = catch_unwind(AssertUnwindSafe(work));
    let trouble = match done {
        Ok(Ok(())) => return TP_OK,
        Ok(Err(trouble)) => trouble,
        Err(payload) => Trouble::of_panic(&*payload),
    };
    let code = trouble.code;
    let text = match code {
        TP_MISUSE | TP_IN_USE | TP_BUG => {
            let text = format!("{call}: {}", trouble.text.to_string_lossy());
            Cow::Owned(CString::new(text).unwrap_or_default())
        }
        _ => trouble.text,
    };
    // While a thread is ending, its text no longer exists.
    let _ = LAST_ERROR.try_with(|message| *message.borrow_mut() = text);
    code
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_error() -> *const c_char {
    LAST_ERROR.try_with(|message| message.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_strerror(code: c_int) -> *const c_char {
    meaning(code).unwrap_or(c"this code is not a code of the library").as_ptr()
}

/// Returns whether a transaction or snapshot that failed with this code may succeed when it is run again.
pub(crate) fn is_retryable(code: c_int) -> bool {
    matches!(code, TP_DEADLOCK | TP_REBUILT | TP_PANICKED | TP_SNAPSHOT_TOO_OLD)
}

/// See `libtp.h`.
#[no_mangle]
pub extern "C" fn tp_is_retryable(code: c_int) -> c_int {
    c_int::from(is_retryable(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_that_allow_another_run_agree_with_the_library() {
        let some = [
            Error::Deadlock,
            Error::Rebuilt,
            Error::Panicked { what: "for a test".into() },
            Error::SnapshotTooOld("for a test".into()),
            Error::OutcomeUnknown { cause: "for a test".into() },
            Error::RollbackFailed { cause: "for a test".into() },
            Error::Corrupt("for a test".into()),
            Error::Failed("for a test".into()),
            Error::Exists,
            Error::Settings { what: "for a test".into() },
        ];
        for error in some {
            let (may, text) = (error.is_retryable(), error.to_string());
            assert_eq!(is_retryable(Trouble::from(error).code), may, "{text}");
        }
    }

    #[test]
    fn a_change_of_an_environment_that_is_read_only_has_its_own_code() {
        let error = Error::ReadOnly { environment: "bank".into(), change: "transactions" };
        let (code, text) = (TP_READ_ONLY, error.to_string());
        let trouble = Trouble::from(error);
        assert_eq!((trouble.code(), trouble.text()), (code, text));
        assert!(!is_retryable(code));
    }

    #[test]
    fn the_header_has_the_same_codes() {
        let header = include_str!("../include/libtp.h");
        let in_header = |line: &'static str| {
            let (name, rest) = line.trim().strip_prefix("TP_")?.split_once(" = ")?;
            let code: c_int = rest.split([',', ' ']).next()?.parse().ok()?;
            (code < 0 || name == "OK").then(|| (format!("TP_{name}"), code))
        };
        let declared: Vec<(String, c_int)> = header.lines().filter_map(in_header).collect();
        let ours: Vec<(String, c_int)> = ALL.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
        assert_eq!(declared, ours);
        assert!(header.contains(concat!("#define TP_VERSION \"", env!("CARGO_PKG_VERSION"), "\"")), "the version");
    }

    #[test]
    fn a_panic_becomes_an_error() {
        let code = c_call("tp_put", || panic!("for a test"));
        assert_eq!(code, TP_BUG);
        let message = last_error().into_string().unwrap();
        assert!(
            message.starts_with("tp_put: the library panicked") && message.ends_with("It said: for a test"),
            "{message}"
        );
    }
}

//! Errors of the transaction manager.

use libtp_buffer::DAMAGED_FILE_REMEDY;
use libtp_log::Lsn;

/// The reason why a call of the transaction manager failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the log.
    #[error(transparent)]
    Log(#[from] libtp_log::Error),
    /// An error of the lock manager: deadlock, timeout.
    #[error(transparent)]
    Lock(#[from] libtp_lock::Error),
    /// An error of the buffer manager: a damaged page, a full disk.
    #[error(transparent)]
    Buffer(#[from] libtp_buffer::Error),
    /// An error of the process manager.
    #[error(transparent)]
    Process(#[from] libtp_process::Error),
    /// An error of the region.
    #[error(transparent)]
    Region(#[from] rio::Error),
    /// A log record has a type that is not registered: without its redo and undo the environment cannot be recovered.
    #[error("the log record at LSN {lsn} has type {code}, which no part of this program registered; nothing was changed. Open the environment with the program that wrote the record, or register the type")]
    UnknownRecord {
        /// The record's LSN.
        lsn: Lsn,
        /// Its type code.
        code: u16,
    },
    /// A log record has a type of the application that this program did not register.
    #[error("the log record at LSN {lsn} has the application's type \"{name}\" (code {code}), which this program did not register, or registered without its undo function; the record's transaction is kept as it is. Open the environment with the program that wrote the record, or register the type (`Builder::log_type`, `tp_log_type`) before opening")]
    Unregistered {
        /// The record's LSN.
        lsn: Lsn,
        /// The type's code.
        code: u16,
        /// Its name.
        name: String,
    },
    /// A log record has a type of the application, and this program registered the type's code for another type.
    #[error("the log record at LSN {lsn} has the application's type \"{name}\" (code {code}), and this program registered \"{known}\" with that code; the record's transaction is kept as it is. Open the environment with the program that wrote the record, or give one of the two types another code")]
    OtherType {
        /// The record's LSN.
        lsn: Lsn,
        /// The type's code.
        code: u16,
        /// Its name in the log.
        name: String,
        /// Its name in this program.
        known: String,
    },
    /// A log record does not fit the page that it names, or its body cannot be decoded.
    #[error("the log record at LSN {lsn} ({name}) cannot be applied: {what}. The record stays in the log. {remedy}", remedy = DAMAGED_FILE_REMEDY)]
    Damaged {
        /// The record's LSN.
        lsn: Lsn,
        /// The record type's name.
        name: &'static str,
        /// The part that does not fit.
        what: String,
    },
    /// Another session has been changing the control file for longer than any change of the file takes.
    #[error("the control file could not be changed: {holder} has been changing it for more than {seconds} s; nothing was changed. If that process is stopped, continue or kill it, and try again (`tp sessions` shows it)")]
    ControlHeld {
        /// A description of the session that changes the control file.
        holder: String,
        /// The length of the wait.
        seconds: u64,
    },
    /// Another session is taking a checkpoint and does not finish it.
    #[error("no checkpoint could be taken: {holder} has been taking a checkpoint for more than {seconds} s; nothing was changed. If that process is stopped, continue or kill it, and try again (`tp sessions` shows it)")]
    CheckpointHeld {
        /// A description of the session that takes the checkpoint.
        holder: String,
        /// The length of the wait.
        seconds: u64,
    },
    /// A transaction has joined as many segments of memory as it can.
    #[error("a transaction can join at most {most} segments of memory, and this transaction has joined that number already; nothing was changed by this call. Use another transaction for further segments")]
    TooManySegments {
        /// The largest number of segments.
        most: usize,
    },
    /// A transaction drops or renames more databases than one log record has room for.
    #[error("a transaction cannot drop or rename {count} databases: their names take {bytes} bytes of a log record, which has {most}; nothing was changed. Drop or rename them in several transactions")]
    TooManyDatabases {
        /// The number of databases.
        count: usize,
        /// Bytes that the log record would have.
        bytes: usize,
        /// Bytes that a log record has room for.
        most: usize,
    },
    /// The shared memory is damaged.
    #[error("the shared memory is damaged: {what}. It is rebuilt from the log, and answered commits are kept; run the transaction again")]
    Broken {
        /// The damage.
        what: String,
    },
    /// An access method cannot undo a change.
    #[error("the change logged at LSN {lsn} cannot be undone: {what}. The log keeps the change and its transaction; `tp verify` shows whether the file is damaged. If it is: {remedy}", remedy = DAMAGED_FILE_REMEDY)]
    Undo {
        /// The record's LSN.
        lsn: Lsn,
        /// The reason.
        what: String,
    },
}

/// The result of transaction calls.
pub type Result<T> = std::result::Result<T, Error>;

//! The library's errors, one variant for each case in which a caller acts differently.

use std::path::PathBuf;

use libtp_record::{key_hash::key_hash, lock_names};
use rio::planted;

use super::damage::Damage;
use super::lock_wait::LockWait;

/// A call of the library failed. [`Error::is_retryable`] says whether running the transaction again may succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Transactions waited for each other in a circle, and this transaction was chosen as the victim. Abort it and run
    /// it again.
    #[error("deadlock: transactions waited for each other, and this transaction was chosen as the victim; abort it and run it again")]
    Deadlock,
    /// The shared memory was found damaged and was rebuilt from disk and log. This transaction was undone; run it
    /// again.
    #[error("the shared memory was found damaged and was rebuilt from the log; answered commits are kept, and this transaction was undone. Run it again")]
    Rebuilt,
    /// The commit record was written but could not be made durable, or the wait for the disk ended early
    /// ([`Durability::Sync`](crate::Durability::Sync)), so whether the transaction is kept is unknown. Look at the data
    /// before you run it again.
    #[error("the commit record was written, and it is unknown whether the commit is kept: {cause}. Look at the data before running the transaction again")]
    OutcomeUnknown {
        /// The error that followed the commit record.
        cause: String,
    },
    /// The library itself panicked in this call, because of a bug in the library or of damaged memory. The session was
    /// repaired as after a kill: this transaction was undone, and no other transaction is affected. Run it again.
    #[error("the library panicked ({what}), which is a bug in it or damaged memory: please report it. This transaction was undone, and no other transaction is affected. Run it again")]
    Panicked {
        /// The panic's message.
        what: String,
    },
    /// A rollback to a savepoint failed, so the transaction could not commit. The whole transaction was aborted.
    #[error(
        "the rollback to a savepoint failed ({cause}), so the whole transaction was aborted. Remove the cause, and run the transaction again"
    )]
    RollbackFailed {
        /// The error of the rollback.
        cause: String,
    },
    /// A transaction cannot be passed on to another session, or cannot be taken over.
    #[error("transaction {txn}: {what}")]
    NotPassed {
        /// The transaction's number.
        txn: u64,
        /// The reason, what became of the transaction, and the remedy.
        what: String,
    },
    /// A lock was not granted within the time limit. The transaction can continue without that lock.
    /// [`Env::run`](crate::Env::run) does not run it again: the process that holds the lock may be stopped.
    #[error("the lock on {} in mode {} was not granted {}: {}; nothing was changed by this call. Wait longer, or abort the transaction and run it again later", .0.object, .0.mode, .0.within(), .0.blockers())]
    LockTimeout(Box<LockWait>),
    /// The program cancelled its waits for locks ([`cancel_waits`](crate::cancel_waits)) while this call waited.
    #[error("this program cancelled the wait for the lock on {} in mode {}: {}; nothing was changed by this call. Abort the transaction", .0.object, .0.mode, .0.blockers())]
    Cancelled(Box<LockWait>),
    /// The lock can be granted only after another transaction of this thread ends: that transaction holds the lock, or
    /// the holder waits for it. While the thread waits for the lock, the thread cannot end that transaction.
    #[error("the lock on {} in mode {} cannot be granted: {}. That transaction belongs to this thread, and the thread cannot end it while it waits; nothing was changed by this call. End the other transaction first, or do the work of both in one transaction", .0.object, .0.mode, .0.blockers())]
    OwnThread(Box<LockWait>),
    /// A snapshot needs log that may have been freed: the snapshot was held for longer than the settings allow, or too
    /// much was written meanwhile.
    #[error("{0}")]
    SnapshotTooOld(String),
    /// Something is full; nothing was changed.
    #[error("{source}")]
    Full {
        /// The thing that is full.
        what: &'static str,
        /// The underlying error, which names the file.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The log has records of a type that this program did not register, or registered differently. This program cannot
    /// undo the transactions that wrote them.
    #[error("{what}")]
    LogType {
        /// The type's code.
        code: u16,
        /// The type's name.
        name: String,
        /// The whole message.
        what: String,
    },
    /// A file, page or log record is damaged.
    #[error("damaged: {0}")]
    Corrupt(Box<Damage>),
    /// A sync failed: earlier acknowledged commits are safe, and no further commit is acknowledged. Reads still
    /// succeed. To write again, close the environment in every process and reopen it.
    #[error("the environment takes no more changes because writing to disk failed: {0}. Commits answered before are kept; close the environment in every process, and open it again")]
    Failed(String),
    /// The database does not accept a key or value of this length.
    #[error("{what} of {bytes} bytes was given, and this database takes {limit}; nothing was changed")]
    Length {
        /// The kind of the thing, for example "a key", "a value" or "a part".
        what: &'static str,
        /// The given length.
        bytes: usize,
        /// The allowed length, in words.
        limit: String,
    },
    /// `put_new` found the key.
    #[error("the database has this key already; nothing was changed. Replace its value (`put`), or use another key")]
    Exists,
    /// Records cannot be loaded: the database has records, or still has pages of deleted records.
    #[error("database `{name}` is not empty, and records can be loaded only into an empty database; nothing was loaded. Load them into a new database, or put them one by one")]
    NotEmpty {
        /// The database's name.
        name: String,
    },
    /// Records declared as sorted are not sorted.
    #[error("the records to load into database `{name}` were declared as sorted, and record {number} has a smaller key than the record before it; nothing was loaded. Sort the records, or load them as unsorted (`Load::unsorted`)")]
    OutOfOrder {
        /// The database.
        name: String,
        /// The record's number, from 1 on; records with the key of the previous record are not counted.
        number: u64,
    },
    /// There is no such database.
    #[error("there is no database `{name}` in {environment}; nothing was changed. `tp list` shows the databases; `tp load` and `tp put` make a new one (in a program, `Env::btree`)")]
    NoDatabase {
        /// The database's name.
        name: String,
        /// The environment's directory.
        environment: PathBuf,
    },
    /// The database is of another kind than asked for, or its name is no valid file name.
    #[error("database `{name}`: {what}")]
    Database {
        /// The database's name.
        name: String,
        /// The fault.
        what: String,
    },
    /// The directory is no environment, or cannot be opened here.
    #[error("{environment} cannot be opened, and nothing was changed: {what}")]
    Environment {
        /// The directory.
        environment: PathBuf,
        /// The fault and the remedy.
        what: String,
    },
    /// [`Durability::Rio`](crate::Durability::Rio) was asked for, but the shared memory does not outlive the system.
    #[error("durability Rio needs shared memory that survives a crash of the system, and the shared memory {region} survives only {survives}; nothing was changed. Commit with durability sync or relaxed. Or, while no process has the environment open, set `region_directory` in libtp.toml to a directory on such memory (a filesystem mounted with `dax`); if the present memory survives a crash of the system and the library cannot detect that, set `region_survives = \"system\"` (\"power\" if the memory also survives a loss of power)")]
    NotLasting {
        /// The file of the shared memory.
        region: PathBuf,
        /// The event that the shared memory survives.
        survives: rio::Survives,
    },
    /// A change was asked of a handle that was opened for reading only
    /// ([`Env::open_read_only`](crate::Env::open_read_only)).
    #[error("{environment} was opened for reading only, which does not allow {change}; nothing was changed. Read in a snapshot (`Env::snapshot`), or open the environment with `Env::open`")]
    ReadOnly {
        /// The environment's directory.
        environment: PathBuf,
        /// The change, in words.
        change: &'static str,
    },
    /// A segment of memory cannot be opened or joined.
    #[error("the segment {path}: {what}")]
    Segment {
        /// The segment's file.
        path: PathBuf,
        /// The fault and the remedy.
        what: String,
    },
    /// A plain file cannot be read or changed in a transaction.
    #[error("the file {path}: {what}")]
    File {
        /// The file's path.
        path: PathBuf,
        /// The fault and the remedy.
        what: String,
    },
    /// The transaction is committed, with its records and its plain files, but some of the files could not be put in
    /// their places yet.
    #[error("the transaction is committed, and some of its plain files could not be put in their places: {cause}. Transactions see these files as committed. Do not run the transaction again: the library tries again when the environment is opened, or when a transaction changes one of the files")]
    FilesWaiting {
        /// The error that kept the files from their places.
        cause: String,
    },
    /// The database's file is missing, or another file has its name, although the database was not dropped. The library
    /// created no file in its place; other databases can be used.
    #[error("{what}")]
    FileMissing {
        /// The database.
        name: String,
        /// What was found at the file's path, and the remedy.
        what: String,
    },
    /// The database was dropped after this handle was opened.
    #[error("{what}")]
    Dropped {
        /// The database's name before the drop, or the number of its file if the name is unknown.
        name: String,
        /// The remedy.
        what: String,
    },
    /// An error of recoverable memory.
    #[error(transparent)]
    Memory(Box<vista::Error>),
    /// A handle was used in a child that was forked or cloned from the process that opened it.
    #[error("process {pid} opened {environment}, and this process is its child, which cannot use the handles of its parent. Nothing was changed; open {environment} again in this process")]
    Forked {
        /// The directory; for a segment of memory, its file.
        environment: PathBuf,
        /// The process that opened the environment or the segment. Its handle is unaffected.
        pid: u32,
    },
    /// The settings cannot be read.
    #[error("{what}")]
    Settings {
        /// The fault and its place.
        what: String,
    },
    /// The function of an index refused a record ([`IndexKeys::refuse`](crate::IndexKeys::refuse)).
    #[error("the function of the index `{index}` refuses the record: {what}; nothing was changed")]
    Refused {
        /// The index's name.
        index: String,
        /// The reason, in the function's words.
        what: String,
    },
    /// The backup cannot be written, or the environment cannot be restored from it.
    #[error("the backup {backup}: {what}")]
    Backup {
        /// The backup's directory, or a file in this directory.
        backup: String,
        /// The fault and the remedy.
        what: String,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Returns whether the same transaction, run again from its beginning, may succeed without any other action; for a
    /// snapshot, whether another snapshot may succeed. False for a lock timeout: the wait was as long as the program
    /// allows, and if the holder is stopped, the next wait reaches its limit, too.
    pub fn is_retryable(&self) -> bool {
        let is_endless = matches!(self, Error::LockTimeout(_)) && planted("libtp: a lock timeout counts as retryable");
        let is_retryable =
            matches!(self, Error::Deadlock | Error::Rebuilt | Error::Panicked { .. } | Error::SnapshotTooOld(_));
        is_retryable || is_endless
    }

    /// Replaces an error that followed a commit record, because the error itself does not tell whether the commit is
    /// kept.
    pub(crate) fn after_commit_record(self) -> Error {
        match self {
            known @ (Error::Forked { .. } | Error::OutcomeUnknown { .. }) => known,
            other => Error::OutcomeUnknown { cause: other.to_string() },
        }
    }
}

impl Error {
    /// Returns the lock that was not granted, if that is the error.
    pub fn lock_wait(&self) -> Option<&LockWait> {
        match self {
            Error::LockTimeout(wait) | Error::Cancelled(wait) | Error::OwnThread(wait) => Some(wait),
            _ => None,
        }
    }

    pub(crate) fn lock_wait_mut(&mut self) -> Option<&mut LockWait> {
        match self {
            Error::LockTimeout(wait) | Error::Cancelled(wait) | Error::OwnThread(wait) => Some(wait),
            _ => None,
        }
    }

    /// Puts the key `known` into the message, if the wait was for the lock of the record whose stored key is `stored`.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_key(mut self, stored: &[u8], known: &[u8]) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            if wait.name.kind == lock_names::KIND_RECORD && wait.name.hash == key_hash(stored) {
                wait.object = wait.object.replacen("a record", &format!("the record \"{}\"", known.escape_ascii()), 1);
            }
        }
        self
    }

    /// Puts the database's name into the message, if the wait was for the lock of a name.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_name(mut self, name: &str) -> Error {
        if let Some(wait) = self.lock_wait_mut().filter(|wait| wait.name.kind == lock_names::KIND_NAME) {
            wait.object = format!("the name of database `{name}`");
        }
        self
    }

    /// Puts the key into the message, if the wait was for a record of a database in which each value of a key is a
    /// record.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_values(mut self, key: &[u8]) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            wait.object =
                wait.object.replacen("a record", &format!("a value of the key \"{}\"", key.escape_ascii()), 1);
        }
        self
    }
}

/// The result of the library's calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Converts an error of a lower crate into the variant on which a caller can act.
macro_rules! sorted {
    ($from:ty, $error:ident => $($pattern:pat => $to:expr,)*) => {
        impl From<$from> for Error {
            fn from($error: $from) -> Error {
                match $error {
                    $($pattern => $to,)*
                }
            }
        }
    };
}

impl From<libtp_record::copies::NoRoom> for Error {
    #[cold]
    fn from(missing: libtp_record::copies::NoRoom) -> Error {
        libtp_record::Error::from(missing).into()
    }
}

impl From<vista::Error> for Error {
    fn from(error: vista::Error) -> Error {
        match error {
            vista::Error::Memory(rio::Error::Forked { path, process }) => {
                Error::Forked { environment: path, pid: process }
            }
            other => Error::Memory(Box::new(other)),
        }
    }
}

fn full(what: &'static str, source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Full { what, source: Box::new(source) }
}

fn other(source: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Io(Box::new(source))
}

sorted!(libtp_io::Error, error =>
    libtp_io::Error::Full { .. } => full("the disk", error),
    _ => other(error),
);
sorted!(rio::Error, error =>
    rio::Error::Full { .. } | rio::Error::Reserve { .. } => full("shared memory", error),
    _ => other(error),
);
sorted!(libtp_process::Error, error =>
    libtp_process::Error::Region(region) => region.into(),
    libtp_process::Error::TooManySessions { .. } => full("the session table", error),
    libtp_process::Error::TooManyProcesses { .. } => full("the table of processes", error),
    _ => other(error),
);
sorted!(libtp_lock::Error, error =>
    libtp_lock::Error::Deadlock { .. } => Error::Deadlock,
    libtp_lock::Error::Timeout { name, mode, limit } => Error::LockTimeout(LockWait::new(name, mode, Some(limit))),
    libtp_lock::Error::WouldBlock { name, mode } => Error::LockTimeout(LockWait::new(name, mode, None)),
    libtp_lock::Error::Cancelled { name, mode } => Error::Cancelled(LockWait::new(name, mode, None)),
    libtp_lock::Error::OwnThread { name, mode, .. } => Error::OwnThread(LockWait::new(name, mode, None)),
    libtp_lock::Error::HeldForGood { .. } => Error::Failed(error.to_string()),
    libtp_lock::Error::Full(_) | libtp_lock::Error::OutOfReach { .. } => full("the lock table", error),
    _ => other(error),
);
sorted!(libtp_log::Error, error =>
    libtp_log::Error::Full { .. } => full("the log", error),
    libtp_log::Error::Failed { .. } => Error::Failed(error.to_string()),
    libtp_log::Error::OtherDirectory { .. } => Error::Settings { what: error.to_string() },
    libtp_log::Error::Corrupt { ref file, offset, ref what, .. } =>
        Error::Corrupt(Damage::at_byte(file, offset, what, error.to_string())),
    libtp_log::Error::Unusable { .. } => Error::Corrupt(error.to_string().into()),
    libtp_log::Error::Io(io) => io.into(),
    _ => other(error),
);
sorted!(libtp_buffer::Error, error =>
    libtp_buffer::Error::Corrupt { ref file, page, ref what } =>
        Error::Corrupt(Damage::in_page(file, page.raw(), what, error.to_string())),
    libtp_buffer::Error::Full { .. } => full("the page cache or its disk", error),
    libtp_buffer::Error::Failed => Error::Failed(error.to_string()),
    libtp_buffer::Error::Unsuitable { name, what } => unsuitable(name, &what),
    libtp_buffer::Error::FileMissing { ref name, .. } => Error::FileMissing { name: name.clone(), what: error.to_string() },
    libtp_buffer::Error::Dropped { ref name } => Error::Dropped { name: name.clone(), what: error.to_string() },
    libtp_buffer::Error::UnknownFile { file } => Error::Dropped { name: file.to_string(), what: error.to_string() },
    libtp_buffer::Error::Register { .. } => Error::Corrupt(error.to_string().into()),
    libtp_buffer::Error::Log(log) => log.into(),
    _ => other(error),
);

fn unsuitable(name: String, what: &str) -> Error {
    Error::Database { name, what: format!("{what}; nothing was changed") }
}

fn unregistered(code: u16, name: &str, error: &libtp_txn::Error) -> Error {
    Error::LogType { code, name: name.into(), what: error.to_string() }
}

sorted!(libtp_txn::Error, error =>
    libtp_txn::Error::Unregistered { code, ref name, .. } | libtp_txn::Error::OtherType { code, ref name, .. } =>
        unregistered(code, name, &error),
    libtp_txn::Error::Log(log) => log.into(),
    libtp_txn::Error::Lock(lock) => lock.into(),
    libtp_txn::Error::Buffer(buffer) => buffer.into(),
    libtp_txn::Error::Process(process) => process.into(),
    libtp_txn::Error::Region(region) => region.into(),
    libtp_txn::Error::ControlHeld { .. } | libtp_txn::Error::CheckpointHeld { .. } => other(error),
    libtp_txn::Error::TooManySegments { .. } | libtp_txn::Error::TooManyDatabases { .. } => full("a transaction", error),
    _ => Error::Corrupt(error.to_string().into()),
);
sorted!(libtp_record::Error, error =>
    libtp_record::Error::Txn(txn) => txn.into(),
    libtp_record::Error::Lock(lock) => lock.into(),
    libtp_record::Error::Buffer(buffer) => buffer.into(),
    libtp_record::Error::Log(log) => log.into(),
    libtp_record::Error::Process(process) => process.into(),
    libtp_record::Error::Io(io) => io.into(),
    libtp_record::Error::SnapshotTooOld { .. } => Error::SnapshotTooOld(error.to_string()),
    libtp_record::Error::Corrupt { ref file, page, ref what } =>
        Error::Corrupt(Damage::in_page(file, page, what, error.to_string())),
    libtp_record::Error::DamagedList { ref database, ref what } =>
        Error::Corrupt(Damage::in_file(&format!("{database}.tp"), what, error.to_string())),
    libtp_record::Error::KeyTooLong { database, bytes, limit } => {
        let remedy = "a new database with larger pages, page_bytes in libtp.toml, takes longer keys";
        Error::Length { what: "a key", bytes, limit: format!("up to {limit} bytes (`{database}`; {remedy})") }
    },
    libtp_record::Error::ValueTooLong { bytes, limit } =>
        Error::Length { what: "a value", bytes, limit: format!("up to {limit} bytes") },
    libtp_record::Error::RecordLength { bytes, expected, .. } =>
        Error::Length { what: "a record", bytes, limit: format!("records of {expected} bytes") },
    libtp_record::Error::PartOutside { bytes, offset, value_bytes, .. } => {
        let room = value_bytes.saturating_sub(offset);
        Error::Length { what: "a part", bytes, limit: format!("up to {room} bytes at byte {offset} of this value") }
    },
    libtp_record::Error::Page { database, page, what } =>
        unsuitable(database, &format!("page {page}: {what}")),
    libtp_record::Error::Unsuitable { name, what } => unsuitable(name, &what),
    libtp_record::Error::NotEmpty { database } => Error::NotEmpty { name: database },
    libtp_record::Error::OutOfOrder { database, before } => Error::OutOfOrder { name: database, number: before + 1 },
    libtp_record::Error::TooManyPages { .. } => full("the database file", error),
    libtp_record::Error::NoMemory { .. } => full("the memory of this process", error),
    _ => other(error),
);

#[cfg(test)]
mod tests {
    use super::Error;

    /// A transaction may run again only if it is certain that none of its changes is kept. If its outcome is unknown, a
    /// second run could apply its changes twice.
    #[test]
    fn a_transaction_is_run_again_only_if_nothing_of_it_is_kept() {
        for error in [Error::Deadlock, Error::Rebuilt] {
            assert!(error.is_retryable(), "{error}");
        }
        let name = libtp_lock::LockName { space: 1, kind: 3, hash: 4 };
        let wait = || super::LockWait::new(name, libtp_lock::Mode::X, None);
        for error in [Error::LockTimeout(wait()), Error::Cancelled(wait()), Error::OwnThread(wait())] {
            assert!(!error.is_retryable(), "{error}");
        }
        let unknown = Error::OutcomeUnknown { cause: Error::Rebuilt.to_string() };
        assert!(!unknown.is_retryable(), "{unknown}");
        assert!(!Error::Rebuilt.after_commit_record().is_retryable());
    }
}

//! What the record manager can fail with. "Not found" is not among it.

/// A call to the record manager failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the transaction manager.
    #[error(transparent)]
    Txn(#[from] libtp_txn::Error),
    /// From the lock manager: deadlock, timeout, no room for more locks.
    #[error(transparent)]
    Lock(#[from] libtp_lock::Error),
    /// From the buffer manager: a damaged page, a full disk.
    #[error(transparent)]
    Buffer(#[from] libtp_buffer::Error),
    /// From the log.
    #[error(transparent)]
    Log(#[from] libtp_log::Error),
    /// From the process manager.
    #[error(transparent)]
    Process(#[from] libtp_process::Error),
    /// From the disk, while a file is made or opened.
    #[error(transparent)]
    Io(#[from] libtp_io::Error),
    /// A snapshot needs what is not kept any more.
    #[error("the snapshot is older than what is kept for snapshots: {what}. Read it again in a new snapshot; to have more kept, set `snapshot_log` and `snapshot_age_millis` in libtp.toml")]
    SnapshotTooOld {
        /// What it needs, and what is there.
        what: String,
    },
    /// A page says what cannot be.
    #[error("page {page} of {file} is damaged: {what}; nothing was changed; `tp verify` lists all that is wrong with the file; restore it from a backup")]
    Corrupt {
        /// The file.
        file: String,
        /// The page.
        page: u32,
        /// What is wrong with it.
        what: String,
    },
    /// The entries of a list contradict each other.
    #[error("the list {database} is damaged: {what}; nothing was changed; `tp verify` lists all that is wrong with the file; restore it from a backup")]
    DamagedList {
        /// The database.
        database: String,
        /// What is wrong with it.
        what: String,
    },
    /// The key is longer than a quarter of a page.
    #[error("a key of {bytes} bytes is too long: the pages of {database} take keys of up to {limit} bytes; nothing was changed; create the database with larger pages")]
    KeyTooLong {
        /// The database.
        database: String,
        /// Bytes of the key.
        bytes: usize,
        /// Bytes it may have.
        limit: usize,
    },
    /// The value is longer than any value can be.
    #[error("a value of {bytes} bytes is too long: values have at most {limit} bytes; nothing was changed")]
    ValueTooLong {
        /// Bytes of the value.
        bytes: usize,
        /// Bytes it may have.
        limit: u64,
    },
    /// A record of another length than the file's.
    #[error("a record of {bytes} bytes cannot be stored: all records of {database} have {expected} bytes; nothing was changed")]
    RecordLength {
        /// The database.
        database: String,
        /// Bytes of the record.
        bytes: usize,
        /// Bytes its records have.
        expected: usize,
    },
    /// A record number no record can have.
    #[error("no record of {database} can have the number {number}: numbers begin with 1 and end where the file may not grow any more; nothing was changed")]
    RecordNumber {
        /// The database.
        database: String,
        /// The number.
        number: u64,
    },
    /// The file has as many pages as a file can have.
    #[error(
        "{database} has as many pages as a file can have; nothing was changed; create a database with larger pages"
    )]
    TooManyPages {
        /// The database.
        database: String,
    },
    /// A call for a B-tree on a recno file, or the reverse.
    #[error("{database} is a {found} file, and the call is for a {wanted} file; nothing was changed")]
    WrongMethod {
        /// The database.
        database: String,
        /// What it is.
        found: &'static str,
        /// What the call is for.
        wanted: &'static str,
    },
    /// Another process is making the file, and does not come to an end with it.
    #[error("the database file {file} is being made by {maker} and others are waiting for that; nothing was changed. Continue that process or end it, and try again")]
    BeingMade {
        /// The file's name.
        file: String,
        /// Who, for people.
        maker: String,
    },
    /// A page of the program's cannot be changed so.
    #[error("page {page} of {database}: {what}; nothing was changed")]
    Page {
        /// The database.
        database: String,
        /// The page, as the program numbers it.
        page: u32,
        /// What is wrong.
        what: String,
    },
    /// What is loaded into has records, or had so many that their pages are still its own.
    #[error("records are loaded into an empty database, and {database} is not empty; nothing was changed. Load into a new one, or put the records")]
    NotEmpty {
        /// The database.
        database: String,
    },
    /// What is loaded was said to be sorted.
    #[error("the record behind the first {before} has a smaller key than the one before it, and they were to come in the order of their keys; nothing was loaded into {database}. Load them as unsorted")]
    OutOfOrder {
        /// The database.
        database: String,
        /// So many came before.
        before: u64,
    },
    /// A file that is none of ours, or of another environment or version, or settings that cannot be.
    #[error("the database file {name} cannot be used: {what}; nothing was changed")]
    Unsuitable {
        /// The file's name.
        name: String,
        /// What is wrong.
        what: String,
    },
}

/// The result of record-manager calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// As the transaction manager reports it from an undo.
    pub(crate) fn during_undo(self, lsn: libtp_log::Lsn) -> libtp_txn::Error {
        match self {
            Error::Txn(error) => error,
            Error::Lock(error) => error.into(),
            Error::Buffer(error) => error.into(),
            Error::Log(error) => error.into(),
            Error::Process(error) => error.into(),
            other => libtp_txn::Error::Undo { lsn, what: other.to_string() },
        }
    }
}

//! Errors of the record manager. "Not found" is no error.

use libtp_buffer::DAMAGED_FILE_REMEDY;

/// The reason why a call to the record manager failed.
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
    /// A snapshot needs a version that is no longer kept.
    #[error("the snapshot is older than the log that is kept for snapshots: {what}. No data was changed; read again in a new snapshot. Larger `snapshot_log` and `snapshot_age_millis` in libtp.toml keep more log")]
    SnapshotTooOld {
        /// The needed and the oldest kept LSN.
        what: String,
    },
    /// A page contradicts itself or its neighbours.
    #[error("page {page} of {file} is damaged: {what}; nothing was changed{}. {remedy}", listing(*page), remedy = DAMAGED_FILE_REMEDY)]
    Corrupt {
        /// The file.
        file: String,
        /// The page.
        page: u32,
        /// The damage.
        what: String,
    },
    /// The entries of a list contradict each other.
    #[error("the list {database} is damaged: {what}; nothing was changed; `tp verify` lists all damage of the file. {remedy}", remedy = DAMAGED_FILE_REMEDY)]
    DamagedList {
        /// The database.
        database: String,
        /// The contradiction.
        what: String,
    },
    /// The key is longer than the file's pages allow.
    #[error("a key of {bytes} bytes is too long: the pages of {database} take keys of up to {limit} bytes; nothing was changed; create the database with larger pages")]
    KeyTooLong {
        /// The database.
        database: String,
        /// Bytes of the key.
        bytes: usize,
        /// The longest key, in bytes.
        limit: usize,
    },
    /// The value is longer than any value can be.
    #[error("a value of {bytes} bytes is too long: values have at most {limit} bytes; nothing was changed; store the value in several parts")]
    ValueTooLong {
        /// Bytes of the value.
        bytes: usize,
        /// The longest value, in bytes.
        limit: u64,
    },
    /// This process can take no more memory.
    #[error("this process has no memory for a copy of {bytes} bytes; nothing was changed by this call. Raise the limit of its memory (RLIMIT_AS, `ulimit -v`), or store long values in several parts")]
    NoMemory {
        /// The bytes of the copy.
        bytes: usize,
    },
    /// A record whose length differs from the length of the file's records.
    #[error("a record of {bytes} bytes cannot be stored: all records of {database} have {expected} bytes; nothing was changed; give a record of {expected} bytes")]
    RecordLength {
        /// The database.
        database: String,
        /// Bytes of the record.
        bytes: usize,
        /// Bytes of the file's records.
        expected: usize,
    },
    /// A part that is not inside its value.
    #[error("a part of {bytes} bytes at byte {offset} does not lie inside its value of {value_bytes} bytes in {database}; nothing was changed; give a part inside the value")]
    PartOutside {
        /// The database.
        database: String,
        /// Bytes of the part.
        bytes: usize,
        /// The offset at which the part begins.
        offset: usize,
        /// Bytes of the value.
        value_bytes: usize,
    },
    /// A number that no record can have.
    #[error("no record of {database} can have the number {number}: numbers begin with 1, and this number is 0 or too large for {database}; nothing was changed; give another number")]
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
    /// A call for one access method on a file of another method.
    #[error("{database} is a {found} file, and the call is for a {wanted} file; nothing was changed; open it as a {found} file")]
    WrongMethod {
        /// The database.
        database: String,
        /// The file's method.
        found: &'static str,
        /// The method of the call.
        wanted: &'static str,
    },
    /// Another process is making the file and does not finish.
    #[error("the database file {file} is being made by {maker} and is not finished yet; nothing was changed. Continue that process or end it, and try again")]
    BeingMade {
        /// The file's name.
        file: String,
        /// A description of the process that makes the file.
        maker: String,
    },
    /// A program's page cannot be changed in this way.
    #[error("page {page} of {database}: {what}; nothing was changed")]
    Page {
        /// The database.
        database: String,
        /// The page, as the program numbers it.
        page: u32,
        /// The reason.
        what: String,
    },
    /// The target of a load has records, or still has the pages of deleted records.
    #[error("{database} is not empty, and records can be loaded only into an empty database; nothing was changed. Load them into a new database, or put them one by one")]
    NotEmpty {
        /// The database.
        database: String,
    },
    /// Records that were announced as sorted are not in order.
    #[error("the records to load were declared as sorted, and after the first {before} comes a record with a smaller key; nothing was loaded into {database}. Sort the records, or load them as unsorted")]
    OutOfOrder {
        /// The database.
        database: String,
        /// The number of records before the first wrong record.
        before: u64,
    },
    /// A file of another format, environment or version, or impossible settings.
    #[error("the database file {name} cannot be used: {what}; nothing was changed")]
    Unsuitable {
        /// The file's name.
        name: String,
        /// The reason.
        what: String,
    },
}

/// Returns the hint at the verb that lists damage. That verb cannot open a file whose page 0 is damaged.
fn listing(page: u32) -> &'static str {
    match page {
        0 => "",
        _ => "; `tp verify` lists all damage of the file",
    }
}

/// The result of record-manager calls.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Converts an error of an undo into an error of the transaction manager.
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

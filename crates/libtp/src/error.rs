//! The errors a caller can act on.

use std::path::PathBuf;

/// A call of the library failed. [`Error::is_retryable`] says whether running the transaction again may succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Transactions waited for each other in a circle and this one was chosen to end. Abort it and run it again.
    #[error("deadlock: transactions waited for each other and this one was chosen to end; abort it and run it again")]
    Deadlock,
    /// A lock was not granted within the time set.
    #[error("a lock was not granted within the time set; abort the transaction and run it again, or set a longer time")]
    LockTimeout,
    /// Something is full; nothing was changed.
    #[error("{what} is full: {source}")]
    Full {
        /// What is full.
        what: &'static str,
        /// The underlying error, which names the file.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file, page or log record is damaged.
    #[error("damaged: {0}")]
    Corrupt(String),
    /// A sync failed: what was acknowledged is safe, nothing more is acknowledged. Reading goes on; reopen to write.
    #[error("the environment takes no more changes because writing to disk failed: {0}. What was acknowledged before is kept; close every process that uses the environment and open it again")]
    Failed(String),
    /// The key or value has a length the database does not take.
    #[error("{what} of {bytes} bytes: this database takes {limit}")]
    Length {
        /// "a key" or "a record".
        what: &'static str,
        /// What was given.
        bytes: usize,
        /// What is allowed, in words.
        limit: String,
    },
    /// `put_new` found the key.
    #[error("the key is there already; nothing was changed")]
    Exists,
    /// There is no such database.
    #[error("there is no database `{name}` in {environment}; `tp load`, `tp put` or `Env::btree` make one")]
    NoDatabase {
        /// Its name.
        name: String,
        /// The environment's directory.
        environment: PathBuf,
    },
    /// The database is of another kind than asked for, or its name cannot be a file's.
    #[error("database `{name}`: {what}")]
    Database {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// The directory is no environment, or one that cannot be opened here.
    #[error("{environment} cannot be opened: {what}")]
    Environment {
        /// The directory.
        environment: PathBuf,
        /// What is wrong and what to do.
        what: String,
    },
    /// The settings cannot be read.
    #[error("the settings are wrong: {what}")]
    Settings {
        /// What is wrong and where.
        what: String,
    },
    /// Reading or writing failed.
    #[error(transparent)]
    Io(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Whether the same transaction, run again from its beginning, may succeed without anyone doing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Deadlock | Error::LockTimeout)
    }
}

/// The result of the library's calls.
pub type Result<T> = std::result::Result<T, Error>;

//! Errors of recoverable memory. Each message states which data is safe and what to do.

/// A call on recoverable memory was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A call on the segment in memory failed.
    #[error(transparent)]
    Segment(#[from] vista::Error),
    /// A call to the disk failed.
    #[error(transparent)]
    Disk(#[from] libtp_io::Error),
    /// Another process, or another handle of this process, has the memory open.
    #[error("{log} is locked: this memory is open in another process, or by another handle of this process. Nothing was changed; close it there")]
    InUse {
        /// The log.
        log: String,
    },
    /// The log or the database has contents that this library does not write.
    #[error("{file} is damaged: {what}. Nothing was changed; restore the whole directory from a backup, which lacks later transactions")]
    Damaged {
        /// The file.
        file: String,
        /// The damage that was found.
        what: String,
    },
    /// A transaction changes more bytes than the log has room for.
    #[error("a transaction needs {bytes} bytes of the log {log}, and one transaction can fill at most {most}. The transaction was aborted, and nothing of it is kept; open the memory with a larger log (`Options::log_bytes`)")]
    TooLarge {
        /// The log.
        log: String,
        /// The record's length.
        bytes: u64,
        /// The greatest length allowed.
        most: u64,
    },
    /// An earlier write or sync of the log has failed.
    #[error("an earlier write or sync of the log {log} failed, so no more transactions are taken. Transactions that were synced are kept; check the disk, and open the memory again")]
    Poisoned {
        /// The log.
        log: String,
    },
}

/// The result of calls on recoverable memory.
pub type Result<T, E = Error> = std::result::Result<T, E>;

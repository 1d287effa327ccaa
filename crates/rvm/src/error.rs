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
    #[error("{log} is locked: another process has this memory open, or another handle of this one. Nothing was changed; close it there")]
    InUse {
        /// The log.
        log: String,
    },
    /// The log or the database is not as this library leaves it.
    #[error("{file} is damaged: {what}. Nothing was changed; restore the directory from a backup")]
    Damaged {
        /// The file.
        file: String,
        /// The damage that was found.
        what: String,
    },
    /// A transaction changes more than fits into the log.
    #[error("a transaction has {bytes} bytes for the log {log}, of which one may fill {most}: it was aborted. Open with a larger log (`Options::log_bytes`)")]
    TooLarge {
        /// The log.
        log: String,
        /// The record's length.
        bytes: u64,
        /// The greatest length allowed.
        most: u64,
    },
    /// An earlier write or sync of the log has failed.
    #[error("the log {log} could not be written or synced before, so its contents on the disk are unknown: it takes nothing more. Open it anew; the synced part is there")]
    Poisoned {
        /// The log.
        log: String,
    },
}

/// The result of calls on recoverable memory.
pub type Result<T, E = Error> = std::result::Result<T, E>;

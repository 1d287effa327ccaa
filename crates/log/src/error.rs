//! The errors of the log. Each text states which data are safe and what to do.

use crate::Lsn;

/// The remedy for a damaged log or control file. A backup has no control file, and a log file that was copied back lacks
/// later commits.
pub const DAMAGED_LOG_REMEDY: &str = "Restore the environment from a backup with `tp restore`, or save the readable records of each database file in a new environment with `tp salvage`";

/// The reason why a call to the log failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room for more log. Nothing was changed; everything committed is safe.
    #[error("there is no room for {what}: {source_text}")]
    Full {
        /// The data for which there was no room.
        what: &'static str,
        /// The reason that the disk or the region gave.
        source_text: String,
    },
    /// A write or sync of the log failed before. No further commit is acknowledged; the log can still be read.
    #[error("nothing more can be made durable: {cause}; commits answered before are safe and can be read; close the environment, check the disk, and open it again: recovery then runs by itself")]
    Failed {
        /// The failure, and its time.
        cause: String,
    },
    /// This process could not write the log, because of a limit of the process or a full disk, and no other process has
    /// written the log meanwhile. Nothing is lost: the records are in shared memory.
    #[error("this process could not write the log: {cause}; its changes are in shared memory, and reach the disk as soon as any process writes the log. Raise the limit of this process, free space if the disk is full, or let another process open the environment")]
    SteppedBack {
        /// The failure.
        cause: String,
    },
    /// Another process writes the log and is stopped, and the session's patience is over or the program cancelled its
    /// waits. Nothing is lost: the records are in shared memory.
    #[error("everything that was committed is in memory, but it is not known to be on disk: process {pid} is writing the log, and it is stopped. `kill -CONT {pid}` or `kill -KILL {pid}` frees all waiters; `tp sessions` shows them")]
    LeaderStopped {
        /// The stopped process.
        pid: u32,
    },
    /// The processes that use the environment have the log's files in another directory than this process.
    #[error("this process looks for the log in {own}, and the processes that use the environment have the log in {shared}; nothing was changed; give every process the same `log_directory`, best in the file libtp.toml of the environment")]
    OtherDirectory {
        /// The directory of this process.
        own: String,
        /// The directory of the other processes.
        shared: String,
    },
    /// The log is damaged before its durable end.
    #[error("the log is damaged at LSN {lsn} ({file}, byte {offset}): {what}; nothing was changed. {remedy}", remedy = DAMAGED_LOG_REMEDY)]
    Corrupt {
        /// The record that is damaged.
        lsn: Lsn,
        /// The segment file.
        file: String,
        /// The byte in that file.
        offset: u64,
        /// The damage.
        what: String,
    },
    /// The record no longer exists: its segment was recycled.
    #[error("the log record at LSN {lsn} is not kept any more; nothing was changed; begin at LSN {oldest} or later (a larger `keep_log` in libtp.toml keeps more)")]
    TooOld {
        /// The record asked for.
        lsn: Lsn,
        /// The oldest LSN that is kept.
        oldest: Lsn,
    },
    /// The LSN is beyond the log's end: no record was logged at this LSN yet.
    #[error(
        "no log record was written at LSN {lsn} yet; nothing was changed; begin before LSN {end}, where the log ends"
    )]
    PastEnd {
        /// The record asked for.
        lsn: Lsn,
        /// The end of the log.
        end: Lsn,
    },
    /// No record begins at this LSN.
    #[error("no log record begins at LSN {lsn}; nothing was changed; `tp printlog` shows where the records begin")]
    NoRecord {
        /// The LSN asked for.
        lsn: Lsn,
    },
    /// A control file or a segment belongs to another environment, or has a version that this build does not know.
    #[error("{file} cannot be used: {what}; nothing was changed")]
    Unusable {
        /// The file.
        file: String,
        /// Which check failed, and the value found.
        what: String,
    },
    /// The region and the log files contradict each other (PROTOCOLS F1). Nothing was changed.
    #[error("the shared memory and the log files disagree: by the memory, the log was on disk up to LSN {region}, and the files agree with the memory only up to LSN {files}. Nothing was changed. Decide which is right: `tp recover --keep-files` gives the memory up, and `tp recover --keep-region` writes the memory's log to the files")]
    Disagree {
        /// The region's durable end.
        region: Lsn,
        /// The LSN up to which the files have the same bytes.
        files: Lsn,
    },
    /// The disk refused a call.
    #[error("the disk of the log failed: {0}")]
    Io(#[from] libtp_io::Error),
}

impl Error {
    /// Converts an error of the disk: a full disk is [`Error::Full`], every other error [`Error::Io`].
    pub(crate) fn from_disk(what: &'static str, error: libtp_io::Error) -> Error {
        match error {
            libtp_io::Error::Full { .. } => Error::Full { what, source_text: error.to_string() },
            other => Error::Io(other),
        }
    }

    /// Converts an error of the region: it has no room.
    pub(crate) fn from_region(what: &'static str, error: rio::Error) -> Error {
        Error::Full { what, source_text: error.to_string() }
    }
}

/// The result of calls to the log.
pub type Result<T> = std::result::Result<T, Error>;

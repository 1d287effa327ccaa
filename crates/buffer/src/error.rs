//! Errors of the buffer manager. Each message states which data are safe and what to do.

use crate::{FileId, PageNo};

/// The remedy for a damaged database file. A file that was copied back alone lacks the commits since the copy, and no
/// check notices that.
pub const DAMAGED_FILE_REMEDY: &str = "Restore the environment from a backup with `tp restore`, or save the file's readable records with `tp salvage`. Do not copy a single file from a backup into the environment: the later commits in that file would be lost, and no check would report it";

/// The reason why a call to the buffer manager failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes in the file, or in memory, are not the page. They are never returned to a caller.
    #[error("page {page} of {file} is damaged: {what}; nothing was changed, and other pages can be used. {remedy}", remedy = DAMAGED_FILE_REMEDY)]
    Corrupt {
        /// The file.
        file: String,
        /// The page.
        page: PageNo,
        /// The damage.
        what: String,
    },
    /// There is no room: on the disk, in memory, or in a pool all of whose frames are in use.
    #[error("there is no room for {what}, and nothing was lost: {why}")]
    Full {
        /// The structure or data for which there was no room.
        what: &'static str,
        /// The refusal, and the remedy.
        why: String,
    },
    /// A sync of a data file failed earlier. Pages can still be read.
    #[error("a sync of a data file failed earlier, so no page can be made durable any more; committed changes are safe in the log; close the environment, check the disk, and open it again: recovery then runs by itself")]
    Failed,
    /// No file with this number is registered.
    #[error("no database file has the number {file}: the database was dropped, or never made. Nothing was changed; open the database again by its name")]
    UnknownFile {
        /// The requested number.
        file: FileId,
    },
    /// The database was dropped.
    #[error("the database `{name}` was dropped, or another database has that name now, so this handle cannot be used any more. Nothing was changed by this call; open the database again")]
    Dropped {
        /// The name that the database had.
        name: String,
    },
    /// The file of a database is missing or was replaced. The database was not dropped.
    #[error("the database `{name}` cannot be used: {what}. Nothing was made in its place, and other databases can be used. Put back the same file {name}.tp, not an older copy, which lacks later commits. If that file is lost, restore the environment from a backup with `tp restore`, or give the database up with `tp drop --missing`")]
    FileMissing {
        /// The database.
        name: String,
        /// What happened to the file.
        what: String,
    },
    /// The register of databases cannot be used.
    #[error("the register of databases (the file `databases`) cannot be used: {what}; nothing was changed")]
    Register {
        /// The damage, and what to do.
        what: String,
    },
    /// A file cannot be registered with the given properties.
    #[error("the database file {name:?} cannot be used: {what}; nothing was changed")]
    Unsuitable {
        /// The file's name.
        name: String,
        /// The reason.
        what: String,
    },
    /// The log could not be forced, so no page could be written.
    #[error(transparent)]
    Log(#[from] libtp_log::Error),
    /// The disk refused a call.
    #[error("the disk of a database file failed: {0}; every page that could not be written is kept in memory")]
    Io(libtp_io::Error),
}

impl From<libtp_io::Error> for Error {
    fn from(error: libtp_io::Error) -> Error {
        match error {
            // After a failed sync, even if the disk was only full, bytes may be missing on the disk. So the call cannot
            // simply be repeated.
            libtp_io::Error::Full { .. } if !error.is_failed_sync() => {
                Error::Full { what: "a page on the disk", why: error.to_string() }
            }
            other => Error::Io(other),
        }
    }
}

impl From<rio::Error> for Error {
    fn from(error: rio::Error) -> Error {
        Error::Full { what: "more of the page cache in shared memory", why: error.to_string() }
    }
}

/// The result of calls to the buffer manager.
pub type Result<T> = std::result::Result<T, Error>;

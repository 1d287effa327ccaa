//! The errors of regions, in sentences that state what to do.

use std::path::{Path, PathBuf};

/// A region could not be made, opened or grown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filesystem that backs the region has no room for `bytes` more. Nothing was changed.
    #[error("the region {path} cannot grow by {bytes} bytes: its filesystem is full; nothing was changed. Free space there, or set a smaller memory budget")]
    Full {
        /// The region's file.
        path: PathBuf,
        /// The bytes asked for.
        bytes: u64,
    },
    /// The region's address range is used up.
    #[error("the region {path} has reached the {reserve} bytes of address space reserved for it; nothing was changed. The process that made it set this limit, by its own address space (RLIMIT_AS, `ulimit -v`)")]
    Reserve {
        /// The region's file.
        path: PathBuf,
        /// The bytes reserved at map time.
        reserve: u64,
    },
    /// This process may not map as much address space as the others, so it would not see memory that they add to the
    /// region.
    #[error("the region {path} is made for {reserve} bytes of address space, and this process may map no more than {mapped} of them: nothing was changed. Its address space is limited (RLIMIT_AS, `ulimit -v`): raise that limit, or let this process be the first to open the region while it is not in use and was closed in good order, which makes a smaller one for all")]
    Narrow {
        /// The region's file.
        path: PathBuf,
        /// The bytes that every other process has mapped.
        reserve: u64,
        /// The bytes that could be mapped here.
        mapped: u64,
    },
    /// The file is not a region this process may use.
    #[error("the region {path} cannot be used: {what}")]
    Unusable {
        /// The region's file.
        path: PathBuf,
        /// Which check failed, and what was found.
        what: String,
    },
    /// The region belongs to this environment and is marked broken: it must be made anew.
    #[error("the region {path} was found broken and is to be made anew from the log")]
    Broken {
        /// The region's file.
        path: PathBuf,
    },
    /// A user who may not use the environment has put a file in the region's place.
    #[error("{path} is not believed to be a region: {what}. Remove it, or ask its owner to")]
    Planted {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// More users may write the region than may write the directory that it is for.
    #[error("the region {path} has mode {found:o}, and may be written by users that may not write the directory that it is for: it was not used. If that is a mistake, `chmod {allowed:o}` it; else end all processes that use the environment and remove it: commits that are not in the files are lost")]
    TooWide {
        /// The region's file.
        path: PathBuf,
        /// Its mode.
        found: u32,
        /// The widest allowed mode.
        allowed: u32,
    },
    /// Another process, or another handle of this process, has the region.
    #[error("{path} is open in another process, or by another handle of this one: one at a time may have it. Nothing was changed; close it there")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// A handle was used in a child that fork or clone made of the process that has the region.
    #[error("{path} was mapped by process {process}, and this process is its child, by fork or clone: a child cannot use the inherited handle. Nothing was changed, and the work of process {process} is kept; drop the inherited handle, and map the segment in the child when process {process} has closed it")]
    Forked {
        /// The file.
        path: PathBuf,
        /// The process that has the region; its handle is unchanged.
        process: u32,
    },
    /// The region was in use when the machine went down, and the memory behind it does not survive that.
    #[error("{path} was in use when the machine went down, and its file does not keep unsynced stores: it may be torn and was not opened. Nothing was changed; restore it from a checkpoint")]
    Torn {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("{call} of the region {path} failed: {source}")]
    System {
        /// The region's file.
        path: PathBuf,
        /// The system call.
        call: &'static str,
        /// Its error.
        source: std::io::Error,
    },
}

/// The result of region calls.
pub type Result<T> = std::result::Result<T, Error>;

/// Makes the error of a system call on a region's file.
pub(crate) fn system(path: &Path, call: &'static str, source: std::io::Error) -> Error {
    Error::System { path: path.to_path_buf(), call, source }
}

/// Makes the error of a file that is no region for this process.
pub(crate) fn unusable(path: &Path, what: String) -> Error {
    Error::Unusable { path: path.to_path_buf(), what }
}

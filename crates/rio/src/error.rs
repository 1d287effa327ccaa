//! The errors of regions, in sentences that state what to do.

use std::path::{Path, PathBuf};

/// The reason why a region could not be made, opened or grown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The filesystem that backs the region has no room for `bytes` more. Nothing was changed.
    #[error("the memory file {path} cannot grow by {bytes} bytes: its filesystem is full; nothing was changed. Free space there, or set a smaller memory budget (`memory` in libtp.toml)")]
    Full {
        /// The region's file.
        path: PathBuf,
        /// The bytes asked for.
        bytes: u64,
    },
    /// The region's address range is used up.
    #[error("the memory file {path} has reached the {reserve} bytes of address space that are reserved for it; nothing was changed. The address space of the process that made the file set this limit (RLIMIT_AS, `ulimit -v`): close the file in every process, and open it first in a process with more address space")]
    Reserve {
        /// The region's file.
        path: PathBuf,
        /// The bytes reserved at map time.
        reserve: u64,
    },
    /// This process may not map as much address space as the other processes, so it would not see memory that they add
    /// to the region.
    #[error("the memory file {path} needs {reserve} bytes of address space, and this process can map only {mapped}; nothing was changed. Raise the limit of this process (RLIMIT_AS, `ulimit -v`), or close the file in every process and open it first in this process, which then makes a smaller file for all processes")]
    Narrow {
        /// The region's file.
        path: PathBuf,
        /// The bytes that every other process has mapped.
        reserve: u64,
        /// The bytes that could be mapped here.
        mapped: u64,
    },
    /// The file is not a region this process may use.
    #[error("the memory file {path} cannot be used: {what}; nothing was changed")]
    Unusable {
        /// The region's file.
        path: PathBuf,
        /// The check that failed, and its result.
        what: String,
    },
    /// This region is marked broken and must be rebuilt.
    #[error("the shared memory {path} is damaged, and is rebuilt from the log; answered commits are kept. Run the transaction again")]
    Broken {
        /// The region's file.
        path: PathBuf,
    },
    /// A user who may not use the environment has put a file in the region's place.
    #[error(
        "{path} has the name of a memory file, and was not used: {what}. Remove it, or ask its owner to remove it"
    )]
    Planted {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// Users who may not write the directory for which the region was made may write the region's file.
    #[error("the memory file {path} has mode {found:o}: users without write permission for its environment's directory may write the file. The file was not used. If the mode is a mistake, set it with `chmod {allowed:o}`. If it is not, end all processes that use the environment and remove the file; commits that are only in this memory are then lost")]
    TooWide {
        /// The region's file.
        path: PathBuf,
        /// Its mode.
        found: u32,
        /// The widest allowed mode.
        allowed: u32,
    },
    /// Another process, or another handle of this process, has the region.
    #[error("{path} is open in another process, or by another handle of this process, and only one handle at a time may have it open. Nothing was changed; close it there")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The handle is used in a child that fork or clone made of the process that has the region.
    #[error("process {process} opened {path}, and this process is its child (by fork or clone), which cannot use the inherited handle. Nothing was changed, and the work of process {process} is kept. Drop the inherited handle, and open the file in the child when process {process} has closed it")]
    Forked {
        /// The file.
        path: PathBuf,
        /// The process that has the region; its handle is unchanged.
        process: u32,
    },
    /// The region was in use when the machine stopped, and its memory does not survive this.
    #[error("{path} was in use when the machine went down, and its filesystem keeps changes only when they are synced, so the file may have old and new parts. It was not opened, and nothing was changed; restore it from a checkpoint, which lacks later changes")]
    Torn {
        /// The file.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("the memory file {path} cannot be used: {call} failed: {source}. Check its filesystem, its permissions and the limits of this process")]
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

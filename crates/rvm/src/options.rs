//! How recoverable memory is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtp_io::{Directory, PosixDirectory};

use crate::file_cache::FileCache;
use crate::{Result, Rvm};

/// How recoverable memory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment: vista::Options,
    pub(crate) log_bytes: u64,
    pub(crate) group: u32,
    pub(crate) memory: PathBuf,
    is_file_cache_safe: bool,
}

impl Options {
    /// A segment whose flat part has `bytes` bytes; zero takes one that is there as it is.
    pub fn new(bytes: u64) -> Options {
        Options::of(vista::Options::new(bytes))
    }

    /// As vista is asked to open its segment.
    pub fn of(segment: vista::Options) -> Options {
        let memory = PathBuf::from("/dev/shm");
        Options { segment, log_bytes: 16 << 20, group: 1, memory, is_file_cache_safe: false }
    }

    /// The length of a new log; a transaction may fill half of it. 16 MiB if it is not said.
    #[must_use]
    pub fn log_bytes(self, bytes: u64) -> Options {
        Options { log_bytes: bytes, ..self }
    }

    /// Group commit, as the paper tried it: so many transactions are written and synced at once. Those that have ended before
    /// are not safe until the last of the group has, or [`Rvm::flush`] was called. One if it is not said.
    #[must_use]
    pub fn group(self, transactions: u32) -> Options {
        Options { group: transactions.max(1), ..self }
    }

    /// The directory in whose filesystem the segment's memory lies, `/dev/shm` if it is not said.
    #[must_use]
    pub fn memory(self, directory: impl Into<PathBuf>) -> Options {
        Options { memory: directory.into(), ..self }
    }

    /// Whether the system's file cache outlives the system, as Rio's does: then what is written is safe, and nothing is synced. Who says
    /// so where it is not true loses, at a power cut, whatever the system had not written by itself: it may be all, and the directory
    /// may be damaged. False if it is not said.
    #[must_use]
    pub fn file_cache_is_safe(self, is_safe: bool) -> Options {
        Options { is_file_cache_safe: is_safe, ..self }
    }

    /// Opens the memory that lies in the directory at `path`; where there is none it is made.
    ///
    /// # Errors
    /// `InUse`, `Damaged`, `Disk`, `Segment`.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Rvm> {
        self.open_in(Arc::new(PosixDirectory::open(path)?))
    }

    /// As [`Options::open`], whatever disk the directory is on.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_in(&self, directory: Arc<dyn Directory>) -> Result<Rvm> {
        match self.is_file_cache_safe {
            true => Rvm::open(self, Arc::new(FileCache(directory))),
            false => Rvm::open(self, directory),
        }
    }
}

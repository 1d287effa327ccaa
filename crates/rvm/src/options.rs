//! How recoverable memory is opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtp_io::{Directory, PosixDirectory};

use crate::{Result, Rvm};

/// How recoverable memory is opened.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment: vista::Options,
    pub(crate) log_bytes: u64,
    pub(crate) group: u32,
    pub(crate) memory: PathBuf,
}

impl Options {
    /// A segment whose flat part has `bytes` bytes; zero takes one that is there as it is.
    pub fn new(bytes: u64) -> Options {
        Options::of(vista::Options::new(bytes))
    }

    /// As vista is asked to open its segment.
    pub fn of(segment: vista::Options) -> Options {
        Options { segment, log_bytes: 16 << 20, group: 1, memory: PathBuf::from("/dev/shm") }
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
        Rvm::open(self, directory)
    }
}

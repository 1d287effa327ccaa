//! Options for opening recoverable memory.

use std::path::PathBuf;

/// Options for opening recoverable memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) segment: vista::Options,
    pub(crate) log_bytes: u64,
    pub(crate) group: u32,
    pub(crate) memory: PathBuf,
    pub(crate) is_file_cache_safe: bool,
}

impl Options {
    /// Makes options for a segment whose flat part has `bytes` bytes. With zero, an existing segment is opened with the
    /// length that it has.
    pub fn new(bytes: u64) -> Options {
        Options::of(vista::Options::new(bytes))
    }

    /// Makes options from the options of vista's segment.
    pub fn of(segment: vista::Options) -> Options {
        let memory = PathBuf::from("/dev/shm");
        Options { segment, log_bytes: 16 << 20, group: 1, memory, is_file_cache_safe: false }
    }

    /// Sets the length of a new log, 16 MiB by default. A transaction may fill half of the log.
    #[must_use]
    pub fn log_bytes(self, bytes: u64) -> Options {
        Options { log_bytes: bytes, ..self }
    }

    /// Sets the size of groups (the paper measures groups, too): `transactions` transactions are written and synced
    /// together. An ended transaction is not safe before the last transaction of its group has ended or
    /// [`Rvm::flush`](crate::Rvm::flush) was called. 1 by default.
    #[must_use]
    pub fn group(self, transactions: u32) -> Options {
        Options { group: transactions.max(1), ..self }
    }

    /// Sets the directory whose filesystem has the segment's memory. `/dev/shm` by default.
    #[must_use]
    pub fn memory(self, directory: impl Into<PathBuf>) -> Options {
        Options { memory: directory.into(), ..self }
    }

    /// Sets whether the system's file cache outlives the system, as Rio's does. If it does, written bytes are safe, and
    /// nothing is synced. If this is set where it is not true, a power cut loses all bytes that the system had not yet
    /// written by itself, and the directory may be damaged. False by default.
    #[must_use]
    pub fn file_cache_is_safe(self, is_safe: bool) -> Options {
        Options { is_file_cache_safe: is_safe, ..self }
    }
}

//! How a file is opened: the flags and the mode of `dbopen`.

use std::ffi::{c_int, c_uint};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use crate::db::environments::OpenEnvironment;
use crate::db::flags::{DB_LOCK, DB_SHMEM, DB_TXN};
use crate::db::refusal::{Answer, Refusal};
use crate::db::shared::Shared;

/// How to open a file: the second and third arguments of `dbopen`.
pub(crate) struct OpenMode {
    flags: c_int,
    mode: c_uint,
    pub(super) modes: u32,
}

impl OpenMode {
    pub(crate) fn new(flags: c_uint, mode: c_uint) -> Answer<OpenMode> {
        let modes = flags & (DB_LOCK | DB_SHMEM | DB_TXN);
        let flags = c_int::try_from(flags & !modes).unwrap_or(c_int::MAX);
        let known = libc::O_ACCMODE
            | libc::O_CREAT
            | libc::O_EXCL
            | libc::O_NONBLOCK
            | libc::O_TRUNC
            | libc::O_CLOEXEC
            | libc::O_NOFOLLOW
            | libc::O_SYNC
            | 0o100_000; // O_LARGEFILE, on platforms that set it
        if flags & !known != 0 || !matches!(flags & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR) {
            return Err(Refusal::invalid(format!("a file cannot be opened with the flags {flags:#o}: give O_RDONLY or O_RDWR, and any of O_CREAT, O_EXCL, O_TRUNC, DB_LOCK, DB_SHMEM and DB_TXN")));
        }
        Ok(OpenMode { flags, mode, modes })
    }

    /// Returns how to open the file of `bfname` next to a text file: the file is created if it is missing.
    pub(crate) fn to_keep() -> OpenMode {
        OpenMode { flags: libc::O_RDWR | libc::O_CREAT, mode: 0o600, modes: 0 }
    }

    /// Returns how to open the file of `bfname` without a text file: the file must exist.
    pub(crate) fn to_go_on() -> OpenMode {
        OpenMode { flags: libc::O_RDWR, mode: 0, modes: 0 }
    }

    pub(crate) fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.flags & libc::O_ACCMODE == libc::O_RDONLY
    }

    /// Returns a database of an environment, opened in the mode of this `OpenMode`.
    pub(crate) fn shared(&self, home: &Arc<OpenEnvironment>, name: &str) -> Shared {
        Shared {
            home: Arc::clone(home),
            name: name.into(),
            is_protected: self.modes & DB_TXN != 0,
            is_read_only: self.is_read_only(),
            descriptor: None,
        }
    }

    pub(crate) fn open(&self, path: &Path) -> Answer<File> {
        self.open_without(0, path)
    }

    /// Opens the file without some of the flags.
    pub(crate) fn open_without(&self, flags: c_int, path: &Path) -> Answer<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(!self.is_read_only()).custom_flags(self.flags & !libc::O_ACCMODE & !flags);
        options.mode(self.mode);
        options
            .open(path)
            .and_then(vista::above_standard)
            .map_err(|error| Refusal::io(&path.display().to_string(), &error))
    }
}

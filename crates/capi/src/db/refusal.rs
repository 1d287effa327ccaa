//! The failure of a call of `<db.h>`: a number for `errno`, and a text for `tp_error`.

use std::ffi::c_int;
use std::io;

use libtp::Error;

/// An error of db(3).
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

pub(crate) type Answer<T> = Result<T, Refusal>;

impl Refusal {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Refusal {
        Refusal { errno, text: text.into() }
    }

    /// Returns the failure of a call with wrong arguments.
    pub(crate) fn invalid(text: impl Into<String>) -> Refusal {
        Refusal::new(libc::EINVAL, text)
    }

    /// Returns the failure for a file of another kind or a damaged file.
    pub(crate) fn wrong_file(text: impl Into<String>) -> Refusal {
        // Other systems have the error EFTYPE for this.
        Refusal::new(libc::EINVAL, text)
    }

    pub(crate) fn read_only() -> Refusal {
        Refusal::new(libc::EPERM, "the file was opened with O_RDONLY; nothing was changed")
    }

    /// Returns the failure of an operation on a file.
    pub(crate) fn io(what: &str, error: &io::Error) -> Refusal {
        Refusal::new(error.raw_os_error().unwrap_or(libc::EIO), format!("{what}: {error}"))
    }
}

/// Returns a copy of bytes whose number the program or a file has chosen.
pub(crate) fn copied(bytes: &[u8]) -> Answer<Vec<u8>> {
    let mut copy = Vec::new();
    make_room(&mut copy, bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

/// Makes room for exactly `bytes` more bytes.
pub(crate) fn make_room(to: &mut Vec<u8>, bytes: usize) -> Answer<()> {
    to.try_reserve_exact(bytes).map_err(|_| {
        let what = format!("this process has no memory for {bytes} bytes more; nothing was changed by this call. Raise the limit of its memory (`ulimit -v`), or use shorter records");
        Refusal::new(libc::ENOMEM, what)
    })
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let errno = match &error {
            Error::Deadlock | Error::OwnThread(_) => libc::EDEADLK,
            Error::LockTimeout(_) => libc::ETIMEDOUT,
            Error::Cancelled(_) => libc::EINTR,
            Error::Rebuilt | Error::Panicked { .. } => libc::EAGAIN,
            Error::Full { .. } => libc::ENOSPC,
            Error::NoDatabase { .. } => libc::ENOENT,
            Error::Dropped { .. } => libc::ESTALE,
            Error::Forked { .. } => libc::ECHILD,
            Error::Length { .. } | Error::Database { .. } | Error::Environment { .. } | Error::Settings { .. } => {
                libc::EINVAL
            }
            _ => libc::EIO,
        };
        Refusal::new(errno, error.to_string())
    }
}

//! A lock that is held during a write: only one program at a time writes a file in plain mode.
//!
//! The lock belongs to the open file description, and covers a byte far after the file's end. It must not conflict with
//! the programs' own locks: `flock` locks are of another kind, but an `fcntl` lock may cover the byte and belong to
//! this very process, which would then wait for itself. So this module waits only for locks of open file descriptions.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The last byte that a file can have.
const BYTE: libc::off_t = libc::off_t::MAX - 1;
/// The pause between two tries to lock: about the time that the holder needs to write and sync.
const MOMENT: Duration = Duration::from_millis(1);

/// While this guard lives, no other program with this lock writes the file. Dropping it releases the lock.
pub(crate) struct Alone<'f>(&'f File);

impl<'f> Alone<'f> {
    /// Waits until no other program writes the file, and locks it. On a filesystem without these locks, neither waits
    /// nor locks.
    pub(crate) fn wait_for(file: &'f File) -> Alone<'f> {
        while !lock(file, libc::F_WRLCK) && is_ours(file) {
            std::thread::sleep(MOMENT);
        }
        Alone(file)
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        lock(self.0, libc::F_UNLCK);
    }
}

fn request(kind: libc::c_int) -> libc::flock {
    // SAFETY: a C struct of numbers, for which zero is valid. For locks of open files the kernel demands process 0.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = libc::c_short::try_from(kind).unwrap_or_default();
    request.l_whence = libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default();
    (request.l_start, request.l_len) = (BYTE, 1);
    request
}

fn lock(file: &File, kind: libc::c_int) -> bool {
    let request = request(kind);
    // SAFETY: the descriptor is open, and the request lives until the call returns.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) == 0 }
}

/// Returns whether the conflicting lock belongs to an open file description, or has been released by now.
fn is_ours(file: &File) -> bool {
    let mut request = request(libc::F_WRLCK);
    // SAFETY: as above; the kernel writes the conflicting lock into the request.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
    // If no lock conflicts any more, the next try can succeed.
    asked == 0 && (request.l_pid == -1 || libc::c_int::from(request.l_type) == libc::F_UNLCK)
}

//! One program at a time writes a file in plain mode: a lock for as long as that takes.
//!
//! It is of the open file, on a byte far behind the end, so that programs' own locks stay what they are: `flock` is another kind,
//! and who has locked the file's records with `fcntl` has said who writes it, perhaps this program, which would wait for
//! itself. So only for a lock of this kind anybody waits.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The last byte that a file can have.
const BYTE: libc::off_t = libc::off_t::MAX - 1;
/// Who has it writes and syncs.
const MOMENT: Duration = Duration::from_millis(1);

/// Nobody else of ours writes the file. Given back when dropped.
pub(crate) struct Alone<'f>(&'f File);

impl<'f> Alone<'f> {
    /// Waits for who writes it now. On a filesystem that has no such locks there is nothing to wait for.
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
    // SAFETY: a C struct of numbers, of which zero is one; the kernel wants a process of zero for locks of open files.
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

/// Whether what is in the way is a lock of an open file.
fn is_ours(file: &File) -> bool {
    let mut request = request(libc::F_WRLCK);
    // SAFETY: as above; the kernel writes what is in the way into it.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
    // Gone meanwhile: then it can be had.
    asked == 0 && (request.l_pid == -1 || libc::c_int::from(request.l_type) == libc::F_UNLCK)
}

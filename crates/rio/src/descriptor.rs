//! Keeps the library's files away from the descriptors 0 to 2.
//!
//! If a program is started with a standard descriptor closed, the next file opened in the process gets that
//! descriptor's number. The program still prints to that number, and its messages would overwrite a file of the
//! library. So every descriptor that the library keeps, or writes through, is above 2.
//!
//! Between the opening and the copy, the file has the low number for an instant. A message that another thread prints
//! in that instant goes to the file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::planted;

/// The lowest number above the standard descriptors.
const FIRST_OWN: i32 = 3;

/// Returns the same open file with a descriptor above 2. The given descriptor is closed if it is a standard one.
///
/// # Errors
/// The errors of `fcntl(2)`: the process has no descriptor left. The given file is then closed.
pub fn above_standard<D: Into<OwnedFd> + From<OwnedFd>>(opened: D) -> io::Result<D> {
    let opened: OwnedFd = opened.into();
    if opened.as_raw_fd() >= FIRST_OWN || planted("rio: a file keeps the number of a standard descriptor") {
        return Ok(D::from(opened));
    }
    Ok(D::from(rustix::io::fcntl_dupfd_cloexec(&opened, FIRST_OWN)?))
}

/// Opens a file of any kind without following links and without waiting.
pub(crate) fn open_at_once(path: &Path, write: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).expect("the flags of open(2) are an int");
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path).and_then(above_standard)
}

//! Keeps the library off descriptors 0 to 2.
//!
//! A program that was started with a standard descriptor closed gets its number for the next file that anybody opens. The program
//! goes on to print to that number, so a file of the library there would be overwritten by messages. Every descriptor that the
//! library keeps, or writes through, is therefore above 2.
//!
//! Between the opening and the copy the low number is the file's for an instant: a message that another thread prints just
//! then goes to the file.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::planted;

/// The lowest number that is no standard descriptor's.
const FIRST_OWN: i32 = 3;

/// Returns the same open file with a descriptor above 2. The given descriptor is closed where it is a standard one.
///
/// # Errors
/// Those of `fcntl(2)`: the process has no descriptor left. The file is closed then.
pub fn above_standard<D: Into<OwnedFd> + From<OwnedFd>>(opened: D) -> io::Result<D> {
    let opened: OwnedFd = opened.into();
    if opened.as_raw_fd() >= FIRST_OWN || planted("rio: a standard descriptor is kept") {
        return Ok(D::from(opened));
    }
    Ok(D::from(rustix::io::fcntl_dupfd_cloexec(&opened, FIRST_OWN)?))
}

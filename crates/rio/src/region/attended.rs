//! Who has a region open holds a shared lock on its file, and who removes one that nobody seems to need an exclusive one.
//!
//! The locks are `flock`'s: they go with the open file, so a child of a fork has its parent's. That child can only keep a
//! region's file from being removed, as long as it lives; nobody is taken for alive because of it (PROTOCOLS D9).
//!
//! Nobody waits for a lock without bound, because everybody who may read the file can take it. Who does not get one goes
//! on without: as long as a stranger holds it, nobody else can, and so nobody removes the file.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

/// Who removes a region's file holds the lock for a few system calls.
const PATIENCE: Duration = Duration::from_secs(1);
const MOMENT: Duration = Duration::from_micros(200);

/// Says, until the file is closed, that its region is used. False if the file has lost its name.
pub(super) fn attend(file: &File) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::WOULDBLOCK | Errno::INTR) if begun.elapsed() < PATIENCE => std::thread::sleep(MOMENT),
            // Refused for good: somebody holds it who does not remove it, or the filesystem has no such locks.
            _ => break,
        }
    }
    has_name(file)
}

/// Takes the lock of who removes. False if somebody uses the region.
pub(super) fn take(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Gives the lock back: not left to the closing, which a child of a fork would put off.
pub(super) fn give_back(file: &File) {
    // Closing it does the same, nearly always.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Whether nobody else uses the region, asked by who attends it.
pub(super) fn is_alone(file: &File) -> bool {
    let alone = take(file);
    // Exchanging one lock for the other gives back the first: it is taken again in either case.
    let _ = attend(file);
    alone
}

/// Whether there is still a name that leads to the file.
pub(super) fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

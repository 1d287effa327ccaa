//! The locks on a region's file: a process that has the region open holds a shared lock, and a process that removes an
//! unused region holds the exclusive lock.
//!
//! The locks are `flock`'s and belong to the open file, so a child of a fork has its parent's lock. Such a child can
//! only keep the file from being removed for as long as the child lives. These locks are not used to decide whether a
//! process lives (PROTOCOLS D9).
//!
//! Every wait for a lock is bounded, because every user that may read the file can take the lock. A process that does
//! not get the lock continues without it: while another user holds the lock, no process can take it and remove the
//! file.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;

/// The longest wait for the shared lock. A process that removes a region's file holds the exclusive lock for a few
/// system calls only.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_micros(200);

/// Repeats an attempt that fails, with pauses, as long as `is_for_the_moment` accepts the error, and at most for
/// `patience`. Returns the last outcome.
pub(crate) fn patiently<T, E>(
    patience: Duration,
    pause: Duration,
    is_for_the_moment: impl Fn(&E) -> bool,
    mut attempt: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(refused) if is_for_the_moment(&refused) && begun.elapsed() < patience => std::thread::sleep(pause),
            outcome => return outcome,
        }
    }
}

/// Marks the region as used until the file is closed. Returns false if the file has lost its name.
pub(super) fn lock_shared(file: &File) -> io::Result<bool> {
    // If the lock is refused until the timeout, the process continues without it: the holder does not remove the file,
    // or the filesystem has no locks of this kind.
    let is_busy = |errno: &Errno| matches!(*errno, Errno::WOULDBLOCK | Errno::INTR);
    let _ = patiently(LOCK_TIMEOUT, RETRY_PAUSE, is_busy, || flock(file, FlockOperation::NonBlockingLockShared));
    has_name(file)
}

/// Takes the exclusive lock. Returns false if a process uses the region.
pub(super) fn take(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Releases the lock. A close is not enough: a child of a fork would delay the unlock.
pub(super) fn give_back(file: &File) {
    // If the call fails, the close unlocks the file if no child of a fork has it open.
    let _ = flock(file, FlockOperation::Unlock);
}

/// Returns whether no other process uses the region. The caller holds the shared lock.
pub(super) fn is_alone(file: &File) -> bool {
    let alone = take(file);
    // The attempt may release the shared lock, so that lock is taken again in either case.
    let _ = lock_shared(file);
    alone
}

/// Returns whether the file still has a name.
pub(super) fn has_name(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() > 0)
}

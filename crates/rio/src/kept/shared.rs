//! A kept region that several handles share. While the first handle opens the region, or the last handle leaves it, no
//! other handle has it open.
//!
//! The first handle must read the state of the last close before any handle stores. So the first handle opens the
//! region under the exclusive lock. The handle exchanges this lock for a shared lock once the header states that the
//! region is in use. A handle joins a region in use under the shared lock.
//!
//! If we die here: the kernel drops the lock. The header then states either that the region is in use or that it is
//! not.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};

use crate::error::system;
use crate::region::use_lock::patiently;
use crate::{Access, Error, RegionHeader, Result};

/// The longest wait for a handle that opens or leaves the region, which takes two syncs.
const OPENING_TIMEOUT: Duration = Duration::from_secs(5);
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// Takes the exclusive lock if no other handle has the file, else the shared lock. Returns `None` if there is no such
/// file.
pub(super) fn lock(path: &Path, access: &Access) -> Result<Option<File>> {
    let begun = Instant::now();
    loop {
        match super::lock(path, access, FlockOperation::NonBlockingLockExclusive) {
            Err(Error::InUse { .. }) => {}
            locked => return locked,
        }
        match super::lock(path, access, FlockOperation::NonBlockingLockShared) {
            Ok(Some(file)) if !is_left(&file) => return Ok(Some(file)),
            // The last handle has left meanwhile. The next attempt gets the exclusive lock, unless another handle gets
            // it first.
            Ok(Some(_)) => {}
            Err(Error::InUse { .. }) if begun.elapsed() < OPENING_TIMEOUT => {}
            refused => return refused,
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// Returns whether the header states that the region was left in good order.
fn is_left(file: &File) -> bool {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, offset_of!(RegionHeader, clean) as u64);
    read.is_ok() && word != [0; 8]
}

/// Lets other handles join. The header already states that the region is in use.
pub(super) fn let_others_in(lock: &File, path: &Path) -> Result<()> {
    // The exchange releases the exclusive lock before it takes the shared lock. Another handle may get the exclusive
    // lock in between, and soon exchanges it too.
    let taken =
        patiently(OPENING_TIMEOUT, RETRY_PAUSE, |_| true, || flock(lock, FlockOperation::NonBlockingLockShared));
    taken.map_err(|errno| system(path, "locking", errno.into()))
}

/// Returns whether no other handle has the region. If so, no other handle can join until this handle's lock is
/// released.
pub(super) fn is_last(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

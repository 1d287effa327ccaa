//! A kept region that several handles have at once: whoever opens it first, or leaves it last, is alone meanwhile.
//!
//! What a region says of itself when it was left in good order is looked at by one who is alone, and before anybody stores
//! anything; so it is opened under the exclusive lock, which becomes a shared one when it says that it is in use. One that is
//! in use is joined by the shared lock.
//!
//! If we die here: the kernel takes the lock; the region says that it is in use, or as before that it is not.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{flock, FlockOperation};

use crate::region::system;
use crate::{Access, Error, Region, RegionHeader, Result, Shared, WriteBack};

/// So long it is waited for who opens or leaves it, which takes two syncs.
const PATIENCE: Duration = Duration::from_secs(5);
const MOMENT: Duration = Duration::from_millis(1);

/// Locks the file alone, if nobody else has it, or with those who use it; none if there is no such file.
pub(super) fn lock(path: &Path, access: &Access) -> Result<Option<File>> {
    let begun = Instant::now();
    loop {
        match super::lock(path, access, FlockOperation::NonBlockingLockExclusive) {
            Err(Error::InUse { .. }) => {}
            locked => return locked,
        }
        match super::lock(path, access, FlockOperation::NonBlockingLockShared) {
            Ok(Some(file)) if !is_left(&file) => return Ok(Some(file)),
            // The last has left it meanwhile, so we may be alone; or somebody is alone with it now.
            Ok(Some(_)) => {}
            Err(Error::InUse { .. }) if begun.elapsed() < PATIENCE => {}
            refused => return refused,
        }
        std::thread::sleep(MOMENT);
    }
}

/// Whether it says that it was left in good order.
fn is_left(file: &File) -> bool {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, offset_of!(RegionHeader, clean) as u64);
    read.is_ok() && word != [0; 8]
}

/// It says that it is in use: from now on others may join.
pub(super) fn let_others_in(lock: &File, path: &Path) -> Result<()> {
    let begun = Instant::now();
    // One lock is given back before the other is taken, so somebody may come in between, who soon does the same.
    while let Err(errno) = flock(lock, FlockOperation::NonBlockingLockShared) {
        if begun.elapsed() >= PATIENCE {
            return Err(system(path, "locking", errno.into()));
        }
        std::thread::sleep(MOMENT);
    }
    Ok(())
}

/// Whether nobody else has it any more: from now on nobody else can, until our lock goes.
pub(super) fn is_last(lock: &File) -> bool {
    flock(lock, FlockOperation::NonBlockingLockExclusive).is_ok()
}

impl Region {
    /// Has a few words that were stored written back, where the memory outlives the cache: they are before what is stored next.
    pub fn write_back_words<T: Shared>(&self, words: &T) {
        let how = self.write_back();
        if how == WriteBack::None {
            return;
        }
        how.write_back(std::ptr::from_ref(words).cast(), size_of::<T>());
        how.fence();
    }
}

//! Keeps a file open, and with it its locks, in this process and in no child of it (PROTOCOLS D9).
//!
//! A lock of an open file goes when the last of those goes who have it open: descriptors, and mappings. Every child has its parent's
//! descriptors, so a lock that a descriptor keeps outlives a killed parent for as long as the child runs. A mapping that is advised
//! so is in no child, made by fork or by a clone that the C library does not know of; and the child need do nothing for it.
//!
//! Not on every filesystem: one that lies upon another may map the other's file in the place of its own, and then the lock is gone
//! with the descriptor. So it is done on those alone of which it is known ([`Anchor::holds_locks_of`]).
//!
//! Invariant: what is unmapped was mapped by this process. A child has the addresses of its parent, and may have something else there:
//! a word beside the mapping, which the kernel makes zero in every child, tells it so.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{madvise, mmap, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};

/// No processor we run on has larger pages, other than huge ones.
const PART: usize = 64 << 10;
/// Of tmpfs, ext2 to ext4, XFS, Btrfs, F2FS, ramfs, from Linux's `magic.h`.
const KNOWN: [i128; 6] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x8584_58f6];

/// A file that is kept open without a descriptor.
#[derive(Debug)]
pub struct Anchor {
    /// Two parts: one whose first word is zero in a child, one of the file, which a child does not have.
    base: NonNull<u8>,
}

// SAFETY: the mapping is an address range valid in the whole process until `drop`; no access to it is offered.
unsafe impl Send for Anchor {}
// SAFETY: as above; the one word that is read is an atomic.
unsafe impl Sync for Anchor {}

impl Anchor {
    /// Whether a mapping keeps a file of that filesystem open.
    pub fn holds_locks_of(file: impl AsFd) -> bool {
        // The type's width differs between architectures, and so does its sign.
        rustix::fs::fstatfs(file).is_ok_and(|filesystem| KNOWN.contains(&(i128::from(filesystem.f_type) & 0xffff_ffff)))
    }

    /// Keeps it open from now on, whatever becomes of its descriptors.
    ///
    /// # Errors
    /// Of the kernel: one before 4.14, or no address space.
    pub fn new(file: impl AsFd) -> io::Result<Anchor> {
        let (rights, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; nobody else knows the range.
        let place = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * PART, rights, private) }?;
        let base = NonNull::new(place.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on it is unmapped by being dropped.
        let anchor = Anchor { base };
        // SAFETY: the beginning of the mapping just made, of private memory; nothing in it changes here.
        unsafe { madvise(place, PART, Advice::LinuxWipeOnFork) }?;
        let (behind, shared) = (place.wrapping_byte_add(PART), MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: MAP_FIXED replaces the second part of the mapping just made, which nobody touches.
        unsafe { mmap(behind, PART, ProtFlags::empty(), shared, file, 0) }?;
        // Relaxed: nothing is handed over by it. Not before: where that failed the second part may be somebody else's by now.
        anchor.mark().store(1, Ordering::Relaxed);
        // SAFETY: the part just mapped; the advice is about children alone.
        unsafe { madvise(behind, PART, Advice::LinuxDontFork) }?;
        Ok(anchor)
    }

    /// One in the process that made this; zero in a child.
    fn mark(&self) -> &AtomicU64 {
        // SAFETY: the range is mapped, readable and writable, and page-aligned, from `new` to `drop`, in this process and in a child of
        // it, which has a copy of this part; any bytes are an `AtomicU64`, and nobody has another reference to it.
        unsafe { self.base.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // In a child the first part alone is certainly its own; of one that was never finished the second is left, memory that nobody
        // touched.
        let bytes = if self.mark().load(Ordering::Relaxed) == 1 { 2 * PART } else { PART };
        // SAFETY: mapped by `new`, in this process or, of the first part, in the one that this is a child of, which has left us a copy;
        // no reference into it is left.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping this process made");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use rustix::fs::{flock, FlockOperation};

    #[test]
    fn a_lock_is_kept_without_a_descriptor_until_the_anchor_goes() {
        for directory in [std::env::temp_dir(), "/dev/shm".into()] {
            let path = directory.join(format!("libtp-rio-{}-anchor", std::process::id()));
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
            if !Anchor::holds_locks_of(&file) {
                continue;
            }
            flock(&file, FlockOperation::LockExclusive).unwrap();
            let anchor = Anchor::new(&file).unwrap();
            drop(file);
            let other = File::open(&path).unwrap();
            assert!(flock(&other, FlockOperation::NonBlockingLockShared).is_err());
            drop(anchor);
            flock(&other, FlockOperation::NonBlockingLockShared).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }
}

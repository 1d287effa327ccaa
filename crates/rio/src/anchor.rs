//! Keeps a file open, and the file's locks held, in this process and in no child (PROTOCOLS D9).
//!
//! The kernel drops a lock of an open file when the last descriptor and the last mapping of that open file are gone. A
//! child inherits descriptors, so a lock kept by a descriptor outlives a killed parent for as long as the child runs. A
//! mapping with `MADV_DONTFORK` is in no child, whether fork made the child or a clone that the C library does not
//! know. The child need not make any call for this.
//!
//! Some stacked filesystems map the lower filesystem's file instead of their own. On these the lock ends with the
//! descriptor. So the library uses anchors only on filesystems known to work ([`Anchor::holds_locks_of`]).
//!
//! Invariant: a process unmaps only memory that it mapped itself. In a child, another mapping may be at the address of
//! the parent's mapping. In every child the kernel zeroes a word next to the mapping. A child that reads the zero
//! unmaps only its copy of that word's memory.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{madvise, mmap, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};

/// No supported processor has larger pages, except huge ones.
const PART: usize = 64 << 10;
/// The magic numbers of tmpfs, ext2 to ext4, XFS, Btrfs, F2FS and ramfs, from Linux's `magic.h`.
const KNOWN: [i128; 6] = [0x0102_1994, 0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x8584_58f6];

/// A file kept open without a descriptor.
#[derive(Debug)]
pub struct Anchor {
    /// Two parts: private memory whose first word is zero in a child, and the file's mapping, which a child does not
    /// have.
    base: NonNull<u8>,
}

// SAFETY: the mapping is an address range valid in the whole process until `drop`; no access to it is offered.
unsafe impl Send for Anchor {}
// SAFETY: as above; the only word that is read is an atomic.
unsafe impl Sync for Anchor {}

impl Anchor {
    /// Returns whether a mapping of a file on this filesystem keeps the file's locks.
    pub fn holds_locks_of(file: impl AsFd) -> bool {
        // The width and the sign of the type differ between architectures.
        rustix::fs::fstatfs(file).is_ok_and(|filesystem| KNOWN.contains(&(i128::from(filesystem.f_type) & 0xffff_ffff)))
    }

    /// Keeps the file open from now on, even when its descriptors are closed.
    ///
    /// # Errors
    /// Errors of the kernel: the kernel is older than 4.14, or no address space is left.
    pub fn new(file: impl AsFd) -> io::Result<Anchor> {
        let (rights, private) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; no other code knows the range.
        let place = unsafe { mmap_anonymous(std::ptr::null_mut(), 2 * PART, rights, private) }?;
        let base = NonNull::new(place.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        // From here on, dropping the anchor unmaps the range.
        let anchor = Anchor { base };
        // SAFETY: the beginning of the mapping just made, of private memory; nothing in it changes here.
        unsafe { madvise(place, PART, Advice::LinuxWipeOnFork) }?;
        let (after, shared) = (place.wrapping_byte_add(PART), MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: MAP_FIXED replaces the second part of the mapping just made, which no code touches.
        unsafe { mmap(after, PART, ProtFlags::empty(), shared, file, 0) }?;
        // Relaxed: the store publishes nothing else. The store comes after `mmap`: if `mmap` fails, the second part may
        // already belong to another mapping.
        anchor.mark().store(1, Ordering::Relaxed);
        // SAFETY: the part just mapped; the advice affects only children.
        unsafe { madvise(after, PART, Advice::LinuxDontFork) }?;
        Ok(anchor)
    }

    /// Returns the word that is one in the process that made the anchor, and zero in a child.
    fn mark(&self) -> &AtomicU64 {
        // SAFETY: from `new` to `drop`, the range is mapped, readable and writable, and page-aligned, both in this
        // process and in a child, which has a copy of this part. Any bytes are an `AtomicU64`, and no other reference
        // to the word exists.
        unsafe { self.base.cast::<AtomicU64>().as_ref() }
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // A child certainly owns only the first part. If `new` failed, the second part stays mapped, as untouched
        // memory.
        let bytes = if self.mark().load(Ordering::Relaxed) == 1 { 2 * PART } else { PART };
        // SAFETY: `new` mapped the range in this process. A child unmaps only the first part, which is the child's own
        // copy. No reference into the range is left.
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

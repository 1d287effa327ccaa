//! A file mapped into memory: the only place where address space is asked for and given back.
//!
//! The mapping is made once, as long as the region may ever become; the file grows under it by `fallocate`, so a full
//! filesystem is an error of a call and never a SIGBUS (DESIGN 4).

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{mmap, mmap_anonymous, munmap, MapFlags, ProtFlags};

/// Bytes of a huge page, and so what a mapping's address is a multiple of.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// No processor we run on has larger pages, other than huge ones.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// One shared mapping of a file, `bytes` long, at whatever address the kernel chose.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is an address range valid in the whole process until `drop`; `Mapping` itself offers no access to
// the memory, so moving it to another thread moves only the right to unmap.
unsafe impl Send for Mapping {}
// SAFETY: as above: `&Mapping` yields addresses, and every access through them is proved at the place that makes it.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file` shared and writable. The file may be shorter: the rest may be touched only
    /// after the file has grown.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub fn new(file: &File, bytes: usize) -> std::io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES_MAX);
        let wanted = bytes.checked_add(HUGE_BYTES).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let (nothing, lazy) = (ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; nobody may touch the range yet.
        let range = unsafe { mmap_anonymous(std::ptr::null_mut(), wanted, nothing, lazy) }?.cast::<u8>();
        // Where a huge page of the file can be one of the mapping.
        let front = range.addr().next_multiple_of(HUGE_BYTES) - range.addr();
        let base = range.wrapping_add(front);
        // SAFETY: MAP_FIXED replaces `bytes` of the range just reserved, which nobody uses; the file outlives the call.
        let mapped = unsafe {
            let flags = MapFlags::SHARED | MapFlags::NORESERVE | MapFlags::FIXED;
            mmap(base.cast(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)
        };
        // What is not needed is given back: before and behind the mapping, or all of it.
        let rest = [(range, front), (base.wrapping_add(bytes), wanted - front - bytes)];
        let all = [(range, wanted), (range, 0)];
        for (from, bytes) in if mapped.is_ok() { rest } else { all } {
            if bytes > 0 {
                // SAFETY: part of the range reserved above, which is not the mapping, and which nobody uses.
                unsafe { munmap(from.cast(), bytes) }?;
            }
        }
        let base = NonNull::new(mapped?.cast::<u8>()).ok_or(std::io::ErrorKind::OutOfMemory)?;
        Ok(Mapping { base, bytes })
    }

    /// Asks the kernel to put a part of the file, which has blocks all over, into huge pages now: one entry of the
    /// processor's address cache then serves 2 MiB. Whole multiples of [`HUGE_BYTES`]. Contents stay as they are.
    ///
    /// # Errors
    /// The kernel's: `EINVAL` before Linux 6.1, or where the file's filesystem or its administrator does not have it;
    /// others where there is no such page to be had now. Nothing is different then.
    pub(crate) fn use_huge_pages(&self, from: usize, bytes: usize) -> std::io::Result<()> {
        assert!(from % HUGE_BYTES == 0 && bytes % HUGE_BYTES == 0 && from + bytes <= self.bytes);
        let place = self.base.as_ptr().wrapping_add(from);
        // SAFETY: a part of this mapping; the advice changes how it is kept and nothing a program can see.
        let done = unsafe { libc::madvise(place.cast(), bytes, libc::MADV_COLLAPSE) };
        if done == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    }

    /// The first address.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The length of the mapping in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `bytes` are what `mmap` returned, and every reference into the mapping borrows from a
        // `Region` that owns this value, so none is left.
        let unmapped = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping this process made");
    }
}

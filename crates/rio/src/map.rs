//! A file mapped into memory: the only place where address space is asked for and given back.
//!
//! The mapping is made once, as long as the region may ever become; the file grows under it by `fallocate`, so a full
//! filesystem is an error of a call and never a SIGBUS (DESIGN 4).

use std::fs::File;
use std::ptr::NonNull;

use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

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
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping, and the file outlives the call.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE,
                file,
                0,
            )
        }?;
        let base =
            NonNull::new(base.cast::<u8>()).ok_or_else(|| std::io::Error::other("mmap returned address zero"))?;
        Ok(Mapping { base, bytes })
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

//! A file mapped into memory.
//!
//! The mapping is made once, at the greatest length that the region may reach. The file grows under the mapping by
//! `fallocate`, so a full filesystem is an error of a call and never a SIGBUS.

use std::fs::File;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::mm::{mmap, mmap_anonymous, mprotect, msync, munmap, MapFlags, MprotectFlags, MsyncFlags, ProtFlags};

/// Bytes of a huge page. The address of a mapping is a multiple of this number.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// No supported processor has larger pages, except huge ones.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// The allowed accesses to a part of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// Nothing: any access faults.
    None,
    /// Reading: a store faults.
    Read,
    /// Reading and storing.
    Write,
}

/// One shared mapping of a file, `bytes` long. If the file allows `MAP_SYNC`, the blocks under a page are on the disk
/// before the first store to the page is done. Guard pages before and after the mapping fault at any access.
/// A mapping that was cut has no guard page after it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    /// The length of the mapping. [`Mapping::cut`] makes it smaller.
    bytes: AtomicUsize,
    /// The bytes that may be accessed: the known length of the file.
    accessible: AtomicUsize,
    /// Held while `bytes` or `accessible` changes.
    resizing: Mutex<()>,
    /// The mapping and its guard pages: where the range begins, and its bytes.
    range: (NonNull<u8>, AtomicUsize),
}

// SAFETY: the mapping is an address range valid in the whole process until `drop`. `Mapping` itself offers no access to
// the memory, so a move to another thread moves only the right to unmap.
unsafe impl Send for Mapping {}
// SAFETY: as above. `&Mapping` yields only addresses, and the code that accesses memory through them proves each
// access.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `bytes` of `file` shared and writable, at an address that the kernel chooses. The file may be
    /// shorter: the bytes after its end may be accessed only after the file has grown.
    ///
    /// # Errors
    /// The error of `mmap`.
    pub fn new(file: &File, bytes: usize) -> std::io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES_MAX);
        let wanted = bytes.checked_add(2 * HUGE_BYTES).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let (null, lazy) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; no code touches the range yet.
        let range = unsafe { mmap_anonymous(null, wanted, rights_of_guard_pages(), lazy) }?.cast::<u8>();
        // With this alignment, a huge page of the file is a huge page of the mapping too.
        let front = (range.addr() + 1).next_multiple_of(HUGE_BYTES) - range.addr();
        Mapping::inside(file, (range, wanted), front, bytes)
    }

    /// As [`Mapping::new`], at `address`: pointers inside the mapping are then valid in every process that maps it
    /// there.
    ///
    /// # Errors
    /// `AlreadyExists` if the range is in use; `InvalidInput` if no mapping can be there; the error of `mmap`.
    pub fn at(file: &File, bytes: usize, address: usize) -> std::io::Result<Mapping> {
        let bytes = bytes.next_multiple_of(PAGE_BYTES_MAX);
        let from = address.checked_sub(PAGE_BYTES_MAX).filter(|_| address % PAGE_BYTES_MAX == 0);
        let from = std::ptr::without_provenance_mut(from.ok_or(std::io::ErrorKind::InvalidInput)?);
        let wanted = bytes.checked_add(2 * PAGE_BYTES_MAX).ok_or(std::io::ErrorKind::OutOfMemory)?;
        let lazy = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: MAP_FIXED_NOREPLACE replaces no existing mapping; no code touches the range yet.
        let range = unsafe { mmap_anonymous(from, wanted, rights_of_guard_pages(), lazy) }?.cast::<u8>();
        Mapping::inside(file, (range, wanted), PAGE_BYTES_MAX, bytes)
    }

    /// Checks that the file can be mapped synchronously (DAX): the blocks under a page are on the disk before a store
    /// to the page is done. If the file cannot be mapped in this way, the error states the reason.
    pub(crate) fn is_synchronous(file: &File) -> std::io::Result<()> {
        let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
        // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; no code touches the new one.
        let place = unsafe { mmap(std::ptr::null_mut(), PAGE_BYTES_MAX, ProtFlags::READ, flags, file, 0) }?;
        // SAFETY: the mapping just made.
        unsafe { munmap(place, PAGE_BYTES_MAX) }?;
        Ok(())
    }

    /// Writes the stores to the disk of the file, if the file is on a disk.
    pub(crate) fn sync(&self, bytes: usize) -> std::io::Result<()> {
        // SAFETY: a part of this mapping; it changes nothing that a program can see.
        unsafe { msync(self.base.as_ptr().cast(), bytes.min(self.bytes()), MsyncFlags::SYNC) }?;
        Ok(())
    }

    /// Maps the file into a reserved range. The file's first byte is `front` bytes after the range's beginning.
    fn inside(file: &File, range: (*mut u8, usize), front: usize, bytes: usize) -> std::io::Result<Mapping> {
        let base = range.0.wrapping_add(front);
        // The kind of mapping is tried beforehand, because a failed MAP_FIXED may already have made a hole in the
        // range.
        let kind = Mapping::shared(file);
        // SAFETY: MAP_FIXED replaces `bytes` of the range just reserved, which no code uses; the file outlives the
        // call.
        let mapped = unsafe {
            let flags = kind | MapFlags::NORESERVE | MapFlags::FIXED;
            mmap(base.cast(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, file, 0)
        };
        let parts = (NonNull::new(range.0), NonNull::new(base));
        if let (Ok(_), (Some(start), Some(base))) = (&mapped, parts) {
            return Ok(Mapping {
                base,
                bytes: AtomicUsize::new(bytes),
                accessible: AtomicUsize::new(0),
                resizing: Mutex::new(()),
                range: (start, AtomicUsize::new(range.1)),
            });
        }
        // SAFETY: the range reserved above, which no code uses.
        unsafe { munmap(range.0.cast(), range.1) }?;
        mapped?;
        Err(std::io::ErrorKind::OutOfMemory.into())
    }

    /// Returns the flags for a shared mapping of the file.
    fn shared(file: &File) -> MapFlags {
        match Mapping::is_synchronous(file) {
            Ok(()) => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Err(_) => MapFlags::SHARED,
        }
    }

    /// Maps a part (whole pages within the file) again in its place. With `is_apart`, later stores to the part are
    /// private to this process and never reach the file. Without `is_apart`, the part is shared again, and private
    /// stores to it are lost. Afterwards the part may be stored to.
    ///
    /// # Errors
    /// The error of `mmap`; `InvalidInput` if the part is not inside the mapping.
    pub(crate) fn set_apart(&self, file: &File, part: Range<usize>, is_apart: bool) -> std::io::Result<()> {
        let place = self.place_of(&part)?;
        let kind = if is_apart { MapFlags::PRIVATE } else { Mapping::shared(file) };
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, kind | MapFlags::NORESERVE | MapFlags::FIXED);
        // SAFETY: MAP_FIXED replaces a part of this mapping by the same bytes of the same file, atomically: a reader
        // finds mapped bytes before and after.
        unsafe { mmap(place.cast(), part.len(), rights, flags, file, part.start as u64) }?;
        Ok(())
    }

    /// Asks the kernel to move a part of the file into huge pages now. One entry of the processor's address cache then
    /// serves 2 MiB. The part is made of whole multiples of [`HUGE_BYTES`] and has blocks everywhere. Its contents stay
    /// as they are.
    ///
    /// # Errors
    /// Errors of the kernel: `EINVAL` before Linux 6.1, or if the filesystem or its administrator does not allow huge
    /// pages; other errors if no huge page is free now. Nothing has changed then.
    pub(crate) fn use_huge_pages(&self, from: usize, bytes: usize) -> std::io::Result<()> {
        assert!(from % HUGE_BYTES == 0 && bytes % HUGE_BYTES == 0 && from + bytes <= self.bytes());
        let place = self.base.as_ptr().wrapping_add(from);
        // SAFETY: a part of this mapping. The advice changes only where the part is stored, and nothing that a program
        // can see.
        outcome(unsafe { libc::madvise(place.cast(), bytes, libc::MADV_COLLAPSE) })
    }

    /// Sets whether the kernel writes the mapping into core dumps.
    ///
    /// # Errors
    /// The error of `madvise`.
    pub(crate) fn set_dumped(&self, is_dumped: bool) -> std::io::Result<()> {
        let advice = if is_dumped { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
        // SAFETY: the whole of this mapping; the advice changes the content of core dumps, and nothing a program can
        // see.
        outcome(unsafe { libc::madvise(self.base.as_ptr().cast(), self.bytes(), advice) })
    }

    /// Sets the allowed accesses to a part of the mapping, in whole pages.
    ///
    /// # Errors
    /// The error of `mprotect`; `InvalidInput` if the part is not inside the mapping.
    pub(crate) fn protect(&self, part: Range<usize>, protection: Protection) -> std::io::Result<()> {
        let place = self.place_of(&part)?;
        let flags = match protection {
            Protection::None => MprotectFlags::empty(),
            Protection::Read => MprotectFlags::READ,
            Protection::Write => MprotectFlags::READ | MprotectFlags::WRITE,
        };
        // SAFETY: a part of this mapping. Taking rights away makes no correct access incorrect: the access faults
        // instead.
        unsafe { mprotect(place.cast(), part.len(), flags) }?;
        Ok(())
    }

    /// Gives a protection key to a part of the mapping: whole pages that may be stored to.
    ///
    /// # Errors
    /// As [`Mapping::protect`].
    pub(crate) fn set_key(&self, part: Range<usize>, key: u32) -> std::io::Result<()> {
        let place = self.place_of(&part)?;
        let flags = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: as in `protect`.
        outcome(unsafe { libc::syscall(libc::SYS_pkey_mprotect, place, part.len(), flags, key) })
    }

    /// Returns the address of a part; `InvalidInput` if the part is not inside the mapping.
    fn place_of(&self, part: &Range<usize>) -> std::io::Result<*mut u8> {
        if part.end > self.bytes() {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        Ok(self.base.as_ptr().wrapping_add(part.start))
    }

    /// Returns the first address.
    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length of the mapping in bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        // Relaxed: only `cut` makes the mapping smaller, and it keeps all bytes that may be accessed.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that may be accessed ([`Mapping::allow`]).
    #[inline]
    pub(crate) fn accessible(&self) -> usize {
        // Relaxed: the number only grows, so an old value is at worst too small.
        self.accessible.load(Ordering::Relaxed)
    }

    /// Allows accesses to the first `bytes` of the mapping. Returns the number of bytes that may be accessed: the old
    /// number if the kernel refuses.
    pub(crate) fn allow(&self, bytes: usize) -> usize {
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, accessible) = (bytes.min(self.bytes()), self.accessible());
        let part = accessible.next_multiple_of(PAGE_BYTES_MAX)..bytes.next_multiple_of(PAGE_BYTES_MAX);
        if bytes <= accessible || (!part.is_empty() && self.protect(part, Protection::Write).is_err()) {
            return accessible;
        }
        self.accessible.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// Takes away the rights to all bytes that may not be accessed yet. A store after the file's end then faults.
    /// valgrind, which reads all readable memory at a program's end, then leaves these bytes out.
    ///
    /// # Errors
    /// The error of `mprotect`.
    pub(crate) fn forbid_unseen(&self) -> std::io::Result<()> {
        let from = self.accessible().next_multiple_of(PAGE_BYTES_MAX);
        if from < self.bytes() {
            self.protect(from..self.bytes(), Protection::None)?;
        }
        Ok(())
    }

    /// Unmaps the address space after the bytes that may be accessed. The caller accesses nothing after them.
    ///
    /// # Errors
    /// The error of `munmap`. Nothing has changed then.
    pub(crate) fn cut(&self) -> std::io::Result<()> {
        let _resizing = self.resizing.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.accessible().next_multiple_of(PAGE_BYTES_MAX);
        if bytes >= self.bytes() {
            return Ok(());
        }
        let (start, whole) = (self.range.0, self.range.1.load(Ordering::Relaxed));
        let kept = self.base.addr().get() - start.addr().get() + bytes;
        let rest = start.as_ptr().wrapping_add(kept).cast();
        // SAFETY: the end of the range that was reserved for this mapping. No code touches bytes beyond `accessible`.
        // `accessible` does not grow now, because `resizing` is held. It does not grow later either, because the
        // mapping then ends there.
        unsafe { munmap(rest, whole - kept) }?;
        self.bytes.store(bytes, Ordering::Relaxed);
        self.range.1.store(kept, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the outcome of a call of the C library that returns zero if it succeeds.
fn outcome(code: impl Into<i64>) -> std::io::Result<()> {
    match code.into() {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Returns no rights: every access faults.
fn rights_of_guard_pages() -> ProtFlags {
    if crate::planted("rio: a mapping has no guard pages") {
        return ProtFlags::READ | ProtFlags::WRITE;
    }
    ProtFlags::empty()
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `range` was reserved for this mapping, and every reference into the mapping borrows from a `Region`
        // or a `View` that owns this value, so no reference is left.
        let unmapped = unsafe { munmap(self.range.0.as_ptr().cast(), *self.range.1.get_mut()) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping this process made");
    }
}

//! Pages that the kernel wipes in a child of this process, so that a word in the page distinguishes a process from its
//! children.

use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The number of words of a page.
pub(crate) const WORDS: usize = 512;

/// Makes a page of words that are zero now. They are zero in each child again, before any code of the child runs.
/// `None` if the kernel has no such pages (before Linux 4.14). The page is never unmapped. `is_wiped` is false only for
/// a planted bug: the child then gets a copy of the page.
pub(crate) fn wiped_page(is_wiped: bool) -> Option<&'static [AtomicU64; WORDS]> {
    const BYTES: usize = WORDS * 8;
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a mapping at an address of the kernel's choice replaces no existing mapping.
    let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, rights, MapFlags::PRIVATE) };
    let page = page.ok()?;
    let advice = if is_wiped { Advice::LinuxWipeOnFork } else { Advice::Normal };
    // SAFETY: the range is the mapping just made, which no other code knows; this advice changes nothing in this
    // process.
    let advised = unsafe { rustix::mm::madvise(page, BYTES, advice) };
    if advised.is_err() {
        // SAFETY: the mapping just made, to which no reference exists.
        let _ = unsafe { rustix::mm::munmap(page, BYTES) };
        return None;
    }
    // SAFETY: the mapping is page-aligned, readable and writable, and is never unmapped. It begins as zeros, which are
    // valid words. The kernel's wipe in a child happens before any code of the child runs.
    Some(unsafe { &*page.cast::<[AtomicU64; WORDS]>() })
}

//! Tells a process from the children that fork, or clone without the C library's knowledge, makes of it.
//!
//! A child has its parent's shared mappings and a copy of every handle, so it could end, or store over, what its parent is in the
//! middle of. A mark is a number in a page that the kernel wipes in a child: to look at it costs one load and one comparison,
//! so the quickest of transactions can (`undo/quick`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Marks of one kind. Who has to know whether it has made any since a fork has a kind of its own.
pub struct ForkMarks {
    /// Which word of the page.
    nth: usize,
    /// The last number drawn. A child goes on counting where its parent was, so its marks differ from those it inherited.
    drawn: AtomicU64,
}

/// What tells the process that made it from its children.
#[derive(Clone, Copy, Debug)]
pub struct ForkMark {
    word: &'static AtomicU64,
    number: u64,
    process: u32,
}

/// How many kinds there are.
const KINDS: usize = 2;
/// The marks of who has memory mapped.
static OF_MEMORY: ForkMarks = ForkMarks::new(0);
/// Where the kernel wipes no pages (before Linux 4.14) the word of every mark: it is no mark's number.
static NOBODY: AtomicU64 = AtomicU64::new(0);

impl ForkMarks {
    /// Of the kind `nth`: 0 is rio's own.
    pub const fn new(nth: usize) -> ForkMarks {
        assert!(nth < KINDS, "each kind has a word");
        ForkMarks { nth, drawn: AtomicU64::new(0) }
    }

    /// The mark of the calling process.
    pub fn of_this_process(&self) -> ForkMark {
        let (word, process) = (wiped_page().map(|page| &page[self.nth]), std::process::id());
        let Some(word) = word else { return ForkMark { word: &NOBODY, number: 1, process } };
        // Relaxed, everywhere with these words: nothing is handed over by them, and no two processes share them.
        let there = word.load(Ordering::Relaxed);
        if there != 0 {
            return ForkMark { word, number: there, process };
        }
        let fresh = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let number = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        ForkMark { word, number: number.map_or_else(|there| there, |_| fresh), process }
    }

    /// Whether the calling process is a child of one that made marks of this kind, and has made none itself: then what it
    /// inherited is to be given up first. Never so where the kernel wipes no pages.
    pub fn none_since_fork(&self) -> bool {
        let is_wiped = |page: &[AtomicU64; KINDS]| page[self.nth].load(Ordering::Relaxed) == 0;
        self.drawn.load(Ordering::Relaxed) != 0 && wiped_page().is_some_and(is_wiped)
    }
}

impl ForkMark {
    /// The mark of the calling process, of rio's own kind.
    pub fn of_this_process() -> ForkMark {
        OF_MEMORY.of_this_process()
    }

    /// Whether the calling process is for certain the one that made the mark, and not a child of it. One load and one comparison;
    /// where the kernel wipes no pages it is never certain.
    #[inline(always)]
    pub fn is_certain(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number || crate::planted("rio: a child is its parent")
    }

    /// Whether the calling process is the one that made the mark.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.is_certain() || (std::ptr::eq(self.word, &NOBODY) && self.process == std::process::id())
    }

    /// The process that made it.
    pub fn process(&self) -> u32 {
        self.process
    }
}

/// Words that are zero again in a child of this process; none where the kernel has no such pages.
fn wiped_page() -> Option<&'static [AtomicU64; KINDS]> {
    static PAGE: OnceLock<Option<&'static [AtomicU64; KINDS]>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        const BYTES: usize = 4096;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a mapping at an address of the kernel's choice takes no memory that anybody uses.
        let page = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), BYTES, rights, MapFlags::PRIVATE) };
        let page = page.ok()?;
        // SAFETY: the range is the mapping just made, of which nobody else knows; this advice changes nothing in it now.
        let advised = unsafe { rustix::mm::madvise(page, BYTES, Advice::LinuxWipeOnFork) };
        if advised.is_err() {
            // SAFETY: the mapping just made, to which no reference exists.
            let _ = unsafe { rustix::mm::munmap(page, BYTES) };
            return None;
        }
        // SAFETY: the mapping is page-aligned, readable and writable, begins with zeros, which are such words, and is never
        // unmapped; the kernel's wipe in a child happens before any code of the child runs.
        Some(unsafe { &*page.cast::<[AtomicU64; KINDS]>() })
    })
}

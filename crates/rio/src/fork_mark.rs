//! Distinguishes a process from its children. A child is made by a fork, or by a clone that the C library does not
//! know.
//!
//! A child has its parent's shared mappings and a copy of every handle, so the child could end its parent's work, or
//! store over it. A mark is a number, and the process that made it has the same number in a page that the kernel wipes
//! in a child. A check costs one load and one comparison, so even the quickest transactions can afford it
//! (`undo/quick`).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::wiped::{wiped_page, WORDS};
use crate::{Error, Result};

/// Marks of one kind. Code that must know whether it has made a mark since a fork needs a kind of its own.
pub struct ForkMarks {
    /// The index of the kind's word in the page.
    nth: usize,
    /// The last number drawn. A child continues from its parent's number, so the marks that the child makes differ from
    /// the marks that it inherited.
    drawn: AtomicU64,
}

/// A mark of a process. The mark distinguishes the process from its children.
#[derive(Clone, Copy, Debug)]
pub struct ForkMark {
    word: &'static AtomicU64,
    number: u64,
    process: u32,
}

/// The number of kinds.
const KINDS: usize = 2;
/// The marks of processes that have memory mapped.
static OF_MEMORY: ForkMarks = ForkMarks::new(0);
/// The word of every mark, if the kernel wipes no pages (before Linux 4.14). This word is zero, and no mark has the
/// number zero.
static NOBODY: AtomicU64 = AtomicU64::new(0);

impl ForkMarks {
    /// Makes the marks of the kind `nth`: 0 is rio's own.
    pub const fn new(nth: usize) -> ForkMarks {
        assert!(nth < KINDS, "each kind has a word");
        ForkMarks { nth, drawn: AtomicU64::new(0) }
    }

    /// Returns the mark of the calling process.
    pub fn of_this_process(&self) -> ForkMark {
        let (word, process) = (page_of_kinds().map(|page| &page[self.nth]), std::process::id());
        let Some(word) = word else { return ForkMark { word: &NOBODY, number: 1, process } };
        // Relaxed, for all accesses to these words: they publish no other data, and no two processes share them.
        let there = word.load(Ordering::Relaxed);
        if there != 0 {
            return ForkMark { word, number: there, process };
        }
        let fresh = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let number = word.compare_exchange(0, fresh, Ordering::Relaxed, Ordering::Relaxed);
        ForkMark { word, number: number.map_or_else(|there| there, |_| fresh), process }
    }

    /// Returns whether the calling process has inherited marks of this kind from its parent and has made none itself.
    /// If so, the process must first give up the inherited descriptors. Always false if the kernel wipes no pages.
    pub fn none_since_fork(&self) -> bool {
        let is_wiped = |page: &[AtomicU64; WORDS]| page[self.nth].load(Ordering::Relaxed) == 0;
        self.drawn.load(Ordering::Relaxed) != 0 && page_of_kinds().is_some_and(is_wiped)
    }
}

impl ForkMark {
    /// Returns the mark of the calling process, of rio's own kind.
    pub fn of_this_process() -> ForkMark {
        OF_MEMORY.of_this_process()
    }

    /// Returns whether the calling process certainly made the mark, and is not a child of the maker. Costs one load and
    /// one comparison. Always false if the kernel wipes no pages.
    #[inline(always)]
    pub fn is_certain(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number || crate::planted("rio: a forked child counts as its parent")
    }

    /// Returns whether the calling process made the mark.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.is_certain() || (std::ptr::eq(self.word, &NOBODY) && self.process == std::process::id())
    }

    /// Refuses a child of the process that made the mark. `path` names the file for the error.
    ///
    /// # Errors
    /// `Forked` in such a child.
    pub fn refuse_child(&self, path: &Path) -> Result<()> {
        if self.is_current() {
            return Ok(());
        }
        Err(Error::Forked { path: path.to_path_buf(), process: self.process })
    }

    /// Returns the process that made the mark.
    pub fn process(&self) -> u32 {
        self.process
    }
}

/// Returns the page with a word for each kind, or `None` if the kernel wipes no pages.
fn page_of_kinds() -> Option<&'static [AtomicU64; WORDS]> {
    static PAGE: OnceLock<Option<&'static [AtomicU64; WORDS]>> = OnceLock::new();
    *PAGE.get_or_init(|| wiped_page(true))
}

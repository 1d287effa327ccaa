//! A gate: one word that lets a transaction take the quick path (`undo/quick.rs`). It has the number of bytes that the
//! transaction may declare without a further check, and is zero while it is shut.
//!
//! Paper: a departure. Here the caller may be a child of a fork, memory may be guarded, and the log may be too short;
//! the paper's Vista knows none of these cases. The declaration of a range must load the gate to check the range's
//! bounds; the same load excludes all three cases.
//!
//! The word is in a page that the kernel wipes in a child, so a child finds the gate of an inherited handle shut. The
//! child never opens the gate again, because [`Gate::open`] is called only where the handle's fork mark is certain.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

use crate::planted;
use crate::wiped::{wiped_page, WORDS};

/// The word of all handles that have no word of their own.
static SHUT: AtomicU64 = AtomicU64::new(0);
/// A bit for each word of the page: whether a handle has it.
static TAKEN: [AtomicU64; WORDS / 64] = [const { AtomicU64::new(0) }; WORDS / 64];

/// The gate of a handle.
pub(crate) struct Gate(Cell<&'static AtomicU64>);

impl Gate {
    /// Makes a gate that is shut.
    pub(crate) const fn shut() -> Gate {
        Gate(Cell::new(&SHUT))
    }

    /// Returns the gate's word. [`Gate::open`] may give the handle another one.
    #[inline(always)]
    pub(crate) fn word(&self) -> &'static AtomicU64 {
        self.0.get()
    }

    /// Opens the gate for the first `bytes` bytes. The gate stays shut if 512 other handles of this process have a
    /// word.
    #[inline]
    pub(crate) fn open(&self, bytes: u64) {
        if std::ptr::eq(self.word(), &SHUT) {
            self.0.set(take().unwrap_or(&SHUT));
        }
        if !std::ptr::eq(self.word(), &SHUT) {
            // Relaxed, for all accesses to these words: one thread at a time uses a handle.
            self.word().store(bytes, Ordering::Relaxed);
        }
    }

    /// Shuts the gate.
    #[inline]
    pub(crate) fn close(&self) {
        // `SHUT` is never written, so its cache line stays in the caches of all processors.
        if !std::ptr::eq(self.word(), &SHUT) {
            self.word().store(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if std::ptr::eq(self.word(), &SHUT) {
            return;
        }
        self.close();
        let at = page().and_then(|page| page.iter().position(|word| std::ptr::eq(word, self.word())));
        if let Some(at) = at {
            TAKEN[at / 64].fetch_and(!(1 << (at % 64)), Ordering::Release);
        }
    }
}

fn page() -> Option<&'static [AtomicU64; WORDS]> {
    static PAGE: OnceLock<Option<&'static [AtomicU64; WORDS]>> = OnceLock::new();
    *PAGE.get_or_init(|| wiped_page(!planted("rio: a child finds the gates of its parent open")))
}

/// Takes a word that no handle has, or `None` if all are taken or the kernel wipes no pages.
#[cold]
fn take() -> Option<&'static AtomicU64> {
    let page = page()?;
    (0..WORDS).find_map(|at| {
        let bit = 1 << (at % 64);
        // Acquire: the word's last handle shut its gate by a store. That store comes before all later stores to the
        // word.
        (TAKEN[at / 64].fetch_or(bit, Ordering::Acquire) & bit == 0).then_some(&page[at])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handle_has_its_own_word_and_releases_it() {
        let gates: Vec<Gate> = (0..WORDS + 10).map(|_| Gate::shut()).collect();
        gates.iter().for_each(|gate| gate.open(7));
        let open = gates.iter().filter(|gate| gate.word().load(Ordering::Relaxed) == 7).count();
        assert!((WORDS - 20..=WORDS).contains(&open), "{open} gates are open, without those of other tests");
        assert_eq!(SHUT.load(Ordering::Relaxed), 0);
        gates[1].close();
        assert_eq!(gates[0].word().load(Ordering::Relaxed), 7);
        assert_eq!(gates[1].word().load(Ordering::Relaxed), 0);
        drop(gates);
        let gate = Gate::shut();
        gate.open(3);
        assert_eq!(gate.word().load(Ordering::Relaxed), 3);
    }
}

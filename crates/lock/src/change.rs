//! A change of the lock table: a section whose stores a test can stop.
//!
//! Every store that must be rolled back goes through [`Change::set`]. A test chooses how many stores happen before the
//! thread stops as a killed thread would: with its section open and its latches held.

use libtp_process::Session;
use rio::{failpoint, Bits, Section, Word};

/// An open section.
pub(crate) struct Change<'s> {
    section: Section<'s>,
}

impl<'s> Change<'s> {
    #[inline]
    pub(crate) fn open(session: &'s Session) -> Change<'s> {
        Change { section: session.section() }
    }

    /// Stores a word; rolling the section back restores it.
    #[inline]
    pub(crate) fn set<T: Bits>(&mut self, word: &Word<T>, value: T) {
        #[cfg(test)]
        stop::here();
        failpoint("lock: before a store");
        word.set(&mut self.section, value);
    }

    /// Makes the change final. If we die before this store, the whole change is rolled back. If we die after it, the
    /// change is complete.
    #[inline]
    pub(crate) fn close(self) {
        #[cfg(test)]
        stop::here();
        failpoint("lock: before a section closes");
        self.section.close();
    }
}

/// Marks the point before a store that is never rolled back: a test may stop the thread here.
#[inline(always)]
pub(crate) fn before_store() {
    #[cfg(test)]
    stop::here();
}

#[cfg(test)]
pub(crate) mod stop {
    //! Stops a thread before a chosen store, as a kill does.

    use std::cell::Cell;

    thread_local! {
        static STORES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }

    /// The panic payload of a stopped thread.
    pub(crate) struct Stopped;

    /// Stops this thread before its store number `stores`, counted from zero; `None` never stops it.
    pub(crate) fn before(stores: Option<u32>) {
        STORES_LEFT.set(stores);
    }

    pub(crate) fn here() {
        let Some(left) = STORES_LEFT.get() else { return };
        match left.checked_sub(1) {
            Some(left) => STORES_LEFT.set(Some(left)),
            None => {
                STORES_LEFT.set(None);
                std::panic::resume_unwind(Box::new(Stopped));
            }
        }
    }
}

#[cfg(test)]
mod tests;

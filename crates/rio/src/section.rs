//! A section: a change of several words or bytes of shared memory that happens wholly or not at all.
//!
//! [`Undo::section`] opens a section; [`Section::close`] ends it. A store needs the section as an argument, so a change
//! that cannot be undone does not compile. A section ends only by an explicit call: if a panic drops an open section,
//! the drop marks the session dead and frees nothing, and repair runs as for a killed process (PROTOCOLS D10).

use std::cell::Cell;
use std::sync::atomic::Ordering;

use crate::schedule::point;
use crate::{failpoint, planted, Atom, Bits, Checkable, Checked, Link, Offset, Undo, Word};

impl Undo {
    /// Opens a section. Inside another open section, the new section is a nested top action (PROTOCOLS D2).
    #[inline]
    pub fn section(&self) -> Section<'_> {
        self.section_of(&self.broken)
    }

    /// As [`Undo::section`], for a session that has a mark `doomed`. If the section is dropped without being closed,
    /// the drop sets `doomed` (PROTOCOLS D10).
    #[inline]
    pub fn section_of<'u>(&'u self, doomed: &'u Cell<bool>) -> Section<'u> {
        self.depth.set(self.depth.get() + 1);
        Section { undo: self, start: self.top.get(), depth: self.depth.get(), doomed: Some(doomed) }
    }

    /// Returns whether a section is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.depth.get() != 0
    }

    /// Returns whether a section was dropped without being closed: the session counts as dead (PROTOCOLS D10).
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken.get()
    }

    #[inline]
    pub(crate) fn leave(&self, depth: u32) {
        self.depth.set(depth - 1);
    }
}

/// An open section. See the documentation of the module.
#[must_use = "a section that is dropped without `close` makes the session dead"]
pub struct Section<'u> {
    undo: &'u Undo,
    start: usize,
    depth: u32,
    /// The mark that a drop sets; `None` once the section has ended.
    doomed: Option<&'u Cell<bool>>,
}

impl Section<'_> {
    /// Ends the section and keeps its changes. The end is one store.
    #[inline]
    pub fn close(mut self) {
        self.doomed = None;
        failpoint("rio: before a section closes");
        let start = if planted("rio: the end of an inner section discards all images") { 0 } else { self.start };
        self.undo.cut(start);
        failpoint("rio: a section has closed");
        self.undo.leave(self.depth);
    }

    /// Ends the section and leaves its before-images to the outer section, which discards them when it closes or
    /// restores them when it is rolled back.
    #[inline]
    pub fn join_outer(mut self) {
        self.doomed = None;
        self.undo.leave(self.depth);
    }

    /// Ends the section and restores all that it changed.
    pub fn roll_back(mut self) {
        self.doomed = None;
        self.undo.roll_back_from(self.start);
        self.undo.leave(self.depth);
    }

    /// Saves the whole cache line of the word. Afterwards the section may store to all words of that line with
    /// [`Word::init`], as if no other thread could reach them.
    pub fn save_line(&mut self, word: &Word<u64>) {
        self.undo.save_line(std::ptr::from_ref(word).addr());
    }

    #[inline]
    pub(crate) fn save_word(&mut self, address: usize, bytes: usize, old: u64) {
        self.undo.save_word(address, bytes, old);
    }

    #[inline]
    pub(crate) fn save_bytes(&mut self, place: u64, old: &[u8]) {
        self.undo.save_bytes(place, old);
    }
}

impl<T: Bits> Word<T> {
    /// Changes the word inside a section, which can restore the old value.
    #[inline]
    pub fn set(&self, section: &mut Section<'_>, value: T) {
        point();
        let old = self.get().to_raw().widen();
        if planted("rio: a word changes before its before-image is saved") {
            self.init(value);
        }
        section.save_word(std::ptr::from_ref(self).addr(), T::Raw::BYTES, old);
        // Relaxed: the release of the latch that guards the word publishes the store. A kill needs only program order
        // (PROTOCOLS D15), which the compiler fence in `save_word` keeps.
        T::Raw::store(&self.0, value.to_raw(), Ordering::Relaxed);
    }
}

impl<T> Link<T> {
    /// Changes the link inside a section.
    #[inline]
    pub fn set(&self, section: &mut Section<'_>, to: Option<Offset<T>>) {
        self.0.set(section, Offset::into_raw(to));
    }
}

impl<T: Checkable> Checked<T> {
    /// As [`Word::set`].
    #[inline]
    pub fn set(&self, section: &mut Section<'_>, value: T) {
        self.0.set(section, self.encode(value));
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(doomed) = self.doomed else { return };
        if planted("rio: a panic closes the section") {
            self.undo.cut(self.start);
            self.undo.leave(self.depth);
        } else if !planted("rio: the drop of an open section does not doom its session") {
            doomed.set(true);
        }
    }
}

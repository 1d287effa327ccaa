//! A change of the heap's words, saved in the undo log of the transaction.

use std::collections::HashSet;

use rio::{Section, Undo, Word};

/// A change of the heap's words in the transaction: a section and, if it saves whole lines, the lines saved so far.
pub(crate) struct Change<'c> {
    pub(crate) section: Section<'c>,
    pub(crate) lines: Option<&'c mut HashSet<usize>>,
}

impl<'c> Change<'c> {
    /// Makes a change that saves each word.
    pub(crate) fn of(undo: &'c Undo) -> Change<'c> {
        Change { section: undo.section(), lines: None }
    }

    /// Stores a word of the heap; an abort restores the old value.
    #[inline]
    pub(crate) fn set(&mut self, word: &Word<u64>, value: u64) {
        let Some(lines) = &mut self.lines else { return word.set(&mut self.section, value) };
        if lines.insert(std::ptr::from_ref(word).addr() / 64) {
            self.section.save_line(word);
        }
        word.init(value);
    }

    /// Ends the change; the transaction keeps its before-images.
    pub(crate) fn join_outer(self) {
        self.section.join_outer();
    }
}

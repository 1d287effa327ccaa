//! Marks in a transaction: what was done since one is taken back, and the transaction goes on.
//!
//! Paper: a departure; there an abort takes everything back. The undo log is put back to where it was. What was allocated since has
//! changed words that are saved there, like anything else; what was freed since is still there, and is only not to go at the end.
//!
//! What was declared since has to be declared again before it is stored to, for its old bytes are saved no more.
//!
//! If we die here: the log has what whoever settles it needs (`rio/undo/mark.rs`). All else that is gone back to is this
//! process's.

use crate::segment::UNIT;
use crate::{Member, Result, Segment};
use rio::{planted, Right, UndoMark};

/// How far a transaction was. The default is the beginning of any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    undo: UndoMark,
    /// So much it had freed.
    freed: usize,
    /// So many ranges of pages were opened for it, where it is guarded by those.
    opened: usize,
}

impl Member {
    /// How far the transaction is here.
    pub fn mark(&self) -> Mark {
        self.segment.mark()
    }

    /// Takes back what the transaction did here since the mark, newest first; it goes on. Marks made after that one mean nothing any
    /// more. What was declared since has to be declared again.
    ///
    /// # Errors
    /// `Memory` in a child of the process that has the segment: nothing was taken back.
    ///
    /// # Panics
    /// If the undo log was hit by a store that was not for it: nothing was taken back.
    pub fn go_back(&mut self, mark: &Mark) -> Result<()> {
        self.segment.check_process()?;
        self.segment.go_back(mark);
        Ok(())
    }
}

impl Segment {
    /// How far the transaction is that is suspended.
    fn mark(&self) -> Mark {
        Mark { undo: self.undo.mark(), freed: self.freed.len(), opened: self.opened_count() }
    }

    /// Takes back what the transaction that is suspended did since the mark.
    fn go_back(&mut self, mark: &Mark) {
        if !planted("vista: what goes back leaves memory as it is") {
            self.undo.roll_back_to(mark.undo);
        }
        if !planted("vista: what was freed in a part that was taken back is gone") {
            self.freed.retain(|_, nth| *nth < mark.freed);
        }
        self.close_ranges_since(mark.opened, *mark == Mark::default());
        self.undo.set_quick(self.guarded.is_none() && self.freed.is_empty());
        // Nothing lies any more where the part had allocated what was new.
        let flat_end = (self.from + self.bytes).next_multiple_of(UNIT);
        self.view.set_end(self.heap.end().max(flat_end));
    }

    /// How many ranges of pages are open.
    fn opened_count(&self) -> usize {
        self.guarded.as_ref().map_or(0, |guarded| guarded.open.len())
    }

    /// Closes what was opened since so many ranges of pages were, but for what lies in those; what the system does not close now
    /// stays open to the transaction's end. Where a key guards, all is closed if nothing had been declared.
    fn close_ranges_since(&mut self, count: usize, is_all: bool) {
        let Some(guarded) = &mut self.guarded else { return };
        if let Some(key) = self.view.key() {
            if is_all {
                key.allow(Right::Read);
            }
            return;
        }
        for opened in guarded.open.split_off(count.min(guarded.open.len())) {
            for (from, to) in outside(opened, &guarded.open) {
                if self.view.set_writable_part(from, to, false).is_err() {
                    guarded.open.push((from, to));
                }
            }
        }
    }
}

/// What of a range lies in none of the others.
fn outside(range: (u64, u64), others: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = vec![range];
    for other in others.iter().filter(|other| other.0 < range.1 && range.0 < other.1) {
        let cut = |(from, to): (u64, u64)| [(from, to.min(other.0)), (from.max(other.1), to)];
        left = left.into_iter().flat_map(cut).filter(|(from, to)| from < to).collect();
    }
    left
}

#[cfg(test)]
mod tests;

//! Marks in a transaction. A rollback to a mark undoes all changes since the mark, and the transaction continues.
//!
//! Paper: a departure; in the paper an abort undoes the whole transaction. The undo log is rolled back to the mark.
//! Allocations since the mark have changed words of the heap, and these words are saved in the log like any other.
//! Blocks freed since the mark still exist, and the end of the transaction no longer frees them.
//!
//! A range declared since the mark has to be declared again before it is stored to, because its old bytes are no longer
//! saved.
//!
//! If we die here: the log has all that is needed to settle the transaction (`rio/undo/mark.rs`). All other state that
//! a rollback to a mark changes belongs to this process only.

use crate::heap::UNIT;
use crate::{Member, Result, Segment};
use rio::{planted, Right, UndoMark};

/// A point in a transaction. The default is the beginning of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    undo: UndoMark,
    /// The number of blocks freed before the mark.
    freed: usize,
    /// The number of page ranges opened before the mark, where pages are guarded.
    opened: usize,
}

impl Member {
    /// Returns a mark at the transaction's current point.
    pub fn mark(&self) -> Mark {
        self.segment.mark()
    }

    /// Undoes the transaction's changes to this segment since the mark, newest first; the transaction continues.
    /// Later marks become invalid. Ranges declared since the mark have to be declared again.
    ///
    /// # Errors
    /// `Memory` in a child of the process that has the segment: nothing was undone.
    ///
    /// # Panics
    /// If a wild store has damaged the undo log: nothing was undone.
    pub fn go_back(&mut self, mark: &Mark) -> Result<()> {
        self.segment.check_process()?;
        self.segment.go_back(mark);
        Ok(())
    }
}

impl Segment {
    /// Returns a mark in the suspended transaction.
    fn mark(&self) -> Mark {
        Mark { undo: self.undo.mark(), freed: self.freed.len(), opened: self.opened_count() }
    }

    /// Undoes the suspended transaction's changes since the mark.
    fn go_back(&mut self, mark: &Mark) {
        if !planted("vista: a rollback to a savepoint restores no memory") {
            self.undo.roll_back_to(mark.undo);
        }
        if !planted("vista: a rollback to a savepoint does not restore freed blocks") {
            self.freed.retain(|_, nth| *nth < mark.freed);
        }
        self.close_ranges_since(mark.opened, *mark == Mark::default());
        self.undo.set_quick(self.guarded.is_none() && self.freed.is_empty());
        // Fresh memory that was allocated since the mark is no longer allocated.
        let flat_end = (self.from + self.bytes).next_multiple_of(UNIT);
        self.view.set_end(self.heap.end().max(flat_end));
    }

    /// Returns the number of page ranges that are open.
    fn opened_count(&self) -> usize {
        self.guarded.as_ref().map_or(0, |guarded| guarded.open.len())
    }

    /// Closes the page ranges after the first `count`, except where they overlap the first `count`. A range that the
    /// system refuses to close stays open until the transaction's end. `is_all` states that no range had been declared
    /// at the mark. A protection key cannot close single ranges: it closes everything if `is_all` is set, and otherwise
    /// nothing.
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

/// Returns the parts of a range that are in no range of `others`.
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

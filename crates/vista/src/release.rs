//! Blocks that a transaction has freed go back to the heap when the transaction ends, which needs no new room.
//!
//! Paper: a departure; the paper's heap logs the call. Here the undo log saves the heap's words. One block changes a
//! few of them. For many blocks each line of the heap's words is saved once, so the undo log needs room by the number
//! of the heap's units, not of the blocks. The undo log keeps that room back: it grows before the heap gets another
//! unit. So a file that cannot grow may refuse an allocation, but never a free.
//!
//! Several threads have an undo log each. Their logs keep no room back.

use std::collections::HashSet;

use crate::change::Change;
use crate::heap::{UNDO_OF_A_CALL, UNIT};
use crate::{Result, Segment};

/// The most old bytes that one block saves by single words when it goes back.
const UNDO_OF_A_BLOCK: usize = 768;
/// The lines of a unit's entry, and of the heap's header.
const LINES: u64 = 9;
/// A line in the undo log, with its header and its checksum.
const UNDO_OF_A_LINE: u64 = 80;
/// A log of at most this length is quick; a new log has this length.
pub(crate) const UNDO_BYTES: u64 = 48 << 10;

impl Segment {
    /// Gives back every block that the transaction has freed.
    #[cold]
    pub(crate) fn release_all(&mut self) -> Result<()> {
        let freed = std::mem::take(&mut self.freed);
        let mut lines = (!self.undo.has_room(freed.len().saturating_mul(UNDO_OF_A_BLOCK))).then(HashSet::new);
        self.undo.keep_back(0);
        let released = freed.into_keys().try_for_each(|at| self.release(at + self.from, lines.as_mut()));
        self.keep_room();
        released
    }

    fn release(&mut self, place: u64, lines: Option<&mut HashSet<usize>>) -> Result<()> {
        self.reserve_undo(UNDO_OF_A_CALL)?;
        let mut change = Change { section: self.undo.section(), lines };
        match self.heap.block_at(place) {
            Some((Some((class, block)), _)) => self.heap.free_block(&mut change, place / UNIT, class, block),
            Some((None, bytes)) => self.heap.free_run(&mut change, place / UNIT, bytes / UNIT),
            None => {}
        }
        change.join_outer();
        Ok(())
    }

    /// Returns how many old bytes are saved when all blocks go back, with `more` units more than the heap has.
    fn undo_of_all(&self, more: u64) -> u64 {
        let flat_end = (self.from + self.bytes.max(self.header.bytes_max.get())) / UNIT;
        let units = (self.heap.end() / UNIT).saturating_sub(flat_end) + more;
        if units == 0 {
            return 0;
        }
        (units + 1).saturating_mul(LINES * UNDO_OF_A_LINE).saturating_add(UNDO_OF_A_CALL as u64 + 64)
    }

    /// Makes sure that the undo log has room for freeing all blocks, also when the heap has `more` more units.
    pub(crate) fn keep_room_to_free(&mut self, more: u64) -> Result<()> {
        if !self.is_shared {
            // Units for which the file has no room make no undo log longer.
            self.region().check_room(more.saturating_mul(UNIT))?;
            self.lengthen_undo(UNDO_BYTES.saturating_add(self.undo_of_all(more)))?;
            self.undo.keep_back(self.undo_of_all(more));
        }
        Ok(())
    }

    /// Keeps back the room that freeing all blocks needs, or as much of it as there is: a file of an older version
    /// may have less.
    pub(crate) fn keep_room(&mut self) {
        if !self.is_shared {
            let spare = self.undo.capacity().saturating_sub(UNDO_BYTES);
            self.undo.keep_back(self.undo_of_all(0).min(spare));
        }
    }
}

//! Blocks that a transaction has freed return to the heap when the transaction ends. The return needs no further room.
//!
//! Paper: a departure; the paper's heap logs the call. Here the undo log saves the heap's words. The return of one
//! block changes a few words. If many blocks return, each line of the heap's words is saved once. So the room that the
//! undo log needs depends on the number of the heap's units, not on the number of the blocks. That room is reserved in
//! the undo log: the log grows before the heap gets another unit. So a file that cannot grow may refuse an allocation,
//! but never a free.
//!
//! If several threads change a segment, each thread has an undo log, and these logs reserve no such room.

use std::collections::HashSet;

use crate::change::Change;
use crate::heap::{UNDO_OF_A_CALL, UNIT};
use crate::{Result, Segment};

/// Largest number of old bytes that the return of one block to the heap saves, if it saves single words.
const UNDO_OF_A_BLOCK: usize = 768;
/// The largest number of cache lines of a unit's entry, or of the heap's header.
const LINES: u64 = 9;
/// The bytes that a line takes in the undo log, with its header and its checksum.
const UNDO_OF_A_LINE: u64 = 80;
/// The length of a new log. The quick path uses only this much of a log, from its beginning (`rio/undo/quick.rs`).
pub(crate) const UNDO_BYTES: u64 = 48 << 10;

impl Segment {
    /// Returns to the heap every block that the transaction has freed.
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

    /// Returns the number of old bytes that are saved when all blocks return to the heap, if the heap had `more`
    /// further units.
    fn undo_of_all(&self, more: u64) -> u64 {
        let flat_end = (self.from + self.bytes.max(self.header.bytes_max.get())) / UNIT;
        let units = (self.heap.end() / UNIT).saturating_sub(flat_end) + more;
        if units == 0 {
            return 0;
        }
        (units + 1).saturating_mul(LINES * UNDO_OF_A_LINE).saturating_add(UNDO_OF_A_CALL as u64 + 64)
    }

    /// Makes sure that the undo log has room for freeing all blocks, even after the heap gets `more` further units.
    pub(crate) fn keep_room_to_free(&mut self, more: u64) -> Result<()> {
        if !self.is_shared {
            // If the file has no room for the units, the undo log is not made longer for them.
            self.region().check_room(more.saturating_mul(UNIT))?;
            self.lengthen_undo(UNDO_BYTES.saturating_add(self.undo_of_all(more)))?;
            self.undo.keep_back(self.undo_of_all(more));
        }
        Ok(())
    }

    /// Reserves in the undo log the room that freeing all blocks needs, or as much of it as the log has: a file of an
    /// older version may have less.
    pub(crate) fn keep_room(&mut self) {
        if !self.is_shared {
            let spare = self.undo.capacity().saturating_sub(UNDO_BYTES);
            self.undo.keep_back(self.undo_of_all(0).min(spare));
        }
    }
}

//! The heap's `malloc`: a block for a segment's transaction, from a unit of its class, a free run, or fresh units.

use crate::change::Change;
use crate::heap::{class_of, LARGE, SMALL, SMALL_MAX, UNDO_OF_A_CALL, UNIT};
use crate::{Result, Segment};

impl Segment {
    /// Allocates a block of at least `bytes` bytes and returns its place.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Result<u64> {
        self.reserve_undo(UNDO_OF_A_CALL)?;
        if bytes > SMALL_MAX {
            return Ok(self.take_run(bytes.div_ceil(UNIT), LARGE)? * UNIT);
        }
        let class = class_of(bytes);
        let unit = match self.heap.header.partial[class].get() {
            0 => self.take_run(1, SMALL + class as u64)?,
            unit => unit,
        };
        let mut change = Change::of(&self.undo);
        let place = self.heap.take_block(&mut change, unit, class);
        change.join_outer();
        Ok(place)
    }

    /// Returns whether a block begins at the position `at`.
    pub(crate) fn is_block(&self, at: u64) -> bool {
        at.checked_add(self.from).is_some_and(|place| self.heap.block_at(place).is_some())
    }

    /// Takes `units` adjacent units, from a free run or from the fresh units.
    fn take_run(&mut self, units: u64, kind: u64) -> Result<u64> {
        let mut change = Change::of(&self.undo);
        let run = match self.heap.find_run(&mut change, units) {
            Some(run) => run,
            None => {
                change.join_outer();
                self.keep_room_to_free(units)?;
                self.add_fresh(units)?;
                let run = self.heap.header.fresh[0].get();
                self.view.set_end((run + units) * UNIT);
                change = Change::of(&self.undo);
                change.set(&self.heap.header.fresh[0], run + units);
                run
            }
        };
        self.heap.begin_run(&mut change, run, units, kind);
        change.join_outer();
        Ok(run)
    }
}

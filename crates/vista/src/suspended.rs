//! A transaction between two calls of somebody who cannot hold a [`Txn`]: the door for C, and for who ends it otherwise.

use std::mem::ManuallyDrop;

use crate::{Result, Segment, Txn};
use rio::Quick;

impl Txn<'_> {
    /// Leaves the transaction as it is, to be taken up by [`Segment::resume`]. Until then the segment shows what it stored;
    /// [`Segment::begin`] takes it back.
    pub fn suspend(self) {
        self.segment.undo.set_top(self.top);
        std::mem::forget(self);
    }
}

impl Segment {
    /// Takes up the transaction that was suspended; if none was, begins one.
    pub fn resume(&mut self) -> Txn<'_> {
        let top = self.undo.take_top();
        Txn { segment: Quick::new(self), top }
    }

    /// As [`Txn::set_range`](crate::Txn::set_range), of a transaction that is suspended and stays so.
    pub(crate) fn save_range_suspended(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        let top = self.undo.take_top();
        self.undo.set_top(top);
        if !self.undo.has_quick_room(top, bytes) {
            self.prepare_range(at, bytes)?;
        }
        let Some(shown) = self.view.look(at, bytes) else { return Err(self.out_of_range(at, bytes)) };
        let (range, top) = shown.range(&mut self.owner, &self.undo, top);
        self.undo.set_top(top);
        Ok(range)
    }

    /// Does something in the transaction that is suspended, and leaves it so.
    pub(crate) fn in_suspended<R>(&mut self, work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
        // Its end is somebody else's, also if the work panics.
        let mut txn = ManuallyDrop::new(self.resume());
        let done = work(&mut txn);
        txn.segment.undo.set_top(txn.top);
        done
    }
}

//! A transaction between two calls of somebody who cannot hold a [`Txn`]: the door for C.

use crate::{Segment, Txn};

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
        Txn { top: self.undo.take_top(), segment: self }
    }
}

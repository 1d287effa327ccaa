//! A transaction suspended between two calls, for callers that cannot hold a [`Txn`]: C programs, and members, whose
//! transactions end in another way.

use std::mem::ManuallyDrop;

use crate::{Result, Segment, Txn};
use rio::Quick;

impl Txn<'_> {
    /// Leaves the transaction open, for [`Segment::resume`]. Meanwhile the segment shows the transaction's stores. If
    /// [`Segment::begin`] is called before [`Segment::resume`], it undoes the stores.
    pub fn suspend(self) {
        self.segment.undo.set_top(self.top);
        std::mem::forget(self);
    }
}

impl Segment {
    /// Resumes the suspended transaction; begins a transaction if no transaction is suspended.
    pub fn resume(&mut self) -> Txn<'_> {
        let top = self.undo.take_top();
        Txn { segment: Quick::new(self), top }
    }

    /// As [`Txn::set_range`](crate::Txn::set_range), for a suspended transaction, which stays suspended.
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

    /// Does `work` in the suspended transaction, and leaves it suspended.
    pub(crate) fn in_suspended<R>(&mut self, work: impl FnOnce(&mut Txn<'_>) -> R) -> R {
        // The transaction is not dropped, even if the work panics: another caller ends it.
        let mut txn = ManuallyDrop::new(self.resume());
        let done = work(&mut txn);
        txn.segment.undo.set_top(txn.top);
        done
    }
}

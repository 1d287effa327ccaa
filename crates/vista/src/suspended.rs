//! A transaction between two calls of somebody who cannot hold a [`Txn`]: the door for C.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::{Memory, Result, Segment, Txn};

/// A transaction that was taken up and is left as it is when this goes: somebody else ends it.
pub struct Resumed<'s>(ManuallyDrop<Txn<'s>>);

impl<'s> Deref for Resumed<'s> {
    type Target = Txn<'s>;

    fn deref(&self) -> &Txn<'s> {
        &self.0
    }
}

impl<'s> DerefMut for Resumed<'s> {
    fn deref_mut(&mut self) -> &mut Txn<'s> {
        &mut self.0
    }
}

impl Drop for Resumed<'_> {
    fn drop(&mut self) {
        self.0.segment.undo.set_top(self.0.top);
    }
}

impl Memory for Resumed<'_> {
    fn segment(&self) -> &Segment {
        self.0.segment()
    }
}

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

    /// Declares a range of the suspended transaction, which stays so.
    pub(crate) fn set_range_suspended(&mut self, at: u64, bytes: usize) -> Result<&mut [u8]> {
        self.prepare_range(at, bytes)?;
        let Some(shown) = self.view.look(at, bytes) else { return Err(self.out_of_range(at, bytes)) };
        let (range, top) = shown.range(&mut self.owner, &self.undo, self.undo.take_top());
        self.undo.set_top(top);
        Ok(range)
    }

    /// As [`Segment::resume`], for who does not end it.
    pub(crate) fn resume_shortly(&mut self) -> Resumed<'_> {
        Resumed(ManuallyDrop::new(self.resume()))
    }
}

//! A transaction between two calls of somebody who cannot hold a [`Txn`]: the door for C.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use crate::{Memory, Segment, Txn};

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

impl Memory for Resumed<'_> {
    fn segment(&self) -> &Segment {
        self.0.segment()
    }
}

impl Txn<'_> {
    /// Leaves the transaction as it is, to be taken up by [`Segment::resume`]. Until then the segment shows what it stored;
    /// [`Segment::begin`] takes it back.
    pub fn suspend(self) {
        std::mem::forget(self);
    }
}

impl Segment {
    /// Takes up the transaction that was suspended; if none was, begins one.
    pub fn resume(&mut self) -> Txn<'_> {
        Txn { segment: self }
    }

    /// As [`Segment::resume`], for who does not end it.
    pub(crate) fn resume_shortly(&mut self) -> Resumed<'_> {
        Resumed(ManuallyDrop::new(self.resume()))
    }
}

//! The handle of a segment has the segment's bytes to itself.
//!
//! The `unsafe` is a promise to the undo log, which keeps addresses of the segment as long as a transaction lasts.
#![allow(unsafe_code)]

use crate::Segment;
use rio::{ExclusiveHold, Parts, SharedHold, Undo, View};

/// Proof of having the segment: one handle at a time has it, so a borrower of this value has the bytes to itself.
pub struct Owner(());
// SAFETY: one handle has one, and the segment's file; where several handles share the file, one at a time is between
// its begin and its end.
unsafe impl SharedHold for Owner {}
// SAFETY: as above; a mutable borrow of it is a mutable borrow of the handle.
unsafe impl ExclusiveHold for Owner {}

impl Owner {
    /// Makes the owner of the one handle.
    pub(crate) fn new() -> Owner {
        Owner(())
    }
}

// SAFETY: only a mutable borrower of the segment changes its view or its log, and no other handle has its file.
unsafe impl Parts for Segment {
    type Hold = Owner;

    #[inline(always)]
    fn parts(&mut self) -> (&View, &Undo, &mut Owner) {
        (&self.view, &self.undo, &mut self.owner)
    }
}

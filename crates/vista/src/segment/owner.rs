//! The handle of a segment has exclusive access to the segment's bytes.
//!
//! `unsafe` makes a promise to the undo log, which keeps addresses of the segment for as long as a transaction lasts.
#![allow(unsafe_code)]

use crate::Segment;
use rio::{ExclusiveHold, Parts, SharedHold, Undo, View};

/// Proves that a handle has the segment: one handle at a time has this value. So no other code uses the segment's bytes
/// while this value is borrowed.
pub struct Owner(());
// SAFETY: only one handle has an `Owner`, and that handle has the segment's file. Where several handles share the file,
// only one of them at a time is between its begin and its end.
unsafe impl SharedHold for Owner {}
// SAFETY: as above; a mutable borrow of the owner needs a mutable borrow of the handle.
unsafe impl ExclusiveHold for Owner {}

impl Owner {
    /// Makes the owner of the one handle.
    pub(crate) fn new() -> Owner {
        Owner(())
    }
}

// SAFETY: only a mutable borrower of the segment changes its view or its log, and no other handle has the segment's
// file.
unsafe impl Parts for Segment {
    type Hold = Owner;

    #[inline(always)]
    fn parts(&mut self) -> (&View, &Undo, &mut Owner) {
        (&self.view, &self.undo, &mut self.owner)
    }
}

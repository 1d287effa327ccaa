//! Who has a segment has its bytes to himself.
//!
//! The `unsafe` is a promise to the undo log, which keeps addresses of the segment as long as a transaction lasts.
#![allow(unsafe_code)]

use crate::Segment;
use rio::{ExclusiveHold, Parts, SharedHold, Undo, View};

/// Proof of having the segment: one handle at a time does, so who borrows it has the bytes to himself.
pub struct Owner(());
// SAFETY: one handle has one, and the segment's file; where several share that, one at a time is between its begin and its end.
unsafe impl SharedHold for Owner {}
// SAFETY: as above; who borrows it mutably has borrowed the handle so.
unsafe impl ExclusiveHold for Owner {}

impl Owner {
    /// For the one handle.
    pub(crate) fn new() -> Owner {
        Owner(())
    }
}

// SAFETY: only what borrows the segment mutably changes its view or its log, and nobody else has its file.
unsafe impl Parts for Segment {
    type Hold = Owner;

    #[inline(always)]
    fn parts(&mut self) -> (&View, &Undo, &mut Owner) {
        (&self.view, &self.undo, &mut self.owner)
    }
}

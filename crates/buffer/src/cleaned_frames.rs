//! Frames that this process has just written so that they can be replaced.
//!
//! Paper: none; LIBTP writes one victim at a time. Here a session that needs one frame writes a batch, and the other
//! frames of the batch are for the sessions that need a frame next. Without this list, the policy would return to
//! these frames only after a whole round. Sessions would first find other dirty frames, and write another batch for
//! each page.
//!
//! Invariant: an entry is only a hint. A frame is taken only if it is clean, is not in use, and was not used after the
//! write.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rio::{Offset, Region};

use crate::frame::FrameSlot;
use crate::PageId;

/// A frame, its page, and its word `used` when the policy chose it.
type Chosen = (Offset<FrameSlot>, PageId, u32);

/// The frames of a pool part that can be replaced next, in the policy's order.
#[derive(Default)]
pub(crate) struct CleanedFrames(Mutex<VecDeque<Chosen>>);

impl CleanedFrames {
    fn chosen(&self) -> MutexGuard<'_, VecDeque<Chosen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the entries by frames that were just written: the old entries are more likely to be in use or dirty.
    pub(crate) fn put(&self, region: &Region, written: &[&FrameSlot]) {
        let mut chosen = self.chosen();
        chosen.clear();
        chosen.extend(written.iter().map(|slot| (region.offset_of(*slot), slot.page.load(), slot.used.get())));
    }

    /// Returns the next frame that was not used since it was written. It may be dirty again.
    pub(crate) fn next<'s>(&self, region: &'s Region) -> Option<&'s FrameSlot> {
        loop {
            let (place, page, used) = self.chosen().pop_front()?;
            let slot = region.at(place);
            if slot.page.load() == page && slot.used.get() == used {
                return Some(slot);
            }
        }
    }
}

//! Frames that this process has just written so that they can make room.
//!
//! Paper: none; LIBTP writes one victim at a time. Here a batch is written for one that is needed, and the rest of it is for
//! those that will be needed next: the policy has passed by all of them, and would come back to them only after a round
//! of frames that are dirty too, each batch of which would have to be written for one more page.
//!
//! Invariant: what stands here is a guess. A frame is taken only if it is still clean, in nobody's use, and was not used since.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rio::{Offset, Region};

use crate::frame::FrameSlot;
use crate::PageId;

/// A frame, its page, and what it said of its last use when the policy chose it.
type Chosen = (Offset<FrameSlot>, PageId, u32);

/// Frames of a shelf that can go next, in the policy's order.
#[derive(Default)]
pub(crate) struct Cleaned(Mutex<VecDeque<Chosen>>);

impl Cleaned {
    fn chosen(&self) -> MutexGuard<'_, VecDeque<Chosen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those are written. What stood here before is older than that, and goes.
    pub(crate) fn put(&self, region: &Region, written: &[&FrameSlot]) {
        let mut chosen = self.chosen();
        chosen.clear();
        chosen.extend(written.iter().map(|slot| (region.offset_of(*slot), slot.page.load(), slot.used.get())));
    }

    /// The next that was not used since; it may be dirty again.
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

//! Hints: the frames in which this process last found pages. Any value is harmless, because the caller checks the
//! frame.

use rio::{Place, Region, Remembered};

use crate::frame::FrameSlot;
use crate::PageId;

/// The frames in which this process last found pages, and the places of the pages' bytes.
///
/// Indexed by page number, so that the hints of neighbouring pages, and of the hot pages of a tree, share cache lines.
pub(crate) struct Hints(Remembered<FrameSlot, HINTS>);

/// The number of hints: enough for 512 MiB in pages of 4 KiB. If there are more pages, some pages share a hint.
const HINTS: usize = 1 << 17;

impl Hints {
    pub(crate) fn new(region: &Region) -> Hints {
        Hints(Remembered::new(region))
    }

    #[inline]
    fn number(id: PageId) -> usize {
        // Files begin far from each other: the multiplier is 2^32 divided by the golden ratio.
        id.page().raw().wrapping_add(id.file().raw().wrapping_mul(0x9e37_79b9)) as usize
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: PageId) -> Place<'_, FrameSlot> {
        self.0.get(Hints::number(id))
    }

    pub(crate) fn set(&self, id: PageId, slot: &FrameSlot) {
        self.0.set(Hints::number(id), slot, slot.area.get().data());
    }
}

//! Hints: where this process last found pages. Any value is harmless: the caller checks the frame.

use std::sync::atomic::{AtomicU64, Ordering};

use rio::{Bytes, Offset};

use crate::frame::FrameSlot;
use crate::PageId;

/// Where this process last found pages. Any value is harmless.
///
/// Indexed by page number, so that the hints of neighbouring pages, and of the hot ones of a tree, share cache lines.
pub(crate) struct Hints(Box<[AtomicU64; HINTS]>);

/// The number of hints: for 512 MiB of pages of 4 KiB. Of more pages, some share a hint.
const HINTS: usize = 1 << 17;
/// The alignment of slots.
const SLOT_ALIGN: u64 = 64;
/// The alignment of data areas. In these units both places fit one word, for all of a region but its far end.
const DATA_ALIGN: u64 = 4096;

/// One hint. The frame's slot, in units of its alignment, in the low half; its data area, likewise, in the high half.
#[derive(Clone, Copy)]
pub(crate) struct Hint(u64);

impl Hint {
    #[inline]
    pub(crate) fn slot(self) -> Option<Offset<FrameSlot>> {
        Offset::from_raw((self.0 & u64::from(u32::MAX)) * SLOT_ALIGN)
    }

    #[inline]
    pub(crate) fn data(self) -> Option<Offset<Bytes>> {
        Offset::from_raw((self.0 >> 32) * DATA_ALIGN)
    }
}

impl Hints {
    pub(crate) fn new() -> Hints {
        let zeros: Box<[AtomicU64]> = (0..HINTS).map(|_| AtomicU64::new(0)).collect();
        Hints(zeros.try_into().unwrap_or_else(|_| unreachable!("there are as many as were made")))
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the low bits are wanted
    fn of(&self, id: PageId) -> &AtomicU64 {
        // Files begin far from each other: the multiplier is 2^32 over the golden ratio.
        let place = id.page().raw().wrapping_add(id.file().raw().wrapping_mul(0x9e37_79b9));
        &self.0[place as usize % HINTS]
    }

    #[inline]
    pub(crate) fn get(&self, id: PageId) -> Hint {
        // Relaxed: the slot that the hint leads to is read with acquire.
        Hint(self.of(id).load(Ordering::Relaxed))
    }

    pub(crate) fn set(&self, id: PageId, place: Offset<FrameSlot>, data: Option<Offset<Bytes>>) {
        let slot = u32::try_from(place.raw() / SLOT_ALIGN);
        let data = u32::try_from(Offset::into_raw(data) / DATA_ALIGN);
        if let (Ok(slot), Ok(data)) = (slot, data) {
            self.of(id).store(u64::from(data) << 32 | u64::from(slot), Ordering::Relaxed);
        }
    }
}

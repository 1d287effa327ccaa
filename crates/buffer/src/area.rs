//! A frame's data area and its pool part, in one word of the frame's slot.

use rio::{bits, Bytes, Offset};

/// The place of a frame's page in the region, and the pool part that owns the frame.
///
/// A region has at most 2^40 bytes, so the upper 40 bits are the place, and the lower 24 bits are the pool and the page
/// size. Each of place and page size is decoded by one instruction, because every use of a page needs both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Area(u64);
bits!(Area: u64);

const PLACE_AT: u32 = 24;
const POOL_AT: u32 = 5;
const SHIFT_BITS: u32 = (1 << POOL_AT) - 1;
/// The greatest number of a pool.
pub(crate) const POOLS_MAX: u32 = (1 << (PLACE_AT - POOL_AT)) - 1;

impl Area {
    /// Returns the word for the area at `data`, of the pool part with this pool number and this log2 of the page size.
    ///
    /// # Panics
    /// If `data` is outside every possible region, or no pool part can have this pool number and page size.
    pub(crate) fn new(data: Offset<Bytes>, (pool, page_shift): (u32, u32)) -> Area {
        let fits = data.raw() >> (u64::BITS - PLACE_AT) == 0 && pool <= POOLS_MAX && page_shift <= SHIFT_BITS;
        assert!(fits, "the place, the pool and the page size fit into one word");
        Area(data.raw() << PLACE_AT | u64::from(pool << POOL_AT | page_shift))
    }

    /// Returns the place of the page's bytes; `None` if the frame has no area yet.
    #[inline(always)]
    pub(crate) fn data(self) -> Option<Offset<Bytes>> {
        Offset::from_raw(self.0 >> PLACE_AT)
    }

    /// Returns the bytes of a page.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the shift uses only the lowest five bits
    pub(crate) fn page_bytes(self) -> usize {
        1_u32.wrapping_shl(self.0 as u32) as usize
    }

    /// Returns the pool part: its pool's number, and log2 of its page size.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // the cast removes a part of the place, and the masks remove the rest
    pub(crate) fn pool_part(self) -> (u32, u32) {
        let low = self.0 as u32;
        (low >> POOL_AT & POOLS_MAX, low & SHIFT_BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_keeps_its_place_its_size_and_its_pool() {
        for (place, pool, shift) in [(4096, 1, 12), ((1 << 40) - 65536, POOLS_MAX, 16), (1 << 30, 77, 13)] {
            let data = Offset::from_raw(place).unwrap();
            let area = Area::new(data, (pool, shift));
            assert_eq!((area.data(), area.page_bytes(), area.pool_part()), (Some(data), 1 << shift, (pool, shift)));
        }
        assert_eq!(Area(0).data(), None);
    }
}

//! A page of a recno file: an array of records of one length, each after its LSN.
//!
//! Paper: LIBTP 4.4, "fixed length recno". Record `n` (from 1) is on page `2 + (n - 1) / per page`, in slot `(n - 1) %
//! per page`. So there are no searches, splits or moves.
//!
//! ```text
//! 0       32     36             40          48
//! | common | used | record bytes | unused 8 | slot 0: [LSN and flags 8][record] | slot 1 ...
//! ```
//!
//! A slot of zeros was never used. A slot with the ghost flag has no record; its bytes are zeros.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::page::free_pages::FIRST_PAGE;
use crate::page::record_lsn::{unpack_lsn, RecordFlags};
use crate::page::PageKind;
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_log::Lsn;

/// The offset of the header.
pub const HEADER_AT: usize = 32;
/// The offset of the first slot.
pub const SLOTS_AT: usize = 48;
/// Bytes of a slot before the record.
pub const SLOT_HEAD: usize = 8;

/// Bytes 32 to 47 of a recno page. See docs/formats/recno.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct RecnoHeader {
    /// 32: the first slot that was never used.
    pub used: U32,
    /// 36: bytes of every record.
    pub record_bytes: U32,
    /// 40: zero.
    pub unused: U64,
}

const _: () = assert!(size_of::<RecnoHeader>() == SLOTS_AT - HEADER_AT);

/// The arithmetic from record numbers to pages and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arithmetic {
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Records on a page.
    pub per_page: u32,
}

impl Arithmetic {
    /// Returns the arithmetic for pages and records of these sizes; `None` if a record does not fit a page, or has no
    /// bytes.
    pub fn new(page_bytes: usize, record_bytes: usize) -> Option<Arithmetic> {
        let per_page = page_bytes.checked_sub(SLOTS_AT)? / (record_bytes.checked_add(SLOT_HEAD)?);
        let per_page = u32::try_from(per_page).ok()?;
        (record_bytes != 0 && per_page != 0).then_some(Arithmetic { record_bytes, per_page })
    }

    /// Returns the page and slot of a record; `None` if the record's page number would be too large.
    #[inline]
    pub fn place(&self, number: u64) -> Option<(u32, usize)> {
        let index = number.checked_sub(1)?;
        let page = u32::try_from(index / u64::from(self.per_page)).ok()?.checked_add(FIRST_PAGE)?;
        Some((page, usize::try_from(index % u64::from(self.per_page)).ok()?))
    }

    /// Returns the number of the record at a slot of a page.
    #[inline]
    pub fn number(&self, page: u32, slot: usize) -> u64 {
        u64::from(page.saturating_sub(FIRST_PAGE)) * u64::from(self.per_page) + slot as u64 + 1
    }
}

/// A slot of a recno page.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'p> {
    /// The LSN of the slot's last change; `Lsn::NONE` if the slot was never used, or its insertion was undone.
    pub lsn: Lsn,
    /// The flags of the record.
    pub flags: RecordFlags,
    /// The bytes of the record.
    pub bytes: &'p [u8],
}

impl Slot<'_> {
    /// Returns whether the slot has a record.
    #[inline]
    pub fn is_record(&self) -> bool {
        !self.lsn.is_none() && !self.flags.has(RecordFlags::GHOST)
    }
}

/// A recno page, for reading.
#[derive(Clone, Copy)]
pub struct RecnoPage<'p> {
    page: &'p [u8],
    header: &'p RecnoHeader,
}

impl<'p> RecnoPage<'p> {
    /// Reads a page; `None` if the page is no recno page or contradicts itself.
    #[inline]
    pub fn over(page: &'p [u8]) -> Option<RecnoPage<'p>> {
        if page_header::kind(page) != PageKind::Recno as u8 {
            return None;
        }
        let header = RecnoHeader::ref_from_bytes(page.get(HEADER_AT..SLOTS_AT)?).ok()?;
        let this = RecnoPage { page, header };
        let end = (header.used.get() as usize).checked_mul(this.stride())?.checked_add(SLOTS_AT)?;
        (end <= page.len()).then_some(this)
    }

    /// Returns the first eight bytes of the header, with `used` as the count of used slots.
    #[inline]
    pub fn with_used(&self, used: u32) -> [u8; 8] {
        let [count, length] = [used.to_le_bytes(), self.header.record_bytes.get().to_le_bytes()];
        [count[0], count[1], count[2], count[3], length[0], length[1], length[2], length[3]]
    }

    #[inline]
    fn stride(&self) -> usize {
        SLOT_HEAD + self.record_bytes()
    }

    /// Returns the bytes of every record.
    #[inline]
    pub fn record_bytes(&self) -> usize {
        self.header.record_bytes.get() as usize
    }

    /// Returns the first slot that was never used.
    #[inline]
    pub fn used(&self) -> usize {
        self.header.used.get() as usize
    }

    /// Returns the number of slots of the page.
    pub fn capacity(&self) -> usize {
        (self.page.len() - SLOTS_AT) / self.stride()
    }

    /// Returns the offset of a slot, if the page has the slot.
    #[inline]
    pub fn slot_at(&self, slot: usize) -> Option<usize> {
        let at = slot.checked_mul(self.stride())?.checked_add(SLOTS_AT)?;
        (at.checked_add(self.stride())? <= self.page.len()).then_some(at)
    }

    /// Returns a slot; `None` if the page has no such slot.
    #[inline]
    pub fn slot(&self, slot: usize) -> Option<Slot<'p>> {
        let at = self.slot_at(slot)?;
        let bytes = self.page.get(at..at + self.stride())?;
        let (head, bytes) = bytes.split_first_chunk::<SLOT_HEAD>()?;
        let (lsn, flags) = unpack_lsn(u64::from_le_bytes(*head));
        Some(Slot { lsn, flags, bytes })
    }
}

/// Makes a new recno page without used slots.
pub fn make_new(page: &mut PageMut<'_, '_>, (file, number): (u32, u32), record_bytes: u32) {
    let is_blank = page_header::is_blank(page);
    let bytes = page.fresh();
    let to_clear = if is_blank { &mut bytes[..HEADER_AT] } else { &mut *bytes };
    page_header::make_new(to_clear, file, number, PageKind::Recno as u8, 0);
    let header = RecnoHeader { record_bytes: record_bytes.into(), ..RecnoHeader::default() };
    bytes[HEADER_AT..SLOTS_AT].copy_from_slice(header.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_one_place_and_every_place_one_number() {
        let arithmetic = Arithmetic::new(4096, 100).unwrap();
        assert_eq!(arithmetic.per_page, 37);
        assert_eq!(arithmetic.place(0), None);
        assert_eq!(arithmetic.place(1), Some((2, 0)));
        assert_eq!(arithmetic.place(37), Some((2, 36)));
        assert_eq!(arithmetic.place(38), Some((3, 0)));
        for number in 1..1000 {
            let (page, slot) = arithmetic.place(number).unwrap();
            assert_eq!(arithmetic.number(page, slot), number);
        }
        assert_eq!(arithmetic.place(u64::MAX), None);
    }

    #[test]
    fn a_record_is_not_empty_and_fits_on_a_page() {
        assert!(Arithmetic::new(4096, 0).is_none());
        assert_eq!(Arithmetic::new(4096, 4040).unwrap().per_page, 1);
        assert!(Arithmetic::new(4096, 4041).is_none());
        assert!(Arithmetic::new(4096, usize::MAX).is_none());
    }
}

//! The first 32 bytes of every page, and the checksum of the whole page.
//!
//! The buffer manager knows only these bytes of a page. The byte table is docs/formats/page.md.
//!
//! Invariants
//! 1. In memory the checksum field is zero; it is filled in the private copy that is written to the disk (PROTOCOLS
//!    L8).
//! 2. The checksum covers the page's own number and file, so a page at the offset of another page is noticed.
//! 3. A page that is all zeros was never written: it is legal and has LSN 0 (PROTOCOLS F3).

use std::fmt;
use std::num::NonZeroU16;

use libtp_log::Lsn;
use rio::planted;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PageId;

/// Bytes of the common header.
pub const PAGE_HEADER_BYTES: usize = 32;
/// The smallest page.
pub const PAGE_BYTES_MIN: u32 = 4 << 10;
/// The largest page.
pub const PAGE_BYTES_MAX: u32 = 64 << 10;
/// The page size of a database that does not choose one.
pub const PAGE_BYTES_DEFAULT: u32 = 8 << 10;

const LSN_FIELD: std::ops::Range<usize> = 8..16;
const INCARNATION_FIELD: std::ops::Range<usize> = 22..24;

/// Returns whether a planted bug is active that the log itself must notice. Then the check of pages does not report
/// that the log's end was lost.
fn is_left_to_the_log() -> bool {
    planted("log: no flush marks are written") || planted("log: a new incarnation is written to only one slot")
}

/// The common header, as it is on the disk.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout)]
#[repr(C)]
pub struct PageHeader {
    /// 00-03 CRC-32C of the page with this field zero; zero in memory.
    pub checksum: U32,
    /// 04-07 The page's own number.
    pub page_no: U32,
    /// 08-15 LSN of the last record that changed the page.
    pub page_lsn: U64,
    /// 16-19 The file of the page.
    pub file_id: U32,
    /// 20 The kind of the page; zero on a page that was never made.
    pub kind: u8,
    /// 21 Zero for a leaf, one more for each level above.
    pub level: u8,
    /// 22-23 The mark of the log's incarnation that wrote the record of `page_lsn`
    /// ([`libtp_log::LogManager::incarnation_mark`]), stored when the page was last written to the disk. Zero in
    /// memory, and zero on the disk if that incarnation was not known.
    pub incarnation: U16,
    /// 24-31 Highest LSN of a delete whose ghost was removed from the page.
    pub deleter_lsn: U64,
}

const _: () = {
    assert!(size_of::<PageHeader>() == PAGE_HEADER_BYTES);
    assert!(std::mem::offset_of!(PageHeader, page_lsn) == LSN_FIELD.start);
    assert!(std::mem::offset_of!(PageHeader, file_id) == 16);
    assert!(std::mem::offset_of!(PageHeader, incarnation) == INCARNATION_FIELD.start);
    assert!(std::mem::offset_of!(PageHeader, deleter_lsn) == 24);
};

impl PageHeader {
    /// Returns the header of a page.
    ///
    /// # Panics
    /// If `page` is shorter than a header. Every page is longer.
    #[inline]
    pub fn of(page: &[u8]) -> &PageHeader {
        PageHeader::ref_from_prefix(page).expect("every page is longer than its header").0
    }

    /// Returns a header for a new page, with LSN 0.
    pub fn new(id: PageId, kind: u8, level: u8) -> PageHeader {
        PageHeader {
            checksum: U32::ZERO,
            page_no: U32::new(id.page().raw()),
            page_lsn: U64::ZERO,
            file_id: U32::new(id.file().raw()),
            kind,
            level,
            incarnation: U16::ZERO,
            deleter_lsn: U64::ZERO,
        }
    }
}

/// Returns the page's LSN.
#[inline]
pub fn page_lsn(page: &[u8]) -> Lsn {
    Lsn::new(PageHeader::of(page).page_lsn.get())
}

/// Returns the range of the header that has the checksum.
pub(crate) fn checksum_field() -> std::ops::Range<usize> {
    0..4
}

/// Returns the range of the header that has the mark of the log's incarnation.
pub(crate) fn incarnation_field() -> std::ops::Range<usize> {
    INCARNATION_FIELD
}

/// Returns the range of the header that has the LSN.
#[inline]
pub(crate) fn lsn_field() -> std::ops::Range<usize> {
    LSN_FIELD
}

/// Returns whether `page_bytes` is a page size that this library supports: a power of two from 4 KiB to 64 KiB.
pub fn is_page_size(page_bytes: u32) -> bool {
    page_bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&page_bytes)
}

/// The reason why the bytes at a page's offset are not that page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// The bytes are not the written bytes: a torn write, bits changed by the disk, or garbage.
    Checksum {
        /// The checksum on the page.
        stored: u32,
        /// The checksum of the page's bytes.
        computed: u32,
    },
    /// The bytes are another page.
    Misplaced {
        /// The page that was found there.
        found: PageId,
    },
    /// The page's LSN is beyond the end of the log.
    BeyondLog {
        /// The page's LSN.
        page_lsn: Lsn,
        /// The end of the log.
        log_end: Lsn,
    },
    /// An earlier restart found the log's end before the page's last log record, and other records have been written
    /// from that end on.
    LostIncarnation {
        /// The page's LSN.
        page_lsn: Lsn,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Checksum { stored, computed } => {
                write!(f, "its checksum is {stored:#010x}, and the checksum of its bytes is {computed:#010x}")
            }
            Damage::Misplaced { found } => write!(f, "{found} is in its place"),
            Damage::BeyondLog { page_lsn, log_end } => {
                write!(f, "its LSN is {page_lsn}, but the log ends at {log_end}")
            }
            Damage::LostIncarnation { page_lsn } => {
                write!(f, "the log record of its last change, at LSN {page_lsn}, was lost before a restart, and other records are in its place")
            }
        }
    }
}

/// Returns the CRC-32C of a page, computed as if its checksum field were zero.
pub fn checksum(page: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&[0; 4]), &page[4..])
}

/// Puts the checksum into a private copy of a page. A page that was never made stays all zeros.
pub fn seal(page: &mut [u8]) {
    if is_zero(page) {
        return;
    }
    let sum = checksum(page);
    page[checksum_field()].copy_from_slice(&sum.to_le_bytes());
}

/// Returns whether the page was never written.
pub fn is_zero(page: &[u8]) -> bool {
    // Compares the page with itself, shifted by one byte: this is many times faster than a check byte by byte.
    page.first().is_none_or(|&first| first == 0 && page[1..] == page[..page.len() - 1])
}

/// Checks that `page`, as read from the disk, is the page `id`, or was never written.
///
/// # Errors
/// [`Damage::Checksum`] and [`Damage::Misplaced`].
pub fn check(page: &[u8], id: PageId) -> Result<(), Damage> {
    let header = PageHeader::of(page);
    let stored = header.checksum.get();
    // The first word is nearly always sufficient. Only a page with checksum zero is read to its end.
    if stored == 0 && is_zero(page) {
        return Ok(());
    }
    let computed = checksum(page);
    if stored != computed {
        return Err(Damage::Checksum { stored, computed });
    }
    belongs(page, id)
}

/// Checks that the header names page `id`.
///
/// # Errors
/// [`Damage::Misplaced`].
pub fn belongs(page: &[u8], id: PageId) -> Result<(), Damage> {
    let header = PageHeader::of(page);
    let found = PageId::new(crate::FileId::new(header.file_id.get()), crate::PageNo::new(header.page_no.get()));
    if found == id {
        Ok(())
    } else {
        Err(Damage::Misplaced { found })
    }
}

/// Stores `incarnation` into a private copy of a page, before the copy is sealed. `incarnation` is the mark of the
/// log's incarnation that wrote the record of the page's last change.
pub fn mark_incarnation(page: &mut [u8], incarnation: Option<NonZeroU16>) {
    if !page_lsn(page).is_none() {
        page[INCARNATION_FIELD].copy_from_slice(&incarnation.map_or(0, NonZeroU16::get).to_le_bytes());
    }
}

/// Checks the page as [`check`] does, and checks that the log has the record of the page's last change (PROTOCOLS L8).
/// The page's LSN must not be beyond the end of the log. It must also not be beyond an end that an earlier restart
/// found: the log grows again from that end, and soon ends after the LSN of a page whose record was lost.
///
/// # Errors
/// Each [`Damage`].
pub fn check_read(
    page: &[u8],
    id: PageId,
    log_end: Lsn,
    incarnation_at: impl Fn(Lsn) -> Option<NonZeroU16>,
) -> Result<(), Damage> {
    check(page, id)?;
    let page_lsn = page_lsn(page);
    if page_lsn.is_none() {
        return Ok(());
    }
    if page_lsn >= log_end {
        return Err(Damage::BeyondLog { page_lsn, log_end });
    }
    match (NonZeroU16::new(PageHeader::of(page).incarnation.get()), incarnation_at(page_lsn)) {
        (Some(written), Some(incarnation)) if written != incarnation && !is_left_to_the_log() => {
            Err(Damage::LostIncarnation { page_lsn })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, PageNo};

    fn id(file: u32, page: u32) -> PageId {
        PageId::new(FileId::new(file), PageNo::new(page))
    }

    fn page(of: PageId, lsn: u64) -> Vec<u8> {
        let mut page = vec![0; 4096];
        let mut header = PageHeader::new(of, 3, 0);
        header.page_lsn.set(lsn);
        page[..PAGE_HEADER_BYTES].copy_from_slice(header.as_bytes());
        page[100] = 42;
        page
    }

    #[test]
    fn a_header_has_the_bytes_of_its_table() {
        let mut header = PageHeader::new(id(0x0a0b_0c0d, 0x0102_0304), 5, 6);
        header.checksum.set(0x1112_1314);
        header.page_lsn.set(0x2122_2324_2526_2728);
        header.incarnation.set(0x3132);
        header.deleter_lsn.set(0x4142_4344_4546_4748);
        let golden = [
            0x14, 0x13, 0x12, 0x11, 4, 3, 2, 1, 0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x0d, 0x0c, 0x0b, 0x0a,
            5, 6, 0x32, 0x31, 0x48, 0x47, 0x46, 0x45, 0x44, 0x43, 0x42, 0x41,
        ];
        assert_eq!(header.as_bytes(), golden);
    }

    #[test]
    fn a_sealed_page_passes_and_every_flipped_bit_is_noticed() {
        let mut sealed = page(id(1, 2), 100);
        seal(&mut sealed);
        assert_eq!(check_read(&sealed, id(1, 2), Lsn::new(101), |_| None), Ok(()));
        for bit in (0..sealed.len() * 8).step_by(7).chain(0..256) {
            sealed[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(check(&sealed, id(1, 2)), Err(Damage::Checksum { .. })), "bit {bit} was not noticed");
            sealed[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn a_page_of_another_incarnation_of_the_log_is_noticed() {
        let (of, end) = (id(1, 2), Lsn::new(1000));
        let mut sealed = page(of, 100);
        mark_incarnation(&mut sealed, NonZeroU16::new(7));
        seal(&mut sealed);
        assert_eq!(check_read(&sealed, of, end, |_| NonZeroU16::new(7)), Ok(()));
        assert_eq!(check_read(&sealed, of, end, |_| None), Ok(()));
        let lost = Damage::LostIncarnation { page_lsn: Lsn::new(100) };
        assert_eq!(check_read(&sealed, of, end, |_| NonZeroU16::new(8)), Err(lost));
        let mut unknown = page(of, 100);
        mark_incarnation(&mut unknown, None);
        seal(&mut unknown);
        assert_eq!(check_read(&unknown, of, end, |_| NonZeroU16::new(8)), Ok(()));
    }

    #[test]
    fn a_page_in_the_place_of_another_page_is_noticed() {
        let mut sealed = page(id(1, 2), 100);
        seal(&mut sealed);
        assert_eq!(check(&sealed, id(1, 3)), Err(Damage::Misplaced { found: id(1, 2) }));
        assert_eq!(check(&sealed, id(2, 2)), Err(Damage::Misplaced { found: id(1, 2) }));
    }

    #[test]
    fn a_page_from_beyond_the_log_is_noticed() {
        let mut sealed = page(id(1, 2), 100);
        seal(&mut sealed);
        let damage = Damage::BeyondLog { page_lsn: Lsn::new(100), log_end: Lsn::new(100) };
        assert_eq!(check_read(&sealed, id(1, 2), Lsn::new(100), |_| None), Err(damage));
    }

    #[test]
    fn a_page_of_zeros_counts_as_never_written_and_stays_zeros() {
        let mut zeros = vec![0; 4096];
        seal(&mut zeros);
        assert!(is_zero(&zeros));
        assert_eq!(check_read(&zeros, id(1, 2), Lsn::new(8), |_| NonZeroU16::new(1)), Ok(()));
        zeros[4095] = 1;
        assert!(check(&zeros, id(1, 2)).is_err());
    }

    #[test]
    fn page_sizes_are_powers_of_two_from_4_to_64_kib() {
        let sizes: Vec<u32> = (0..200_000).filter(|&bytes| is_page_size(bytes)).collect();
        assert_eq!(sizes, [4096, 8192, 16384, 32768, 65536]);
    }
}

//! The common header, as access methods use it: every page's first 32 bytes belong to the buffer manager.

use libtp_buffer::{FileId, PageHeader, PageId, PageMut, PageNo};
use libtp_log::Lsn;
use zerocopy::IntoBytes;

const LEVEL_AT: usize = std::mem::offset_of!(PageHeader, level);
const DELETER_AT: usize = std::mem::offset_of!(PageHeader, deleter_lsn);

/// What the page is.
#[inline]
pub fn kind(page: &[u8]) -> u8 {
    PageHeader::of(page).kind
}

/// How far above the leaves it is.
#[inline]
pub fn level(page: &[u8]) -> u8 {
    PageHeader::of(page).level
}

/// The highest LSN of a ghost that was removed from it (PROTOCOLS S3).
pub fn deleter_lsn(page: &[u8]) -> Lsn {
    Lsn::new(PageHeader::of(page).deleter_lsn.get())
}

/// Stores that LSN.
pub fn set_deleter_lsn(page: &mut PageMut<'_, '_>, lsn: Lsn) {
    page.range(DELETER_AT..DELETER_AT + 8).copy_from_slice(&lsn.raw().to_le_bytes());
}

/// Stores the level, on a page that is being rebuilt.
pub fn set_level(page: &mut [u8], level: u8) {
    page[LEVEL_AT] = level;
}

/// Makes the bytes a new page: its header, and zeros.
pub fn make_new(page: &mut [u8], file: u32, number: u32, kind: u8, level: u8) {
    let header = PageHeader::new(PageId::new(FileId::new(file), PageNo::new(number)), kind, level);
    page.fill(0);
    page[..size_of::<PageHeader>()].copy_from_slice(header.as_bytes());
}

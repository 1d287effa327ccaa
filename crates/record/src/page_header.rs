//! The common header for access methods: the first 32 bytes of every page, which belong to the buffer manager.

use libtp_buffer::{FileId, PageHeader, PageId, PageMut, PageNo};
use libtp_log::Lsn;
use zerocopy::IntoBytes;

const LEVEL_AT: usize = std::mem::offset_of!(PageHeader, level);
const DELETER_AT: usize = std::mem::offset_of!(PageHeader, deleter_lsn);

/// Returns the page's kind.
#[inline]
pub fn kind(page: &[u8]) -> u8 {
    PageHeader::of(page).kind
}

/// Returns the page's level above the leaves.
#[inline]
pub fn level(page: &[u8]) -> u8 {
    PageHeader::of(page).level
}

/// Returns the highest LSN of a ghost that was removed from the page (PROTOCOLS S3).
pub fn deleter_lsn(page: &[u8]) -> Lsn {
    Lsn::new(PageHeader::of(page).deleter_lsn.get())
}

/// Stores the highest LSN of a removed ghost.
pub fn set_deleter_lsn(page: &mut PageMut<'_, '_>, lsn: Lsn) {
    page.range(DELETER_AT..DELETER_AT + 8).copy_from_slice(&lsn.raw().to_le_bytes());
}

/// Stores the level, on a page that is being rebuilt.
pub fn set_level(page: &mut [u8], level: u8) {
    page[LEVEL_AT] = level;
}

/// Returns whether the page was never made, so that its bytes are zeros. If a session died while it made the page, the
/// redo of its change stores the same bytes again.
#[inline]
pub fn is_blank(page: &PageMut<'_, '_>) -> bool {
    page.lsn() == Lsn::NONE
}

/// Makes the bytes a new page: a header, and zeros. The page keeps its LSN until the change is complete. If the session
/// dies before, the change is repeated, and the LSN shows whether the page was used before ([`is_blank`]).
pub fn make_new(page: &mut [u8], file: u32, number: u32, kind: u8, level: u8) {
    let mut header = PageHeader::new(PageId::new(FileId::new(file), PageNo::new(number)), kind, level);
    header.page_lsn = PageHeader::of(page).page_lsn;
    let (head, rest) = page.split_at_mut(size_of::<PageHeader>());
    head.copy_from_slice(header.as_bytes());
    rest.fill(0);
}

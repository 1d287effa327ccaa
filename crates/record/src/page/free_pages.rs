//! The meta page (page 1), and the pages that a file can allocate: first the free list, then pages beyond the file's
//! last page.
//!
//! Every log record that first uses a page states the meta page's contents after the allocation (PROTOCOLS T1). So the
//! allocation of a page and its first use are one action, and neither is lost or done twice.

use rio::planted;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::page::PageKind;
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_txn::Damage;

/// The meta page's number.
pub const META_PAGE: u32 = 1;
/// The first page that an access method may use: the root of a B-tree, the header of a hash file, or the first records
/// of a recno file.
pub const FIRST_PAGE: u32 = 2;

const AT: usize = 32;
const END: usize = AT + size_of::<Meta>();

/// Bytes 32 to 47 of the meta page.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Meta {
    /// 32: the number of the next never-used page.
    pub page_count: U32,
    /// 36: the first free page, zero for none. Each free page leads to the next.
    pub free_head: U32,
    /// 40: in a recno file, the last page with records; otherwise zero.
    pub tail_page: U32,
    /// 44: zero.
    pub unused: U32,
}

const _: () = assert!(size_of::<Meta>() == 16);

impl Meta {
    /// Reads the meta page; `None` if the page is of another kind.
    pub fn of(page: &[u8]) -> Option<&Meta> {
        if page_header::kind(page) != PageKind::Meta as u8 {
            return None;
        }
        Meta::ref_from_bytes(page.get(AT..END)?).ok()
    }
}

/// Makes a new meta page.
pub fn make_new(page: &mut PageMut<'_, '_>, file: u32, meta: Meta) {
    let bytes = page.fresh();
    page_header::make_new(bytes, file, META_PAGE, PageKind::Meta as u8, 0);
    bytes[AT..END].copy_from_slice(meta.as_bytes());
}

fn set(page: &mut PageMut<'_, '_>, edit: impl FnOnce(&mut Meta)) -> Result<(), Damage> {
    let mut meta = *Meta::of(page.bytes()).ok_or_else(|| Damage("it is not a meta page".into()))?;
    edit(&mut meta);
    page.range(AT..END).copy_from_slice(meta.as_bytes());
    Ok(())
}

/// Redoes, on the meta page, a log record that uses new pages.
///
/// # Errors
/// The page is no meta page.
pub fn set_allocated(page: &mut PageMut<'_, '_>, free_head: u32, page_count: u32) -> Result<(), Damage> {
    set(page, |meta| {
        meta.free_head = free_head.into();
        if !planted("record: the count of allocated pages is not raised") {
            meta.page_count = page_count.into();
        }
    })
}

/// Redoes, on the meta page, a log record that frees pages.
///
/// # Errors
/// The page is no meta page.
pub fn set_free_head(page: &mut PageMut<'_, '_>, free_head: u32) -> Result<(), Damage> {
    set(page, |meta| meta.free_head = free_head.into())
}

/// Redoes, on the meta page, a log record that begins another page of a recno file.
///
/// # Errors
/// The page is no meta page.
pub fn set_tail(page: &mut PageMut<'_, '_>, tail_page: u32) -> Result<(), Damage> {
    let page_count = tail_page.checked_add(1).ok_or_else(|| Damage("the file has too many pages".into()))?;
    set(page, |meta| {
        meta.tail_page = tail_page.into();
        meta.page_count = page_count.into();
    })
}

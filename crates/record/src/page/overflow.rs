//! Overflow pages: a value too long for a leaf, cut into pieces. Each page leads to the next.
//!
//! ```text
//! 0       32     36      40            48           52          56
//! | common | next | bytes | older bytes | older first | older last | the piece, to the page's end |
//! ```
//!
//! `next` is at the offset of a free page's link. So one store into the last page of a chain puts the whole chain into
//! the free list. The first page of a chain also names the chain that it replaced, until the replaced chain is freed.
//! So no chain is lost if a record changes many times in one transaction (see btree/long_value.rs).

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::page::PageKind;
use crate::page_header;
use libtp_buffer::PageMut;

/// The offset of the header of overflow and free pages.
pub const HEADER_AT: usize = 32;
/// The offset of the piece.
pub const PIECE_AT: usize = 56;

/// Bytes 32 to 55 of an overflow page. On a free page only the first field is used.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct ChainHeader {
    /// 32: the next page of the chain (or of the free list), zero for none.
    pub next: U32,
    /// 36: bytes of the piece on this page.
    pub piece_bytes: U32,
    /// 40: on the first page of a chain, the number of value bytes of the chain that it replaced.
    pub older_bytes: U64,
    /// 48: the replaced chain's first page, zero if no chain was replaced.
    pub older_first: U32,
    /// 52: the replaced chain's last page.
    pub older_last: U32,
}

const _: () = assert!(size_of::<ChainHeader>() == PIECE_AT - HEADER_AT);

/// A reference to the chain of a value that is too long for a leaf. The record stores it in place of the value.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ChainRef {
    /// 0: the first page.
    pub first: U32,
    /// 4: the last page.
    pub last: U32,
    /// 8: bytes of the value.
    pub bytes: U64,
}

/// Bytes of a [`ChainRef`].
pub const CHAIN_REF_BYTES: usize = 16;
const _: () = assert!(size_of::<ChainRef>() == CHAIN_REF_BYTES);

impl ChainRef {
    /// Reads a reference; `None` if the bytes are too few or name no page.
    pub fn read(bytes: &[u8]) -> Option<ChainRef> {
        ChainRef::read_from_bytes(bytes).ok().filter(|chain| chain.first.get() != 0)
    }
}

/// Returns the number of value bytes that fit on a page of this size.
pub fn piece_capacity(page_bytes: usize) -> usize {
    page_bytes - PIECE_AT
}

/// Returns the header of an overflow or free page; `None` for another page.
pub fn header(page: &[u8]) -> Option<&ChainHeader> {
    let kind = PageKind::from_byte(page_header::kind(page));
    if !matches!(kind, Some(PageKind::Overflow | PageKind::Free)) {
        return None;
    }
    ChainHeader::ref_from_bytes(page.get(HEADER_AT..PIECE_AT)?).ok()
}

/// Returns the piece on an overflow page; `None` for any other page, or if the length is impossible.
pub fn piece(page: &[u8]) -> Option<&[u8]> {
    let bytes = header(page)?.piece_bytes.get() as usize;
    page.get(PIECE_AT..)?.get(..bytes)
}

/// Makes a new page with one piece of a value. The piece must fit on the page.
pub fn make_new(page: &mut PageMut<'_, '_>, (file, number): (u32, u32), header: ChainHeader, piece: &[u8]) {
    let bytes = page.fresh();
    page_header::make_new(bytes, file, number, PageKind::Overflow as u8, 0);
    bytes[HEADER_AT..PIECE_AT].copy_from_slice(header.as_bytes());
    bytes[PIECE_AT..PIECE_AT + piece.len()].copy_from_slice(piece);
}

/// Makes a page a free page that leads to `next`. The old bytes need no before-image: no page leads to this page, and
/// the log record of the freeing is in the log before the first store.
pub fn make_free(page: &mut PageMut<'_, '_>, (file, number): (u32, u32), next: u32) {
    let bytes = page.fresh();
    page_header::make_new(bytes, file, number, PageKind::Free as u8, 0);
    bytes[HEADER_AT..HEADER_AT + 4].copy_from_slice(&next.to_le_bytes());
}

/// Links the last page of a chain to the free list.
pub fn set_next(page: &mut PageMut<'_, '_>, next: u32) {
    page.range(HEADER_AT..HEADER_AT + 4).copy_from_slice(&next.to_le_bytes());
}

/// Stores on the first page of a chain a reference to the chain that it replaced.
pub fn set_older(page: &mut PageMut<'_, '_>, older: ChainRef) {
    let bytes = page.range(HEADER_AT + 8..PIECE_AT);
    bytes[..8].copy_from_slice(older.bytes.as_bytes());
    bytes[8..12].copy_from_slice(older.first.as_bytes());
    bytes[12..].copy_from_slice(older.last.as_bytes());
}

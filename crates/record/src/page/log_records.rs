//! The log records of files and pages: a new file, a piece of a long value, a freed page.
//!
//! Paper: LIBTP 3.2.6. Byte tables: docs/formats/log.md.

use zerocopy::little_endian::{U32, U64};
use zerocopy::IntoBytes;

use crate::log_body::{body, file_number, no_role, page_number, read, Redone};
use crate::page::free_pages::{self, Meta, META_PAGE};
use crate::page::overflow::{self, ChainHeader};
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

/// A new file gets its meta page and, if it is a B-tree, its root. Roles: the meta page, the root. No undo.
pub const FORMAT: u16 = 80;
/// A new page gets a piece of a long value. Roles: the page, the meta page. Undo: the page is freed.
pub const WRITE_PIECE: u16 = 81;
/// The compensation of [`WRITE_PIECE`]. Roles: the page, the meta page.
pub const FREE_PAGE: u16 = 82;

body! {
    /// Body of [`FORMAT`].
    Format, 16 {
        /// 00: the meta page.
        page: U64,
        /// 08: the root of a B-tree, zero for a recno file.
        root: U32,
        /// 12: the page count afterwards.
        page_count: U32,
    }
}

body! {
    /// Body of [`WRITE_PIECE`]; the piece follows.
    WritePiece, 40 {
        /// 00: the new page.
        page: U64,
        /// 08: the head of the free list afterwards.
        free_head: U32,
        /// 12: the page count afterwards.
        page_count: U32,
        /// 16: the next page of the chain, zero for the last.
        next: U32,
        /// 20: on the first page of a chain, the first page of the chain that it replaces; otherwise zero.
        older_first: U32,
        /// 24: the last page of the replaced chain.
        older_last: U32,
        /// 28: zero.
        unused: U32,
        /// 32: the bytes of the replaced chain.
        older_bytes: U64,
    }
}

body! {
    /// Body of [`FREE_PAGE`].
    FreePage, 16 {
        /// 00: the page that becomes free and the head of the free list.
        page: U64,
        /// 08: the head of the free list before the page was freed.
        next: U32,
        /// 12: zero.
        unused: U32,
    }
}

/// Redoes the formatting of a file.
pub fn redo_format(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<Format>(body)?;
    let file = file_number(record.page.get());
    match role {
        0 => {
            let meta = Meta { page_count: record.page_count, ..Meta::default() };
            free_pages::make_new(page, file, meta);
            Ok(())
        }
        1 => crate::page::rebuild::make_root(page, file, record.root.get()),
        _ => no_role(role),
    }
}

/// Redoes the writing of a piece.
pub fn redo_write_piece(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, piece) = read::<WritePiece>(body)?;
    match role {
        0 => {
            let packed = record.page.get();
            if piece.len() > overflow::piece_capacity(page.bytes().len()) {
                return Err(Damage(format!("a piece of {} bytes does not fit on it", piece.len())));
            }
            let header = ChainHeader {
                next: record.next,
                piece_bytes: u32::try_from(piece.len()).map_err(|_| Damage("a piece is too long".into()))?.into(),
                older_bytes: record.older_bytes,
                older_first: record.older_first,
                older_last: record.older_last,
            };
            overflow::make_new(page, (file_number(packed), page_number(packed)), header, piece);
            Ok(())
        }
        1 => free_pages::set_allocated(page, record.free_head.get(), record.page_count.get()),
        _ => no_role(role),
    }
}

/// Redoes the freeing of a page.
pub fn redo_free_page(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<FreePage>(body)?;
    let packed = record.page.get();
    match role {
        0 => {
            overflow::make_free(page, (file_number(packed), page_number(packed)), record.next.get());
            Ok(())
        }
        1 => free_pages::set_free_head(page, page_number(packed)),
        _ => no_role(role),
    }
}

/// Returns the body of the log record that makes a new file.
pub fn encode_format(file: u32, root: u32, page_count: u32) -> Vec<u8> {
    let page = (u64::from(file) << 32) | u64::from(META_PAGE);
    Format { page: page.into(), root: root.into(), page_count: page_count.into() }.as_bytes().to_vec()
}

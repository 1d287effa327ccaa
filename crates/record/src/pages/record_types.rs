//! The record types of files and pages, for the table of log-record types.

use libtp_txn::RecordType;
use zerocopy::little_endian::U64;

use crate::log_body::{describe, file_number, pages_of};
use crate::page::free_pages::META_PAGE;
use crate::page::log_records::{
    redo_format, redo_free_page, redo_write_piece, Format, FreePage, WritePiece, FORMAT, FREE_PAGE, WRITE_PIECE,
};
use crate::pages::undo;

/// Returns the record types of files and pages.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: FORMAT, name: "file format", redo: redo_format, undo: None,
            pages: |body| pages_of(body, |r: &Format| [r.root.get(), 0, 0]),
            describe: |body| describe(body, |r: &Format, _, _| format!("file {} gets {} pages", file_number(r.page.get()), r.page_count)) },
        RecordType { code: WRITE_PIECE, name: "value write piece", redo: redo_write_piece, undo: Some(undo::write_piece),
            pages: |body| pages_of(body, |_: &U64| [META_PAGE, 0, 0]),
            describe: |body| describe(body, |r: &WritePiece, page, piece| format!("{page} gets {} bytes of a long value, next page {}", piece.len(), r.next)) },
        RecordType { code: FREE_PAGE, name: "page free", redo: redo_free_page, undo: None,
            pages: |body| pages_of(body, |_: &U64| [META_PAGE, 0, 0]),
            describe: |body| describe(body, |r: &FreePage, page, _| format!("{page} is freed, next free page {}", r.next)) },
    ]
}

//! The record types of files and pages, for the table of log-record types.

use libtp_buffer::PageId;
use libtp_txn::{PageList, RecordType};

use crate::btree::record_types::{first_page, sibling, UNREADABLE};
use crate::btree::undo;
use crate::free_pages::META_PAGE;
use crate::log_body::{file_number, page_number, read};
use crate::page::log_records::{
    redo_format, redo_free_page, redo_write_piece, Format, FreePage, WritePiece, FORMAT, FREE_PAGE, WRITE_PIECE,
};

fn format_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Format>(body) else { return PageList::NONE };
    let page = record.page.get();
    PageList::of([Some(PageId::from_u64(page)), sibling(page, record.root.get()), None, None])
}

fn page_and_meta(body: &[u8]) -> PageList {
    let Some((_, page)) = first_page(body).iter().next() else { return PageList::NONE };
    PageList::of([Some(page), sibling(page.raw(), META_PAGE), None, None])
}

fn describe_format(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Format>(body) else { return UNREADABLE.into() };
    format!("file {} gets {} pages", file_number(record.page.get()), record.page_count)
}

fn page_name(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

fn describe_write_piece(body: &[u8]) -> String {
    let Ok((record, piece)) = read::<WritePiece>(body) else { return UNREADABLE.into() };
    format!("{} takes {} bytes of a long value, next page {}", page_name(record.page.get()), piece.len(), record.next)
}

fn describe_free_page(body: &[u8]) -> String {
    let Ok((record, _)) = read::<FreePage>(body) else { return UNREADABLE.into() };
    format!("{} is free again, next page {}", page_name(record.page.get()), record.next)
}

/// Returns the record types of files and pages.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: FORMAT, name: "file format", pages: format_pages, redo: redo_format, undo: None, describe: describe_format },
        RecordType { code: WRITE_PIECE, name: "value write piece", pages: page_and_meta, redo: redo_write_piece, undo: Some(undo::write_piece), describe: describe_write_piece },
        RecordType { code: FREE_PAGE, name: "page free", pages: page_and_meta, redo: redo_free_page, undo: None, describe: describe_free_page },
    ]
}

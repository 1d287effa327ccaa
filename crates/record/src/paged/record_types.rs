//! The record types of pages, for the table of log-record types.

use libtp_buffer::PageId;
use libtp_txn::{PageList, RecordType};

use crate::btree::record_types::{first_page, sibling, UNREADABLE};
use crate::free_pages::META_PAGE;
use crate::log_body::{file_number, page_number, read};
use crate::paged::log_records::{parse, Change, Restore, CHANGE, RESTORE};
use crate::paged::{redo, undo};

fn change_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Change>(body) else { return PageList::NONE };
    let page = record.page.get();
    let meta = if record.page_count.get() == 0 { None } else { sibling(page, META_PAGE) };
    PageList::of([Some(PageId::from_u64(page)), meta, None, None])
}

fn page_name(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

fn describe_change(body: &[u8]) -> String {
    let Ok(parsed) = parse(body) else { return UNREADABLE.into() };
    let (page, at) = (page_name(parsed.record.page.get()), parsed.record.at);
    let what = match parsed.record.code.get() {
        0 => String::new(),
        code => format!(" by \"{}\" (code {code})", parsed.name.escape_ascii()),
    };
    format!("{page} at {at} {} bytes{what}, {} of argument", parsed.after.len(), parsed.argument.len())
}

fn describe_restore(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Restore>(body) else { return UNREADABLE.into() };
    format!("{} at {} {} bytes again", page_name(record.page.get()), record.at, record.bytes)
}

/// Returns the record types of pages.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: CHANGE, name: "page change", pages: change_pages, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: RESTORE, name: "page restore", pages: first_page, redo: redo::restore, undo: None, describe: describe_restore },
    ]
}

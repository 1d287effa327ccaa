//! The hash file's record types, for the table of log-record types.

use libtp_buffer::PageId;
use libtp_txn::{PageList, RecordType};
use rio::planted;

use crate::btree::record_types::{
    describe_drop_chain, describe_insert, describe_reclaim, describe_restore, describe_update, drop_chain_pages,
    first_page, sibling, UNREADABLE,
};
use crate::btree::redo as of_records;
use crate::free_pages::META_PAGE;
use crate::hash::log_records::{
    Create, Extend, Finish, Move, Shrink, Split, CREATE, DELETE, DROP_CHAIN, EXTEND, FINISH, INSERT, MOVE, RECLAIM,
    RESTORE, SHRINK, SPLIT, UPDATE,
};
use crate::hash::{redo, undo};
use crate::log_body::{file_number, page_number, read};

fn page_name(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

/// Returns the page a body begins with, and others of its file.
fn pages(page: u64, others: [u32; 3]) -> PageList {
    let others = others.map(|number| sibling(page, number));
    PageList::of([Some(PageId::from_u64(page)), others[0], others[1], others[2]])
}

fn create_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Create>(body) else { return PageList::NONE };
    pages(record.page.get(), [record.header.get(), record.bucket.get(), 0])
}

fn split_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Split>(body) else { return PageList::NONE };
    let meta = if record.page_count.get() == 0 { 0 } else { META_PAGE };
    let new = if planted("record: new bucket not in the log record") { 0 } else { record.new.get() };
    pages(record.page.get(), [new, record.header.get(), meta])
}

fn move_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Move>(body) else { return PageList::NONE };
    pages(record.page.get(), [record.to.get(), 0, 0])
}

fn finish_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Finish>(body) else { return PageList::NONE };
    pages(record.page.get(), [record.new.get(), 0, 0])
}

fn extend_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Extend>(body) else { return PageList::NONE };
    pages(record.page.get(), [record.new.get(), META_PAGE, 0])
}

fn shrink_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<Shrink>(body) else { return PageList::NONE };
    pages(record.page.get(), [record.gone.get(), META_PAGE, 0])
}

fn describe_create(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Create>(body) else { return UNREADABLE.into() };
    format!("file {} gets its first bucket, page {}", file_number(record.page.get()), record.bucket)
}

fn describe_split(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Split>(body) else { return UNREADABLE.into() };
    let (page, count) = (page_name(record.page.get()), record.count);
    let more = if record.is_marked == 0 { "" } else { ", more to come" };
    format!("{page} gives {count} cells to bucket {} on page {}{more}", record.bucket, record.new)
}

fn describe_move(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Move>(body) else { return UNREADABLE.into() };
    format!("{} gives {} cells to page {}", page_name(record.page.get()), record.count, record.to)
}

fn describe_finish(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Finish>(body) else { return UNREADABLE.into() };
    format!("{} has given all to page {}", page_name(record.page.get()), record.new)
}

fn describe_extend(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Extend>(body) else { return UNREADABLE.into() };
    format!("{} leads on to page {} of bucket {}", page_name(record.page.get()), record.new, record.bucket)
}

fn describe_shrink(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Shrink>(body) else { return UNREADABLE.into() };
    format!("{} lets page {} go and leads to page {}", page_name(record.page.get()), record.gone, record.after)
}

/// Returns the hash file's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: INSERT, name: "hash insert", pages: first_page, redo: of_records::insert, undo: Some(undo::insert), describe: describe_insert },
        RecordType { code: UPDATE, name: "hash update", pages: first_page, redo: of_records::update, undo: Some(undo::update), describe: describe_update },
        RecordType { code: DELETE, name: "hash delete", pages: first_page, redo: of_records::update, undo: Some(undo::update), describe: describe_update },
        RecordType { code: RESTORE, name: "hash restore", pages: first_page, redo: of_records::restore, undo: None, describe: describe_restore },
        RecordType { code: CREATE, name: "hash create", pages: create_pages, redo: redo::create, undo: None, describe: describe_create },
        RecordType { code: SPLIT, name: "hash split", pages: split_pages, redo: redo::split, undo: None, describe: describe_split },
        RecordType { code: MOVE, name: "hash move", pages: move_pages, redo: redo::move_records, undo: None, describe: describe_move },
        RecordType { code: FINISH, name: "hash finish", pages: finish_pages, redo: redo::finish, undo: None, describe: describe_finish },
        RecordType { code: EXTEND, name: "hash extend", pages: extend_pages, redo: redo::extend, undo: None, describe: describe_extend },
        RecordType { code: SHRINK, name: "hash shrink", pages: shrink_pages, redo: redo::shrink, undo: None, describe: describe_shrink },
        RecordType { code: RECLAIM, name: "hash reclaim", pages: first_page, redo: of_records::reclaim, undo: None, describe: describe_reclaim },
        RecordType { code: DROP_CHAIN, name: "hash drop chain", pages: drop_chain_pages, redo: of_records::drop_chain, undo: None, describe: describe_drop_chain },
    ]
}

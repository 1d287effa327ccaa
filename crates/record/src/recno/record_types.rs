//! The recno file's record types, for the table of log-record types.

use libtp_buffer::PageId;
use libtp_txn::{PageList, RecordType};

use crate::btree::record_types::{first_page, sibling, UNREADABLE};
use crate::free_pages::META_PAGE;
use crate::log_body::{file_number, page_number, read};
use crate::page::record_lsn::{unpack_lsn, RecordFlags};
use crate::recno::log_records::{Change, Restore, StartPage, DELETE, PUT, RESTORE, START_PAGE, UPDATE};
use crate::recno::{redo, undo};

fn start_page_pages(body: &[u8]) -> PageList {
    let Ok((record, _)) = read::<StartPage>(body) else { return PageList::NONE };
    let page = record.page.get();
    PageList::of([Some(PageId::from_u64(page)), sibling(page, META_PAGE), None, None])
}

fn page_name(packed: u64) -> String {
    format!("page {} of file {}", page_number(packed), file_number(packed))
}

fn describe_change(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Change>(body) else { return UNREADABLE.into() };
    let (page, slot, offset) = (page_name(record.page.get()), record.slot, record.offset);
    let (before, after) = (RecordFlags(record.flags_before), RecordFlags(record.flags_after));
    let (cut, put, lsn) = (record.cut_bytes, record.put_bytes, record.lsn_before);
    format!("{page} slot {slot} at {offset} {cut} bytes out {put} in, {before:?} to {after:?}, was LSN {lsn}")
}

fn describe_restore(body: &[u8]) -> String {
    let Ok((record, _)) = read::<Restore>(body) else { return UNREADABLE.into() };
    let (lsn, flags) = unpack_lsn(record.lsn_and_flags.get());
    let (page, slot, offset) = (page_name(record.page.get()), record.slot, record.offset);
    format!("{page} slot {slot} at {offset} {} bytes in, {flags:?} LSN {lsn} again", record.put_bytes)
}

fn describe_start_page(body: &[u8]) -> String {
    let Ok((record, _)) = read::<StartPage>(body) else { return UNREADABLE.into() };
    format!("{} for records of {} bytes", page_name(record.page.get()), record.record_bytes)
}

/// Returns the recno file's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: PUT, name: "recno put", pages: first_page, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: UPDATE, name: "recno update", pages: first_page, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: DELETE, name: "recno delete", pages: first_page, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: RESTORE, name: "recno restore", pages: first_page, redo: redo::restore, undo: None, describe: describe_restore },
        RecordType { code: START_PAGE, name: "recno start page", pages: start_page_pages, redo: redo::start_page, undo: None, describe: describe_start_page },
    ]
}

//! The hash file's record types, for the table of log-record types.

use libtp_txn::RecordType;
use rio::planted;

use crate::btree::record_types::of_records;
use crate::hash::log_records::{
    Create, Extend, Finish, Move, Shrink, Split, CREATE, DELETE, DROP_CHAIN, EXTEND, FINISH, INSERT, MOVE, RECLAIM,
    RESTORE, SHRINK, SPLIT, UPDATE,
};
use crate::hash::{redo, undo};
use crate::log_body::{describe, file_number, pages_of};
use crate::page::free_pages::META_PAGE;

fn split_pages(r: &Split) -> [u32; 3] {
    let meta = if r.page_count.get() == 0 { 0 } else { META_PAGE };
    let new =
        if planted("record: the log record of a bucket split does not list the new bucket") { 0 } else { r.new.get() };
    [new, r.header.get(), meta]
}

/// Returns the hash file's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    let codes = [INSERT, UPDATE, DELETE, RESTORE, RECLAIM, DROP_CHAIN];
    let names = ["hash insert", "hash update", "hash delete", "hash restore", "hash reclaim", "hash drop chain"];
    let mut types = of_records(codes, names, [undo::insert, undo::update]).to_vec();
    types.extend([
        RecordType { code: CREATE, name: "hash create", redo: redo::create, undo: None,
            pages: |body| pages_of(body, |r: &Create| [r.header.get(), r.bucket.get(), 0]),
            describe: |body| describe(body, |r: &Create, _, _| format!("file {} gets its first bucket, page {}", file_number(r.page.get()), r.bucket)) },
        RecordType { code: SPLIT, name: "hash split", redo: redo::split, undo: None,
            pages: |body| pages_of(body, split_pages),
            describe: |body| describe(body, |r: &Split, page, _| format!("{page}: {} cells move to bucket {} on page {}{}", r.count, r.bucket, r.new, if r.is_marked == 0 { "" } else { ", more to come" })) },
        RecordType { code: MOVE, name: "hash move", redo: redo::move_records, undo: None,
            pages: |body| pages_of(body, |r: &Move| [r.to.get(), 0, 0]),
            describe: |body| describe(body, |r: &Move, page, _| format!("{page}: {} cells move to page {}", r.count, r.to)) },
        RecordType { code: FINISH, name: "hash finish", redo: redo::finish, undo: None,
            pages: |body| pages_of(body, |r: &Finish| [r.new.get(), 0, 0]),
            describe: |body| describe(body, |r: &Finish, page, _| format!("{page}: all records of the new bucket are on page {} or its further pages", r.new)) },
        RecordType { code: EXTEND, name: "hash extend", redo: redo::extend, undo: None,
            pages: |body| pages_of(body, |r: &Extend| [r.new.get(), META_PAGE, 0]),
            describe: |body| describe(body, |r: &Extend, page, _| format!("{page} gets the next page {} of bucket {}", r.new, r.bucket)) },
        RecordType { code: SHRINK, name: "hash shrink", redo: redo::shrink, undo: None,
            pages: |body| pages_of(body, |r: &Shrink| [r.gone.get(), META_PAGE, 0]),
            describe: |body| describe(body, |r: &Shrink, page, _| format!("{page}: page {} is removed from the chain, and page {} is next", r.gone, r.after)) },
    ]);
    types.sort_by_key(|of| of.code);
    types
}

//! The record types of pages, for the table of log-record types.

use libtp_txn::RecordType;

use crate::log_body::{describe, first_page, pages_of};
use crate::page::free_pages::META_PAGE;
use crate::paged::log_records::{parse, Change, Restore, CHANGE, RESTORE};
use crate::paged::{redo, undo};

fn describe_change(body: &[u8]) -> String {
    let Ok(parsed) = parse(body) else { return "unreadable".into() };
    let what = match parsed.record.code.get() {
        0 => String::new(),
        code => format!(" by \"{}\" (code {code})", parsed.name.escape_ascii()),
    };
    let (bytes, argument) = (parsed.after.len(), parsed.argument.len());
    describe(body, |r: &Change, page, _| {
        format!("{page} at {}: {bytes} bytes{what}, an argument of {argument} bytes", r.at)
    })
}

/// Returns the record types of pages.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: CHANGE, name: "page change", redo: redo::change, undo: Some(undo::change), describe: describe_change,
            pages: |body| pages_of(body, |r: &Change| [if r.page_count.get() == 0 { 0 } else { META_PAGE }, 0, 0]) },
        RecordType { code: RESTORE, name: "page restore", redo: redo::restore, undo: None, pages: first_page,
            describe: |body| describe(body, |r: &Restore, page, _| format!("{page} at {}: {} bytes restored", r.at, r.bytes)) },
    ]
}

//! The recno file's record types, for the table of log-record types.

use libtp_txn::RecordType;

use crate::changed::{self, page_list};
use crate::log_body::{describe, first_page, pages_of};
use crate::page::free_pages::META_PAGE;
use crate::page::record_lsn::unpack_lsn;
use crate::recno::log_records::{Restore, StartPage, DELETE, PUT, RESTORE, START_PAGE, UPDATE};
use crate::recno::{redo, undo};

fn describe_change(body: &[u8]) -> String {
    changed::describe(body, |r, page| format!("{page} slot {} {}", r.slot, r.describe()))
}

fn describe_restore(body: &[u8]) -> String {
    describe(body, |r: &Restore, page, _| {
        let (lsn, flags) = unpack_lsn(r.lsn_and_flags.get());
        format!("{page} slot {} at {}: {} bytes restored, {flags:?} LSN {lsn}", r.slot, r.offset, r.put_bytes)
    })
}

/// Returns the recno file's record types.
#[rustfmt::skip]
pub fn record_types() -> Vec<RecordType> {
    vec![
        RecordType { code: PUT, name: "recno put", pages: page_list, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: UPDATE, name: "recno update", pages: page_list, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: DELETE, name: "recno delete", pages: page_list, redo: redo::change, undo: Some(undo::change), describe: describe_change },
        RecordType { code: RESTORE, name: "recno restore", pages: first_page, redo: redo::restore, undo: None, describe: describe_restore },
        RecordType { code: START_PAGE, name: "recno start page", redo: redo::start_page, undo: None,
            pages: |body| pages_of(body, |_: &StartPage| [META_PAGE, 0, 0]),
            describe: |body| describe(body, |r: &StartPage, page, _| format!("{page} for records of {} bytes", r.record_bytes)) },
    ]
}

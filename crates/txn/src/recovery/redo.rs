//! Redo: history is repeated, page by page, wherever the page is older than the record.
//!
//! One driver for every record type: it latches the page, compares LSNs, calls the type's pure redo, stamps the LSN.
//! Compensations are redone like any other change.

use libtp_buffer::{PageId, PageMut};
use libtp_log::{Lsn, RecordRef};
use libtp_process::Rank;
use rio::planted;

use super::analysis::Found;
use super::{Recovered, Watcher};
use crate::log_records::CLR_FLAG;
use crate::record_table::RecordType;
use crate::{Error, Managers, Result, TxnSession};

/// Codes below are the log's own records, which change no page.
const FIRST_KIND_ABOVE_LOG: u16 = 16;
/// Records between two calls of the watcher.
const WATCH_EVERY: u64 = 10_000;

pub(super) fn repeat_history(
    managers: &Managers,
    who: &TxnSession,
    found: &Found,
    watch: Watcher<'_>,
) -> Result<Recovered> {
    let end = managers.log.tail();
    let mut recovered = Recovered { redo_from: found.redo_from, end, ..Recovered::default() };
    let mut roll = managers.log.roll(found.redo_from);
    while let Some(record) = roll.next_record() {
        let record = record?;
        recovered.records += 1;
        recovered.redone += redo_record(managers, who, &record)?;
        if recovered.records % WATCH_EVERY == 0 {
            watch("redo", record.lsn.raw() - found.redo_from.raw(), end.raw() - found.redo_from.raw());
        }
    }
    Ok(recovered)
}

/// Redoes one record on every page it names that is older; returns on how many.
pub(crate) fn redo_record(managers: &Managers, who: &TxnSession, record: &RecordRef<'_>) -> Result<u64> {
    let (kind, lsn) = (record.header.kind(), record.lsn);
    let Some(record_type) = managers.types.get(kind) else {
        if kind < FIRST_KIND_ABOVE_LOG {
            return Ok(0);
        }
        return Err(Error::UnknownRecord { lsn, code: kind });
    };
    let body = if record.header.flags() & CLR_FLAG == 0 {
        record.body
    } else {
        record.body.get(8..).ok_or_else(|| damaged(record_type, lsn, "its compensation has no body"))?
    };
    let mut redone = 0;
    for (role, page) in (record_type.pages)(body).iter() {
        redone += u64::from(redo_page(managers, who, record_type, lsn, body, role, page)?);
    }
    Ok(redone)
}

fn redo_page(
    managers: &Managers,
    who: &TxnSession,
    record_type: &RecordType,
    lsn: Lsn,
    body: &[u8],
    role: usize,
    id: PageId,
) -> Result<bool> {
    let mut page = match managers.buffers.exclusive(who.session(), id, Rank::page(0)) {
        Ok(page) => page,
        // The database was dropped after this record: its pages are gone with it.
        Err(libtp_buffer::Error::UnknownFile { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if page.lsn() >= lsn && !planted("txn: redo repeats what is there") {
        return Ok(false);
    }
    // A redo may rebuild its page; nobody else is here, so the log may grow under the latch.
    who.session().ensure_undo(2 * page.len() as u64 + 4096)?;
    page.mark_dirty(lsn);
    let mut section = who.session().section();
    let mut target: PageMut<'_, '_> = page.page_mut(&mut section);
    let done = (record_type.redo)(&mut target, role, lsn, body);
    if done.is_ok() {
        target.set_lsn(lsn);
        section.close();
    } else {
        section.roll_back();
    }
    done.map(|()| true).map_err(|damage| damaged(record_type, lsn, &format!("page {id}: {}", damage.0)))
}

fn damaged(record_type: &RecordType, lsn: Lsn, what: &str) -> Error {
    Error::Damaged { lsn, name: record_type.name, what: what.to_string() }
}

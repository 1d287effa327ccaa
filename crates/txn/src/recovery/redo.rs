//! Redo: a change is repeated on a page that is older than its record.
//!
//! One driver for every record type: it latches the page, compares LSNs, calls the type's pure redo, stamps the LSN.
//! Compensations are redone like any other change.

use libtp_buffer::{ExclusivePage, PageId, PageMut};
use libtp_log::{Lsn, RecordRef};
use libtp_process::{Rank, Session};
use rio::{failpoint, planted};

use crate::log_records::CLR_FLAG;
use crate::managers::record_table::{RecordTable, RecordType};
use crate::{Error, Managers, Result, TxnSession};

/// The first code above those of the log's own records, which change no page.
const FIRST_KIND_ABOVE_LOG: u16 = 16;

/// The part of a record for one of its pages.
#[derive(Clone, Copy)]
pub(super) struct PageChange<'b> {
    /// The record's type.
    pub(super) record_type: &'b RecordType,
    /// The role of the page in the record.
    pub(super) role: usize,
    /// The record's LSN.
    pub(super) lsn: Lsn,
    /// The record's body, for redo.
    pub(super) body: &'b [u8],
}

/// Returns the type of a record and the bytes for its redo; `None` if the record changes no page.
#[inline]
pub(super) fn redo_part<'b>(
    types: &'b RecordTable,
    record: &RecordRef<'b>,
) -> Result<Option<(&'b RecordType, &'b [u8])>> {
    let (kind, lsn) = (record.header.kind(), record.lsn);
    let Some(record_type) = types.get(kind) else {
        return if kind < FIRST_KIND_ABOVE_LOG { Ok(None) } else { Err(Error::UnknownRecord { lsn, code: kind }) };
    };
    if record.header.flags() & CLR_FLAG == 0 {
        return Ok(Some((record_type, record.body)));
    }
    match record.body.get(8..) {
        Some(body) => Ok(Some((record_type, body))),
        None => Err(damaged(record_type, lsn, "its compensation has no body")),
    }
}

/// Redoes one record on every page that the record names and that is older than the record. Returns the number of
/// changed pages.
pub(crate) fn redo_record(managers: &Managers, txn: &TxnSession, record: &RecordRef<'_>) -> Result<u64> {
    let Some((record_type, body)) = redo_part(&managers.types, record)? else { return Ok(0) };
    let mut redone = 0;
    for (role, page) in (record_type.pages)(body).iter() {
        let change = PageChange { record_type, role, lsn: record.lsn, body };
        redone += redo_on_page(managers, txn.session(), page, [change])?;
    }
    Ok(redone)
}

/// Redoes one record on those of its pages that the session `dead` has latched and that are older than the record
/// (PROTOCOLS D4). Works under the latches of `dead`, which stay held. The redo uses the undo log of `dead`.
pub(crate) fn redo_held(managers: &Managers, dead: &Session, record: &RecordRef<'_>) -> Result<u64> {
    let Some((record_type, body)) = redo_part(&managers.types, record)? else { return Ok(0) };
    let mut redone = 0;
    for (role, page) in (record_type.pages)(body).iter() {
        // A page that `dead` has not latched is finished: `dead` releases a latch only after it has cleared the note,
        // and a repair releases a latch only after the redo.
        let Some(mut page) = managers.buffers.held_by(dead, page) else { continue };
        dead.ensure_undo(2 * page.len() as u64 + 4096)?;
        let change = PageChange { record_type, role, lsn: record.lsn, body };
        let done = redo_change(dead, &mut page, &change);
        // The latch is released last, with all other latches.
        std::mem::forget(page);
        redone += u64::from(done?);
    }
    Ok(redone)
}

/// Redoes those changes of one page that are newer than the page, in the order of their records. Returns their number.
pub(super) fn redo_on_page<'b>(
    managers: &Managers,
    session: &Session,
    id: PageId,
    changes: impl IntoIterator<Item = PageChange<'b>>,
) -> Result<u64> {
    let mut page = match managers.buffers.exclusive(session, id, Rank::page(0)) {
        Ok(page) => page,
        // The database was dropped after these records, and its pages with it.
        Err(libtp_buffer::Error::Dropped { .. }) => return Ok(0),
        Err(libtp_buffer::Error::UnknownFile { .. } | libtp_buffer::Error::FileMissing { .. })
            if planted("txn: redo skips a missing file") =>
        {
            return Ok(0);
        }
        // Only the database of the missing file cannot be used: the log is kept until a restart finds the file.
        Err(libtp_buffer::Error::UnknownFile { .. } | libtp_buffer::Error::FileMissing { .. }) => {
            if let Some(first) = changes.into_iter().next() {
                managers.buffers.note_unrepeated(session, id.file(), first.lsn);
            }
            return Ok(0);
        }
        Err(error) => return Err(error.into()),
    };
    // A redo may rebuild its page. No other session is here, so the undo log may grow under the latch.
    session.ensure_undo(2 * page.len() as u64 + 4096)?;
    let mut redone = 0;
    let mut changes = changes.into_iter().peekable();
    if let Some(first) = changes.peek() {
        // The page may have the change and be unsynced: then the log is needed until the page is written again.
        if managers.buffers.may_be_unsynced(id.file()) && !planted("txn: a page found by redo counts as synced") {
            page.mark_dirty_with(|| first.lsn);
        }
    }
    for change in changes {
        redone += u64::from(redo_change(session, &mut page, &change)?);
    }
    Ok(redone)
}

#[inline]
fn redo_change(session: &Session, page: &mut ExclusivePage<'_>, change: &PageChange<'_>) -> Result<bool> {
    let lsn = change.lsn;
    if page.lsn() >= lsn && !planted("txn: redo ignores page LSNs") {
        return Ok(false);
    }
    failpoint("redo: page older");
    page.mark_dirty_with(|| lsn);
    let id = page.id();
    let mut section = session.section();
    let mut target: PageMut<'_, '_> = page.page_mut(&mut section);
    failpoint("redo: section open");
    let done = (change.record_type.redo)(&mut target, change.role, lsn, change.body);
    if done.is_ok() {
        failpoint("redo: changed, LSN old");
        target.set_lsn(lsn);
        failpoint("redo: changed, section open");
        section.close();
    } else {
        section.roll_back();
    }
    let refused = |damage: crate::Damage| damaged(change.record_type, lsn, &format!("{id}: {}", damage.0));
    done.map(|()| true).map_err(refused)
}

fn damaged(record_type: &RecordType, lsn: Lsn, what: &str) -> Error {
    Error::Damaged { lsn, name: record_type.name, what: what.to_string() }
}

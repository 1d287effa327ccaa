//! Undo: gives a slot its old bytes, flags and LSN. Records never move, so page and slot find it.

use libtp_log::RecordRef;
use libtp_txn::Change;
use rio::failpoint;

use crate::log_body::{page_number, read, take};
use crate::page::recno::RecnoPage;
use crate::page::record_lsn::check_lsn;
use crate::pages::undo::{undo, Undone};
use crate::pages::Pages;
use crate::recno::log_records::{encode_restore, Change as ChangeBody, RESTORE};
use crate::Result;

/// Undoes a put, an update or a deletion.
pub fn change(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let parse = |body| {
        let (record, mut rest) = read::<ChangeBody>(body)?;
        check_lsn(record.lsn_before)?;
        Ok((record, take(&mut rest, usize::from(record.cut_bytes.get()))?))
    };
    undo(change, logged, parse, |pages, (record, cut_out)| restore(pages, record, cut_out, logged))
}

fn restore(pages: &Pages<'_>, record: &ChangeBody, cut_out: &[u8], logged: &RecordRef<'_>) -> Result<()> {
    pages.reserve_undo(pages.page_bytes()?, logged.body.len())?;
    let number = page_number(record.page.get());
    let mut page = pages.exclusive(number, 0)?;
    let slot = usize::from(record.slot.get());
    if RecnoPage::over(&page).is_none_or(|recno| recno.slot(slot).is_none()) {
        return Err(pages.corrupt(number, "it is not the recno page it was when it was changed"));
    }
    let mut body = pages.change.txn.scratch();
    encode_restore(body.writer(), record, cut_out);
    failpoint("recno: page latched to restore");
    pages.compensate_checked(RESTORE, body.body(), &mut [&mut page], logged.header.prev())?;
    failpoint("recno: restored");
    Ok(())
}

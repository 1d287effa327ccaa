//! Undo: restores the old bytes, flags and LSN of a slot. Records never move, so undo finds the slot by its page and
//! number.

use libtp_log::RecordRef;
use libtp_txn::Change;
use rio::failpoint;

use crate::changed::Changed;
use crate::log_body::page_number;
use crate::page::recno::RecnoPage;
use crate::pages::undo::{undo_changed, Undone};
use crate::pages::Pages;
use crate::recno::log_records::{encode_restore, Restore, RESTORE};
use crate::Result;

/// Undoes a put, an update or a deletion.
pub fn change(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    undo_changed(change, logged, |pages, undone| restore(pages, &undone, logged))
}

fn restore(pages: &Pages<'_>, undone: &Changed<'_, '_>, logged: &RecordRef<'_>) -> Result<()> {
    pages.reserve_undo(pages.page_bytes()?, size_of::<Restore>() + logged.body.len())?;
    let number = page_number(undone.page);
    let mut page = pages.exclusive(number, 0)?;
    if RecnoPage::over(&page).is_none_or(|recno| recno.slot(undone.slot).is_none()) {
        return Err(pages.corrupt(number, "it is no longer the recno page that was changed"));
    }
    let mut body = pages.change.txn.scratch();
    encode_restore(body.writer(), undone);
    failpoint("recno: page latched to restore");
    pages.compensate_checked(RESTORE, body.body(), &mut [&mut page], logged.header.prev())?;
    failpoint("recno: restored");
    Ok(())
}

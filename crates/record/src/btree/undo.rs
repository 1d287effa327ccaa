//! Undo: finds each changed record by its key, and restores it on the page where it is now.
//!
//! Paper: LIBTP 3.1.2: "we roll back all leaf page updates, but no internal insertions or page splits". Undo finds the
//! record by its key, restores it, and gives it its old LSN (PROTOCOLS S3). The compensation names page and slot, so
//! its redo needs no search. No undo needs space (PROTOCOLS T4): the bytes that the transaction's change freed still
//! belong to the record's room. An inserted record becomes a ghost: its key may name a gap that another transaction has
//! locked.

use libtp_log::RecordRef;
use libtp_txn::Change;
use rio::{failpoint, planted};

use crate::btree::descent::node_of;
use crate::btree::encode;
use crate::btree::log_records::{Load, Restore, RESTORE};
use crate::btree::redo::check_restore;
use crate::btree::search;
use crate::changed::Changed;
use crate::log_body::{page_number, read};
use crate::pages::undo::{free_page, undo, undo_changed, Undone};
use crate::pages::Pages;
use crate::Result;

/// A record to restore.
pub(crate) struct Restoring<'r> {
    pub(crate) key: &'r [u8],
    /// The page and the slot of the undone change.
    pub(crate) then: (u64, usize),
    /// Appends the compensation's body for the record's page and slot.
    pub(crate) encode: &'r dyn Fn(&mut Vec<u8>, u64, usize),
}

/// Finds a record by its key and restores it.
type RestoreFn = fn(&Pages<'_>, &RecordRef<'_>, &Restoring<'_>) -> Result<()>;

fn restore(pages: &Pages<'_>, logged: &RecordRef<'_>, wanted: &Restoring<'_>) -> Result<()> {
    let _visit = pages.visit();
    pages.reserve_undo(pages.page_bytes()?, size_of::<Restore>() + logged.body.len())?;
    let mut leaf = search::leaf_exclusive(pages, wanted.key)?;
    let number = leaf.id().page().raw();
    let (slot, found) = node_of(pages, number, &leaf)?.find(wanted.key);
    if !found {
        return Err(not_there(pages, number));
    }
    let mut body = pages.change.txn.scratch();
    (wanted.encode)(body.writer(), pages.id(number).raw(), slot);
    check_restore(&leaf, body.body()).map_err(|damage| pages.corrupt(number, damage.0))?;
    failpoint("undo: record found");
    pages.change.compensate(RESTORE, body.body(), &mut [&mut leaf], logged.header.prev());
    failpoint("undo: record restored");
    Ok(())
}

#[cold]
pub(crate) fn not_there(pages: &Pages<'_>, number: u32) -> crate::Error {
    pages.corrupt(number, "it has no record with the key of a change that must be undone")
}

/// Undoes an insertion.
pub fn insert(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    insert_by(change, logged, restore)
}

/// Undoes an update or a deletion.
pub fn update(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    update_by(change, logged, restore)
}

/// Undoes an insertion in any file with records by key.
pub(crate) fn insert_by(change: &Change<'_>, logged: &RecordRef<'_>, restore: RestoreFn) -> Undone {
    undo_by(change, logged, restore, encode::restore_insert)
}

/// Undoes an update or a deletion in any file with records by key.
pub(crate) fn update_by(change: &Change<'_>, logged: &RecordRef<'_>, restore: RestoreFn) -> Undone {
    undo_by(change, logged, restore, encode::restore_update)
}

fn undo_by(
    change: &Change<'_>,
    logged: &RecordRef<'_>,
    restore: RestoreFn,
    encode: fn(&mut Vec<u8>, u64, usize, &Changed<'_, '_>),
) -> Undone {
    undo_changed(change, logged, |pages, undone| {
        let encode = |body: &mut Vec<u8>, page: u64, slot: usize| encode(body, page, slot, &undone);
        restore(pages, logged, &Restoring { key: undone.key, then: (undone.page, undone.slot), encode: &encode })
    })
}

/// Undoes the loading of a page: the page is freed. No session can be on the way to the page, because no path from the
/// root leads to it.
pub fn load(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    if planted("record: an undone load does not free its pages") {
        return Ok(());
    }
    undo(change, logged, read::<Load>, |pages, (record, _)| {
        free_page(pages, page_number(record.page.get()), logged.header.prev())
    })
}

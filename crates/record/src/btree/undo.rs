//! Undo: restores each changed record, by key, on whatever page the record is by now.
//!
//! Paper: LIBTP 3.1.2: "we roll back all leaf page updates, but no internal insertions or page splits". Undo finds the
//! record by its key, restores it, and gives it its old LSN (PROTOCOLS S3). The compensation names page and slot, so
//! its redo needs no search. No undo needs space (PROTOCOLS T4): the bytes that the transaction gave up are still the
//! record's room. An inserted record becomes a ghost: its key may name a gap that another transaction has locked.

use libtp_log::{Lsn, RecordRef};
use libtp_txn::{Change, Damage};
use rio::{failpoint, planted};

use crate::btree::encode;
use crate::btree::log_records::{Insert, Load, Update, RESTORE};
use crate::btree::redo::check_restore;
use crate::btree::search::{self, node_of};
use crate::free_pages::META_PAGE;
use crate::log_body::{file_number, page_number, read, take};
use crate::page::log_records::{FreePage, WritePiece, FREE_PAGE};
use crate::page::record_lsn::check_lsn;
use crate::pages::{loose_rank, Pages};
use crate::{Error, Result};
use zerocopy::IntoBytes;

/// The result of an undo function.
type Undone = libtp_txn::Result<()>;

fn damaged(lsn: Lsn, damage: Damage) -> libtp_txn::Error {
    libtp_txn::Error::Undo { lsn, what: damage.0 }
}

fn pages_of<'a>(change: &Change<'a>, packed: u64) -> Pages<'a> {
    Pages::new(*change, libtp_buffer::FileId::new(file_number(packed)))
}

/// Finds the record of a key and compensates its change with the body that `encode` makes for its slot.
fn restore(
    pages: &Pages<'_>,
    key: &[u8],
    logged: &RecordRef<'_>,
    encode: impl FnOnce(&mut Vec<u8>, u64, usize),
) -> Result<()> {
    let _visit = pages.visit();
    pages.reserve_undo(pages.page_bytes()?, logged.body.len())?;
    let mut leaf = search::leaf_exclusive(pages, key)?;
    let number = leaf.id().page().raw();
    let (slot, found) = node_of(pages, number, &leaf)?.find(key);
    if !found {
        return Err(
            pages.corrupt(number, "a record that a transaction changed, and that is to be changed back, is not there")
        );
    }
    let mut body = pages.change.txn.scratch();
    encode(body.writer(), pages.id(number).raw(), slot);
    check_restore(&leaf, body.body()).map_err(|damage| pages.corrupt(number, damage.0))?;
    failpoint("undo: record found");
    pages.change.compensate(RESTORE, body.body(), &mut [&mut leaf], logged.header.prev());
    failpoint("undo: record restored");
    Ok(())
}

/// Undoes an insertion.
pub fn insert(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let parsed = read::<Insert>(logged.body)
        .and_then(|(record, mut rest)| take(&mut rest, usize::from(record.key_bytes.get())).map(|key| (record, key)));
    let (record, key) = parsed.map_err(|damage| damaged(logged.lsn, damage))?;
    let pages = pages_of(change, record.page.get());
    let stored_bytes = usize::from(record.stored_bytes.get());
    restore(&pages, key, logged, |body, page, slot| encode::restore_insert(body, page, slot, stored_bytes))
        .map_err(|error| error.during_undo(logged.lsn))
}

/// Undoes an update or a deletion.
pub fn update(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let parsed = read::<Update>(logged.body).and_then(|(record, mut rest)| {
        let key = take(&mut rest, usize::from(record.key_bytes.get()))?;
        let cut_out = take(&mut rest, usize::from(record.cut_bytes.get()))?;
        check_lsn(record.lsn_before)?;
        Ok((record, key, cut_out))
    });
    let (record, key, cut_out) = parsed.map_err(|damage| damaged(logged.lsn, damage))?;
    let pages = pages_of(change, record.page.get());
    restore(&pages, key, logged, |body, page, slot| encode::restore_update(body, page, slot, record, cut_out))
        .map_err(|error| error.during_undo(logged.lsn))
}

/// Undoes the writing of a piece of a long value: its page is free again. No session can be on the way to the page, for
/// the leaf that led there was restored before.
pub fn write_piece(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    let (record, _) = read::<WritePiece>(logged.body).map_err(|damage| damaged(logged.lsn, damage))?;
    let packed = record.page.get();
    free_page(&pages_of(change, packed), page_number(packed), logged.header.prev())
        .map_err(|error| error.during_undo(logged.lsn))
}

/// Undoes the loading of a page: the page is free again. No session can be on the way to the page, for the root does
/// not lead there.
pub fn load(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    if planted("record: pages of a load that is undone are not given back") {
        return Ok(());
    }
    let (record, _) = read::<Load>(logged.body).map_err(|damage| damaged(logged.lsn, damage))?;
    let packed = record.page.get();
    free_page(&pages_of(change, packed), page_number(packed), logged.header.prev())
        .map_err(|error| error.during_undo(logged.lsn))
}

fn free_page(pages: &Pages<'_>, number: u32, undo_next: Lsn) -> std::result::Result<(), Error> {
    if number <= META_PAGE {
        return Err(
            pages.corrupt(number, "a log record says that a value or a leaf was put there, where no such page can be")
        );
    }
    pages.reserve_undo(pages.page_bytes()?, size_of::<FreePage>())?;
    let (pin, meta_pin) = (pages.pin(number)?, pages.pin(META_PAGE)?);
    let mut page = pin.exclusive(loose_rank());
    let mut meta = meta_pin.exclusive(libtp_process::Rank::META);
    let next = pages.meta_of(&meta)?.free_head;
    let record = FreePage { page: pages.id(number).raw().into(), next, unused: 0.into() };
    failpoint("undo: about to free a page");
    pages.compensate_checked(FREE_PAGE, record.as_bytes(), &mut [&mut page, &mut meta], undo_next)?;
    failpoint("undo: page freed");
    Ok(())
}

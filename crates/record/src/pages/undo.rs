//! Undo: the part that is the same for all log records, and the undo of a page of a long value, which frees the page.

use libtp_buffer::FileId;
use libtp_log::{Lsn, RecordRef};
use libtp_process::Rank;
use libtp_txn::{Change, Damage};
use rio::failpoint;
use zerocopy::little_endian::U64;
use zerocopy::IntoBytes;

use crate::changed::Changed;
use crate::log_body::{file_number, page_number, read};
use crate::page::free_pages::META_PAGE;
use crate::page::log_records::{FreePage, WritePiece, FREE_PAGE};
use crate::pages::{loose_rank, Pages};
use crate::Result;

/// An upper bound of the bytes of the body of the log record that frees a page.
pub(crate) const FREE_BODY_BYTES: usize = 64;

/// The result of an undo function.
pub(crate) type Undone = libtp_txn::Result<()>;

/// Undoes a log record: reads its body with `parse`, and calls `work` with the pages of the record's file.
pub(crate) fn undo<'b, T>(
    change: &Change<'_>,
    logged: &RecordRef<'b>,
    parse: impl FnOnce(&'b [u8]) -> std::result::Result<T, Damage>,
    work: impl FnOnce(&Pages<'_>, T) -> Result<()>,
) -> Undone {
    let parsed = read::<U64>(logged.body).and_then(|(packed, _)| Ok((packed.get(), parse(logged.body)?)));
    undo_parsed(change, logged, parsed, work)
}

/// As [`undo`], for a change of one record.
pub(crate) fn undo_changed<'b>(
    change: &Change<'_>,
    logged: &RecordRef<'b>,
    work: impl FnOnce(&Pages<'_>, Changed<'b, 'b>) -> Result<()>,
) -> Undone {
    undo_parsed(change, logged, Changed::read(logged.body).map(|undone| (undone.page, undone)), work)
}

fn undo_parsed<T>(
    change: &Change<'_>,
    logged: &RecordRef<'_>,
    parsed: std::result::Result<(u64, T), Damage>,
    work: impl FnOnce(&Pages<'_>, T) -> Result<()>,
) -> Undone {
    let (packed, body) = parsed.map_err(|damage| libtp_txn::Error::Undo { lsn: logged.lsn, what: damage.0 })?;
    let pages = Pages::new(*change, FileId::new(file_number(packed)));
    work(&pages, body).map_err(|error| error.during_undo(logged.lsn))
}

/// Undoes the writing of a piece of a long value: frees its page. No session can be on the way to the page, because the
/// leaf that led to it was restored before.
pub fn write_piece(change: &Change<'_>, logged: &RecordRef<'_>) -> Undone {
    undo(change, logged, read::<WritePiece>, |pages, (record, _)| {
        free_page(pages, page_number(record.page.get()), logged.header.prev())
    })
}

/// Frees a page to which no session can be on the way.
pub(crate) fn free_page(pages: &Pages<'_>, number: u32, undo_next: Lsn) -> Result<()> {
    if number <= META_PAGE {
        return Err(
            pages.corrupt(number, "a log record put a value or a leaf there, but this page never has such contents")
        );
    }
    pages.reserve_undo(pages.page_bytes()?, size_of::<FreePage>())?;
    let (pin, meta_pin) = (pages.pin(number)?, pages.pin(META_PAGE)?);
    let mut page = pin.exclusive(loose_rank());
    let mut meta = meta_pin.exclusive(Rank::META);
    let next = pages.meta_of(&meta)?.free_head;
    let record = FreePage { page: pages.id(number).raw().into(), next, unused: 0.into() };
    failpoint("undo: about to free a page");
    pages.compensate_checked(FREE_PAGE, record.as_bytes(), &mut [&mut page, &mut meta], undo_next)?;
    failpoint("undo: page freed");
    Ok(())
}

//! Undo: the program's function undoes the change on a copy of the page, or the old bytes are restored.

use libtp_buffer::FileId;
use libtp_log::RecordRef;
use libtp_txn::{application, Change, PageFn};
use rio::{failpoint, planted};

use crate::btree::difference::Difference;
use crate::log_body::{file_number, page_number};
use crate::page::PageKind;
use crate::page_header;
use crate::paged::change::BEGIN;
use crate::paged::log_records::{encode_restore, parse, Parsed, LOGICAL, RESTORE};
use crate::pages::{Pages, ROUNDS_MAX};
use crate::{Error, Result};

/// Undoes a change.
pub fn change(change: &Change<'_>, logged: &RecordRef<'_>) -> libtp_txn::Result<()> {
    let applications = &change.managers.types.applications;
    let parsed = parse(logged.body).map_err(|damage| libtp_txn::Error::Undo { lsn: logged.lsn, what: damage.0 })?;
    // Any process can restore bytes.
    let needs_the_program = parsed.record.flags & LOGICAL != 0;
    if needs_the_program && !planted("txn: changes without a registered undo are dropped") {
        applications.check(logged)?;
    }
    let pages = Pages::new(*change, FileId::new(file_number(parsed.record.page.get())));
    let function = applications.get(parsed.record.code.get()).and_then(|known| known.undo.as_deref());
    let is_logical = needs_the_program && !planted("paged: an undo restores bytes and does not call the program");
    let undone = match function.filter(|_| is_logical) {
        Some(function) => by_function(&pages, &parsed, function, logged),
        None => by_bytes(&pages, &parsed, logged),
    };
    undone.map_err(|error| error.during_undo(logged.lsn))
}

fn by_bytes(pages: &Pages<'_>, parsed: &Parsed<'_>, logged: &RecordRef<'_>) -> Result<()> {
    pages.reserve_undo(pages.page_bytes()?, logged.body.len())?;
    let number = page_number(parsed.record.page.get());
    let mut page = pages.exclusive(number, 0)?;
    if page_header::kind(&page) != PageKind::Application as u8 {
        return Err(pages.corrupt(
            number,
            "it is not an application page, so a change that the program made to it cannot be undone",
        ));
    }
    let mut body = pages.change.txn.scratch();
    encode_restore(body.writer(), parsed.record.page.get(), parsed.record.at.get().into(), parsed.before);
    failpoint("paged: page latched to restore");
    pages.compensate_checked(RESTORE, body.body(), &mut [&mut page], logged.header.prev())?;
    failpoint("paged: restored");
    Ok(())
}

fn by_function(pages: &Pages<'_>, parsed: &Parsed<'_>, function: &PageFn, logged: &RecordRef<'_>) -> Result<()> {
    let packed = parsed.record.page.get();
    let number = page_number(packed);
    let page_bytes = pages.page_bytes()?;
    for _ in 0..ROUNDS_MAX {
        let (lsn, before) = {
            let page = pages.shared(number, 0)?;
            (page.lsn(), page[BEGIN..].to_vec())
        };
        let mut after = before.clone();
        application::call(function, &mut after, parsed.argument).map_err(|what| Error::Page {
            database: pages.name(),
            page: number - crate::page::free_pages::FIRST_PAGE,
            what: format!(
                "the program's function that is to undo \"{}\" (code {}) refused: {what}",
                String::from_utf8_lossy(parsed.name),
                parsed.record.code
            ),
        })?;
        failpoint("paged: undone on a copy, not on the page");
        pages.reserve_undo(page_bytes, page_bytes)?;
        let mut page = pages.exclusive(number, 0)?;
        if page.lsn() != lsn {
            continue;
        }
        let middle = Difference::between(&before, &after);
        let put = &after[middle.offset..middle.offset + middle.put];
        let mut body = pages.change.txn.scratch();
        encode_restore(body.writer(), packed, BEGIN + middle.offset, put);
        failpoint("paged: page latched to undo");
        pages.compensate_checked(RESTORE, body.body(), &mut [&mut page], logged.header.prev())?;
        failpoint("paged: undone by the program");
        return Ok(());
    }
    Err(pages.corrupt(number, "other changes of the page interrupted each attempt to undo a change"))
}

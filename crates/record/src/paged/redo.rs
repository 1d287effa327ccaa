//! The redo of each log record of pages on each page that it names: stores the bytes at their offset. The functions are
//! pure, and independent of the program's type.

use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::PageKind;
use crate::page_header;
use crate::paged::log_records::{parse, Restore};
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

/// Redoes a change.
pub fn change(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let parsed = parse(body)?;
    let (packed, page_count) = (parsed.record.page.get(), parsed.record.page_count.get());
    let at = usize::from(parsed.record.at.get());
    match role {
        0 if page_count != 0 => {
            let bytes = page.fresh();
            let (file, number) = (file_number(packed), page_number(packed));
            page_header::make_new(bytes, file, number, PageKind::Application as u8, 0);
            let place = bytes.get_mut(at..at + parsed.after.len()).ok_or_else(outside)?;
            place.copy_from_slice(parsed.after);
            Ok(())
        }
        0 => store(page, at, parsed.after),
        1 => free_pages::set_allocated(page, 0, page_count),
        _ => no_role(role),
    }
}

/// Redoes a compensation.
pub fn restore(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<Restore>(body)?;
    let bytes = take(&mut rest, usize::from(record.bytes.get()))?;
    store(page, record.at.get().into(), bytes)
}

fn outside() -> Damage {
    Damage("the change would reach beyond its end".into())
}

fn store(page: &mut PageMut<'_, '_>, at: usize, bytes: &[u8]) -> Redone {
    if page_header::kind(page.bytes()) != PageKind::Application as u8 {
        return Err(Damage("it is not a page of the program".into()));
    }
    if at + bytes.len() > page.bytes().len() {
        return Err(outside());
    }
    page.range(at..at + bytes.len()).copy_from_slice(bytes);
    Ok(())
}

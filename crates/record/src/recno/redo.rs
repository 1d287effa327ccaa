//! The redo of each log record of a recno file on each page it names. Pure.

use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::recno::{make_new, RecnoPage, HEADER_AT, SLOT_HEAD};
use crate::page::record_lsn::{pack_lsn, unpack_lsn, RecordFlags};
use crate::recno::log_records::{Change, Restore, StartPage};
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;
use rio::Store;

/// Redoes a put, an update or a deletion.
#[inline]
pub fn change(page: &mut PageMut<'_, '_>, role: usize, lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<Change>(body)?;
    take(&mut rest, usize::from(record.cut_bytes.get()))?;
    let put = take(&mut rest, usize::from(record.put_bytes.get()))?;
    let word = pack_lsn(lsn, RecordFlags(record.flags_after));
    store(page, record.slot.get().into(), word, record.offset.get().into(), put)
}

/// Redoes a compensation.
pub fn restore(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<Restore>(body)?;
    let put = take(&mut rest, usize::from(record.put_bytes.get()))?;
    store(page, record.slot.get().into(), record.lsn_and_flags.get(), record.offset.get().into(), put)
}

/// Stores a slot's word and a part of its record; a ghost gets zeros.
#[inline]
fn store(page: &mut PageMut<'_, '_>, slot: usize, lsn_and_flags: u64, offset: usize, put: &[u8]) -> Redone {
    let recno = RecnoPage::over(page.bytes()).ok_or_else(|| Damage("it is not a recno page".into()))?;
    let (used, length) = (recno.used(), recno.record_bytes());
    let at = recno.slot_at(slot).ok_or_else(|| Damage(format!("it has no slot {slot}")))?;
    if offset + put.len() > length {
        return Err(Damage(format!("its records have {length} bytes, too few for the change")));
    }
    let count = u32::try_from(slot + 1).map_err(|_| Damage(format!("it has no slot {slot}")))?;
    let header = recno.with_used(count);
    let bytes_at = at + SLOT_HEAD;
    let word = lsn_and_flags.to_le_bytes();
    let (_, flags) = unpack_lsn(lsn_and_flags);
    if flags.has(RecordFlags::GHOST) {
        let bytes = page.range(at..bytes_at + length);
        bytes[..SLOT_HEAD].copy_from_slice(&word);
        bytes[SLOT_HEAD..].fill(0);
        if slot >= used {
            page.range(HEADER_AT..HEADER_AT + 8).copy_from_slice(&header);
        }
        return Ok(());
    }
    // The slot's number leads to the place. The LSN comes first: a reader that finds it takes the bytes from the log
    // (PROTOCOLS S2). The count of used slots is compared, so it is stored at once, last.
    let (word, put) = (Store::Bytes(at, &word), Store::Bytes(bytes_at + offset, put));
    if slot >= used {
        page.again([word, put, Store::Whole(HEADER_AT, header)]);
    } else {
        page.again([word, put]);
    }
    Ok(())
}

/// Redoes the beginning of a page.
pub fn start_page(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    let (record, _) = read::<StartPage>(body)?;
    let packed = record.page.get();
    match role {
        0 => {
            make_new(page, (file_number(packed), page_number(packed)), record.record_bytes.get());
            Ok(())
        }
        1 => free_pages::set_tail(page, page_number(packed)),
        _ => no_role(role),
    }
}

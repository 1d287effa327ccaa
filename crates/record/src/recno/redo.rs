//! The redo of each log record of a recno file on each page it names. Pure.

use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::recno::{make_new, RecnoPage, HEADER_AT, SLOT_HEAD};
use crate::page::record_lsn::{pack_lsn, unpack_lsn, RecordFlags};
use crate::recno::log_records::{Change, Restore, StartPage};
use libtp_buffer::PageMut;
use libtp_log::Lsn;
use libtp_txn::Damage;

/// Redoes a put, an update or a deletion.
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
fn store(page: &mut PageMut<'_, '_>, slot: usize, lsn_and_flags: u64, offset: usize, put: &[u8]) -> Redone {
    let recno = RecnoPage::over(page.bytes()).ok_or_else(|| Damage("it is not a recno page".into()))?;
    let (used, length) = (recno.used(), recno.record_bytes());
    let at = recno.slot_at(slot).ok_or_else(|| Damage(format!("it has no slot {slot}")))?;
    if offset + put.len() > length {
        return Err(Damage(format!("its records have {length} bytes, too few for the change")));
    }
    let bytes_at = at + SLOT_HEAD;
    let (_, flags) = unpack_lsn(lsn_and_flags);
    if flags.has(RecordFlags::GHOST) {
        let slot = page.range(at..bytes_at + length);
        slot[..SLOT_HEAD].copy_from_slice(&lsn_and_flags.to_le_bytes());
        slot[SLOT_HEAD..].fill(0);
    } else {
        page.range(at..bytes_at).copy_from_slice(&lsn_and_flags.to_le_bytes());
        page.range(bytes_at + offset..bytes_at + offset + put.len()).copy_from_slice(put);
    }
    if slot >= used {
        let used = u32::try_from(slot + 1).map_err(|_| Damage(format!("it has no slot {slot}")))?;
        page.range(HEADER_AT..HEADER_AT + 4).copy_from_slice(&used.to_le_bytes());
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

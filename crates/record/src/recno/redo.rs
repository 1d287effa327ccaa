//! The redo of each log record of a recno file, on each page that the log record names. Pure.

use crate::changed::Changed;
use crate::log_body::{file_number, no_role, page_number, read, take, Redone};
use crate::page::free_pages;
use crate::page::recno::{make_new, RecnoPage, HEADER_AT, SLOT_HEAD};
use crate::page::record_lsn::{pack_lsn, unpack_lsn, RecordFlags};
use crate::recno::log_records::{Restore, StartPage};
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
    let change = Changed::read(body)?;
    store(page, Seat::find(page, change.slot)?, pack_lsn(lsn, change.flags_after), change.offset, change.put)
}

/// Redoes a compensation.
pub fn restore(page: &mut PageMut<'_, '_>, role: usize, _lsn: Lsn, body: &[u8]) -> Redone {
    if role != 0 {
        return no_role(role);
    }
    let (record, mut rest) = read::<Restore>(body)?;
    let put = take(&mut rest, usize::from(record.put_bytes.get()))?;
    let seat = Seat::find(page, record.slot.get().into())?;
    store(page, seat, record.lsn_and_flags.get(), record.offset.get().into(), put)
}

/// The place of a record on its page.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    /// The offset of the record's slot.
    at: usize,
    /// The bytes of a record.
    length: usize,
    /// For a slot that was never used: the first bytes of the page's header, which count the slot as used.
    header: Option<[u8; 8]>,
}

impl Seat {
    /// Returns the place of the record at a slot; `None` if the page does not have the slot.
    #[inline]
    pub(crate) fn at(recno: &RecnoPage<'_>, slot: usize) -> Option<Seat> {
        let count = u32::try_from(slot + 1).ok()?;
        let header = (slot >= recno.used()).then(|| recno.with_used(count));
        Some(Seat { at: recno.slot_at(slot)?, length: recno.record_bytes(), header })
    }

    fn find(page: &PageMut<'_, '_>, slot: usize) -> Result<Seat, Damage> {
        let recno = RecnoPage::over(page.bytes()).ok_or_else(|| Damage("it is not a recno page".into()))?;
        Seat::at(&recno, slot).ok_or_else(|| Damage(format!("it has no slot {slot}")))
    }
}

/// Stores a slot's word and a part of its record. A ghost gets zeros.
#[inline]
pub(crate) fn store(page: &mut PageMut<'_, '_>, seat: Seat, lsn_and_flags: u64, offset: usize, put: &[u8]) -> Redone {
    let Seat { at, length, header } = seat;
    if offset + put.len() > length {
        return Err(Damage(format!("its records have {length} bytes, too few for the change")));
    }
    let bytes_at = at + SLOT_HEAD;
    let word = lsn_and_flags.to_le_bytes();
    let (_, flags) = unpack_lsn(lsn_and_flags);
    if flags.has(RecordFlags::GHOST) {
        let bytes = page.range(at..bytes_at + length);
        bytes[..SLOT_HEAD].copy_from_slice(&word);
        bytes[SLOT_HEAD..].fill(0);
        if let Some(header) = header {
            page.range(HEADER_AT..HEADER_AT + 8).copy_from_slice(&header);
        }
        return Ok(());
    }
    // The slot's number determines the place. The LSN is stored first: a reader that finds the new LSN takes the bytes
    // from the log (PROTOCOLS S2). The count of used slots is stored last and in one piece, because readers compare it.
    let (word, put) = (Store::Bytes(at, &word), Store::Bytes(bytes_at + offset, put));
    match header {
        Some(header) => page.again([word, put, Store::Whole(HEADER_AT, header)]),
        None => page.again([word, put]),
    }
    Ok(())
}

/// Redoes the addition of a page.
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

//! The recno file's log records.
//!
//! Paper: LIBTP 3.2.6. Records never move, so page and slot are the key: undo finds a record by them. Byte tables:
//! docs/formats/log.md.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::IntoBytes;

use crate::btree::difference::Difference;
use crate::log_body::{body, short};
use crate::page::recno::Slot;
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use libtp_log::Lsn;

/// A record enters an empty slot. Undo: a ghost with the old LSN.
pub const PUT: u16 = 64;
/// A record changes. Undo: the old bytes and LSN.
pub const UPDATE: u16 = 65;
/// A record becomes a ghost. Undo: as for an update.
pub const DELETE: u16 = 66;
/// The compensation of [`PUT`], [`UPDATE`] and [`DELETE`].
pub const RESTORE: u16 = 67;
/// The file gets another page. Roles: the page, the meta page. No undo.
pub const START_PAGE: u16 = 68;

body! {
    /// Body of [`PUT`], [`UPDATE`] and [`DELETE`]; the bytes taken out and the bytes put in follow.
    Change, 32 {
        /// 00: the page.
        page: U64,
        /// 08: the slot.
        slot: U16,
        /// 10: where in the record the change begins.
        offset: U16,
        /// 12: number of bytes taken out: the replaced bytes of an update, the whole record of a deletion, zero for a
        /// put.
        cut_bytes: U16,
        /// 14: number of bytes put in: the new bytes of an update, zero for a deletion, the whole record of a put.
        put_bytes: U16,
        /// 16: the flags before.
        flags_before: u8,
        /// 17: the flags after.
        flags_after: u8,
        /// 18: zero.
        unused: U16,
        /// 20: zero.
        unused_2: U32,
        /// 24: the LSN the record had.
        lsn_before: U64,
    }
}

body! {
    /// Body of [`RESTORE`]; the bytes put in follow, none for a ghost.
    Restore, 24 {
        /// 00: the page.
        page: U64,
        /// 08: the slot.
        slot: U16,
        /// 10: where in the record the bytes are put in.
        offset: U16,
        /// 12: number of bytes that follow.
        put_bytes: U16,
        /// 14: zero.
        unused: U16,
        /// 16: the LSN the record gets back, its flags in the top byte.
        lsn_and_flags: U64,
    }
}

body! {
    /// Body of [`START_PAGE`].
    StartPage, 16 {
        /// 00: the new page.
        page: U64,
        /// 08: bytes of a record.
        record_bytes: U32,
        /// 12: zero.
        unused: U32,
    }
}

/// Appends the body of a change that gives the slot `after`, or makes it a ghost for `None`.
#[inline]
pub fn encode_change(body: &mut Vec<u8>, page: u64, slot: usize, before: &Slot<'_>, after: Option<&[u8]>) {
    let (middle, flags_after) = match after {
        None => (Difference { offset: 0, cut: before.bytes.len(), put: 0 }, RecordFlags::GHOST),
        Some(after) if before.is_record() => (Difference::between(before.bytes, after), RecordFlags::NONE),
        Some(after) => (Difference { offset: 0, cut: 0, put: after.len() }, RecordFlags::NONE),
    };
    let record = Change {
        page: page.into(),
        slot: short(slot),
        offset: short(middle.offset),
        cut_bytes: short(middle.cut),
        put_bytes: short(middle.put),
        flags_before: before.flags.0,
        flags_after: flags_after.0,
        lsn_before: before.lsn.raw().into(),
        ..Change::default()
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(&before.bytes[middle.offset..middle.offset + middle.cut]);
    body.extend_from_slice(&after.unwrap_or_default()[middle.offset..middle.offset + middle.put]);
}

/// Appends the body of the compensation of a change that took out `cut_out`.
pub fn encode_restore(body: &mut Vec<u8>, undone: &Change, cut_out: &[u8]) {
    let flags = RecordFlags(undone.flags_before);
    let never_committed = undone.lsn_before.get() == 0;
    let flags = if never_committed { RecordFlags::GHOST } else { flags };
    let record = Restore {
        page: undone.page,
        slot: undone.slot,
        offset: undone.offset,
        put_bytes: undone.cut_bytes,
        unused: 0.into(),
        lsn_and_flags: pack_lsn(Lsn::new(undone.lsn_before.get()), flags).into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(cut_out);
}

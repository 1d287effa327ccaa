//! The recno file's log records.
//!
//! Paper: LIBTP 3.2.6. Records never move, so undo finds a record by its page and slot. A change has the
//! body of ../changed.rs, without a key. Byte tables: docs/formats/log.md.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::IntoBytes;

use crate::btree::difference::Difference;
use crate::changed::Changed;
use crate::log_body::{body, short};
use crate::page::recno::Slot;
use crate::page::record_lsn::{pack_lsn, RecordFlags};

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
    /// Body of [`RESTORE`], followed by the restored bytes; for a ghost, no bytes follow.
    Restore, 24 {
        /// 00: the page.
        page: U64,
        /// 08: the slot.
        slot: U16,
        /// 10: the offset in the record at which the bytes are restored.
        offset: U16,
        /// 12: number of bytes that follow.
        put_bytes: U16,
        /// 14: zero.
        unused: U16,
        /// 16: the record's LSN before the undone change, with its flags in the top byte.
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

/// Returns the change that stores the record `after` in a slot. If `after` is `None`, the slot becomes a ghost.
#[inline]
pub fn changed<'c, 'b>(page: u64, slot: usize, before: &Slot<'c>, after: Option<&'b [u8]>) -> Changed<'c, 'b> {
    let (middle, flags_after) = match after {
        None => (Difference { offset: 0, cut: before.bytes.len(), put: 0 }, RecordFlags::GHOST),
        Some(after) if before.is_record() => (Difference::between(before.bytes, after), RecordFlags::NONE),
        Some(after) => (Difference { offset: 0, cut: 0, put: after.len() }, RecordFlags::NONE),
    };
    Changed {
        page,
        slot,
        key: &[],
        offset: middle.offset,
        cut: &before.bytes[middle.offset..middle.offset + middle.cut],
        put: &after.unwrap_or_default()[middle.offset..middle.offset + middle.put],
        flags_before: before.flags,
        flags_after,
        lsn_before: before.lsn,
    }
}

/// Appends the body of the compensation of a change.
pub fn encode_restore(body: &mut Vec<u8>, undone: &Changed<'_, '_>) {
    let never_committed = undone.lsn_before.is_none();
    let flags = if never_committed { RecordFlags::GHOST } else { undone.flags_before };
    let record = Restore {
        page: undone.page.into(),
        slot: short(undone.slot),
        offset: short(undone.offset),
        put_bytes: short(undone.cut.len()),
        unused: 0.into(),
        lsn_and_flags: pack_lsn(undone.lsn_before, flags).into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(undone.cut);
}

//! Changes a value: reads the value, passes it to the caller's code, and writes the result to the same place.
//!
//! Paper: LIBTP 4.4. While the caller's code runs, the session holds the record's lock but no latch (PROTOCOLS D12). So
//! it latches the leaf twice. The leaf's LSN shows whether the leaf has changed in between; if so, the change is made
//! as a put.

use libtp_buffer::page_lsn;
use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::btree::encode::{self, After, Before};
use crate::btree::get::LeafPlace;
use crate::btree::log_records::UPDATE;
use crate::btree::redo;
use crate::changed::BODY_HEAD_MAX;
use crate::locking::Access;
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use crate::shortcuts::Name;
use crate::Result;

impl Access<'_> {
    /// Changes a record in its earlier place, if its leaf has not changed since and the change needs no wait. Returns
    /// whether the record was changed.
    #[inline]
    pub(crate) fn change_at(&self, key: &[u8], value: &[u8], place: LeafPlace) -> Result<bool> {
        let body_bytes = BODY_HEAD_MAX + key.len() + 2 * value.len();
        self.pages.reserve_own(self.database.page_bytes(), body_bytes)?;
        let mut leaf = match self.pages.exclusive_again(place.page, 0) {
            Some(leaf) => leaf,
            None => self.pages.exclusive(place.page, 0)?,
        };
        let page: &[u8] = &leaf;
        // A page with the same LSN has the same bytes: each change of a page stores another LSN.
        let is_as_it_was = page_lsn(page) == place.page_lsn && place.page_lsn != Lsn::NONE;
        if !is_as_it_was && !planted("record: a record is changed at its old place although its leaf has changed") {
            return Ok(false);
        }
        let seat = place.seat;
        let Some(stored) = seat.stored(page).filter(|stored| stored.len() == value.len()) else { return Ok(false) };
        let before = Before { stored, flags: RecordFlags::NONE, lsn: place.record_lsn };
        let after = After { stored: value, flags: RecordFlags::NONE };
        let changed = encode::update(self.pages.id(place.page).raw(), seat.slot, &before, key, after);
        if !changed.is_any() {
            return Ok(true);
        }
        let mut record = self.pages.change.txn.scratch();
        changed.write(&mut record);
        let edit = changed.edit();
        failpoint("update: in its place, leaf latched");
        self.leave_shortcut(Name::Key(key), before.lsn, before.flags, before.stored);
        self.pages.change.apply_by(UPDATE, &mut record, &mut leaf, |page, lsn| {
            redo::edited(page, seat, edit, pack_lsn(lsn, RecordFlags::NONE))
        });
        failpoint("update: updated in its place");
        Ok(true)
    }
}

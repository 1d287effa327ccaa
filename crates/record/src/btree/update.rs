//! Changes a value: reads it, passes it to the caller, and writes it back to its place.
//!
//! Paper: LIBTP 4.4. While the caller's code runs, the session holds the record's lock but no latch (PROTOCOLS D12). So
//! it latches the leaf twice, and the leaf's LSN shows whether the record is still in its place. If not, this is a put.

use libtp_buffer::page_lsn;
use libtp_log::Lsn;
use rio::failpoint;

use crate::btree::encode::{self, After};
use crate::btree::get::LeafPlace;
use crate::btree::log_records::{Update, UPDATE};
use crate::btree::redo;
use crate::locking::Access;
use crate::page::node::Node;
use crate::page::record_lsn::RecordFlags;
use crate::shortcuts::Name;
use crate::Result;

impl Access<'_> {
    /// Changes a record in its earlier place, if its leaf has not changed since and nothing stands in the way. Returns
    /// whether it did.
    #[inline]
    pub(crate) fn change_at(&self, key: &[u8], value: &[u8], place: LeafPlace) -> Result<bool> {
        let body_bytes = size_of::<Update>() + key.len() + 2 * value.len();
        self.pages.reserve_own(self.database.page_bytes(), body_bytes)?;
        let mut leaf = match self.pages.exclusive_again(place.page, 0) {
            Some(leaf) => leaf,
            None => self.pages.exclusive(place.page, 0)?,
        };
        let page: &[u8] = &leaf;
        if page_lsn(page) != place.lsn || place.lsn == Lsn::NONE {
            return Ok(false);
        }
        // The page was a leaf with that record at that LSN. If it is damaged now, `put` reports it.
        let Some(before) = Node::over(page).and_then(|node| node.record(place.slot)) else { return Ok(false) };
        if before.flags != RecordFlags::NONE || before.stored.len() != value.len() {
            return Ok(false);
        }
        let after = After { stored: value, flags: RecordFlags::NONE };
        let mut record = self.pages.change.txn.scratch();
        if !encode::update(record.writer(), self.pages.id(place.page).raw(), place.slot, &before, key, after) {
            return Ok(true);
        }
        failpoint("update: in its place, leaf latched");
        self.leave_shortcut(Name::Key(key), before.lsn, before.flags, before.stored);
        self.pages.change.apply_by(UPDATE, &mut record, &mut leaf, redo::update);
        failpoint("update: updated in its place");
        Ok(true)
    }
}

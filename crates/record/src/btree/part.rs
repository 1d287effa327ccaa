//! Changes a part of a value in place, in a B-tree and in a hash file. The change needs one search and one exclusive
//! latch.
//!
//! Paper: none (see ../part.rs). Before the search, without a latch, the session takes the record's lock and reserves
//! all room (PROTOCOLS D11). The change is data, not a function of the program, so the session makes it under the latch
//! of the search (D12). If the change in place is impossible (a long value, a page that is not in memory, another
//! transaction's lock on the page), the session updates a copy of the value. Both ways write the log record of an
//! update.

use rio::{failpoint, planted};

use crate::btree::change::{Leaf, Seek, Spot};
use crate::btree::encode::{self, Before};
use crate::btree::redo;
use crate::changed::{Edit, BODY_HEAD_MAX};
use crate::database::Granularity;
use crate::key_hash::key_hash;
use crate::locking::{Access, Purpose};
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use crate::part::Part;
use crate::shortcuts::Name;
use crate::Result;

impl<'a> Access<'a> {
    /// Changes the part of a key's value that begins at `offset`. Returns `None` if there is no such record.
    #[inline]
    pub(crate) fn change_part_of<L: Leaf<'a>, P: Part>(
        &self,
        key: &[u8],
        offset: usize,
        part: P,
    ) -> Result<Option<P::Told>> {
        match self.change_part_in_place::<L, P>(key, offset, part)? {
            Some(found) => Ok(found),
            None => self.change_part_of_copy(key, offset, part),
        }
    }

    /// Like [`Access::change_part_of`], but changes a copy of the value and stores the copy.
    #[cold]
    #[inline(never)]
    fn change_part_of_copy<P: Part>(&self, key: &[u8], offset: usize, part: P) -> Result<Option<P::Told>> {
        self.update(key, |value| part.change_copy(self.database.name(), value, offset))?.transpose()
    }

    /// Like [`Access::change_part_of`], but under one latch. If that is impossible, returns `None` and changes nothing.
    #[inline]
    fn change_part_in_place<L: Leaf<'a>, P: Part>(
        &self,
        key: &[u8],
        offset: usize,
        part: P,
    ) -> Result<Option<Option<P::Told>>> {
        let (pages, page_bytes) = (&self.pages, self.database.page_bytes());
        let (granularity, hash) = match planted("record: a part is changed without a lock") {
            true => (self.enter(Purpose::Write)?, key_hash(key)),
            false => self.lock_to_change::<L>(key)?,
        };
        // Room for a page is enough: a longer part is refused, or belongs to a long value, and then a copy is changed.
        pages.reserve_own(page_bytes, BODY_HEAD_MAX + key.len() + 2 * part.count().min(page_bytes))?;
        if granularity == Some(Granularity::Page) {
            self.reserve_lock()?;
        }
        let _visit = L::visit(pages);
        let Some((mut leaf, sought)) = L::seek(self, key, hash)? else { return Ok(None) };
        if leaf.try_lock(self, granularity)?.is_some() {
            return Ok(None);
        }
        let (mut place, Spot { page: number, seat, lsn, flags }) = match sought {
            Seek::Record(place, spot) => (place, spot),
            Seek::Nothing => return Ok(Some(None)),
        };
        if flags.has(RecordFlags::GHOST) {
            return Ok(Some(None));
        }
        if flags != RecordFlags::NONE && !planted("record: a part of a long value is changed on the leaf") {
            return Ok(None);
        }
        let Some(stored) = seat.stored(leaf.page(&place).1) else { return Ok(None) };
        let old = part.of(self.database.name(), stored, offset)?;
        let (new, told) = part.change(old);
        let before = Before { stored: old, flags, lsn };
        let changed = encode::part(pages.id(number).raw(), seat.slot, &before, key, offset, new.as_ref());
        if !changed.is_any() {
            return Ok(Some(Some(told)));
        }
        let mut body = pages.change.txn.scratch();
        changed.write(&mut body);
        let Edit { offset, put, .. } = changed.edit();
        failpoint("part: page latched to change");
        self.leave_shortcut(Name::Key(key), lsn, flags, stored);
        let (_, page) = leaf.page_mut(&mut place);
        pages.change.apply_by(L::CODES.update, &mut body, page, |page, lsn| {
            redo::edited_in_place(page, seat, offset, put, pack_lsn(lsn, RecordFlags::NONE));
            Ok(())
        });
        failpoint("part: changed");
        Ok(Some(Some(told)))
    }
}

//! Storing and deleting a record under a number.
//!
//! A number beyond the end makes the file reach it; the numbers in between hold no records.

use std::ops::Range;

use libtp_lock::{LockName, Mode};
use rio::failpoint;

use crate::access::{Access, Purpose, Tried};
use crate::database::Granularity;
use crate::lock_names;
use crate::pages::ROUNDS_MAX;
use crate::recno::log_records::{encode_change, Change, DELETE, PUT, UPDATE};
use crate::snapshot::Name;
use crate::{Error, Result};

/// A number so many pages beyond the end is taken for a mistake: the file would be filled with nothing up to it.
const PAGES_AT_ONCE_MAX: u32 = 1 << 20;

impl Access<'_> {
    /// Stores a record under a number, whatever was there.
    ///
    /// # Errors
    /// [`Error::RecordLength`], [`Error::RecordNumber`], and what locks, log and pages can fail with; nothing was changed
    /// then, though the file may have grown.
    #[inline]
    pub fn recno_put(&self, number: u64, record: &[u8]) -> Result<()> {
        self.check_record(record)?;
        self.recno_change(number, Some(record)).map(|_| ())
    }

    /// Deletes a record, and returns whether there was one.
    ///
    /// # Errors
    /// As [`Access::recno_put`].
    pub fn recno_delete(&self, number: u64) -> Result<bool> {
        self.check_recno()?;
        let _freeing = self.pages.session().begin_freeing();
        self.recno_change(number, None)
    }

    /// Refuses a record of another length than the file's.
    #[inline]
    pub(crate) fn check_record(&self, record: &[u8]) -> Result<()> {
        self.check_recno()?;
        let expected = self.database.arithmetic().record_bytes;
        if record.len() == expected {
            return Ok(());
        }
        Err(Error::RecordLength { database: self.database.name().to_string(), bytes: record.len(), expected })
    }

    /// What a change of a record may log.
    #[inline]
    pub(crate) fn reserve_record(&self) -> Result<()> {
        let bytes = size_of::<Change>() + 2 * self.database.arithmetic().record_bytes;
        self.pages.reserve_own(self.database.page_bytes(), bytes)?;
        self.reserve_lock()
    }

    fn recno_change(&self, number: u64, record: Option<&[u8]>) -> Result<bool> {
        let place = self.database.arithmetic().place(number);
        let (page_number, slot) = place.ok_or_else(|| self.no_such_number(number))?;
        let granularity = self.lock_number(number, page_number, Purpose::Write)?;
        for _ in 0..ROUNDS_MAX {
            if !self.has_page(page_number)? {
                if record.is_none() {
                    return Ok(false);
                }
                self.reach_page(page_number)?;
            }
            self.reserve_record()?;
            let mut page = self.pages.exclusive(page_number, 0)?;
            let recno = self.recno_page(page_number, &page)?;
            let before = recno.slot(slot).ok_or_else(|| self.pages.corrupt(page_number, "it is too short"))?;
            if record.is_none() && !before.is_record() {
                return Ok(false);
            }
            // Also on a page that is not the last: it was, perhaps, for a cursor that went to the end, and no further than this.
            if slot >= recno.used() && granularity.is_some() {
                let gap = lock_names::end_gap(self.database.id());
                if self.try_instant(gap, Mode::IX)? == Tried::Busy {
                    drop(page);
                    self.wait_for_gap(gap)?;
                    continue;
                }
                let passed = self.passed_unlocked(page_number, recno.used()..slot, granularity);
                if !passed.is_empty() {
                    drop(page);
                    passed.into_iter().try_for_each(|name| self.lock(name, Mode::S))?;
                    continue;
                }
            }
            let kind = match (record, before.is_record()) {
                (None, _) => DELETE,
                (Some(_), true) => UPDATE,
                (Some(_), false) => PUT,
            };
            let mut body = self.pages.change.who.scratch();
            encode_change(body.writer(), self.pages.id(page_number).raw(), slot, &before, record);
            failpoint("recno: page latched to put");
            // The ghost's zeros are nobody's bytes.
            let stored = if before.is_record() { before.bytes } else { &[] };
            let name = Name::Slot { page: self.pages.id(page_number).raw(), slot };
            self.leave_shortcut(name, before.lsn, before.flags, stored);
            self.pages.change.apply(kind, &mut body, &mut [&mut page]);
            failpoint("recno: put");
            return Ok(true);
        }
        Err(self.pages.corrupt(page_number, "a record found no place"))
    }

    /// Whether the transaction has read to the end, and has to lock what it puts records behind.
    pub(crate) fn has_read_to_end(&self, granularity: Option<Granularity>) -> bool {
        let end = lock_names::end_gap(self.database.id());
        granularity == Some(Granularity::Record) && self.holds(end).is_some_and(|mode| mode.covers(Mode::S))
    }

    /// The numbers of a page that are to be below its last used one, and are to be locked first, if the transaction has read to the
    /// end: the gap there is no lock on them any more.
    fn passed_unlocked(&self, page: u32, slots: Range<usize>, granularity: Option<Granularity>) -> Vec<LockName> {
        if slots.is_empty() || !self.has_read_to_end(granularity) {
            return Vec::new();
        }
        let names =
            slots.map(|slot| lock_names::record(self.database.id(), self.database.arithmetic().number(page, slot)));
        names.filter(|name| !self.holds(*name).is_some_and(|mode| mode.covers(Mode::S))).collect()
    }

    /// Makes the file reach a page.
    #[cold]
    fn reach_page(&self, page: u32) -> Result<()> {
        loop {
            let tail = self.recno_tail()?;
            if tail >= page {
                return Ok(());
            }
            if page - tail > PAGES_AT_ONCE_MAX {
                return Err(self.no_such_number(self.database.arithmetic().number(page, 0)));
            }
            self.start_page(tail)?;
        }
    }
}

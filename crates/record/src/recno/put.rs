//! Stores and deletes a record under a number.
//!
//! A put to a number beyond the end extends the file to this number. The numbers in between have no records.

use std::ops::Range;

use libtp_lock::{LockName, Mode};
use rio::failpoint;

use crate::changed::BODY_HEAD_MAX;
use crate::database::Granularity;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::record_lsn::pack_lsn;
use crate::pages::ROUNDS_MAX;
use crate::recno::log_records::{changed, DELETE, PUT, UPDATE};
use crate::recno::redo::{self, Seat};
use crate::shortcuts::Name;
use crate::{Error, Result};

/// The largest number of pages that one put may add. A number further beyond the end is probably a mistake, and would
/// fill the file with empty pages.
const PAGES_AT_ONCE_MAX: u32 = 1 << 20;

impl Access<'_> {
    /// Stores a record under a number, and replaces an older record with this number.
    ///
    /// # Errors
    /// [`Error::RecordLength`], [`Error::RecordNumber`], and errors of locks, log and pages. No record was changed
    /// then, but the file may have grown.
    #[inline]
    pub fn recno_put(&self, number: u64, record: &[u8]) -> Result<()> {
        self.check_record(record)?;
        self.recno_change(number, Some(record)).map(|_| ())
    }

    /// Deletes a record. Returns whether the record existed.
    ///
    /// # Errors
    /// As [`Access::recno_put`].
    pub fn recno_delete(&self, number: u64) -> Result<bool> {
        self.check_recno()?;
        let _freeing = self.pages.session().begin_freeing();
        self.recno_change(number, None)
    }

    /// Refuses a record that does not have the length of the file's records.
    #[inline]
    pub(crate) fn check_record(&self, record: &[u8]) -> Result<()> {
        self.check_recno()?;
        let expected = self.database.arithmetic().record_bytes;
        if record.len() == expected {
            return Ok(());
        }
        Err(Error::RecordLength { database: self.database.name().to_string(), bytes: record.len(), expected })
    }

    /// Reserves all that a change of a record needs.
    #[inline]
    pub(crate) fn reserve_record(&self) -> Result<()> {
        let bytes = BODY_HEAD_MAX + 2 * self.database.arithmetic().record_bytes;
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
            let (Some(before), Some(seat)) = (recno.slot(slot), Seat::at(&recno, slot)) else {
                return Err(self.pages.corrupt(page_number, "it is too short"));
            };
            if record.is_none() && !before.is_record() {
                return Ok(false);
            }
            // This is checked on every page: the page may have been the last page when a cursor went to the end, and
            // the cursor locked only the used slots.
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
            let mut body = self.pages.change.txn.scratch();
            let change = changed(self.pages.id(page_number).raw(), slot, &before, record);
            change.write(&mut body);
            failpoint("recno: page latched to put");
            // A ghost's zeros are no value.
            let stored = if before.is_record() { before.bytes } else { &[] };
            let name = Name::Slot { page: self.pages.id(page_number).raw(), slot };
            self.leave_shortcut(name, before.lsn, before.flags, stored);
            let (edit, flags) = (change.edit(), change.flags_after);
            self.pages.change.apply_by(kind, &mut body, &mut page, |page, lsn| {
                redo::store(page, seat, pack_lsn(lsn, flags), edit.offset, edit.put)
            });
            failpoint("recno: put");
            return Ok(true);
        }
        Err(self.pages.corrupt(page_number, "there was no room for a record"))
    }

    /// Returns whether the transaction has read to the end. If so, the transaction must lock the unused numbers that
    /// are below a new record.
    pub(crate) fn has_read_to_end(&self, granularity: Option<Granularity>) -> bool {
        let end = lock_names::end_gap(self.database.id());
        granularity == Some(Granularity::Record) && self.holds(end).is_some_and(|mode| mode.covers(Mode::S))
    }

    /// Returns the locks on the numbers of `slots` that the transaction must take before it stores a record with a
    /// higher number. Returns no locks if the transaction has not read to the end. Once the record is stored, these
    /// slots are below the last used slot, and the lock on the end gap does not protect them.
    fn passed_unlocked(&self, page: u32, slots: Range<usize>, granularity: Option<Granularity>) -> Vec<LockName> {
        if slots.is_empty() || !self.has_read_to_end(granularity) {
            return Vec::new();
        }
        let names =
            slots.map(|slot| lock_names::record(self.database.id(), self.database.arithmetic().number(page, slot)));
        names.filter(|name| !self.holds(*name).is_some_and(|mode| mode.covers(Mode::S))).collect()
    }

    /// Extends the file so that it has the page.
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

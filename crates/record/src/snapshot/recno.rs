//! A recno file as a snapshot shows it: one record by its number, and a cursor.
//!
//! Slots are never removed. So if a slot has no version, no record ever existed there, and the deleter LSN of the page
//! does not matter.

use std::ops::{Range, RangeInclusive};

use libtp_log::Lsn;

use super::history::Version;
use super::SnapshotAccess;
use crate::cursor::{BothWays, Cursor, Walk};
use crate::page::recno::Slot;
use crate::page::record_lsn::RecordFlags;
use crate::shortcuts::Name;
use crate::Result;

/// Returns the version of a slot on the page.
fn version_of(slot: &Slot<'_>) -> Version {
    let stored = if slot.flags.has(RecordFlags::GHOST) { Vec::new() } else { slot.bytes.to_vec() };
    Version { lsn: slot.lsn, flags: slot.flags, stored }
}

impl SnapshotAccess<'_> {
    /// Passes the record `number` to `read`. Returns `None` if there was no such record.
    ///
    /// A page may be latched while `read` runs: `read` may copy or inspect the record, and calls no other function of
    /// the library (PROTOCOLS D12).
    ///
    /// # Errors
    /// `SnapshotTooOld`, and errors of pages and the log.
    pub fn recno_get<R>(&self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let access = &self.access;
        access.check_recno()?;
        let Some((page_number, index)) = access.database.arithmetic().place(number) else { return Ok(None) };
        if !access.has_page(page_number)? {
            return Ok(None);
        }
        let newest = {
            let page = access.pages.shared(page_number, 0)?;
            let recno = access.recno_page(page_number, &page)?;
            let Some(slot) = recno.slot(index).filter(|_| index < recno.used()) else { return Ok(None) };
            if self.sees(slot.lsn) {
                return Ok(slot.is_record().then(|| read(slot.bytes)));
            }
            version_of(&slot)
        };
        let name = Name::Slot { page: access.pages.id(page_number).raw(), slot: index };
        let version = self.resolve(name, newest, Lsn::NONE)?;
        Ok(version.map(|version| read(&version.stored)))
    }
}

/// The shown records of one page, in order.
#[derive(Debug, Default)]
struct Batch {
    page: u32,
    bytes: Vec<u8>,
    entries: Vec<(u64, Range<usize>)>,
}

/// A cursor over the records of a recno file that a snapshot shows.
pub type SnapshotNumberCursor<'a> = Cursor<SnapshotNumberWalk<'a>>;

/// A walk through the records of a recno file that a snapshot shows.
pub struct SnapshotNumberWalk<'a> {
    at: SnapshotAccess<'a>,
    numbers: RangeInclusive<u64>,
    /// The entry of the walk's record.
    index: usize,
    batch: Batch,
}

impl<'a> Cursor<SnapshotNumberWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(at: SnapshotAccess<'a>) -> SnapshotNumberCursor<'a> {
        Cursor::over(SnapshotNumberWalk { at, numbers: 1..=u64::MAX, index: 0, batch: Batch::default() })
    }

    /// Limits the cursor, which has no place yet, to a range of numbers.
    #[must_use]
    pub fn within(mut self, numbers: RangeInclusive<u64>) -> SnapshotNumberCursor<'a> {
        self.walk.numbers = numbers;
        self
    }

    /// Returns the range of numbers that limits the cursor.
    pub fn numbers(&self) -> &RangeInclusive<u64> {
        &self.walk.numbers
    }
}

impl Walk for SnapshotNumberWalk<'_> {
    type Key<'k> = u64;
    type OwnedKey = u64;

    fn go_first(&mut self) -> Result<bool> {
        self.go_to(1)
    }

    fn go_next(&mut self) -> Result<bool> {
        if self.index + 1 < self.batch.entries.len() {
            self.index += 1;
            return Ok(true);
        }
        self.go_up_from(self.batch.page.saturating_add(1), 0)
    }

    fn move_after(&mut self, number: u64) -> Result<bool> {
        self.go_to(number.saturating_add(1))
    }

    fn record(&self) -> (u64, &[u8]) {
        let (number, range) = &self.batch.entries[self.index];
        (*number, &self.batch.bytes[range.clone()])
    }

    fn owned(number: u64) -> u64 {
        number
    }
}

impl BothWays for SnapshotNumberWalk<'_> {
    fn go_last(&mut self) -> Result<bool> {
        self.at.access.check_recno()?;
        let tail = self.at.access.recno_tail()?;
        self.go_down_from(self.page_of_high().min(tail))
    }

    fn go_previous(&mut self) -> Result<bool> {
        if self.index > 0 {
            self.index -= 1;
            return Ok(true);
        }
        self.go_down_from(self.batch.page - 1)
    }

    fn go_to(&mut self, number: u64) -> Result<bool> {
        self.at.access.check_recno()?;
        match self.at.access.database.arithmetic().place(number.max(*self.numbers.start())) {
            Some((page, _)) => self.go_up_from(page, number),
            None => Ok(false),
        }
    }
}

impl SnapshotNumberWalk<'_> {
    /// Returns the page of the highest number.
    fn page_of_high(&self) -> u32 {
        self.at.access.database.arithmetic().place((*self.numbers.end()).max(1)).map_or(u32::MAX, |(page, _)| page)
    }

    /// Returns the records of a page with these numbers.
    fn batch_of(&self, page: u32) -> Result<Batch> {
        let mut batch = self.at.batch_of(page)?;
        batch.entries.retain(|(number, _)| self.numbers.contains(number));
        Ok(batch)
    }

    /// Goes to the first record with `number` or a greater number, from `page` on. Stays if there is no such record.
    fn go_up_from(&mut self, page: u32, number: u64) -> Result<bool> {
        let mut page = page;
        while page <= self.page_of_high() && page <= self.at.access.recno_tail()? {
            let batch = self.batch_of(page)?;
            if let Some(index) = batch.entries.iter().position(|(at, _)| *at >= number) {
                self.batch = batch;
                self.index = index;
                return Ok(true);
            }
            page += 1;
        }
        Ok(false)
    }

    /// Goes to the last record on `page` or an earlier page. Stays if there is no such record.
    fn go_down_from(&mut self, page: u32) -> Result<bool> {
        let mut page = page;
        let first =
            self.at.access.database.arithmetic().place(*self.numbers.start()).map_or(u32::MAX, |(page, _)| page);
        while page >= first {
            let batch = self.batch_of(page)?;
            if let Some(last) = batch.entries.len().checked_sub(1) {
                self.batch = batch;
                self.index = last;
                return Ok(true);
            }
            page -= 1;
        }
        Ok(false)
    }
}

impl SnapshotAccess<'_> {
    /// Returns the shown records of a page.
    fn batch_of(&self, page_number: u32) -> Result<Batch> {
        let access = &self.access;
        let copied: Vec<(usize, Version)> = {
            let page = access.pages.shared(page_number, 0)?;
            let recno = access.recno_page(page_number, &page)?;
            let slots = (0..recno.used().min(recno.capacity())).filter_map(|index| Some((index, recno.slot(index)?)));
            slots.filter(|(_, slot)| !slot.lsn.is_none()).map(|(index, slot)| (index, version_of(&slot))).collect()
        };
        let mut batch = Batch { page: page_number, ..Batch::default() };
        for (slot, newest) in copied {
            let name = Name::Slot { page: access.pages.id(page_number).raw(), slot };
            let Some(version) = self.resolve(name, newest, Lsn::NONE)? else { continue };
            let at = batch.bytes.len();
            batch.bytes.extend_from_slice(&version.stored);
            let number = access.database.arithmetic().number(page_number, slot);
            batch.entries.push((number, at..batch.bytes.len()));
        }
        Ok(batch)
    }
}

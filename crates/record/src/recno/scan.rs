//! Walks the records in the order of their numbers, in both directions.
//!
//! A cursor locks every number that it passes, whether or not the number holds a record, so that no record appears or
//! goes behind it. At the end it locks the gap above the last number, which a transaction with a new number asks for.

use libtp_lock::Mode;

use crate::access::{Access, Purpose, Tried};
use crate::database::Granularity;
use crate::lock_names;
use crate::Result;

/// The place of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPlace {
    Nowhere,
    On(u64),
    BelowAll,
    AboveAll,
}

/// The outcome of a look at one page.
enum Look {
    /// The cursor has arrived at this number.
    Arrived(u64),
    /// The cursor must wait for the lock on this number, and look at it again.
    Wait(u64),
    /// No record between the start and the page's end.
    Passed,
}

/// A cursor over a recno file.
pub struct NumberCursor<'a> {
    access: Access<'a>,
    cursor_place: CursorPlace,
    record: Vec<u8>,
}

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<'a> NumberCursor<'a> {
    /// Returns a cursor without a place.
    pub fn new(access: Access<'a>) -> NumberCursor<'a> {
        NumberCursor { access, cursor_place: CursorPlace::Nowhere, record: Vec::new() }
    }

    /// Returns the number and record of the cursor's place.
    pub fn record(&self) -> Option<(u64, &[u8])> {
        match self.cursor_place {
            CursorPlace::On(number) => Some((number, &self.record)),
            _ => None,
        }
    }

    fn found(&self, found: bool) -> Option<(u64, Vec<u8>)> {
        self.record().filter(|_| found).map(|(number, record)| (number, record.to_vec()))
    }

    /// Goes to the first record, and returns it with its number.
    ///
    /// # Errors
    /// Locks or pages failed.
    pub fn first(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        self.seek(1)
    }

    /// Goes to the last record and returns it.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn last(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.backward(None)?;
        Ok(self.found(found))
    }

    /// Goes to the first record whose number is `number` or greater, and returns it.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn seek(&mut self, number: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.forward(number.max(1))?;
        Ok(self.found(found))
    }

    /// Goes to the next record and returns it; to the first, if the cursor has no place yet.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.move_next()?;
        Ok(self.found(found))
    }

    /// Goes to the record before and returns it; to the last, if the cursor has no place yet.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn prev(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = match self.cursor_place {
            CursorPlace::Nowhere | CursorPlace::AboveAll => self.backward(None)?,
            CursorPlace::On(number) => self.backward(Some(number))?,
            CursorPlace::BelowAll => false,
        };
        if !found {
            self.cursor_place = CursorPlace::BelowAll;
        }
        Ok(self.found(found))
    }

    /// Goes to the next record, for [`NumberCursor::record`]. Returns whether there is one.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn move_next(&mut self) -> Result<bool> {
        let found = match self.cursor_place {
            CursorPlace::Nowhere | CursorPlace::BelowAll => self.forward(1)?,
            CursorPlace::On(number) => self.forward(number.saturating_add(1))?,
            CursorPlace::AboveAll => false,
        };
        if !found {
            self.cursor_place = CursorPlace::AboveAll;
        }
        Ok(found)
    }

    /// Goes up from `number` to the first record. Stays if there is none.
    fn forward(&mut self, number: u64) -> Result<bool> {
        let access = self.access;
        access.check_recno()?;
        let granularity = access.enter(Purpose::Read)?;
        let arithmetic = access.database.arithmetic();
        let mut at = number;
        loop {
            let place = arithmetic.place(at);
            let tail = access.recno_tail()?;
            let Some((page, slot)) = place.filter(|(page, _)| *page <= tail) else {
                if self.is_end(tail, granularity)? {
                    return Ok(false);
                }
                continue;
            };
            self.lock_page(page, granularity)?;
            // On the last page only the used slots count, on the others every slot.
            let slots = if page == tail { slot..usize::MAX } else { slot..arithmetic.per_page as usize };
            match self.look(page, slots, page == tail, granularity)? {
                Look::Arrived(number) => {
                    self.cursor_place = CursorPlace::On(number);
                    return Ok(true);
                }
                Look::Wait(number) => {
                    access.lock(lock_names::record(access.database.id(), number), Mode::S)?;
                    at = number;
                }
                Look::Passed if page < tail => at = arithmetic.number(page + 1, 0),
                Look::Passed if self.is_end(tail, granularity)? => return Ok(false),
                Look::Passed => {}
            }
        }
    }

    /// Goes down to the last record below `number`, or to the last of all. Stays if there is none.
    fn backward(&mut self, number: Option<u64>) -> Result<bool> {
        let access = self.access;
        access.check_recno()?;
        let granularity = access.enter(Purpose::Read)?;
        let arithmetic = access.database.arithmetic();
        if number.is_none() && granularity.is_some() {
            access.lock(lock_names::end_gap(access.database.id()), Mode::S)?;
        }
        let tail = access.recno_tail()?;
        let end = arithmetic.number(tail + 1, 0);
        // The cursor has passed the numbers from here on.
        let mut at = number.map_or(end, |number| number.min(end));
        while tail != 0 && at > 1 {
            let Some((page, last)) = arithmetic.place(at - 1) else { break };
            self.lock_page(page, granularity)?;
            match self.look_down(page, last, granularity)? {
                Look::Arrived(number) => {
                    self.cursor_place = CursorPlace::On(number);
                    return Ok(true);
                }
                Look::Wait(number) => {
                    access.lock(lock_names::record(access.database.id(), number), Mode::S)?;
                    at = number + 1;
                }
                Look::Passed => at = arithmetic.number(page, 0),
            }
        }
        Ok(false)
    }

    fn lock_page(&self, page: u32, granularity: Option<Granularity>) -> Result<()> {
        if granularity == Some(Granularity::Page) {
            self.access.lock(lock_names::page(self.access.database.id(), page), Mode::S)?;
        }
        Ok(())
    }

    /// Whether the way ends here. First locks the gap above the last number, and then lets the caller look once more.
    fn is_end(&self, tail: u32, granularity: Option<Granularity>) -> Result<bool> {
        if granularity.is_some() {
            let gap = lock_names::end_gap(self.access.database.id());
            // A session that has waited to append holds the gap in `IX`, which others may hold, too.
            if !self.access.holds(gap).is_some_and(|mode| mode.covers(Mode::S)) {
                self.access.lock(gap, Mode::S)?;
                return Ok(false);
            }
        }
        Ok(self.access.recno_tail()? == tail)
    }

    /// Examines the slots of one page, upwards.
    fn look(
        &mut self,
        page_number: u32,
        slots: std::ops::Range<usize>,
        is_tail: bool,
        granularity: Option<Granularity>,
    ) -> Result<Look> {
        let page = self.access.pages.shared(page_number, 0)?;
        let recno = self.access.recno_page(page_number, &page)?;
        let end = if is_tail { recno.used() } else { slots.end.min(recno.capacity()) };
        for slot in slots.start..end {
            let number = self.access.database.arithmetic().number(page_number, slot);
            if !self.try_number(number, granularity)? {
                return Ok(Look::Wait(number));
            }
            if let Some(record) = recno.slot(slot).filter(|slot| slot.is_record()) {
                self.record.clear();
                self.record.extend_from_slice(record.bytes);
                return Ok(Look::Arrived(number));
            }
        }
        Ok(Look::Passed)
    }

    /// Examines the slots of one page from `last` downwards.
    fn look_down(&mut self, page_number: u32, last: usize, granularity: Option<Granularity>) -> Result<Look> {
        let page = self.access.pages.shared(page_number, 0)?;
        let recno = self.access.recno_page(page_number, &page)?;
        for slot in (0..=last.min(recno.capacity() - 1)).rev() {
            let number = self.access.database.arithmetic().number(page_number, slot);
            if !self.try_number(number, granularity)? {
                return Ok(Look::Wait(number));
            }
            if let Some(record) = recno.slot(slot).filter(|slot| slot.is_record()) {
                self.record.clear();
                self.record.extend_from_slice(record.bytes);
                return Ok(Look::Arrived(number));
            }
        }
        Ok(Look::Passed)
    }

    fn try_number(&self, number: u64, granularity: Option<Granularity>) -> Result<bool> {
        if granularity != Some(Granularity::Record) {
            return Ok(true);
        }
        Ok(self.access.try_lock(lock_names::record(self.access.database.id(), number), Mode::S)? == Tried::Granted)
    }
}

//! Walks the records in the order of their numbers, in both directions.
//!
//! A cursor locks every number that it passes, also numbers without a record, so that no record appears or disappears
//! among them. At the end it locks the gap above the last number, which a transaction that adds a number must lock,
//! too. A cursor within a range of numbers locks no other numbers.

use std::ops::RangeInclusive;

use libtp_lock::Mode;

use crate::cursor::{BothWays, Cursor, Walk};
use crate::database::Granularity;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::recno::RecnoPage;
use crate::Result;

/// The outcome of a search on one page.
enum Look {
    /// The cursor has arrived at this number.
    Arrived(u64),
    /// The cursor must wait for the lock on this number, and then read the number's slot again.
    Wait(u64),
    /// The rest of the page has no record.
    Passed,
}

/// A cursor over a recno file.
pub type NumberCursor<'a> = Cursor<NumberWalk<'a>>;

/// A walk through a recno file.
pub struct NumberWalk<'a> {
    access: Access<'a>,
    /// The numbers within which the walk stays and locks.
    numbers: RangeInclusive<u64>,
    number: u64,
    record: Vec<u8>,
}

impl<'a> Cursor<NumberWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(access: Access<'a>) -> NumberCursor<'a> {
        Cursor::over(NumberWalk { access, numbers: 1..=u64::MAX, number: 0, record: Vec::new() })
    }

    /// Limits the cursor, which has no place yet, to a range of numbers. The cursor locks no other numbers.
    #[must_use]
    pub fn within(mut self, numbers: RangeInclusive<u64>) -> NumberCursor<'a> {
        self.walk.numbers = numbers;
        self
    }

    /// Returns the range of numbers that limits the cursor.
    pub fn numbers(&self) -> &RangeInclusive<u64> {
        &self.walk.numbers
    }
}

impl Walk for NumberWalk<'_> {
    type Key<'k> = u64;
    type OwnedKey = u64;

    fn go_first(&mut self) -> Result<bool> {
        self.forward(1)
    }

    fn go_next(&mut self) -> Result<bool> {
        self.forward(self.number.saturating_add(1))
    }

    fn move_after(&mut self, number: u64) -> Result<bool> {
        self.forward(number.saturating_add(1))
    }

    fn record(&self) -> (u64, &[u8]) {
        (self.number, &self.record)
    }

    fn owned(number: u64) -> u64 {
        number
    }
}

impl BothWays for NumberWalk<'_> {
    fn go_last(&mut self) -> Result<bool> {
        self.backward(self.numbers.end().saturating_add(1))
    }

    fn go_previous(&mut self) -> Result<bool> {
        self.backward(self.number)
    }

    fn go_to(&mut self, number: u64) -> Result<bool> {
        self.forward(number.max(1))
    }
}

impl NumberWalk<'_> {
    /// Goes up from `number` to the first record. Stays if there is no such record.
    fn forward(&mut self, number: u64) -> Result<bool> {
        let access = self.access;
        access.check_recno()?;
        let granularity = access.enter(Purpose::Read)?;
        let arithmetic = access.database.arithmetic();
        let (low, high) = (*self.numbers.start(), *self.numbers.end());
        // The walk has passed the numbers below.
        let mut at = number.max(low);
        while at <= high {
            let place = arithmetic.place(at);
            let tail = access.recno_tail()?;
            let Some((page, slot)) = place.filter(|(page, _)| *page <= tail) else {
                if self.is_end(tail, granularity)? {
                    return Ok(false);
                }
                continue;
            };
            self.lock_page(page, granularity)?;
            let after_high = usize::try_from(high - at).unwrap_or(usize::MAX).saturating_add(slot).saturating_add(1);
            let mut has_high = false;
            let slots = |recno: &RecnoPage<'_>| {
                // On the last page only the used slots are numbers of the file, on the other pages every slot.
                let end = if page == tail { recno.used() } else { recno.capacity() };
                has_high = after_high <= end;
                slot..end.min(after_high)
            };
            match self.look(page, slots, granularity)? {
                Look::Arrived(number) => {
                    self.number = number;
                    return Ok(true);
                }
                Look::Wait(number) => {
                    access.lock(lock_names::record(access.database.id(), number), Mode::S)?;
                    at = number;
                }
                Look::Passed if has_high => return Ok(false),
                Look::Passed if page < tail => at = arithmetic.number(page + 1, 0),
                Look::Passed if self.is_end(tail, granularity)? => return Ok(false),
                Look::Passed => {}
            }
        }
        Ok(false)
    }

    /// Goes down to the last record below `number`. Stays if there is no such record.
    fn backward(&mut self, number: u64) -> Result<bool> {
        let access = self.access;
        access.check_recno()?;
        let granularity = access.enter(Purpose::Read)?;
        let arithmetic = access.database.arithmetic();
        let end = |tail: u32| arithmetic.number(tail + 1, 0);
        // Numbers beyond the end of the file have no separate locks: the end gap covers them.
        if number > end(access.recno_tail()?) && granularity.is_some() {
            access.lock(lock_names::end_gap(access.database.id()), Mode::S)?;
        }
        let tail = access.recno_tail()?;
        // The walk has passed the number `at` and all higher numbers.
        let mut at = number.min(end(tail));
        let low = *self.numbers.start();
        while tail != 0 && at > low {
            let Some((page, last)) = arithmetic.place(at - 1) else { break };
            self.lock_page(page, granularity)?;
            let first = arithmetic.place(low).filter(|(of_low, _)| *of_low == page).map_or(0, |(_, slot)| slot);
            match self.look(page, |recno| (first..=last.min(recno.capacity() - 1)).rev(), granularity)? {
                Look::Arrived(number) => {
                    self.number = number;
                    return Ok(true);
                }
                Look::Wait(number) => {
                    access.lock(lock_names::record(access.database.id(), number), Mode::S)?;
                    at = number + 1;
                }
                Look::Passed => at = arithmetic.number(page, first),
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

    /// Returns whether the walk ends here. If the gap above the last number is not locked yet, locks it and returns
    /// false, so that the caller checks for new records.
    fn is_end(&self, tail: u32, granularity: Option<Granularity>) -> Result<bool> {
        if granularity.is_some() {
            let gap = lock_names::end_gap(self.access.database.id());
            // A session that has waited to append holds the gap in `IX`, which other transactions may hold, too.
            if !self.access.holds(gap).is_some_and(|mode| mode.covers(Mode::S)) {
                self.access.lock(gap, Mode::S)?;
                return Ok(false);
            }
        }
        Ok(self.access.recno_tail()? == tail)
    }

    /// Searches the given slots of one page, in their order.
    fn look<S: Iterator<Item = usize>>(
        &mut self,
        page_number: u32,
        slots: impl FnOnce(&RecnoPage<'_>) -> S,
        granularity: Option<Granularity>,
    ) -> Result<Look> {
        let page = self.access.pages.shared(page_number, 0)?;
        let recno = self.access.recno_page(page_number, &page)?;
        for slot in slots(&recno) {
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

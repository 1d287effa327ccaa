//! Walks the records in the order of their numbers, in both directions.
//!
//! A cursor locks every number that it passes, whether or not the number holds a record, so that no record appears or
//! goes behind it. At the end it locks the gap above the last number, which a transaction with a new number asks for.

use libtp_lock::Mode;

use crate::cursor::{BothWays, Cursor, Walk};
use crate::database::Granularity;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::recno::RecnoPage;
use crate::Result;

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
pub type NumberCursor<'a> = Cursor<NumberWalk<'a>>;

/// A walk through a recno file.
pub struct NumberWalk<'a> {
    access: Access<'a>,
    number: u64,
    record: Vec<u8>,
}

impl<'a> Cursor<NumberWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(access: Access<'a>) -> NumberCursor<'a> {
        Cursor::over(NumberWalk { access, number: 0, record: Vec::new() })
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

    fn go_behind(&mut self, number: u64) -> Result<bool> {
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
        self.backward(None)
    }

    fn go_previous(&mut self) -> Result<bool> {
        self.backward(Some(self.number))
    }

    fn go_to(&mut self, number: u64) -> Result<bool> {
        self.forward(number.max(1))
    }
}

impl NumberWalk<'_> {
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
            let end = |recno: &RecnoPage<'_>| if page == tail { recno.used() } else { recno.capacity() };
            match self.look(page, |recno| slot..end(recno), granularity)? {
                Look::Arrived(number) => {
                    self.number = number;
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
            match self.look(page, |recno| (0..=last.min(recno.capacity() - 1)).rev(), granularity)? {
                Look::Arrived(number) => {
                    self.number = number;
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

    /// Examines these slots of one page, in their order.
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

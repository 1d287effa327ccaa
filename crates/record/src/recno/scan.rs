//! Walking the records in the order of their numbers, both ways.
//!
//! Every number passed is locked, whether it holds a record or not, so that none appears or goes where the cursor has been;
//! at the end, the gap above the last number, which whoever makes a new number asks for.

use libtp_lock::Mode;

use crate::access::{Access, Purpose, Tried};
use crate::database::Granularity;
use crate::lock_names;
use crate::Result;

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nowhere,
    On(u64),
    BelowAll,
    AboveAll,
}

/// What a look at one page came to.
enum Look {
    /// The cursor has arrived at this number.
    Arrived(u64),
    /// A number whose lock has to be waited for; to be looked at again.
    Wait(u64),
    /// Nothing between there and the page's end.
    Passed,
}

/// A cursor over a recno file.
pub struct NumberCursor<'a> {
    access: Access<'a>,
    standing: Standing,
    record: Vec<u8>,
}

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<'a> NumberCursor<'a> {
    /// A cursor that stands nowhere yet.
    pub fn new(access: Access<'a>) -> NumberCursor<'a> {
        NumberCursor { access, standing: Standing::Nowhere, record: Vec::new() }
    }

    /// The number and record it stands on.
    pub fn record(&self) -> Option<(u64, &[u8])> {
        match self.standing {
            Standing::On(number) => Some((number, &self.record)),
            _ => None,
        }
    }

    fn found(&self, found: bool) -> Option<(u64, Vec<u8>)> {
        self.record().filter(|_| found).map(|(number, record)| (number, record.to_vec()))
    }

    /// The first record and its number.
    ///
    /// # Errors
    /// What locks and pages can fail with.
    pub fn first(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        self.seek(1)
    }

    /// The last record.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn last(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.backward(None)?;
        Ok(self.found(found))
    }

    /// The first record whose number is `number` or greater.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn seek(&mut self, number: u64) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.forward(number.max(1))?;
        Ok(self.found(found))
    }

    /// The next record; the first, if it stands nowhere yet.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn next(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = self.move_next()?;
        Ok(self.found(found))
    }

    /// The record before; the last, if it stands nowhere yet.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn prev(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        let found = match self.standing {
            Standing::Nowhere | Standing::AboveAll => self.backward(None)?,
            Standing::On(number) => self.backward(Some(number))?,
            Standing::BelowAll => false,
        };
        if !found {
            self.standing = Standing::BelowAll;
        }
        Ok(self.found(found))
    }

    /// Goes to the next record, to be looked at with [`NumberCursor::record`]; whether there is one.
    ///
    /// # Errors
    /// As [`NumberCursor::first`].
    pub fn move_next(&mut self) -> Result<bool> {
        let found = match self.standing {
            Standing::Nowhere | Standing::BelowAll => self.forward(1)?,
            Standing::On(number) => self.forward(number.saturating_add(1))?,
            Standing::AboveAll => false,
        };
        if !found {
            self.standing = Standing::AboveAll;
        }
        Ok(found)
    }

    /// Goes up from `number` to the first record; stays where there is none.
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
            // On the last page the end is where its used slots end; on the others every slot counts.
            let slots = if page == tail { slot..usize::MAX } else { slot..arithmetic.per_page as usize };
            match self.look(page, slots, page == tail, granularity)? {
                Look::Arrived(number) => {
                    self.standing = Standing::On(number);
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

    /// Goes down to the last record below `number`, or to the last of all; stays where there is none.
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
        // Numbers from here on have been dealt with.
        let mut at = number.map_or(end, |number| number.min(end));
        while tail != 0 && at > 1 {
            let Some((page, last)) = arithmetic.place(at - 1) else { break };
            self.lock_page(page, granularity)?;
            match self.look_down(page, last, granularity)? {
                Look::Arrived(number) => {
                    self.standing = Standing::On(number);
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

    /// Whether the way ends here: the gap above the last number is locked first, and then all is looked at once more.
    fn is_end(&self, tail: u32, granularity: Option<Granularity>) -> Result<bool> {
        if granularity.is_some() {
            let gap = lock_names::end_gap(self.access.database.id());
            // Who has waited to append holds it in a mode that others may have, too.
            if !self.access.holds(gap).is_some_and(|mode| mode.covers(Mode::S)) {
                self.access.lock(gap, Mode::S)?;
                return Ok(false);
            }
        }
        Ok(self.access.recno_tail()? == tail)
    }

    /// Looks at the slots of one page, upwards.
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

    /// Looks at the slots of one page from `last` downwards.
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

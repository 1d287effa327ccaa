//! Appends: a record gets the next number.
//!
//! The next number is the number of the first unused slot of the last page. It is found and used under the page's
//! latch, so appending transactions wait for each other only for nanoseconds, and never for each other's locks. Another
//! transaction may have locked the number, because it read the number and found no record. Then the append skips the
//! number. But if the append's own transaction has read to the end, the append waits for the lock. Otherwise the other
//! transaction could put a record under the skipped number, and the append's transaction could find this record later.
//! Numbers of aborted transactions stay empty.
//!
//! Because no lock orders the appends, the numbers follow no serial order: two transactions that append to two files may
//! have the lower number in one file each. An append *in order* first locks the gap above the last number in X, and
//! keeps this lock until the transaction ends (PROTOCOLS K3). So numbers of appends in order are in the order of the
//! commits. Every append asks for this gap's lock anyway, so an append that comes later waits for the transaction, too.
//! An append without order keeps no lock on the gap: an append in order does not wait for it, and may commit first.
//!
//! The meta page has the number of the last page; a process keeps a copy.
//!
//! When a page is full, all appending transactions need the next page at the same moment. If they had to wait for the
//! disk then, all transactions that wait for their locks would wait longer, too. So the session that uses the middle
//! slot of the last page brings the next page into memory. One session does this slow work while the others continue.

use libtp_lock::Mode;
use libtp_process::Rank;
use rio::{failpoint, planted};
use zerocopy::IntoBytes;

use crate::database::Granularity;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::free_pages::{FIRST_PAGE, META_PAGE};
use crate::page::record_lsn::pack_lsn;
use crate::pages::{loose_rank, ROUNDS_MAX};
use crate::recno::log_records::{changed, StartPage, PUT, START_PAGE};
use crate::recno::redo::{self, Seat};
use crate::{Error, Result};

/// The outcome of an attempt to append to the last page.
enum Attempt {
    Done(u64),
    /// The record is appended, and the page is half full.
    DoneInTheMiddle(u64),
    Full,
    /// Another transaction has scanned to the end.
    WaitForEnd,
    /// Other transactions have locked the page.
    WaitForPage,
    /// Other transactions have locked this number, and the append must not skip it.
    WaitForNumber(u64),
}

impl Access<'_> {
    /// Stores a record under the next number, and returns the number.
    ///
    /// # Errors
    /// [`Error::RecordLength`], and errors of locks, log and pages. Nothing was changed then.
    #[inline]
    pub fn recno_append(&self, record: &[u8]) -> Result<u64> {
        self.check_record(record)?;
        let granularity = self.enter(Purpose::Write)?;
        let mut tail = self.database.tail_hint();
        for _ in 0..ROUNDS_MAX {
            if tail == 0 {
                tail = self.recno_tail()?;
            }
            if tail == 0 {
                self.start_page(0)?;
                continue;
            }
            self.reserve_record()?;
            match self.append_to(tail, record, granularity)? {
                Attempt::Done(number) => return Ok(number),
                Attempt::DoneInTheMiddle(number) => {
                    self.prepare_page(tail);
                    return Ok(number);
                }
                Attempt::WaitForEnd => self.wait_for_gap(lock_names::end_gap(self.database.id()))?,
                Attempt::WaitForPage => self.lock(lock_names::page(self.database.id(), tail), Mode::X)?,
                Attempt::WaitForNumber(number) => {
                    self.lock(lock_names::record(self.database.id(), number), Mode::X)?;
                }
                Attempt::Full => {
                    let last = self.recno_tail()?;
                    if last == tail {
                        self.start_page(tail)?;
                        tail = self.recno_tail()?;
                    } else {
                        tail = last;
                    }
                }
            }
        }
        Err(self.pages.corrupt(tail, "a record could not be appended"))
    }

    /// Does as [`Access::recno_append`], after it has locked the end of the numbers until the transaction ends
    /// (PROTOCOLS K3).
    ///
    /// # Errors
    /// As [`Access::recno_append`].
    pub fn recno_append_in_order(&self, record: &[u8]) -> Result<u64> {
        self.check_record(record)?;
        if self.enter(Purpose::Write)?.is_some() && !planted("record: an append in order keeps no lock") {
            self.lock(lock_names::end_gap(self.database.id()), Mode::X)?;
        }
        self.recno_append(record)
    }

    fn append_to(&self, tail: u32, record: &[u8], granularity: Option<Granularity>) -> Result<Attempt> {
        let file = self.database.id();
        let mut page = match self.pages.exclusive_now(tail, 0) {
            Some(page) => page,
            None => self.pages.exclusive(tail, 0)?,
        };
        let recno = self.recno_page(tail, &page)?;
        if granularity.is_some() && self.try_instant(lock_names::end_gap(file), Mode::IX)? == Tried::Busy {
            return Ok(Attempt::WaitForEnd);
        }
        if granularity == Some(Granularity::Page)
            && self.try_lock(lock_names::page(file, tail), Mode::X)? == Tried::Busy
        {
            return Ok(Attempt::WaitForPage);
        }
        let middle = recno.capacity() / 2;
        for slot in recno.used()..recno.capacity() {
            let number = self.database.arithmetic().number(tail, slot);
            if granularity == Some(Granularity::Record)
                && self.try_lock(lock_names::record(file, number), Mode::X)? == Tried::Busy
                && !planted("record: an append takes a locked number")
            {
                if self.has_read_to_end(granularity) {
                    return Ok(Attempt::WaitForNumber(number));
                }
                continue;
            }
            let (Some(before), Some(seat)) = (recno.slot(slot), Seat::at(&recno, slot)) else {
                return Err(self.pages.corrupt(tail, "it is too short"));
            };
            let mut body = self.pages.change.txn.scratch();
            let put = changed(self.pages.id(tail).raw(), slot, &before, Some(record));
            put.write(&mut body);
            failpoint("recno: page latched to append");
            let flags = put.flags_after;
            self.pages.change.apply_by(PUT, &mut body, &mut page, |page, lsn| {
                redo::store(page, seat, pack_lsn(lsn, flags), 0, record)
            });
            failpoint("recno: appended");
            let is_middle = slot == middle;
            return Ok(if is_middle { Attempt::DoneInTheMiddle(number) } else { Attempt::Done(number) });
        }
        Ok(Attempt::Full)
    }

    /// Brings the page after `tail` into memory. An error is ignored: a session that needs the page gets the error
    /// again and returns it.
    #[cold]
    fn prepare_page(&self, tail: u32) {
        if self.database.tail_hint() > tail {
            // Another session has already begun that page.
            return;
        }
        if let Some(next) = tail.checked_add(1).filter(|&next| next != u32::MAX) {
            let pages = &self.pages;
            drop(pages.change.managers.buffers.pin_new(pages.session(), pages.id(next)));
        }
    }

    /// Adds the page after `tail` to the file, unless another session has added it.
    #[cold]
    pub(crate) fn start_page(&self, tail: u32) -> Result<()> {
        let pages = &self.pages;
        let next = if tail == 0 { FIRST_PAGE } else { tail + 1 };
        if next == u32::MAX {
            return Err(Error::TooManyPages { database: self.database.name().to_string() });
        }
        pages.reserve_common(self.database.page_bytes(), 64)?;
        let buffers = &pages.change.managers.buffers;
        let (pin, meta_pin) = (buffers.pin_new(pages.session(), pages.id(next))?, pages.pin(META_PAGE)?);
        let mut page = pin.exclusive(loose_rank());
        let mut meta = meta_pin.exclusive(Rank::META);
        if pages.meta_of(&meta)?.tail_page.get() != tail {
            return Ok(());
        }
        let record_bytes = u32::try_from(self.database.arithmetic().record_bytes);
        let record = StartPage {
            page: pages.id(next).raw().into(),
            record_bytes: record_bytes.expect("a record is shorter than a page").into(),
            unused: 0.into(),
        };
        failpoint("recno: about to start a page");
        pages.change.apply_redo_only(START_PAGE, record.as_bytes(), &mut [&mut page, &mut meta]);
        failpoint("recno: page started");
        self.database.set_tail_hint(next);
        Ok(())
    }
}

//! Locks, copies and stores a page that the program changes.
//!
//! The program never holds a latch, and no function of the program runs under a latch (PROTOCOLS D12): the program
//! works on a copy. A changed copy is stored only if the page's LSN equals the copy's LSN.
//!
//! Locks: a page is read under S, and may be changed in any way under X. If the type of a change has an undo function
//! of the program, the change takes only IX. Several transactions can make such changes at the same time. A transaction
//! that reads or stores the page waits for all of them (docs/design/0019).

use libtp_buffer::ExclusivePage;
use libtp_lock::Mode;
use libtp_log::Lsn;
use libtp_process::Rank;
use libtp_txn::{application, ApplicationType};
use rio::{failpoint, planted};

use crate::lock_names;
use crate::locking::{Access, Purpose};
use crate::page::free_pages::{FIRST_PAGE, META_PAGE};
use crate::page::PageKind;
use crate::page_header;
use crate::paged::log_records::{encode_change, Typed, ARGUMENT_BYTES_MAX, CHANGE, NAME_BYTES_MAX};
use crate::pages::{loose_rank, ROUNDS_MAX};
use crate::{Error, Result};

/// The number of bytes of the common header, which is before the program's bytes.
pub const BEGIN: usize = size_of::<libtp_buffer::PageHeader>();

/// The purpose of a page's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLock {
    /// The page will be read. Other transactions may read it, too.
    Read,
    /// The page will be changed. No other transaction can have a lock on it.
    Write,
}

/// A copy of a page.
#[derive(Clone, Debug)]
pub struct PageCopy {
    number: u32,
    lsn: Lsn,
    /// The bytes, which the program may change.
    pub bytes: Vec<u8>,
}

impl PageCopy {
    /// Returns the page's number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the LSN of the page's last change; `Lsn::NONE` if there was none.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }
}

impl Access<'_> {
    fn refused(&self, page: u32, what: impl Into<String>) -> Error {
        Error::Page { database: self.database().name().to_string(), page, what: what.into() }
    }

    /// Returns the page's number in the file.
    fn place(&self, number: u32) -> Result<u32> {
        self.check_paged()?;
        let place = number.checked_add(FIRST_PAGE).filter(|&place| place < u32::MAX - 1);
        place.ok_or_else(|| Error::TooManyPages { database: self.database().name().to_string() })
    }

    /// Locks a page, until the transaction ends: the paper's `tp_lock`.
    ///
    /// # Errors
    /// Deadlock, timeout, no room for the lock.
    pub fn page_lock(&self, number: u32, lock: PageLock) -> Result<()> {
        let place = self.place(number)?;
        let (purpose, mode) = match lock {
            PageLock::Read => (Purpose::Read, Mode::S),
            PageLock::Write => (Purpose::Write, Mode::X),
        };
        if self.enter(purpose)?.is_some() {
            self.lock(lock_names::page(self.database().id(), place), mode)?;
        }
        Ok(())
    }

    /// Unlocks a page that was only read, before the transaction ends: the paper's `unlock`.
    ///
    /// # Errors
    /// The lock is more than a read lock, or the transaction has no lock.
    pub fn page_unlock(&self, number: u32) -> Result<()> {
        let name = lock_names::page(self.database().id(), self.place(number)?);
        match self.holds(name) {
            Some(Mode::S) => {
                let change = &self.pages.change;
                Ok(change.managers.locks.unlock(self.pages.session(), change.txn.locker(), name)?)
            }
            Some(mode) => Err(self.refused(number, format!("its lock ({mode}) must stay until the transaction ends, because the transaction may have to undo its change; only a lock for reading can be released earlier"))),
            // The lock on the whole database, which replaced the transaction's many locks, stays.
            None if self.holds(lock_names::database(self.database().id())).is_some_and(|held| held.covers(Mode::S)) => Ok(()),
            None => Err(self.refused(number, "the transaction has no lock on it")),
        }
    }

    /// Returns the number of pages.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn page_count(&self) -> Result<u32> {
        self.check_paged()?;
        Ok(self.pages.meta()?.page_count.get().saturating_sub(FIRST_PAGE))
    }

    /// Returns a copy of a page; zeros if there is no such page yet.
    ///
    /// # Errors
    /// The page is damaged or cannot be read.
    pub fn page_copy(&self, number: u32) -> Result<PageCopy> {
        let place = self.place(number)?;
        if place >= self.pages.meta()?.page_count.get() {
            return Ok(PageCopy { number, lsn: Lsn::NONE, bytes: vec![0; self.database().page_bytes() - BEGIN] });
        }
        let page = self.pages.shared(place, 0)?;
        if page_header::kind(&page) != PageKind::Application as u8 {
            return Err(self.pages.corrupt(place, "it is not a page of the program"));
        }
        Ok(PageCopy { number, lsn: page.lsn(), bytes: page[BEGIN..].to_vec() })
    }

    /// Logs the changes of a copy, and stores them on the page: the last step but one in the paper. The transaction
    /// holds the page's lock for writing. Returns the log record's LSN; `Lsn::NONE` if the copy has no changes.
    ///
    /// # Errors
    /// The page is not locked for writing, or has changed since the copy; the log or the disk is full.
    pub fn page_put(&self, copy: &PageCopy, known: Option<&ApplicationType>, argument: &[u8]) -> Result<Lsn> {
        let typed = self.typed(copy.number, known, argument, false)?;
        self.check_written(copy)?;
        let name = lock_names::page(self.database().id(), self.place(copy.number)?);
        let covers = |name| self.holds(name).is_some_and(|mode| mode.covers(Mode::X));
        if !covers(name) && !covers(lock_names::database(self.database().id())) {
            return Err(self.refused(
                copy.number,
                "it was to be stored without a lock for writing; lock it for writing before you read it",
            ));
        }
        self.store(copy, &typed)?.ok_or_else(|| {
            self.refused(copy.number, "it was changed after this copy of it was read; lock it before you read it")
        })
    }

    /// Makes a change by the redo function of the program's type, and logs the change.
    ///
    /// # Errors
    /// The function refuses the change; otherwise as [`Access::page_put`] and [`Access::page_lock`].
    pub fn page_apply(&self, number: u32, known: &ApplicationType, argument: &[u8]) -> Result<Lsn> {
        let is_logical = known.undo.is_some();
        let typed = self.typed(number, Some(known), argument, is_logical)?;
        if is_logical {
            if self.enter(Purpose::Write)?.is_some() {
                self.lock(lock_names::page(self.database().id(), self.place(number)?), Mode::IX)?;
            }
        } else {
            self.page_lock(number, PageLock::Write)?;
        }
        for _ in 0..ROUNDS_MAX {
            let mut copy = self.page_copy(number)?;
            let bytes = copy.bytes.len();
            application::call(&*known.redo, &mut copy.bytes, argument).map_err(|what| {
                self.refused(number, format!("\"{}\" (code {}) refused: {what}", known.name, known.code))
            })?;
            debug_assert_eq!(copy.bytes.len(), bytes);
            failpoint("paged: changed on a copy, not on the page");
            if let Some(lsn) = self.store(&copy, &typed)? {
                return Ok(lsn);
            }
        }
        Err(self.refused(number, "other transactions change it all the time; lock it for writing before you read it"))
    }

    fn typed<'t>(
        &self,
        page: u32,
        known: Option<&'t ApplicationType>,
        argument: &'t [u8],
        is_logical: bool,
    ) -> Result<Typed<'t>> {
        if argument.len() > ARGUMENT_BYTES_MAX {
            let what =
                format!("an argument has at most {ARGUMENT_BYTES_MAX} bytes, and this one has {}", argument.len());
            return Err(self.refused(page, what));
        }
        let Some(known) = known else { return Ok(Typed { argument, ..Typed::default() }) };
        debug_assert!(known.name.len() <= NAME_BYTES_MAX && known.code != 0);
        Ok(Typed { code: known.code, name: &known.name, is_logical, argument })
    }

    fn check_written(&self, copy: &PageCopy) -> Result<()> {
        let expected = self.database().page_bytes() - BEGIN;
        if copy.bytes.len() == expected {
            return Ok(());
        }
        let what = format!("the given copy has {} bytes, and a page of this file has {expected}", copy.bytes.len());
        Err(self.refused(copy.number, what))
    }

    /// Stores a copy if the page has not changed since; otherwise returns `None`.
    fn store(&self, copy: &PageCopy, typed: &Typed<'_>) -> Result<Option<Lsn>> {
        let page_bytes = self.database().page_bytes();
        let place = self.place(copy.number)?;
        // The compensation may log the whole page, even if the change is small.
        let undo_bytes = page_bytes + 64;
        let most = 2 * page_bytes + typed.name.len() + typed.argument.len() + 64;
        self.pages.reserve_own(page_bytes, most.max(undo_bytes))?;
        let page_count = self.pages.meta()?.page_count.get();
        if place < page_count {
            let page = self.pages.exclusive(place, 0)?;
            return Ok(self.change_latched(copy, typed, page, undo_bytes));
        }
        if place > page_count {
            let next = page_count - FIRST_PAGE;
            return Err(
                self.refused(copy.number, format!("pages are added one after the other, and the next page is {next}"))
            );
        }
        let buffers = &self.pages.change.managers.buffers;
        let (pin, meta_pin) =
            (buffers.pin_new(self.pages.session(), self.pages.id(place))?, self.pages.pin(META_PAGE)?);
        let mut page = pin.exclusive(loose_rank());
        let mut meta = meta_pin.exclusive(Rank::META);
        if self.pages.meta_of(&meta)?.page_count.get() != place {
            return Ok(None);
        }
        let nothing = vec![0; copy.bytes.len()];
        if copy.bytes == nothing && typed.code == 0 {
            return Ok(Some(Lsn::NONE));
        }
        let mut body = self.pages.change.txn.scratch();
        let id = self.pages.id(place).raw();
        encode_change(body.writer(), id, place + 1, typed, (BEGIN, &nothing, &copy.bytes));
        failpoint("paged: new page latched");
        let lsn = self.pages.change.apply_undone_by(CHANGE, &mut body, &mut [&mut page, &mut meta], undo_bytes);
        failpoint("paged: new page there");
        Ok(Some(lsn))
    }

    fn change_latched(
        &self,
        copy: &PageCopy,
        typed: &Typed<'_>,
        mut page: ExclusivePage<'_>,
        undo_bytes: usize,
    ) -> Option<Lsn> {
        if page.lsn() != copy.lsn && !planted("paged: a stale copy overwrites a changed page") {
            return None;
        }
        if page[BEGIN..] == copy.bytes[..] && typed.code == 0 {
            return Some(Lsn::NONE);
        }
        let mut body = self.pages.change.txn.scratch();
        encode_change(body.writer(), page.id().raw(), 0, typed, (BEGIN, &page[BEGIN..], &copy.bytes));
        failpoint("paged: page latched to change");
        let lsn = self.pages.change.apply_undone_by(CHANGE, &mut body, &mut [&mut page], undo_bytes);
        failpoint("paged: changed");
        Some(lsn)
    }
}

//! Reads one record by its number.
//!
//! The number is the name of the record's lock, even if there is no record. So a get that finds no record also protects
//! the absence of the record.

use libtp_buffer::SharedPage;

use crate::database::Granularity;
use crate::lock_names;
use crate::locking::{Access, Purpose};
use crate::page::free_pages::META_PAGE;
use crate::page::recno::RecnoPage;
use crate::{Error, Result};

impl<'a> Access<'a> {
    #[cold]
    pub(crate) fn no_such_number(&self, number: u64) -> Error {
        Error::RecordNumber { database: self.database.name().to_string(), number }
    }

    /// Reads a page as a recno page of this file.
    #[inline]
    pub(crate) fn recno_page<'p>(&self, number: u32, page: &'p [u8]) -> Result<RecnoPage<'p>> {
        match RecnoPage::over(page) {
            Some(recno) if recno.record_bytes() == self.database.arithmetic().record_bytes => Ok(recno),
            _ => Err(self.pages.corrupt(number, "it is not a recno page with records of the file's length")),
        }
    }

    /// Returns whether the file has the page.
    #[inline]
    pub(crate) fn has_page(&self, page: u32) -> Result<bool> {
        if page <= self.database.tail_hint() {
            return Ok(true);
        }
        Ok(page <= self.recno_tail()?)
    }

    /// Returns the last page of the file; zero if the file has no page with records.
    pub(crate) fn recno_tail(&self) -> Result<u32> {
        let tail = self.pages.meta()?.tail_page.get();
        if tail == u32::MAX {
            return Err(self.pages.corrupt(META_PAGE, "it names a last page that the file does not have"));
        }
        self.database.set_tail_hint(tail);
        Ok(tail)
    }

    /// Takes the locks for one record, and waits for them. The session holds no latch.
    #[inline]
    pub(crate) fn lock_number(&self, number: u64, page: u32, purpose: Purpose) -> Result<Option<Granularity>> {
        let granularity = self.enter(purpose)?;
        match granularity {
            None => {}
            Some(Granularity::Record) => {
                self.lock(lock_names::record(self.database.id(), number), purpose.mode())?;
            }
            Some(Granularity::Page) => self.lock(lock_names::page(self.database.id(), page), purpose.mode())?,
        }
        Ok(granularity)
    }

    /// Reads the record `number` under a shared lock, and passes it to `read`. Returns `None` if there is no such
    /// record.
    ///
    /// The page is latched while `read` runs: `read` may copy or inspect the record, and calls no other function of the
    /// library (PROTOCOLS D12).
    ///
    /// # Errors
    /// Locks or pages failed.
    #[inline]
    pub fn recno_get<R>(&self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.recno_get_for(number, Purpose::Read, read)
    }

    /// As [`Access::recno_get`], but locks the record for writing.
    ///
    /// # Errors
    /// As [`Access::recno_get`].
    #[inline]
    pub fn recno_get_for_update<R>(&self, number: u64, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.recno_get_for(number, Purpose::Write, read)
    }

    #[inline]
    fn recno_get_for<R>(&self, number: u64, purpose: Purpose, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.check_recno()?;
        let Some((page_number, slot)) = self.database.arithmetic().place(number) else { return Ok(None) };
        self.lock_number(number, page_number, purpose)?;
        if !self.has_page(page_number)? {
            return Ok(None);
        }
        let page: SharedPage<'a> = self.pages.shared(page_number, 0)?;
        let recno = self.recno_page(page_number, &page)?;
        let found = recno.slot(slot).filter(|record| record.is_record() && slot < recno.used());
        Ok(found.map(|record| read(record.bytes)))
    }
}

//! One file's pages, as an access method reaches them: by number, latched, in the name of whoever changes them.

use libtp_buffer::{ExclusivePage, FileId, PageId, PageMut, PageNo, Pin, SharedPage};
use libtp_log::Lsn;
use libtp_process::{Rank, Session};
use libtp_txn::Change;
use rio::{failpoint, planted};

use crate::free_pages::{Meta, FIRST_PAGE, META_PAGE};
use crate::page::overflow;
use crate::{Error, Result};

/// The rank of overflow and free pages, and of a page about to be made new: behind all pages of a tree.
const LOOSE_PAGE: u8 = 19;
/// Rounds after which a change that keeps finding everything moved is given up: a cycle, not traffic.
pub(crate) const ROUNDS_MAX: u32 = 100_000;

/// One file, and who works on it.
#[derive(Clone, Copy)]
pub(crate) struct Pages<'a> {
    pub(crate) change: Change<'a>,
    pub(crate) file: FileId,
}

impl<'a> Pages<'a> {
    #[inline]
    pub(crate) fn new(change: Change<'a>, file: FileId) -> Pages<'a> {
        Pages { change, file }
    }

    #[inline]
    pub(crate) fn session(&self) -> &'a Session {
        self.change.session()
    }

    #[inline]
    pub(crate) fn id(&self, page: u32) -> PageId {
        PageId::new(self.file, PageNo::new(page))
    }

    /// A page latched shared. Holds no other latch, for it may wait for the disk.
    #[inline]
    pub(crate) fn shared(&self, page: u32, level: u8) -> Result<SharedPage<'a>> {
        Ok(self.change.managers.buffers.shared(self.session(), self.id(page), rank(level))?)
    }

    /// A page latched exclusively. Holds no other latch, for it may wait for the disk.
    #[inline]
    pub(crate) fn exclusive(&self, page: u32, level: u8) -> Result<ExclusivePage<'a>> {
        Ok(self.change.managers.buffers.exclusive(self.session(), self.id(page), rank(level))?)
    }

    /// A page latched shared, if that takes nothing but the latch.
    #[inline(always)]
    pub(crate) fn shared_now(&self, page: u32, level: u8) -> Option<SharedPage<'a>> {
        self.change.managers.buffers.shared_now(self.session(), self.id(page), rank(level))
    }

    /// A page latched exclusively, if that takes nothing but the latch.
    #[inline(always)]
    pub(crate) fn exclusive_now(&self, page: u32, level: u8) -> Option<ExclusivePage<'a>> {
        self.change.managers.buffers.exclusive_now(self.session(), self.id(page), rank(level))
    }

    /// A page that stays in memory while others are latched.
    pub(crate) fn pin(&self, page: u32) -> Result<Pin<'a>> {
        Ok(self.change.managers.buffers.pin(self.session(), self.id(page))?)
    }

    /// What a change of the transaction needs before the first latch (PROTOCOLS D11): undo space for a page that is
    /// rebuilt and parts of a few more, log space for a body of so many bytes and for taking it back.
    #[inline]
    pub(crate) fn reserve_own(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.reserve(body_bytes)?;
        Ok(())
    }

    /// The same for a compensation: its room in the log was set aside when the change was made.
    pub(crate) fn reserve_undo(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.managers.log.reserve_undo(self.session(), libtp_log::record_bytes(body_bytes + 8))?;
        Ok(())
    }

    /// The same for a change that is never taken back: a split.
    #[inline]
    pub(crate) fn reserve_common(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        Ok(self.change.reserve_redo_only(body_bytes + 8)?)
    }

    /// What the meta page says.
    pub(crate) fn meta(&self) -> Result<Meta> {
        let page = self.change.managers.buffers.shared(self.session(), self.id(META_PAGE), Rank::META)?;
        self.meta_of(&page)
    }

    pub(crate) fn meta_of(&self, page: &[u8]) -> Result<Meta> {
        let meta = Meta::of(page).copied().ok_or_else(|| self.corrupt(META_PAGE, "it is no meta page"))?;
        if meta.page_count.get() < FIRST_PAGE {
            return Err(self.corrupt(META_PAGE, format!("it says that the file has {} pages", meta.page_count)));
        }
        Ok(meta)
    }

    /// An error that names a page.
    #[cold]
    pub(crate) fn corrupt(&self, page: u32, what: impl Into<String>) -> Error {
        Error::Corrupt { file: self.name(), page, what: what.into() }
    }

    /// The database's name, or its number if nobody knows a name.
    #[cold]
    pub(crate) fn name(&self) -> String {
        match self.change.managers.buffers.file_by_id(self.file) {
            Some(info) => info.file_name(),
            None => format!("file {}", self.file),
        }
    }

    /// Refuses pages to be latched together of which two are the same, or one is the file's header or its meta page: who holds a latch waits for himself
    /// for ever. Page 0 stands for none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names it.
    pub(crate) fn check_apart(&self, numbers: &[u32]) -> Result<()> {
        for (index, &number) in numbers.iter().enumerate() {
            if number == META_PAGE || (number != 0 && numbers[..index].contains(&number)) {
                return Err(
                    self.corrupt(number, "it is what is to be changed, and something else is said to be there, too")
                );
            }
        }
        Ok(())
    }

    /// Logs and makes a change that belongs to no transaction, as [`Change::apply_redo_only`], and asks before whether each page
    /// can take it: for the service that readers do in passing to pages of which they have seen little.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names the page that cannot; nothing was changed.
    pub(crate) fn apply_checked(&self, kind: u16, body: &[u8], pages: &mut [&mut ExclusivePage<'_>]) -> Result<Lsn> {
        self.rehearse(kind, body, pages)?;
        failpoint("service: rehearsed, not logged");
        Ok(self.change.apply_redo_only(kind, body, pages))
    }

    /// The same of a compensation: what the log record that is undone says may not be what was done.
    ///
    /// # Errors
    /// As [`Pages::apply_checked`].
    pub(crate) fn compensate_checked(
        &self,
        kind: u16,
        body: &[u8],
        pages: &mut [&mut ExclusivePage<'_>],
        undo_next: Lsn,
    ) -> Result<Lsn> {
        self.rehearse(kind, body, pages)?;
        failpoint("undo: rehearsed, not logged");
        Ok(self.change.compensate(kind, body, pages, undo_next))
    }

    /// Makes a change on copies of its pages.
    fn rehearse(&self, kind: u16, body: &[u8], pages: &[&mut ExclusivePage<'_>]) -> Result<()> {
        let redo = self.change.managers.types.get(kind).expect("a record type is registered before it is logged").redo;
        for (role, page) in pages.iter().enumerate() {
            let mut copy = page.to_vec();
            redo(&mut PageMut::detached(&mut copy), role, page.lsn(), body)
                .map_err(|damage| self.corrupt(page.id().page().raw(), damage.0))?;
        }
        Ok(())
    }

    /// Bytes of a page.
    pub(crate) fn page_bytes(&self) -> Result<usize> {
        let info = self.change.managers.buffers.file_by_id(self.file);
        let info = info.ok_or(libtp_buffer::Error::UnknownFile { file: self.file })?;
        Ok(info.page_bytes as usize)
    }

    /// Enters the tree, so that no page seen from now on is used for something else (PROTOCOLS T2). Whoever waits for a lock
    /// leaves it first and begins again afterwards: it would hold back every page that is unlinked meanwhile, and while
    /// one page waits to be free its neighbour cannot be unlinked.
    #[inline]
    pub(crate) fn visit(&self) -> Visit<'a> {
        self.session().enter_tree();
        Visit(self.session())
    }
}

/// A stay inside a tree operation.
pub(crate) struct Visit<'a>(&'a Session);

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave_tree();
    }
}

/// The rank of a page of a tree.
#[inline]
pub(crate) fn rank(level: u8) -> Rank {
    Rank::page(level.min(LOOSE_PAGE))
}

/// The rank of a page of no tree.
pub(crate) fn loose_rank() -> Rank {
    Rank::page(LOOSE_PAGE)
}

/// A page that may be taken for something new: in memory, and as far as known still to be had.
pub(crate) struct Candidate<'a> {
    pin: Pin<'a>,
    meta: Pin<'a>,
    number: u32,
    from_free_list: bool,
}

/// Waits until nobody has a page latched that was to be something new. Holds no latch.
pub(crate) fn wait_for_new(pin: &Pin<'_>) {
    drop(pin.exclusive(loose_rank()));
}

impl Candidate<'_> {
    /// As [`wait_for_new`].
    pub(crate) fn wait(&self) {
        wait_for_new(&self.pin);
    }
}

/// A page taken for something new, latched with the meta page, and what the meta page is to hold afterwards.
pub(crate) struct Allocated<'a> {
    pub(crate) page: ExclusivePage<'a>,
    pub(crate) meta: ExclusivePage<'a>,
    pub(crate) number: u32,
    pub(crate) free_head: u32,
    pub(crate) page_count: u32,
}

impl<'a> Pages<'a> {
    /// Finds a page to take: the head of the free list or, if `never_used` or there is none, the one behind the last.
    /// Holds no latch before and none after.
    pub(crate) fn candidate(&self, never_used: bool) -> Result<Candidate<'a>> {
        let meta = self.meta()?;
        let free = meta.free_head.get();
        let from_free_list = free != 0 && !never_used && !planted("record: free pages are not taken");
        let number = if from_free_list { free } else { meta.page_count.get() };
        if number == u32::MAX {
            return Err(Error::TooManyPages { database: self.name() });
        }
        let buffers = &self.change.managers.buffers;
        let pin = if from_free_list { self.pin(free)? } else { buffers.pin_new(self.session(), self.id(number))? };
        Ok(Candidate { pin, meta: self.pin(META_PAGE)?, number, from_free_list })
    }

    /// Latches the candidate and the meta page; none if another session took the page meanwhile or has it latched: then let
    /// all latches go and [`wait_for_new`]. Every other page of the change is latched before.
    pub(crate) fn allocate(&self, candidate: &Candidate<'a>) -> Result<Option<Allocated<'a>>> {
        // Not waited for: it may be a leaf by now, whose holder waits for a page that we hold.
        let Some(page) = candidate.pin.try_exclusive(loose_rank()) else { return Ok(None) };
        failpoint("allocate: page latched");
        let meta_page = candidate.meta.exclusive(Rank::META);
        let meta = self.meta_of(&meta_page)?;
        let (mut free_head, mut page_count) = (meta.free_head.get(), meta.page_count.get());
        let number = candidate.number;
        if candidate.from_free_list {
            if free_head != number {
                return Ok(None);
            }
            let header =
                overflow::header(&page).ok_or_else(|| self.corrupt(number, "it is in the free list, but not free"))?;
            free_head = header.next.get();
        } else {
            if page_count != number {
                return Ok(None);
            }
            page_count = number + 1;
        }
        failpoint("allocate: meta page latched");
        Ok(Some(Allocated { page, meta: meta_page, number, free_head, page_count }))
    }
}

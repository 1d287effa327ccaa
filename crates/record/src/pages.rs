//! The pages of one file for an access method: reads, latches and allocates pages by number, on behalf of a session.

pub mod record_types;
pub mod undo;

use libtp_buffer::{ExclusivePage, FileId, Glance, PageId, PageMut, PageNo, Pin, SharedPage};
use libtp_log::Lsn;
use libtp_process::{Rank, Session};
use libtp_txn::Change;
use rio::{failpoint, planted};

use crate::page::free_pages::{Meta, FIRST_PAGE, META_PAGE};
use crate::page::overflow;
use crate::{Error, Result};

/// The rank level of overflow pages, free pages and new pages: they are latched after all pages of a tree.
const LOOSE_PAGE: u8 = 19;
/// The largest number of times that an operation may search again. After this number of rounds the operation fails:
/// only a cycle of pages explains this number.
pub(crate) const ROUNDS_MAX: u32 = 100_000;

/// One file, and the session that works on it.
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

    /// Latches a page shared. The session holds no other latch, because the call may wait for the disk.
    #[inline]
    pub(crate) fn shared(&self, page: u32, level: u8) -> Result<SharedPage<'a>> {
        Ok(self.change.managers.buffers.shared(self.session(), self.id(page), rank(level))?)
    }

    /// Latches a page exclusively. The session holds no other latch, because the call may wait for the disk.
    #[inline]
    pub(crate) fn exclusive(&self, page: u32, level: u8) -> Result<ExclusivePage<'a>> {
        Ok(self.change.managers.buffers.exclusive(self.session(), self.id(page), rank(level))?)
    }

    /// Latches a page shared, if that needs no read from disk and no wait. If `is_far`, prefetches the bytes of the
    /// page.
    #[inline(always)]
    pub(crate) fn shared_now(&self, page: u32, level: u8, is_far: bool) -> Option<SharedPage<'a>> {
        self.change.managers.buffers.shared_now(self.session(), self.id(page), rank(level), is_far)
    }

    /// Returns a page, to be read without its latch, if this process may read pages without latches. It may if the
    /// kernel passes barriers to it: then a session that frees pages sees that this session is in the tree (PROTOCOLS
    /// T2).
    #[inline(always)]
    pub(crate) fn glance(&self, page: u32) -> Option<Glance<'a>> {
        debug_assert!(self.session().is_in_tree(), "pages are read without their latches inside a visit only");
        let managers = self.change.managers;
        managers.processes.has_barriers().then(|| managers.buffers.glance(self.id(page))).flatten()
    }

    /// Latches a page exclusively, if that needs nothing but the latch.
    #[inline(always)]
    pub(crate) fn exclusive_now(&self, page: u32, level: u8) -> Option<ExclusivePage<'a>> {
        self.change.managers.buffers.exclusive_now(self.session(), self.id(page), rank(level))
    }

    /// As [`Pages::exclusive_now`], for a page whose latch the session has just released.
    #[inline(always)]
    pub(crate) fn exclusive_again(&self, page: u32, level: u8) -> Option<ExclusivePage<'a>> {
        self.change.managers.buffers.exclusive_again(self.session(), self.id(page), rank(level))
    }

    /// Prefetches a page that will be read soon. This is only a hint.
    #[inline]
    pub(crate) fn bring_near(&self, page: u32) {
        self.change.managers.buffers.bring_near(self.id(page));
    }

    /// Pins a page, so that it stays in memory while other pages are latched.
    pub(crate) fn pin(&self, page: u32) -> Result<Pin<'a>> {
        Ok(self.change.managers.buffers.pin(self.session(), self.id(page))?)
    }

    /// Reserves all that a transaction's change needs, before the first latch (PROTOCOLS D11): undo space for a rebuilt
    /// page and for parts of a few more pages, log space for a body of `body_bytes` and for the undo of the change.
    #[inline]
    pub(crate) fn reserve_own(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.reserve(body_bytes)?;
        Ok(())
    }

    /// As [`Pages::reserve_own`], for a compensation, for which the undone change has reserved room in the log.
    pub(crate) fn reserve_undo(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.managers.log.reserve_undo(self.session(), libtp_log::record_bytes(body_bytes + 8))?;
        Ok(())
    }

    /// As [`Pages::reserve_own`], for a change that is never undone, such as a split.
    #[inline]
    pub(crate) fn reserve_common(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        Ok(self.change.reserve_redo_only(body_bytes + 8)?)
    }

    /// Returns a copy of the meta page's contents.
    pub(crate) fn meta(&self) -> Result<Meta> {
        let page = self.change.managers.buffers.shared(self.session(), self.id(META_PAGE), Rank::META)?;
        self.meta_of(&page)
    }

    pub(crate) fn meta_of(&self, page: &[u8]) -> Result<Meta> {
        let meta = Meta::of(page).copied().ok_or_else(|| self.corrupt(META_PAGE, "it is not a meta page"))?;
        if meta.page_count.get() < FIRST_PAGE {
            return Err(self.corrupt(META_PAGE, format!("it states that the file has {} pages", meta.page_count)));
        }
        Ok(meta)
    }

    /// Returns an error that names a page.
    #[cold]
    pub(crate) fn corrupt(&self, page: u32, what: impl Into<String>) -> Error {
        Error::Corrupt { file: self.name(), page, what: what.into() }
    }

    /// Returns the database's name, or its number if the name is unknown.
    #[cold]
    pub(crate) fn name(&self) -> String {
        match self.change.managers.buffers.file_by_id(self.file) {
            Some(info) => info.file_name(),
            None => format!("file {}", self.file),
        }
    }

    /// Checks the numbers of pages that will be latched together: all must differ, and no number may be the meta
    /// page's. Otherwise the session could wait for a latch that it holds itself. Zero is no page.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names the page.
    pub(crate) fn check_apart(&self, numbers: &[u32]) -> Result<()> {
        for (index, &number) in numbers.iter().enumerate() {
            if number == META_PAGE || (number != 0 && numbers[..index].contains(&number)) {
                return Err(self.corrupt(number, "it is referenced twice in one change"));
            }
        }
        Ok(())
    }

    /// Logs and makes a change that belongs to no transaction, as [`Change::apply_redo_only`]. First applies the change
    /// to copies of the pages. Readers use this to finish the actions of other sessions, on pages that they have read
    /// only in part.
    ///
    /// # Errors
    /// [`Error::Corrupt`] names the page that cannot take the change. Nothing was changed.
    pub(crate) fn apply_checked(&self, kind: u16, body: &[u8], pages: &mut [&mut ExclusivePage<'_>]) -> Result<Lsn> {
        self.apply_to_copies(kind, body, pages)?;
        failpoint("service: rehearsed, not logged");
        Ok(self.change.apply_redo_only(kind, body, pages))
    }

    /// As [`Pages::apply_checked`], for a compensation: the undone log record may not match the page.
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
        self.apply_to_copies(kind, body, pages)?;
        failpoint("undo: rehearsed, not logged");
        Ok(self.change.compensate(kind, body, pages, undo_next))
    }

    /// Applies a change to copies of its pages.
    fn apply_to_copies(&self, kind: u16, body: &[u8], pages: &[&mut ExclusivePage<'_>]) -> Result<()> {
        let redo = self.change.managers.types.get(kind).expect("a record type is registered before it is logged").redo;
        for (role, page) in pages.iter().enumerate() {
            let mut copy = page.to_vec();
            redo(&mut PageMut::detached(&mut copy), role, page.lsn(), body)
                .map_err(|damage| self.corrupt(page.id().page().raw(), damage.0))?;
        }
        Ok(())
    }

    /// Returns the bytes of a page.
    pub(crate) fn page_bytes(&self) -> Result<usize> {
        let info = self.change.managers.buffers.file_by_id(self.file);
        let info = info.ok_or(libtp_buffer::Error::UnknownFile { file: self.file })?;
        Ok(info.page_bytes as usize)
    }

    /// Enters the tree, so that no page seen from now on is reused for another purpose (PROTOCOLS T2). A session that
    /// waits for a lock leaves the tree first, and begins again after the wait. Otherwise the session would delay the
    /// freeing of every page that is unlinked meanwhile, and the neighbours of these pages could not be unlinked.
    #[inline]
    pub(crate) fn visit(&self) -> Visit<'a> {
        self.session().enter_tree();
        Visit(self.session())
    }
}

/// A guard: while it exists, the session is in a tree operation.
pub(crate) struct Visit<'a>(&'a Session);

impl Drop for Visit<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave_tree();
    }
}

/// Returns the rank of a page of a tree.
#[inline]
pub(crate) fn rank(level: u8) -> Rank {
    Rank::page(level.min(LOOSE_PAGE))
}

/// Returns the rank of a page outside of trees.
pub(crate) fn loose_rank() -> Rank {
    Rank::page(LOOSE_PAGE)
}

/// A page that may be allocated. It is pinned, and was free when it was chosen.
pub(crate) struct Candidate<'a> {
    pin: Pin<'a>,
    meta: Pin<'a>,
    number: u32,
    from_free_list: bool,
}

/// Waits until the page that could not be allocated is unlatched. The session holds no latch.
pub(crate) fn wait_for_new(pin: &Pin<'_>) {
    drop(pin.exclusive(loose_rank()));
}

impl Candidate<'_> {
    /// As [`wait_for_new`].
    pub(crate) fn wait(&self) {
        wait_for_new(&self.pin);
    }
}

/// An allocated page, latched with the meta page, and the meta page's contents afterwards.
pub(crate) struct Allocated<'a> {
    pub(crate) page: ExclusivePage<'a>,
    pub(crate) meta: ExclusivePage<'a>,
    pub(crate) number: u32,
    pub(crate) free_head: u32,
    pub(crate) page_count: u32,
}

impl<'a> Pages<'a> {
    /// Finds a page to allocate: the head of the free list, or the page after the last page if `never_used` or if the
    /// list is empty. The session holds no latch before or after the call.
    pub(crate) fn candidate(&self, never_used: bool) -> Result<Candidate<'a>> {
        let meta = self.meta()?;
        let free = meta.free_head.get();
        let from_free_list = free != 0 && !never_used && !planted("record: free pages are not reused");
        let number = if from_free_list { free } else { meta.page_count.get() };
        if number == u32::MAX {
            return Err(Error::TooManyPages { database: self.name() });
        }
        let buffers = &self.change.managers.buffers;
        let pin = if from_free_list { self.pin(free)? } else { buffers.pin_new(self.session(), self.id(number))? };
        Ok(Candidate { pin, meta: self.pin(META_PAGE)?, number, from_free_list })
    }

    /// Latches the candidate and the meta page. Returns `None` if another session has allocated or latched the page
    /// meanwhile: then the caller releases all latches and calls [`wait_for_new`]. The caller has latched every other
    /// page of the change before.
    pub(crate) fn allocate(&self, candidate: &Candidate<'a>) -> Result<Option<Allocated<'a>>> {
        // The latch is only tried: the page may be a leaf now, and the holder of its latch may wait for a page that we
        // have latched.
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

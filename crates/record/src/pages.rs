//! One file's pages for an access method: by number, latched, on behalf of the session that changes them.

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

/// Rank of overflow and free pages, and of a page about to be made new: behind all pages of a tree.
const LOOSE_PAGE: u8 = 19;
/// Rounds after which a change that finds everything moved again and again is given up: only a cycle of pages explains
/// this number of rounds.
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

    /// Latches a page shared. The session holds no other latch, for the call may wait for the disk.
    #[inline]
    pub(crate) fn shared(&self, page: u32, level: u8) -> Result<SharedPage<'a>> {
        Ok(self.change.managers.buffers.shared(self.session(), self.id(page), rank(level))?)
    }

    /// Latches a page exclusively. The session holds no other latch, for the call may wait for the disk.
    #[inline]
    pub(crate) fn exclusive(&self, page: u32, level: u8) -> Result<ExclusivePage<'a>> {
        Ok(self.change.managers.buffers.exclusive(self.session(), self.id(page), rank(level))?)
    }

    /// Latches a page shared, if that needs nothing but the latch. The bytes of a page that `is_far` are prefetched.
    #[inline(always)]
    pub(crate) fn shared_now(&self, page: u32, level: u8, is_far: bool) -> Option<SharedPage<'a>> {
        self.change.managers.buffers.shared_now(self.session(), self.id(page), rank(level), is_far)
    }

    /// Returns a page, to be read without its latch, if this process may do that: where the kernel passes barriers to
    /// it, a session that frees pages sees that this session is in the tree (PROTOCOLS T2).
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

    /// Does as [`Pages::exclusive_now`], for a page that the session had latched just now.
    #[inline(always)]
    pub(crate) fn exclusive_again(&self, page: u32, level: u8) -> Option<ExclusivePage<'a>> {
        self.change.managers.buffers.exclusive_again(self.session(), self.id(page), rank(level))
    }

    /// Asks the processor for a page that will be looked at soon. A hint.
    #[inline]
    pub(crate) fn bring_near(&self, page: u32) {
        self.change.managers.buffers.bring_near(self.id(page));
    }

    /// Pins a page, so that it stays in memory while other pages are latched.
    pub(crate) fn pin(&self, page: u32) -> Result<Pin<'a>> {
        Ok(self.change.managers.buffers.pin(self.session(), self.id(page))?)
    }

    /// Reserves the needs of a transaction's change before the first latch (PROTOCOLS D11): undo space for a rebuilt
    /// page and parts of a few more, log space for a body of `body_bytes` and for its undo.
    #[inline]
    pub(crate) fn reserve_own(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.reserve(body_bytes)?;
        Ok(())
    }

    /// Reserves the same for a compensation. The change set aside its room in the log.
    pub(crate) fn reserve_undo(&self, page_bytes: usize, body_bytes: usize) -> Result<()> {
        self.session().ensure_undo(2 * page_bytes as u64 + 4096)?;
        self.change.managers.log.reserve_undo(self.session(), libtp_log::record_bytes(body_bytes + 8))?;
        Ok(())
    }

    /// Reserves the same for a change that is never undone, such as a split.
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

    /// Refuses page numbers that are to be latched together if two are equal or one is the meta page: a session that
    /// already holds a latch would wait for itself for ever. Zero stands for no page.
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

    /// Logs and makes a change that belongs to no transaction, as [`Change::apply_redo_only`], after a rehearsal on
    /// copies of the pages. Readers use it for repairs on their way, on pages of which they have seen only a part.
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

    /// Enters the tree, so that no page seen from now on is used for something else (PROTOCOLS T2). A session that
    /// waits for a lock leaves the tree first and begins again afterwards. Otherwise it would hold back every page that
    /// is unlinked meanwhile, and while such a page waits, its neighbours cannot be unlinked.
    #[inline]
    pub(crate) fn visit(&self) -> Visit<'a> {
        self.session().enter_tree();
        Visit(self.session())
    }
}

/// A session's stay in a tree operation.
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

/// A page that may be allocated: pinned, and free as far as is known.
pub(crate) struct Candidate<'a> {
    pin: Pin<'a>,
    meta: Pin<'a>,
    number: u32,
    from_free_list: bool,
}

/// Waits until the page that was to be allocated is unlatched. The session holds no latch.
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
    /// Finds a page to allocate: the head of the free list, or the page behind the last if `never_used` or if the list
    /// is empty. The session holds no latch before or after.
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

    /// Latches the candidate and the meta page. Returns `None` if another session took the page meanwhile or has it
    /// latched: then release all latches and call [`wait_for_new`]. Every other page of the change is latched before.
    pub(crate) fn allocate(&self, candidate: &Candidate<'a>) -> Result<Option<Allocated<'a>>> {
        // No wait: the page may be a leaf by now, whose holder waits for a page that we hold.
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

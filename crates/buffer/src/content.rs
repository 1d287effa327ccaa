//! A latched page, a pinned page, and the permission to change a page's bytes.
//!
//! Paper: LIBTP 3.2.2, "Transactions request pages from the buffer manager and keep them pinned to ensure that they are
//! not written to disk while they are in a logically inconsistent state". Departure: the latch does that. The writer of
//! a page latches it shared while it copies the page. A latch is held for one change, not for a transaction.
//!
//! Invariants
//! 1. A `SharedPage` or `ExclusivePage` holds its frame's latch, so the page stays in the frame, and its bytes in
//!    place.
//! 2. Page bytes change through a [`PageMut`] only, which belongs to an open section.
//! 3. A page is marked dirty, with the log's tail, before the record that changes it is appended (PROTOCOLS L7).

use std::ops::{Deref, Range};

use libtp_log::Lsn;
use libtp_process::{ExclusiveGuard, PinNote, Rank, Session, SharedGuard};
use rio::{Bytes, BytesMut, ExclusiveHold, Offset, Region, Section, SharedHold};

use crate::frame::FrameSlot;
use crate::page_header::{lsn_field, page_lsn, PageHeader};
use crate::pool::ShelfKey;
use crate::PageId;

/// A page, latched shared. It can be read and nothing else.
#[must_use = "the latch is held as long as the page is"]
pub struct SharedPage<'p> {
    guard: SharedGuard<'p>,
    region: &'p Region,
    body: Body,
    id: PageId,
}

impl<'p> SharedPage<'p> {
    #[inline]
    pub(crate) fn new(region: &'p Region, body: Body, guard: SharedGuard<'p>, id: PageId) -> SharedPage<'p> {
        SharedPage { guard, region, body, id }
    }

    /// Returns the page's id.
    #[inline]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Returns the LSN of the last log record that changed the page; `Lsn::NONE` if the page was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self)
    }

    /// Returns the page's common header.
    #[inline]
    pub fn header(&self) -> &PageHeader {
        PageHeader::of(self)
    }

    /// Asks the processor for bytes of the page that will be read soon. A hint.
    #[inline]
    pub fn prefetch(&self, at: usize, bytes: usize) {
        self.region.prefetch(self.body.data.plus(at as u64), bytes);
    }
}

impl Deref for SharedPage<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.body.bytes(self.region, &self.guard)
    }
}

/// A page, latched exclusively.
#[must_use = "the latch is held as long as the page is"]
pub struct ExclusivePage<'p> {
    guard: ExclusiveGuard<'p>,
    region: &'p Region,
    slot: &'p FrameSlot,
    body: Body,
    id: PageId,
}

impl<'p> ExclusivePage<'p> {
    #[inline]
    pub(crate) fn new(
        region: &'p Region,
        slot: &'p FrameSlot,
        body: Body,
        guard: ExclusiveGuard<'p>,
        id: PageId,
    ) -> ExclusivePage<'p> {
        ExclusivePage { guard, region, slot, body, id }
    }

    /// Returns the page's id.
    #[inline]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Returns the LSN of the last log record that changed the page; `Lsn::NONE` if the page was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self)
    }

    /// Returns the page's common header.
    #[inline]
    pub fn header(&self) -> &PageHeader {
        PageHeader::of(self)
    }

    /// Marks the page dirty: log records from the LSN on that `recovery` returns (the log's tail) may change it. Called
    /// before the append. Asks for nothing and does nothing if the page is dirty already.
    #[inline]
    pub fn mark_dirty_with(&self, recovery: impl FnOnce() -> Lsn) {
        self.slot.mark_dirty_with(recovery);
    }

    /// Returns whether a restart needs the log for this page.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.slot.is_clean()
    }

    /// Returns the page's bytes, to be changed inside `section`.
    #[inline]
    pub fn page_mut<'g, 'u>(&'g mut self, section: &'g mut Section<'u>) -> PageMut<'g, 'u> {
        PageMut { bytes: self.region.page_mut(self.body.data, self.body.page_bytes, &mut self.guard, section) }
    }
}

impl Deref for ExclusivePage<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.body.bytes(self.region, &self.guard)
    }
}

/// The bytes of a page that may be changed. The before-image of a range is saved before the range is changed: see
/// [`PageMut::range`].
pub struct PageMut<'g, 'u> {
    bytes: BytesMut<'g, 'u>,
}

impl<'g, 'u> PageMut<'g, 'u> {
    /// Wraps a page in private memory, which needs no undo: at restart, and in tests.
    pub fn detached(bytes: &'g mut [u8]) -> PageMut<'g, 'u> {
        PageMut { bytes: BytesMut::detached(bytes) }
    }

    /// Returns the bytes as they are now.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Saves the before-image of `range` and returns the range for writing.
    ///
    /// # Panics
    /// If the range is out of the page's bounds.
    #[inline]
    pub fn range(&mut self, range: Range<usize>) -> &mut [u8] {
        self.bytes.range(range)
    }

    /// Returns the whole page for writing, without a before-image: for a page made new, whose old bytes mean nothing.
    #[inline]
    pub fn fresh(&mut self) -> &mut [u8] {
        self.bytes.fresh()
    }

    /// Returns the LSN of the last log record that changed the page; `Lsn::NONE` if the page was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self.bytes())
    }

    /// Stores the LSN of the log record that changed the page.
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.range(lsn_field()).copy_from_slice(&lsn.raw().to_le_bytes());
    }
}

/// A pinned page: it stays in its frame without being latched. A latch taken through the pin never waits for the disk,
/// as a change of several pages needs (PROTOCOLS D11).
#[must_use = "the page stays in memory as long as the pin is held"]
pub struct Pin<'p> {
    region: &'p Region,
    session: &'p Session,
    slot: &'p FrameSlot,
    id: PageId,
    note: PinNote,
}

impl<'p> Pin<'p> {
    /// Takes over a pin that was counted already.
    #[inline]
    pub(crate) fn adopt(
        region: &'p Region,
        session: &'p Session,
        slot: &'p FrameSlot,
        id: PageId,
        note: PinNote,
    ) -> Pin<'p> {
        Pin { region, session, slot, id, note }
    }

    /// Returns the page's id.
    #[inline]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// Latches the page shared.
    #[inline]
    pub fn shared(&self, rank: Rank) -> SharedPage<'p> {
        let body = Body::taken(self.slot);
        self.check();
        SharedPage::new(self.region, body, self.slot.latch.shared(self.session, rank), self.id)
    }

    /// Latches the page exclusively.
    #[inline]
    pub fn exclusive(&self, rank: Rank) -> ExclusivePage<'p> {
        let body = Body::taken(self.slot);
        self.check();
        ExclusivePage::new(self.region, self.slot, body, self.slot.latch.exclusive(self.session, rank), self.id)
    }

    /// Latches the page exclusively if that needs no waiting.
    #[inline]
    pub fn try_exclusive(&self, rank: Rank) -> Option<ExclusivePage<'p>> {
        let body = Body::taken(self.slot);
        self.check();
        let guard = self.slot.latch.try_exclusive(self.session, rank)?;
        Some(ExclusivePage::new(self.region, self.slot, body, guard, self.id))
    }

    #[inline]
    fn check(&self) {
        assert!(self.slot.page.get() == self.id, "a pinned page stays in its frame");
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        // The session that repairs a dead session takes off its pins, also while the dead session still unwinds.
        if !self.session.is_dead() {
            self.slot.unpin(self.session, self.note);
        }
    }
}

/// Where a frame's page lies. Both fields are stored once, before a session can reach the frame.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    data: Offset<Bytes>,
    page_bytes: usize,
}

impl Body {
    /// Returns where the page of `slot` lies. The frame was taken from a shelf before.
    #[inline]
    pub(crate) fn taken(slot: &FrameSlot) -> Body {
        // Stored before the frame first held a page, and `find` acquired that page.
        let data = slot.data.get().expect("a frame that was taken from a shelf has a data area");
        Body { data, page_bytes: ShelfKey::of(slot).page_bytes() }
    }

    /// Returns the bytes. The caller holds the frame's latch.
    #[inline]
    pub(crate) fn bytes<'g>(self, region: &'g Region, hold: &'g impl SharedHold) -> &'g [u8] {
        region.bytes(self.data, self.page_bytes, hold)
    }

    /// Returns the bytes, to be filled. No other session believes them yet.
    #[inline]
    pub(crate) fn bytes_mut<'g>(self, region: &'g Region, hold: &'g mut impl ExclusiveHold) -> &'g mut [u8] {
        region.bytes_mut(self.data, self.page_bytes, hold)
    }
}

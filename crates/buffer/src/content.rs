//! What a page's user holds: the latched page, and the permission to change it.
//!
//! Paper: LIBTP 3.2.2, "Transactions request pages from the buffer manager and keep them pinned to ensure that they are
//! not written to disk while they are in a logically inconsistent state". Departure: the latch does that (whoever writes
//! a page holds it shared for the length of a copy), and it is held for one change, not for a transaction.
//!
//! Invariants
//! 1. A `SharedPage` or `ExclusivePage` holds its frame's latch, so the page stays in the frame, and its bytes in place.
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

    /// Which page it is.
    #[inline]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// LSN of the last record that changed it; none if it was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self)
    }

    /// Its common header.
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

    /// Which page it is.
    #[inline]
    pub fn id(&self) -> PageId {
        self.id
    }

    /// LSN of the last record that changed it; none if it was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self)
    }

    /// Its common header.
    #[inline]
    pub fn header(&self) -> &PageHeader {
        PageHeader::of(self)
    }

    /// Notes that records from `recovery`, the log's tail, on may change the page. Called before the append; nothing
    /// happens if the page is dirty already.
    #[inline]
    pub fn mark_dirty(&self, recovery: Lsn) {
        self.slot.mark_dirty(recovery);
    }

    /// Whether a restart would need the log for this page.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.slot.is_clean()
    }

    /// The page's bytes, to be changed inside `section`.
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

/// The bytes of a page that may be changed. What is changed is declared, and so saved, first: see [`PageMut::range`].
pub struct PageMut<'g, 'u> {
    bytes: BytesMut<'g, 'u>,
}

impl<'g, 'u> PageMut<'g, 'u> {
    /// A page in private memory, which needs no undo: at restart, and in tests.
    pub fn detached(bytes: &'g mut [u8]) -> PageMut<'g, 'u> {
        PageMut { bytes: BytesMut::detached(bytes) }
    }

    /// What is there now.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Permission to store to `range`; its before-image is saved first.
    ///
    /// # Panics
    /// If the range is out of the page's bounds.
    #[inline]
    pub fn range(&mut self, range: Range<usize>) -> &mut [u8] {
        self.bytes.range(range)
    }

    /// Permission to store anywhere, without a before-image: for a page made new, whose old bytes mean nothing.
    #[inline]
    pub fn fresh(&mut self) -> &mut [u8] {
        self.bytes.fresh()
    }

    /// LSN of the last record that changed it; none if it was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self.bytes())
    }

    /// Stamps the page with the record that changed it.
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        self.range(lsn_field()).copy_from_slice(&lsn.raw().to_le_bytes());
    }
}

/// A page that stays in its frame without being latched. Latching it through the pin never waits for the disk, which
/// is what a change of several pages needs (PROTOCOLS D11).
#[must_use = "the page stays in memory as long as the pin is held"]
pub struct Pin<'p> {
    region: &'p Region,
    session: &'p Session,
    slot: &'p FrameSlot,
    id: PageId,
    note: PinNote,
}

impl<'p> Pin<'p> {
    /// Takes a pin over that was counted already.
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

    /// Which page it is.
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
        // A dead session's pins are taken off by who repairs it, also those of one that is still unwinding.
        if !self.session.is_dead() {
            self.slot.unpin(self.session, self.note);
        }
    }
}

/// Where a frame's page lies. Both numbers are stored once, before anyone can reach the frame.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    data: Offset<Bytes>,
    page_bytes: usize,
}

impl Body {
    /// Where the page of a frame lies that was taken from a shelf once.
    #[inline]
    pub(crate) fn taken(slot: &FrameSlot) -> Body {
        // Stored before the frame first held a page, and `find` acquired that page.
        let data = slot.data.get().expect("a frame that was taken from a shelf has a data area");
        Body { data, page_bytes: ShelfKey::of(slot).page_bytes() }
    }

    /// The bytes, for who holds the frame's latch.
    #[inline]
    pub(crate) fn bytes<'g>(self, region: &'g Region, hold: &'g impl SharedHold) -> &'g [u8] {
        region.bytes(self.data, self.page_bytes, hold)
    }

    /// The bytes, to be filled with what nobody trusts yet.
    #[inline]
    pub(crate) fn bytes_mut<'g>(self, region: &'g Region, hold: &'g mut impl ExclusiveHold) -> &'g mut [u8] {
        region.bytes_mut(self.data, self.page_bytes, hold)
    }
}

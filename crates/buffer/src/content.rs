//! A latched page, a pinned page, and the permission to change a page's bytes.
//!
//! Paper: LIBTP 3.2.2, "Transactions request pages from the buffer manager and keep them pinned to ensure that they are
//! not written to disk while they are in a logically inconsistent state". Departure: here the page's latch prevents
//! such a write. A session that writes a page to the disk latches the page shared during the copy. A latch is held
//! for one change, not for a transaction.
//!
//! Invariants
//! 1. A `SharedPage` or `ExclusivePage` holds its frame's latch, so the page stays in the frame, and its bytes stay
//!    in place.
//! 2. Page bytes change through a [`PageMut`] only, which belongs to an open section.
//! 3. A page is marked dirty, with the log's tail, before the record that changes it is appended (PROTOCOLS L7).
//! 4. Every store has a before-image, except where a [`Repeated`] proves that a survivor makes the change again.

use std::ops::{Deref, Range};

use libtp_log::Lsn;
use libtp_process::{ExclusiveGuard, PinNote, Rank, Session, SharedGuard};
use rio::{planted, Bytes, BytesMut, ExclusiveHold, Offset, Region, Section, SharedHold, Store};

use crate::frame::FrameSlot;
use crate::page_header::{lsn_field, page_lsn, PageHeader};
use crate::PageId;

/// A page, latched shared. It can only be read.
#[must_use = "dropping the page releases its latch"]
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

    /// Prefetches bytes of the page that will be read soon. This is only a hint.
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
#[must_use = "dropping the page releases its latch"]
pub struct ExclusivePage<'p> {
    guard: ExclusiveGuard<'p, &'p FrameSlot>,
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
        ExclusivePage { guard: guard.with_last(slot), region, slot, body, id }
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

    /// Marks a clean page dirty, before the append of the log record. `recovery` returns the log's tail: no log record
    /// before this LSN changes the page. `recovery` is not called if the page is dirty already.
    #[inline]
    pub fn mark_dirty_with(&self, recovery: impl FnOnce() -> Lsn) {
        self.slot.mark_dirty_with(recovery);
    }

    /// Returns whether a restart needs the log for this page.
    #[inline]
    pub fn is_dirty(&self) -> bool {
        !self.slot.is_clean()
    }

    /// Returns the page's bytes, to be changed inside `section`. Every store has a before-image.
    #[inline]
    pub fn page_mut<'g, 'u>(&'g mut self, section: &'g mut Section<'u>) -> PageMut<'g, 'u> {
        self.slot.begin_change();
        PageMut { bytes: self.region.page_mut(self.body.data, self.body.page_bytes, &mut self.guard, section) }
    }

    /// Works like [`ExclusivePage::page_mut`] for a change that a survivor redoes: [`PageMut::again`] then saves no
    /// before-images.
    #[inline]
    pub fn page_mut_repeated<'g, 'u>(&'g mut self, section: &'g mut Section<'u>, _proof: Repeated) -> PageMut<'g, 'u> {
        self.slot.begin_change();
        let (data, page_bytes) = (self.body.data, self.body.page_bytes);
        PageMut { bytes: self.region.page_mut_repeated(data, page_bytes, &mut self.guard, section) }
    }
}

impl Deref for ExclusivePage<'_> {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.body.bytes(self.region, &self.guard)
    }
}

/// A proof that a survivor redoes a change if the session dies: the change's log record is published, and the session
/// has noted it (PROTOCOLS D3). The proof can be made only from the session's note.
#[derive(Clone, Copy, Debug)]
pub struct Repeated(());

impl Repeated {
    /// Returns the proof for the log record at `lsn`, which the caller has appended; `None` if the session has not
    /// noted that record. In an unprotected environment there are no log records, so there is never a proof.
    #[inline]
    pub fn noted(session: &Session, lsn: Lsn) -> Option<Repeated> {
        let is_noted = session.has_noted(lsn.raw())
            || planted("buffer: no before-images are saved for changes without a log record");
        is_noted.then_some(Repeated(()))
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

    /// Wraps a page in private memory, for a test: see [`BytesMut::listed`].
    pub fn listed(bytes: &'g mut [u8], list: &'g mut Vec<(usize, u8)>) -> PageMut<'g, 'u> {
        PageMut { bytes: BytesMut::listed(bytes, list) }
    }

    /// Returns the same page. Every store through the result has a before-image.
    pub fn saved(&mut self) -> PageMut<'_, 'u> {
        PageMut { bytes: self.bytes.saved() }
    }

    /// Returns the bytes as they are now.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.bytes()
    }

    /// Saves the before-image of `range` and returns the range for writing.
    ///
    /// # Panics
    /// If the range is outside the page's bounds.
    #[inline]
    pub fn range(&mut self, range: Range<usize>) -> &mut [u8] {
        self.bytes.range(range)
    }

    /// Makes stores that the redo of the change's log record repeats after a death: see [`BytesMut::again`].
    ///
    /// # Panics
    /// If a store is outside the page's bounds. In this case nothing has been stored.
    #[inline(always)]
    pub fn again<const N: usize>(&mut self, stores: [Store<'_>; N]) {
        self.bytes.again(stores);
    }

    /// Returns the whole page for writing, without a before-image: for a new page, whose old bytes have no meaning.
    #[inline]
    pub fn fresh(&mut self) -> &mut [u8] {
        self.bytes.fresh()
    }

    /// Returns the LSN of the last log record that changed the page; `Lsn::NONE` if the page was never made.
    #[inline]
    pub fn lsn(&self) -> Lsn {
        page_lsn(self.bytes())
    }

    /// Stores the LSN of the log record that changed the page. This is one store, and the last store of the change: for
    /// a survivor, a page with this LSN has the whole change (PROTOCOLS D4).
    #[inline]
    pub fn set_lsn(&mut self, lsn: Lsn) {
        let (at, word) = (lsn_field().start, lsn.raw().to_le_bytes());
        if planted("buffer: the page LSN is stored byte by byte") {
            // The highest byte is stored first: while only a part is stored, the value is greater than both LSNs.
            (0..word.len()).rev().for_each(|nth| self.again([Store::Bytes(at + nth, &word[nth..=nth])]));
            return;
        }
        self.bytes.conclude(at, word);
    }
}

/// A pinned page: it stays in its frame while it is not latched. Latching the page through the pin never waits for the
/// disk. A change of several pages relies on this (PROTOCOLS D11).
#[must_use = "the page stays in memory as long as the pin is held"]
pub struct Pin<'p> {
    region: &'p Region,
    session: &'p Session,
    slot: &'p FrameSlot,
    id: PageId,
    note: PinNote,
}

impl<'p> Pin<'p> {
    /// Makes the handle of a pin that the frame already counts.
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
        // If the session is dead, the session that repairs it removes the pin, even while the dead session unwinds.
        if !self.session.is_dead() {
            self.slot.unpin(self.session, self.note);
        }
    }
}

/// The place of a frame's bytes. Both fields are stored once, before a session can reach the frame.
#[derive(Clone, Copy)]
pub(crate) struct Body {
    pub(crate) data: Offset<Bytes>,
    pub(crate) page_bytes: usize,
}

impl Body {
    /// Returns the place of the bytes of the frame `slot`, which was taken from a pool part before.
    #[inline]
    pub(crate) fn taken(slot: &FrameSlot) -> Body {
        // The fields were stored before the frame first held a page, and `find` has read the frame's page with acquire
        // ordering.
        let area = slot.area.get();
        let data = area.data().expect("a frame that was taken from a pool part has a data area");
        Body { data, page_bytes: area.page_bytes() }
    }

    /// Returns the bytes. The caller holds the frame's latch.
    #[inline]
    pub(crate) fn bytes<'g>(self, region: &'g Region, hold: &'g impl SharedHold) -> &'g [u8] {
        region.bytes(self.data, self.page_bytes, hold)
    }

    /// Returns the bytes for filling. No other session uses them yet.
    #[inline]
    pub(crate) fn bytes_mut<'g>(self, region: &'g Region, hold: &'g mut impl ExclusiveHold) -> &'g mut [u8] {
        region.bytes_mut(self.data, self.page_bytes, hold)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use libtp_process::ProcessManager;
    use rio::Word;

    use super::*;

    #[test]
    fn the_page_lsn_is_never_a_mixture_of_two() {
        const LSNS: [u64; 2] = [0x00ff_ffff_ffff_fff8, 0x0100_0000_0000_0000];
        let region = Region::anonymous(1 << 24).unwrap();
        ProcessManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let session = processes.join().unwrap();
        let slot = region.at(region.allocate::<FrameSlot>(1).unwrap());
        let body = Body { data: region.allocate_bytes(4096, 4096).unwrap(), page_bytes: 4096 };
        let guard = slot.latch.exclusive(&session, Rank::page(0));
        let mut page = ExclusivePage::new(&region, slot, body, guard, PageId::NONE);
        let at = Offset::<Word<u64>>::from_raw(body.data.raw() + lsn_field().start as u64).unwrap();
        let (word, is_over) = (region.at(at), AtomicBool::new(false));
        word.publish(LSNS[0]);
        std::thread::scope(|threads| {
            // This thread reads like a survivor that repairs a session which was killed at any instruction.
            let reader = threads.spawn(|| {
                let seen = std::iter::repeat_with(|| word.load()).take_while(|_| !is_over.load(Ordering::Acquire));
                seen.filter(|lsn| !LSNS.contains(lsn)).count()
            });
            for lsn in LSNS.into_iter().cycle().take(400_000) {
                let mut section = session.section();
                let proof = Repeated(());
                page.page_mut_repeated(&mut section, proof).set_lsn(Lsn::new(lsn));
                section.close();
            }
            is_over.store(true, Ordering::Release);
            assert_eq!(reader.join().unwrap(), 0, "a survivor finds a mixture of two LSNs");
        });
    }
}

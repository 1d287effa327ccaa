//! A frame: the bytes of a page in the buffer pool, and the slot that describes them.
//!
//! Paper: LIBTP 3.2.2. Departure: the latch on the slot keeps a page from being replaced. Pins exist too, for sessions
//! that must latch a page later without waiting for the disk (docs/design/0001-pages-latched-not-pinned.md).
//!
//! ```text
//!            take                  read, checked          mark_dirty_with
//!   free ----------> loading ------------------> clean <------------------> dirty
//!    ^                  |                          |      written, synced
//!    +------------------+--------------------------+
//!        could not be read              replaced
//! ```
//!
//! Invariants
//! 1. `page` changes only under the slot's exclusive latch *and* its bucket's latch, while there are no pins. So a
//!    latch, in either mode, keeps the page in the frame. A pin keeps it there, too.
//! 2. A pin is taken only by a session that holds the slot's latch or the latch of its bucket.
//! 3. The frame is in a chain of the table exactly while `page` names a page and `state` is not free. The chain
//!    and the words may disagree only under the bucket's latch, while a session adds the frame to the chain or removes
//!    it.
//! 4. `recovery` or `unsynced` is set until all changes of the page are on the disk, synced (PROTOCOLS L7).
//! 5. A slot keeps its type, its data area, its pool and page size for the region's life (PROTOCOLS D14).
//! 6. The count of changes is odd while a session may store to the page (docs/design/0022).
//!
//! If a session dies here: a session that takes a frame out of a list notes the frame in the same section (`pool`,
//! `lookup`). A loading frame has no data worth keeping (see `repair`). A resident frame stays resident until it is
//! removed from the table (`load`, `settle`).

use std::sync::atomic::{fence, Ordering};

use libtp_log::Lsn;
use libtp_process::{LastWork, Latch, PinNote, Rank, Session};
use rio::{failpoint, planted, Link, Region, Section, Word};

use crate::area::Area;
use crate::version::{State, Version};
use crate::PageId;

/// The value of `used` of a frame that was used since the clock's hand last passed it. No stamp of the LRU policy has
/// this value.
pub(crate) const HOT: u32 = 1;

/// The rank for an attempt to latch a frame with any page: an attempt that does not wait need not obey the order of
/// latches.
pub(crate) const ANY_PAGE: Rank = Rank::page(0);

rio::shared! {
    /// A frame's slot: one cache line, which every user of the page touches anyway for the latch.
    pub(crate) struct FrameSlot {
        /// 00 Guards the page's bytes and all fields of the slot except `page`, `next` and `pins`.
        pub(crate) latch: Latch,
        /// 08 The page in the frame. Any session may read the word, but may rely on it only under the slot's latch or
        /// the bucket's latch.
        pub(crate) page: Word<PageId>,
        /// 16 The next slot of the bucket's chain, or of the free list.
        pub(crate) next: Link<FrameSlot>,
        /// 24 The place of the page's bytes, and the pool part that owns the slot: see [`Area`]. Written once.
        pub(crate) area: Word<Area>,
        /// 32 First LSN that may have changed the page since it was last written; [`Lsn::NONE`] if it is clean.
        pub(crate) recovery: Word<Lsn>,
        /// 40 The recovery LSN of the image that is being written to the disk and not yet synced.
        pub(crate) unsynced: Word<Lsn>,
        /// 48 The number of pins: uses that must be able to latch the page without waiting for the disk.
        pub(crate) pins: Word<u32>,
        /// 52 A value of the replacement policy. Stored only when it changes, because sessions share the cache line.
        pub(crate) used: Word<u32>,
        /// 56 The state, and the count of changes: see [`Version`].
        pub(crate) version: Word<Version>,
    } size 64
}

impl FrameSlot {
    #[inline]
    pub(crate) fn state(&self) -> State {
        self.version.get().state()
    }

    /// Stores the state outside of a section, so the store is never undone. A session that sees the state also sees all
    /// earlier stores, among them the page's bytes. A page that becomes resident has another count than the previous
    /// page in the frame.
    pub(crate) fn set_state(&self, state: State) {
        self.version.publish(self.version.get().with(state));
    }

    /// Stores the state in a section: rolling the section back undoes the store. The count does not change.
    pub(crate) fn set_state_in(&self, section: &mut Section<'_>, state: State) {
        self.version.set(section, self.version.get().with(state));
    }

    /// Makes the count of changes odd, before the first store to the page. The caller has the latch alone. The store is
    /// never undone.
    #[inline(always)]
    pub(crate) fn begin_change(&self) {
        // The count is stored each time, because a check whether it is odd already costs more.
        if !planted("buffer: a change leaves the count even") {
            self.version.init(self.version.get().changing());
        }
        // A reader that sees a store to the page sees the odd count.
        fence(Ordering::Release);
        failpoint("buffer: count odd, page not changed");
    }

    /// Makes the count of changes even again, if it is odd. The change is complete, and its section is closed. The
    /// caller has the latch alone.
    #[inline(always)]
    pub(crate) fn end_change(&self) {
        let now = self.version.get();
        if now.is_changing() {
            failpoint("buffer: page changed, count not even");
            self.version.publish(now.changed());
            failpoint("buffer: count even, page still latched");
        }
    }

    /// Takes a pin and notes it in the session. See invariant 2.
    #[inline]
    pub(crate) fn pin(&self, session: &Session) -> PinNote {
        let place = place_in(session.region(), self);
        let note = session.note_pin(place);
        self.pins.fetch_add(1);
        failpoint("buffer: pin counted");
        session.has_pinned(note, place);
        note
    }

    /// Removes a pin. The frame may be replaced from now on.
    #[inline]
    pub(crate) fn unpin(&self, session: &Session, note: PinNote) {
        session.note_unpin(note, place_in(session.region(), self));
        let before = self.pins.fetch_add(u32::MAX);
        failpoint("buffer: pin taken off");
        session.has_unpinned(note);
        // A thread that is panicking skips this check: a second panic would end the process.
        assert!(before != 0 || std::thread::panicking(), "a frame was unpinned more often than pinned");
    }

    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load() != 0
    }

    /// Returns whether the disk has the whole page, synced. Under the latch the answer is certain. Without the
    /// latch it is a hint.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        // `unsynced` is read first: `undo_write` needs no latch, and sets `recovery` before it clears `unsynced`.
        self.unsynced.load().is_none() && self.recovery.load().is_none()
    }

    /// Marks a clean page dirty. No log record before the LSN that `recovery` returns changes the page. Called under
    /// the exclusive latch, before the append (PROTOCOLS L7). If the page is dirty already, keeps the older LSN.
    #[inline]
    pub(crate) fn mark_dirty_with(&self, recovery: impl FnOnce() -> Lsn) {
        if self.recovery.get().is_none() {
            // A swap, not a store: a writer whose write of an older image failed restores the older LSN without the
            // latch.
            let _ = self.recovery.compare_exchange(Lsn::NONE, recovery());
        }
    }

    /// Claims the page for writing: moves its recovery LSN to `unsynced`, before the page is copied. Called under the
    /// latch. Returns false if the page is clean or another session is writing it.
    pub(crate) fn begin_write(&self) -> bool {
        let recovery = self.recovery.load();
        // `unsynced` is set first. So a session that computes the dirty minimum, and finds `recovery` empty, finds
        // `unsynced` set.
        if recovery.is_none() || self.unsynced.compare_exchange(Lsn::NONE, recovery).is_err() {
            return false;
        }
        failpoint("buffer: page claimed, still dirty");
        self.recovery.publish(Lsn::NONE);
        failpoint("buffer: page claimed, not copied");
        true
    }

    /// Ends a claim: the image is on the disk, synced.
    pub(crate) fn end_write(&self) {
        self.unsynced.publish(Lsn::NONE);
    }

    /// Cancels a claim: the image did not reach the disk, and the page is as dirty as before. Needs no latch.
    pub(crate) fn undo_write(&self) {
        let older = self.unsynced.get();
        loop {
            let now = self.recovery.load();
            if !now.is_none() && now <= older {
                break;
            }
            if self.recovery.compare_exchange(now, older).is_ok() {
                break;
            }
        }
        failpoint("buffer: claim half undone");
        self.unsynced.publish(Lsn::NONE);
    }

    /// Returns the oldest LSN that a restart needs for this page, if any. Needs no latch.
    pub(crate) fn oldest_needed(&self) -> Option<Lsn> {
        if planted("buffer: a written page counts as synced") {
            return Some(self.recovery.load()).filter(|lsn| !lsn.is_none());
        }
        // Three loads, because the LSN may move to `unsynced`, or back, between two of them.
        let looks = [self.recovery.load(), self.unsynced.load(), self.recovery.load()];
        looks.into_iter().filter(|lsn| !lsn.is_none()).min()
    }
}

impl LastWork for &FrameSlot {
    /// Makes the count of changes even, before the latch is released. If a panic leaves the latch held, this function
    /// is not called: the section may be open, so the count stays odd until the repair.
    #[inline(always)]
    fn do_last(&self) {
        self.end_change();
    }
}

fn place_in(region: &Region, slot: &FrameSlot) -> u64 {
    region.offset_of(slot).raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use libtp_process::ProcessManager;

    fn with_slot(check: impl Fn(&FrameSlot)) {
        let region = Region::anonymous(1 << 20).unwrap();
        let place = region.allocate::<FrameSlot>(1).unwrap();
        check(region.at(place));
    }

    #[test]
    fn the_first_recovery_lsn_stays_until_the_page_was_synced() {
        with_slot(|slot| {
            slot.mark_dirty_with(|| Lsn::new(80));
            slot.mark_dirty_with(|| Lsn::new(160));
            assert_eq!(slot.oldest_needed(), Some(Lsn::new(80)));
            assert!(slot.begin_write());
            assert!(!slot.begin_write(), "one session writes a page at a time");
            assert!(!slot.is_clean(), "written is not synced");
            assert_eq!(slot.oldest_needed(), Some(Lsn::new(80)));
            slot.end_write();
            assert!(slot.is_clean());
            assert_eq!(slot.oldest_needed(), None);
        });
    }

    #[test]
    fn a_page_changed_while_it_is_written_stays_dirty() {
        with_slot(|slot| {
            slot.mark_dirty_with(|| Lsn::new(80));
            assert!(slot.begin_write());
            slot.mark_dirty_with(|| Lsn::new(160));
            slot.end_write();
            assert_eq!(slot.oldest_needed(), Some(Lsn::new(160)));
        });
    }

    #[test]
    fn a_failed_write_puts_the_older_lsn_back() {
        with_slot(|slot| {
            slot.mark_dirty_with(|| Lsn::new(80));
            assert!(slot.begin_write());
            slot.mark_dirty_with(|| Lsn::new(160));
            slot.undo_write();
            assert_eq!((slot.recovery.get(), slot.unsynced.get()), (Lsn::new(80), Lsn::NONE));
        });
    }

    #[test]
    #[should_panic(expected = "unpinned more often")]
    fn more_unpins_than_pins_break_an_invariant() {
        let region = Region::anonymous(1 << 24).unwrap();
        ProcessManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let session = processes.join().unwrap();
        let slot = region.at(region.allocate::<FrameSlot>(1).unwrap());
        let note = slot.pin(&session);
        slot.unpin(&session, note);
        slot.unpin(&session, note);
    }
}

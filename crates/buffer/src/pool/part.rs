//! A pool part: the frames of one page size in one pool, and its list of free frames.
//!
//! Invariant: a frame on the free list holds no page. Taking a frame from the list and latching it are one step.
//!
//! Latches: the pool part's latch (rank 52) guards its free list.
//!
//! If a session dies here: if it took a frame from the list, it noted the frame in the same section.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicU32;

use libtp_process::{ExclusiveGuard, Latch, Rank, Session, SessionId};
use rio::{failpoint, Held, Link, Offset, Region, Section, Slab, SlabHeader, Word};

use crate::certain_count::CertainCount;
use crate::cleaned_frames::CleanedFrames;
use crate::frame::FrameSlot;
#[cfg(doc)]
use crate::frame::HOT;
use crate::version::State;
use crate::PageId;

/// A pool's number. Pools are never removed while the region exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) u32);

impl PoolId {
    /// The environment's own pool.
    pub const DEFAULT: PoolId = PoolId(1);
}

rio::shared! {
    /// A pool.
    pub(crate) struct PoolSlot {
        /// The number of bytes of pages that the pool may hold.
        pub(crate) budget_bytes: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare_word: Word<u64>,
        /// The pool's policy.
        pub(crate) policy: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: Word<u32>,
        /// The pool's parts, by page size: 4, 8, 16, 32, 64 KiB.
        pub(crate) parts: [Link<PoolPartSlot>; 5],
    } size 64
}

rio::shared! {
    /// The frames of one page size in one pool.
    pub(crate) struct PoolPartSlot {
        /// Guards the free list.
        pub(crate) latch: Latch,
        /// The first free frame.
        pub(crate) free: Link<FrameSlot>,
        /// The frames' slots.
        pub(crate) slab: Link<SlabHeader>,
        /// The session that adds frames; zero if no session does.
        pub(crate) grower: Word<SessionId>,
        /// The number of frames with a data area.
        pub(crate) frame_count: Word<u32>,
        /// The position of the clock's hand.
        pub(crate) hand: Word<u32>,
        /// The present time of the LRU policy.
        pub(crate) now: Word<u32>,
        /// log2 of the page size.
        pub(crate) page_shift: Word<u32>,
        /// The pool.
        pub(crate) pool: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: Word<u32>,
        /// Pages not found in memory.
        pub(crate) misses: Word<u64>,
        /// Pages read from the disk.
        pub(crate) reads: Word<u64>,
        /// Pages written to the disk.
        pub(crate) writes: Word<u64>,
        /// Pages that were replaced.
        pub(crate) evictions: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare_words: [Word<u64>; 5],
    } size 128
}

impl PoolSlot {
    /// Returns the number of bytes of the pool's frames. The sum is computed each time, because a stored sum would be
    /// too low after the death of a session that adds frames.
    pub(super) fn bytes(&self, region: &Region) -> u64 {
        let parts = self.parts.iter().filter_map(|link| region.try_at(link.load()?));
        parts.map(|part| u64::from(part.frame_count.load()) << (part.page_shift.get() & 31)).sum()
    }
}

/// The name of a pool part: the pool's number and log2 of the page size, as they are also stored in an area
/// (`area.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolPartKey(pub(super) u32);

impl PoolPartKey {
    pub(super) fn new(pool: PoolId, page_shift: u32) -> PoolPartKey {
        PoolPartKey((pool.0 << 8) | page_shift)
    }

    /// Returns the pool's number and log2 of the page size.
    pub(super) fn parts(self) -> (u32, u32) {
        (self.0 >> 8, self.0 & 31)
    }
}

/// A replacement policy, one per pool part and process. The state that processes share is in the slots.
pub(crate) trait Replace: Send + Sync {
    /// Notes that a page was put into the frame.
    fn loaded(&self, part: &PoolPart, slot: &FrameSlot);

    /// Notes that the page was used. Called if the frame is not marked [`HOT`].
    fn used(&self, part: &PoolPart, slot: &FrameSlot);

    /// Passes frames to `visit`, in the order in which they should be replaced, until `visit` returns `Break`. Every
    /// frame that is not used meanwhile is passed at least once.
    fn offer<'s>(&self, part: &'s PoolPart, visit: &mut dyn FnMut(&'s FrameSlot) -> ControlFlow<()>);

    /// Returns about `count` frames that should be replaced next. Does not change the order.
    fn next<'s>(&self, part: &'s PoolPart, count: u32) -> Vec<&'s FrameSlot>;
}

/// One process's handle to a pool part.
pub(crate) struct PoolPart {
    pub(super) region: Region,
    pub(crate) slot: Held<PoolPartSlot>,
    pub(crate) slab: Slab<FrameSlot>,
    pub(super) key: PoolPartKey,
    pub(super) pool: Held<PoolSlot>,
    policy: Box<dyn Replace>,
    pub(super) known: CertainCount,
    /// The number of frames that must still be replaced before the next attempt to grow the region.
    pub(super) rest: AtomicU32,
    cleaned: CleanedFrames,
}

/// A frame that a session has taken and not yet used: it is latched, in no chain, and on no list.
pub(crate) struct FrameInHand<'s> {
    pub(crate) slot: &'s FrameSlot,
    pub(crate) guard: ExclusiveGuard<'s>,
}

impl PoolPart {
    pub(super) fn attach(
        region: &Region,
        pool: &Held<PoolSlot>,
        place: Offset<PoolPartSlot>,
        policy: Box<dyn Replace>,
    ) -> PoolPart {
        let slot = region.hold(place);
        let slab = slot.slab.load().expect("a pool part was made before it is opened");
        PoolPart {
            region: region.clone(),
            slab: Slab::attach(region, slab),
            key: PoolPartKey::new(PoolId(slot.pool.get()), slot.page_shift.get()),
            pool: pool.clone(),
            policy,
            known: CertainCount::default(),
            rest: AtomicU32::new(0),
            cleaned: CleanedFrames::default(),
            slot,
        }
    }

    /// Returns the page size.
    pub(crate) fn page_bytes(&self) -> u32 {
        1 << self.slot.page_shift.get()
    }

    /// Returns the number of frames of the pool part.
    ///
    /// # Panics
    /// If the count has become smaller.
    pub(crate) fn frame_count(&self) -> u32 {
        self.known.look(|| self.slot.frame_count.load()).expect("frames are never removed")
    }

    /// Returns the pool part's policy.
    pub(crate) fn policy(&self) -> &dyn Replace {
        &*self.policy
    }

    /// Lists the frames that were just written. [`PoolPart::next_cleaned`] returns them for replacement.
    pub(crate) fn put_cleaned(&self, written: &[&FrameSlot]) {
        self.cleaned.put(&self.region, written);
    }

    /// Returns the next frame that [`PoolPart::put_cleaned`] got; `None` if no such frame can be used.
    pub(crate) fn next_cleaned(&self) -> Option<&FrameSlot> {
        self.cleaned.next(&self.region)
    }

    /// Returns the frames of the pool part.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &FrameSlot> {
        (1..=self.frame_count()).map(|number| self.slab.at(number))
    }

    /// Returns the numbers of frames in each state at this moment, as text for an error.
    pub(crate) fn census(&self) -> String {
        let count = |is_so: fn(&FrameSlot) -> bool| self.frames().filter(|slot| is_so(slot)).count();
        let free = count(|slot| slot.state() == State::Free);
        let loading = count(|slot| slot.state() == State::Loading);
        let pinned = count(FrameSlot::is_pinned);
        let latched = count(|slot| slot.latch.owner().is_some() || slot.latch.shared_count() != 0);
        let dirty = count(|slot| !slot.recovery.load().is_none());
        let written = count(|slot| !slot.unsynced.load().is_none());
        format!(
            "{free} empty, {loading} being read, {pinned} pinned, {latched} latched, {dirty} changed, {written} being written"
        )
    }

    /// Takes the first frame from the free list, if it can be latched at once.
    pub(crate) fn pop_free<'s>(&'s self, session: &'s Session) -> Option<FrameInHand<'s>> {
        // This check takes no latch, so an empty list costs nothing. A stale answer costs one replacement.
        self.slot.free.get()?;
        let _list = self.slot.latch.exclusive(session, Rank::REPLACER);
        // A session that adds frames holds the latch, so this count is certain.
        self.known.is_certain(self.slot.frame_count.get());
        let slot = self.region.at(self.slot.free.get()?);
        // A session whose walk has left its chain may hold the latch for a moment. A session that waited for a page
        // that could not be read may still have a pin.
        let guard = slot.latch.try_exclusive(session, Rank::page(0))?;
        if slot.is_pinned() {
            return None;
        }
        assert!(slot.state() == State::Free && slot.page.get().is_none(), "a frame on the free list holds no page");
        let mut section = session.section();
        self.slot.free.set(&mut section, slot.next.get());
        failpoint("buffer: off the free list, not in hand");
        session.set_in_hand_in(&mut section, self.region.offset_of(slot).raw());
        section.close();
        failpoint("buffer: off the free list, in hand");
        Some(FrameInHand { slot, guard })
    }

    /// Returns a frame, which is in no chain, to the free list.
    pub(crate) fn push_free(&self, session: &Session, taken: FrameInHand<'_>) {
        self.push_free_of(session, taken, |section| session.set_in_hand_in(section, 0));
    }

    /// Like [`PoolPart::push_free`], but in the same section `put` clears the note of the session that had taken the
    /// frame.
    pub(crate) fn push_free_of(&self, session: &Session, taken: FrameInHand<'_>, put: impl FnOnce(&mut Section<'_>)) {
        taken.slot.page.publish(PageId::NONE);
        taken.slot.set_state(State::Free);
        failpoint("buffer: about to be put on the free list");
        let list = self.slot.latch.exclusive(session, Rank::REPLACER);
        let mut section = session.section();
        // The frame is on no list yet, so it needs no before-image.
        taken.slot.next.init(self.slot.free.get());
        self.slot.free.set(&mut section, Some(self.region.offset_of(taken.slot)));
        failpoint("buffer: on the free list, still in hand");
        put(&mut section);
        section.close();
        failpoint("buffer: on the free list, list latched");
        drop(list);
        drop(taken.guard);
    }

    fn link_free(&self, slot: &FrameSlot) {
        slot.next.init(self.slot.free.get());
        self.slot.free.publish(Some(self.region.offset_of(slot)));
    }

    /// Asserts that each frame is free and on the list, or holds a page. Returns the number of frames with a page. No
    /// session works meanwhile.
    pub(crate) fn check_at_rest(&self) -> usize {
        let mut free = 0;
        let mut next = self.slot.free.load();
        while let Some(place) = next {
            let slot = self.region.at(place);
            assert!(slot.state() == State::Free && slot.page.load().is_none(), "a frame on the free list holds a page");
            free += 1;
            next = slot.next.load();
        }
        let mut resident = 0;
        for slot in self.frames() {
            let id = slot.page.load();
            assert!(slot.latch.owner().is_none() && slot.latch.shared_count() == 0, "{id} is latched");
            assert!(!slot.is_pinned(), "{id} is pinned");
            assert!(!slot.version.load().is_changing(), "{id} counts as changing");
            resident += usize::from(slot.state() == State::Resident);
        }
        assert!(resident + free == self.frame_count() as usize, "a frame is neither free nor in use");
        resident
    }

    /// Rebuilds the free list and frees every latch. No other session is attached, and every frame's state is right.
    pub(crate) fn rebuild_alone(&self) {
        self.slot.latch.reset_alone();
        self.slot.grower.publish(SessionId::NONE);
        self.slot.free.publish(None);
        for slot in self.frames().filter(|slot| slot.state() == State::Free) {
            self.link_free(slot);
        }
    }
}

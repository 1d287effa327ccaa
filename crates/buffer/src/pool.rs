//! Pools and their shelves: how many frames there are, and which of them are free.
//!
//! Paper: LIBTP 3.2.2, "multiple buffer pools with different policies". A pool has a budget in bytes and a policy. Its
//! frames of one page size are a *shelf*, because a data area keeps its size for ever.
//!
//! A shelf begins empty and grows while there is budget: by half of its frames, at least 16 frames, at most 4 MiB at a
//! time, so a new environment is small and a large one grows in few steps. Where the region cannot grow (its filesystem
//! is full), the shelf makes do with replacement.
//!
//! Invariants
//! 1. The frames `1..=frame_count` of a shelf's slab have a data area; the others are zero.
//! 2. A frame on the free list holds no page. Taking one from the list and latching it are one step.
//!
//! Latches: the shelf's (rank 52) guards its free list; the pool table's, of the same rank, guards the making of pools
//! and shelves. The role of the session that grows a shelf is a word taken by compare-and-swap (PROTOCOLS D5): growing
//! is a system call, and no session waits for the system under a latch.
//!
//! If a session dies here: a frame that it took from the list is noted as in its hand, in the same section. If it dies
//! while it grows a shelf, some memory is lost.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use libtp_process::{ExclusiveGuard, Latch, Rank, Session, SessionId};
use rio::{failpoint, planted, Extent, Held, Link, Offset, Region, Section, Slab, SlabHeader, Word};

use crate::certain_count::CertainCount;
use crate::cleaned_frames::CleanedFrames;
use crate::frame::{FrameSlot, State};
use crate::lookup::PageTable;
use crate::page_header::is_page_size;
use crate::replace::{self, Replace};
use crate::settings::{Policy, PoolSettings};
use crate::{Error, PageId, Result};

/// A pool's number. Pools are never removed while the region lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PoolId(pub(crate) u32);

impl PoolId {
    /// The environment's own pool.
    pub const DEFAULT: PoolId = PoolId(1);
}

const POOLS_FIRST: u32 = 4;
const POOLS_MAX: u32 = 1 << 20;
const FRAMES_FIRST: u32 = 32;
const GROW_FRAMES_MIN: u32 = 16;
const GROW_BYTES_MAX: u64 = 4 << 20;
/// A shelf may have this number of frames whatever the budget: fewer could not hold the pages that a few threads use at
/// once.
const FRAMES_MIN: u32 = 16;
/// Frames that are replaced after the region refused to grow, before it is asked again.
const REFUSAL_REST: u32 = 1024;
/// Data areas begin at multiples of this.
const AREA_ALIGN: u64 = 4096;
const SHELVES: usize = 5;
const PAGE_SHIFT_MIN: u32 = 12;

rio::shared! {
    /// A pool.
    pub(crate) struct PoolSlot {
        /// Bytes of pages it may hold.
        pub(crate) budget_bytes: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare_word: Word<u64>,
        /// Its policy.
        pub(crate) policy: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: Word<u32>,
        /// Its shelves, by page size: 4, 8, 16, 32, 64 KiB.
        pub(crate) shelves: [Link<ShelfSlot>; 5],
    } size 64
}

rio::shared! {
    /// All pools.
    pub(crate) struct PoolTable {
        /// Guards the making of pools and shelves.
        pub(crate) latch: Latch,
        /// The pools.
        pub(crate) pools: Link<SlabHeader>,
        /// How many there are; stored last when one is made.
        pub(crate) pool_count: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: Word<u32>,
    } size 24
}

rio::shared! {
    /// The frames of one page size in one pool.
    pub(crate) struct ShelfSlot {
        /// Guards the free list.
        pub(crate) latch: Latch,
        /// The first free frame.
        pub(crate) free: Link<FrameSlot>,
        /// The frames' slots.
        pub(crate) slab: Link<SlabHeader>,
        /// The session that adds frames; zero if no session does.
        pub(crate) grower: Word<SessionId>,
        /// How many frames have a data area.
        pub(crate) frame_count: Word<u32>,
        /// Where the clock's hand is.
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
        /// Pages that made room for others.
        pub(crate) evictions: Word<u64>,
        /// Zero, kept for later.
        pub(crate) spare_words: [Word<u64>; 5],
    } size 128
}

impl PoolSlot {
    /// Returns the bytes of its frames. Summed, not counted: a count would be too low after the death of a session that
    /// adds frames.
    fn bytes(&self, region: &Region) -> u64 {
        let shelves = self.shelves.iter().filter_map(|link| region.try_at(link.load()?));
        shelves.map(|part| u64::from(part.frame_count.load()) << (part.page_shift.get() & 31)).sum()
    }
}

/// The name of a shelf: the pool's number and log2 of the page size, as kept in a frame's slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShelfKey(u32);

impl ShelfKey {
    fn new(pool: PoolId, page_shift: u32) -> ShelfKey {
        ShelfKey((pool.0 << 8) | page_shift)
    }

    #[inline]
    pub(crate) fn of(slot: &FrameSlot) -> ShelfKey {
        ShelfKey(slot.part.get())
    }

    /// Returns the page size.
    #[inline]
    pub(crate) fn page_bytes(self) -> usize {
        1 << (self.0 & 31)
    }
}

/// One process's handle to a shelf.
pub(crate) struct PoolPart {
    region: Region,
    pub(crate) slot: Held<ShelfSlot>,
    pub(crate) slab: Slab<FrameSlot>,
    key: ShelfKey,
    pool: Held<PoolSlot>,
    policy: Box<dyn Replace>,
    known: CertainCount,
    /// How many more frames to replace before the region is asked again for room it refused.
    rest: AtomicU32,
    cleaned: CleanedFrames,
}

/// A frame in the hand of one session: latched, in no chain, on no list.
pub(crate) struct FrameInHand<'s> {
    pub(crate) slot: &'s FrameSlot,
    pub(crate) guard: ExclusiveGuard<'s>,
}

/// How far a shelf may grow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// To the pool's budget.
    Budget,
    /// To twice the budget, because every frame is in use and the caller would otherwise fail.
    Emergency,
}

impl PoolPart {
    fn attach(region: &Region, pool: &Held<PoolSlot>, place: Offset<ShelfSlot>) -> PoolPart {
        let slot = region.hold(place);
        let slab = slot.slab.load().expect("a shelf was made before it is opened");
        PoolPart {
            region: region.clone(),
            slab: Slab::attach(region, slab),
            key: ShelfKey::new(PoolId(slot.pool.get()), slot.page_shift.get()),
            pool: pool.clone(),
            policy: replace::of(Policy::from_raw(pool.policy.get())),
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

    /// Returns how many frames it has.
    ///
    /// # Panics
    /// If the count has become smaller.
    pub(crate) fn frame_count(&self) -> u32 {
        self.known.look(|| self.slot.frame_count.load()).expect("frames are never removed")
    }

    /// Returns its policy.
    pub(crate) fn policy(&self) -> &dyn Replace {
        &*self.policy
    }

    /// Makes the frames that were just written the next to be replaced.
    pub(crate) fn put_cleaned(&self, written: &[&FrameSlot]) {
        self.cleaned.put(&self.region, written);
    }

    /// Returns the next frame of those that [`PoolPart::put_cleaned`] got, if there is one.
    pub(crate) fn next_cleaned(&self) -> Option<&FrameSlot> {
        self.cleaned.next(&self.region)
    }

    /// Returns its frames.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &FrameSlot> {
        (1..=self.frame_count()).map(|number| self.slab.at(number))
    }

    /// Counts the frames by what they are doing at this moment, as text for an error.
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
        // A look without the latch: an empty list costs nothing, a stale answer costs a replacement.
        self.slot.free.get()?;
        let _list = self.slot.latch.exclusive(session, Rank::REPLACER);
        // A session that adds frames holds the latch, so this count is certain.
        self.known.is_certain(self.slot.frame_count.get());
        let slot = self.region.at(self.slot.free.get()?);
        // A session whose walk went astray may hold the latch for a moment, and a session that waited for a page that
        // could not be read may still have a pin.
        let guard = slot.latch.try_exclusive(session, Rank::page(0))?;
        if slot.is_pinned() {
            return None;
        }
        assert!(slot.state() == State::Free && slot.page.get().is_none(), "a frame on the free list holds no page");
        let mut section = session.section();
        self.slot.free.set(&mut section, slot.next.get());
        failpoint("buffer: off the free list, in nobody's hand");
        session.set_in_hand_in(&mut section, self.region.offset_of(slot).raw());
        section.close();
        failpoint("buffer: off the free list, in hand");
        Some(FrameInHand { slot, guard })
    }

    /// Gives a frame, which is in no chain, back to the free list.
    pub(crate) fn push_free(&self, session: &Session, taken: FrameInHand<'_>) {
        self.push_free_of(session, taken, |section| session.set_in_hand_in(section, 0));
    }

    /// Does as [`PoolPart::push_free`]; `put` notes, in the same section, which session's hand the frame has left.
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

    /// Adds frames if the budget and the region allow it and no other session adds any. Returns how many.
    pub(crate) fn grow(&self, session: &Session, table: &PageTable, bound: Bound) -> u32 {
        // Relaxed: a count that only saves system calls.
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 && bound == Bound::Budget && self.frame_count() > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return 0;
        }
        let grower = self.slot.grower.load();
        let is_held = grower != SessionId::NONE;
        let is_free =
            !is_held || (!session.processes().is_alive(grower) && !planted("buffer: a dead grower is waited for"));
        if self.room(bound) == 0 || !is_free || self.slot.grower.compare_exchange(grower, session.id()).is_err() {
            return 0;
        }
        // The room is computed again: another session may have grown the shelf just before.
        failpoint("buffer: makes its pool grow");
        let added = self.add_frames(session, self.room(bound), table);
        failpoint("buffer: pool larger, still the grower");
        self.slot.grower.publish(SessionId::NONE);
        if added == 0 {
            self.rest.store(REFUSAL_REST, Ordering::Relaxed);
        }
        added
    }

    /// Returns whether another session is adding frames now. A session that needs a frame had better wait for those
    /// than write a dirty page.
    pub(crate) fn is_growing(&self, session: &Session) -> bool {
        let grower = self.slot.grower.load();
        grower != SessionId::NONE && session.processes().is_alive(grower)
    }

    /// Returns whether the session that adds frames is certainly stopped.
    pub(crate) fn has_stopped_grower(&self, session: &Session) -> bool {
        session.processes().is_stopped(self.slot.grower.load())
    }

    /// Returns whether there is budget left and the region was not found full.
    pub(crate) fn can_grow(&self) -> bool {
        // Relaxed: a hint.
        self.room(Bound::Budget) > 0 && self.rest.load(Ordering::Relaxed) == 0
    }

    /// Returns how many frames may be added now.
    fn room(&self, bound: Bound) -> u32 {
        let count = self.frame_count();
        let most = u32::try_from(GROW_BYTES_MAX / u64::from(self.page_bytes())).expect("4 MiB are few pages");
        let wanted = (count / 2).clamp(GROW_FRAMES_MIN, most);
        let budget = match bound {
            Bound::Budget => self.pool.budget_bytes.get(),
            Bound::Emergency => self.pool.budget_bytes.get().saturating_mul(2),
        };
        let bytes = budget.saturating_sub(self.pool.bytes(&self.region));
        let within = u32::try_from(bytes / u64::from(self.page_bytes())).unwrap_or(u32::MAX);
        wanted.min(within.max(FRAMES_MIN.saturating_sub(count)))
    }

    /// Adds up to `wanted` frames; fewer, or zero, where the region has no room. Only the grower calls it.
    ///
    /// If the session dies here: until the section that links and counts the frames has closed, the data area is lost,
    /// and nothing else. The next session that grows the shelf gives the slots another area.
    fn add_frames(&self, session: &Session, wanted: u32, table: &PageTable) -> u32 {
        let count = self.frame_count();
        while self.slab.capacity() < count + wanted {
            if self.slab.grow().is_err() {
                break;
            }
        }
        let mut adding = wanted.min(self.slab.capacity() - count);
        let page_bytes = u64::from(self.page_bytes());
        let area = loop {
            if adding == 0 {
                return 0;
            }
            match self.region.allocate_bytes(u64::from(adding) * page_bytes, AREA_ALIGN) {
                Ok(area) => break area,
                Err(_) => adding /= 2,
            }
        };
        failpoint("buffer: memory for frames, nobody's");
        for index in 0..adding {
            let slot = self.slab.at(count + 1 + index);
            slot.data.init(Some(area.plus(u64::from(index) * page_bytes)));
            slot.part.init(self.key.0);
        }
        let list = self.slot.latch.exclusive(session, Rank::REPLACER);
        let mut section = session.section();
        let mut first = self.slot.free.get();
        for index in (0..adding).rev() {
            // No session can reach the slot yet, so it needs no before-image.
            let slot = self.slab.at(count + 1 + index);
            slot.next.init(first);
            first = Some(self.region.offset_of(slot));
        }
        failpoint("buffer: new frames chained, not linked");
        self.slot.free.set(&mut section, first);
        failpoint("buffer: new frames linked, not counted");
        self.slot.frame_count.set(&mut section, count + adding);
        section.close();
        drop(list);
        failpoint("buffer: new frames there, table's count old");
        table.add_frames(adding);
        adding
    }

    /// Asserts that each frame is free and on the list, or holds a page. Returns how many hold one. No session works
    /// meanwhile.
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
            resident += usize::from(slot.state() == State::Resident);
        }
        assert!(resident + free == self.frame_count() as usize, "a frame is neither free nor in use");
        resident
    }

    /// Makes the free list anew and frees every latch. No other session is attached, and every frame's state is right.
    pub(crate) fn rebuild_alone(&self) {
        self.slot.latch.reset_alone();
        self.slot.grower.publish(SessionId::NONE);
        self.slot.free.publish(None);
        for slot in self.frames().filter(|slot| slot.state() == State::Free) {
            self.link_free(slot);
        }
    }
}

/// One process's handle to a pool, and to the one after it.
pub(crate) struct Pool {
    slot: Held<PoolSlot>,
    shelves: [OnceLock<PoolPart>; SHELVES],
    next: OnceLock<Box<Pool>>,
}

/// One process's handle to all pools. Handles are made when they are first asked for and stay: a shelf is reached
/// without a lock.
pub(crate) struct Pools {
    region: Region,
    table: Held<PoolTable>,
    slab: Slab<PoolSlot>,
    first: OnceLock<Box<Pool>>,
    known: CertainCount,
}

impl Pools {
    /// Makes the table and the environment's own pool in it.
    pub(crate) fn init(region: &Region, first: &PoolSettings) -> Result<Offset<PoolTable>> {
        let place = region.allocate::<PoolTable>(1)?;
        let slab = Slab::<PoolSlot>::init(region, POOLS_FIRST)?;
        region.at(place).pools.init(Some(slab));
        let slab = Slab::<PoolSlot>::attach(region, slab);
        slab.grow()?;
        fill(slab.at(PoolId::DEFAULT.0), first);
        region.at(place).pool_count.publish(1);
        Ok(place)
    }

    /// Opens the table at `place`.
    pub(crate) fn attach(region: &Region, place: Offset<PoolTable>) -> Pools {
        let table = region.hold(place);
        let slab = table.pools.load().expect("the pools were made before they are opened");
        let slab = Slab::attach(region, slab);
        Pools { region: region.clone(), slab, table, first: OnceLock::new(), known: CertainCount::default() }
    }

    /// Makes another pool.
    pub(crate) fn add(&self, session: &Session, settings: &PoolSettings) -> Result<PoolId> {
        let guard = self.table.latch.exclusive(session, Rank::REPLACER);
        let number = self.table.pool_count.get() + 1;
        if number > POOLS_MAX {
            return Err(Error::Full { what: "one more buffer pool", why: format!("there are {POOLS_MAX}") });
        }
        if self.slab.capacity() < number {
            self.slab.grow()?;
        }
        fill(self.slab.at(number), settings);
        self.table.pool_count.publish(number);
        drop(guard);
        Ok(PoolId(number))
    }

    /// Returns how many pools there are. Their numbers begin at one.
    ///
    /// # Panics
    /// If the count has become smaller.
    pub(crate) fn count(&self) -> u32 {
        self.known
            .look(|| self.table.pool_count.load())
            .inspect(|&now| self.known.is_certain(now))
            .expect("pools are never removed")
    }

    /// Returns whether there is such a pool.
    pub(crate) fn has(&self, pool: PoolId) -> bool {
        (1..=self.count()).contains(&pool.0)
    }

    /// Returns the handle of a pool that exists.
    pub(crate) fn pool(&self, id: PoolId) -> &Pool {
        let mut handle = self.first.get_or_init(|| self.open(1));
        for number in 2..=id.0 {
            handle = handle.next.get_or_init(|| self.open(number));
        }
        handle
    }

    fn open(&self, number: u32) -> Box<Pool> {
        assert!(number <= self.count(), "a pool is made before it is used");
        let slot = self.region.hold(self.slab.place(number));
        Box::new(Pool { slot, shelves: std::array::from_fn(|_| OnceLock::new()), next: OnceLock::new() })
    }

    /// Returns the shelf of a frame.
    pub(crate) fn shelf_of(&self, slot: &FrameSlot) -> &PoolPart {
        let key = ShelfKey::of(slot);
        let pool = self.pool(PoolId(key.0 >> 8));
        self.handle(pool, key.0 & 31).expect("a frame's shelf exists")
    }

    /// Returns the shelf for pages of `page_bytes` in a pool, and makes it if it is missing.
    pub(crate) fn part(&self, session: &Session, id: PoolId, page_bytes: u32) -> Result<&PoolPart> {
        assert!(is_page_size(page_bytes), "page sizes are checked when a file is registered");
        let pool = self.pool(id);
        let page_shift = page_bytes.ilog2();
        if let Some(part) = self.handle(pool, page_shift) {
            return Ok(part);
        }
        let link = &pool.slot.shelves[(page_shift - PAGE_SHIFT_MIN) as usize];
        let guard = self.table.latch.exclusive(session, Rank::REPLACER);
        if link.get().is_none() {
            let place = self.region.allocate::<ShelfSlot>(1)?;
            let slot = self.region.at(place);
            slot.slab.init(Some(Slab::<FrameSlot>::init(&self.region, FRAMES_FIRST)?));
            slot.page_shift.init(page_shift);
            slot.pool.init(id.0);
            // LRU stamps 0 and 1 mean other things.
            slot.now.init(replace::STAMP_FIRST);
            link.publish(Some(place));
        }
        drop(guard);
        Ok(self.handle(pool, page_shift).expect("it was just made, or found"))
    }

    fn handle<'p>(&self, pool: &'p Pool, page_shift: u32) -> Option<&'p PoolPart> {
        let index = (page_shift - PAGE_SHIFT_MIN) as usize;
        if let Some(part) = pool.shelves[index].get() {
            return Some(part);
        }
        let place = pool.slot.shelves[index].load()?;
        Some(pool.shelves[index].get_or_init(|| PoolPart::attach(&self.region, &pool.slot, place)))
    }

    /// Returns every shelf there is, with its pool.
    pub(crate) fn shelves(&self) -> Vec<(PoolId, &PoolPart)> {
        let mut found = Vec::new();
        for id in (1..=self.count()).map(PoolId) {
            let pool = self.pool(id);
            let shifts = (PAGE_SHIFT_MIN..).take(SHELVES);
            found.extend(shifts.filter_map(|shift| self.handle(pool, shift)).map(|part| (id, part)));
        }
        found
    }

    pub(crate) fn check(&self) -> std::result::Result<(), String> {
        self.slab.check()?;
        let count = self.known.look(|| self.table.pool_count.load()).unwrap_or(0);
        if count == 0 || count > self.slab.capacity() {
            return Err(format!("the buffer manager says that it has {count} pools"));
        }
        for (id, part) in self.shelves() {
            let known = part.known.look(|| part.slot.frame_count.load());
            let (count, slots, shift) = (known.unwrap_or(u32::MAX), part.slab.capacity(), part.key.0 & 31);
            let index = shift.wrapping_sub(PAGE_SHIFT_MIN) as usize;
            let link = self.pool(id).slot.shelves.get(index).and_then(|link| link.load());
            let is_linked = link.is_some_and(|link| link == self.region.offset_of(&*part.slot));
            let is_sane = count <= slots && part.slot.page_shift.get() == shift;
            if !is_linked || !is_sane {
                return Err(format!("a shelf of pool {} says that it has {count} frames of {slots}", id.0));
            }
            part.slab.check()?;
        }
        Ok(())
    }

    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut all = vec![Extent::of("pool table", &self.table)];
        all.extend(Extent::of_slab("frame slabs", "pools", &self.slab));
        for (_, part) in self.shelves() {
            all.push(Extent::of("shelves", &part.slot));
            all.extend(Extent::of_slab("frame slabs", "frames", &part.slab));
        }
        all
    }

    /// Returns the settings that a pool was made with.
    pub(crate) fn settings(&self, id: PoolId) -> PoolSettings {
        let slot = &self.pool(id).slot;
        PoolSettings { budget_bytes: slot.budget_bytes.get(), policy: Policy::from_raw(slot.policy.get()) }
    }

    /// Returns the bytes of a pool's frames.
    pub(crate) fn bytes(&self, id: PoolId) -> u64 {
        self.pool(id).slot.bytes(&self.region)
    }

    /// Frees every latch and makes every free list anew. No other session is attached.
    pub(crate) fn rebuild_alone(&self) {
        self.table.latch.reset_alone();
        self.shelves().into_iter().for_each(|(_, part)| part.rebuild_alone());
    }
}

fn fill(slot: &PoolSlot, settings: &PoolSettings) {
    slot.budget_bytes.init(settings.budget_bytes);
    slot.policy.init(settings.policy.to_raw());
}

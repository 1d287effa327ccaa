//! Pools and their parts: the number of frames, and the free frames.
//!
//! Paper: LIBTP 3.2.2, "multiple buffer pools with different policies". A pool has a budget in bytes and a policy. Its
//! frames of one page size are a *pool part*, because a data area keeps its size for ever.
//!
//! A pool part begins empty and grows while there is budget (`growth.rs`). If the region cannot grow (because its
//! filesystem is full), the pool part replaces pages instead.
//!
//! Invariants
//! 1. The frames `1..=frame_count` of a pool part's slab have a data area; the other slots are zero.
//! 2. A frame on the free list holds no page. Taking a frame from the list and latching it are one step.
//!
//! Latches: the pool part's latch (rank 52) guards its free list; the pool table's latch, with the same rank, guards
//! the creation of pools and their parts. One session at a time grows a pool part: it first stores its number into a
//! word of the pool part by compare-and-swap (PROTOCOLS D5). A latch does not guard the growth, because growing is a
//! system call, and no session waits for the system under a latch.
//!
//! If a session dies here: if it took a frame from the list, it noted the frame in the same section. If it dies while
//! it grows a pool part, some memory is lost.

mod growth;
mod part;
mod replace;

use std::sync::OnceLock;

use libtp_process::{Latch, Rank, Session};
use rio::{Extent, Held, Link, Offset, Region, Slab, SlabHeader, Word};

pub(crate) use growth::Bound;
pub use part::PoolId;
pub(crate) use part::{FrameInHand, PoolPart, PoolPartSlot, PoolSlot};

use crate::area::POOLS_MAX;
use crate::certain_count::CertainCount;
use crate::frame::FrameSlot;
use crate::page_header::is_page_size;
use crate::settings::{Policy, PoolSettings};
use crate::{Error, Result};

const POOLS_FIRST: u32 = 4;
const FRAMES_FIRST: u32 = 32;
const PARTS: usize = 5;
const PAGE_SHIFT_MIN: u32 = 12;

rio::shared! {
    /// All pools.
    pub(crate) struct PoolTable {
        /// Guards the creation of pools and their parts.
        pub(crate) latch: Latch,
        /// The pools.
        pub(crate) pools: Link<SlabHeader>,
        /// The number of pools. When a pool is made, this word is stored last.
        pub(crate) pool_count: Word<u32>,
        /// Zero, kept for later.
        pub(crate) spare: Word<u32>,
    } size 24
}

/// One process's handle to a pool, and to the next pool.
pub(crate) struct Pool {
    slot: Held<PoolSlot>,
    parts: [OnceLock<PoolPart>; PARTS],
    next: OnceLock<Box<Pool>>,
}

/// One process's handle to all pools. The handles of single pools and their parts are made at their first use and never
/// dropped, so no lock is needed to reach a pool part.
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
            return Err(Error::Full {
                what: "one more page cache",
                why: format!("there are {POOLS_MAX} already; let some databases share one (leave out `own_pool`)"),
            });
        }
        if self.slab.capacity() < number {
            self.slab.grow()?;
        }
        fill(self.slab.at(number), settings);
        self.table.pool_count.publish(number);
        drop(guard);
        Ok(PoolId(number))
    }

    /// Returns the number of pools. The pools are numbered from one.
    ///
    /// # Panics
    /// If the count has become smaller.
    pub(crate) fn count(&self) -> u32 {
        self.known
            .look(|| self.table.pool_count.load())
            .inspect(|&now| self.known.is_certain(now))
            .expect("pools are never removed")
    }

    /// Returns whether the pool exists.
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
        Box::new(Pool { slot, parts: std::array::from_fn(|_| OnceLock::new()), next: OnceLock::new() })
    }

    /// Returns the pool part of a frame.
    pub(crate) fn shelf_of(&self, slot: &FrameSlot) -> &PoolPart {
        let (pool, page_shift) = slot.area.get().pool_part();
        self.handle(self.pool(PoolId(pool)), page_shift).expect("a frame's pool part exists")
    }

    /// Returns the pool part for pages of `page_bytes` in a pool, and makes it if it is missing.
    pub(crate) fn part(&self, session: &Session, id: PoolId, page_bytes: u32) -> Result<&PoolPart> {
        assert!(is_page_size(page_bytes), "page sizes are checked when a file is registered");
        let pool = self.pool(id);
        let page_shift = page_bytes.ilog2();
        if let Some(part) = self.handle(pool, page_shift) {
            return Ok(part);
        }
        let link = &pool.slot.parts[(page_shift - PAGE_SHIFT_MIN) as usize];
        let guard = self.table.latch.exclusive(session, Rank::REPLACER);
        if link.get().is_none() {
            let place = self.region.allocate::<PoolPartSlot>(1)?;
            let slot = self.region.at(place);
            slot.slab.init(Some(Slab::<FrameSlot>::init(&self.region, FRAMES_FIRST)?));
            slot.page_shift.init(page_shift);
            slot.pool.init(id.0);
            // LRU stamps 0 and 1 have other meanings.
            slot.now.init(replace::STAMP_FIRST);
            link.publish(Some(place));
        }
        drop(guard);
        Ok(self.handle(pool, page_shift).expect("it was just made, or found"))
    }

    fn handle<'p>(&self, pool: &'p Pool, page_shift: u32) -> Option<&'p PoolPart> {
        let index = (page_shift - PAGE_SHIFT_MIN) as usize;
        if let Some(part) = pool.parts[index].get() {
            return Some(part);
        }
        let place = pool.slot.parts[index].load()?;
        Some(pool.parts[index].get_or_init(|| {
            let policy = replace::of(Policy::from_raw(pool.slot.policy.get()));
            PoolPart::attach(&self.region, &pool.slot, place, policy)
        }))
    }

    /// Returns every pool part, with its pool.
    pub(crate) fn parts(&self) -> Vec<(PoolId, &PoolPart)> {
        let mut found = Vec::new();
        for id in (1..=self.count()).map(PoolId) {
            let pool = self.pool(id);
            let shifts = (PAGE_SHIFT_MIN..).take(PARTS);
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
        for (id, part) in self.parts() {
            let known = part.known.look(|| part.slot.frame_count.load());
            let (count, slots, shift) = (known.unwrap_or(u32::MAX), part.slab.capacity(), part.key.0 & 31);
            let index = shift.wrapping_sub(PAGE_SHIFT_MIN) as usize;
            let link = self.pool(id).slot.parts.get(index).and_then(|link| link.load());
            let is_linked = link.is_some_and(|link| link == self.region.offset_of(&*part.slot));
            let is_sane = count <= slots && part.slot.page_shift.get() == shift;
            if !is_linked || !is_sane {
                return Err(format!("a pool part of pool {} says that it has {count} frames of {slots}", id.0));
            }
            part.slab.check()?;
        }
        Ok(())
    }

    pub(crate) fn extents(&self) -> Vec<Extent> {
        let mut all = vec![Extent::of("pool table", &self.table)];
        all.extend(Extent::of_slab("frame slabs", "pools", &self.slab));
        for (_, part) in self.parts() {
            all.push(Extent::of("pool parts", &part.slot));
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

    /// Frees every latch and rebuilds every free list. No other session is attached.
    pub(crate) fn rebuild_alone(&self) {
        self.table.latch.reset_alone();
        self.parts().into_iter().for_each(|(_, part)| part.rebuild_alone());
    }
}

fn fill(slot: &PoolSlot, settings: &PoolSettings) {
    slot.budget_bytes.init(settings.budget_bytes);
    slot.policy.init(settings.policy.to_raw());
}

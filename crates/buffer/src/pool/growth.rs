//! A pool part grows while there is budget.
//!
//! Each step adds half as many frames as the pool part has, but at least 16 frames and at most 4 MiB. So a new
//! environment is small, and a large environment grows in few steps. If the region cannot grow (because its filesystem
//! is full), the pool part replaces pages instead.
//!
//! One session at a time grows a pool part: the *grower* first stores its number into a word of the pool part by
//! compare-and-swap (PROTOCOLS D5). A latch does not guard the growth, because growing is a system call, and no session
//! waits for the system under a latch.
//!
//! If a session dies here: some memory is lost.

use std::sync::atomic::Ordering;

use libtp_process::{Rank, Session, SessionId};
use rio::{failpoint, planted};

use super::part::PoolPart;
use crate::area::Area;
use crate::lookup::PageTable;

const GROW_FRAMES_MIN: u32 = 16;
const GROW_BYTES_MAX: u64 = 4 << 20;
/// A pool part may have this number of frames even if the budget is smaller: fewer frames could not hold the pages that
/// a few threads use at the same time.
const FRAMES_MIN: u32 = 16;
/// The number of frames that are replaced after a failed growth of the region, before the next attempt.
const REFUSAL_REST: u32 = 1024;
/// The alignment of data areas.
const AREA_ALIGN: u64 = 4096;

/// The limit of a pool part's growth.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// To the pool's budget.
    Budget,
    /// To twice the budget, because every frame is in use and the caller would otherwise fail.
    Emergency,
}

impl PoolPart {
    /// Adds frames if the budget and the region allow it and no other session adds frames. Returns the number of added
    /// frames.
    pub(crate) fn grow(&self, session: &Session, table: &PageTable, bound: Bound) -> u32 {
        // Relaxed is enough: the count only saves system calls.
        let rest = self.rest.load(Ordering::Relaxed);
        if rest > 0 && bound == Bound::Budget && self.frame_count() > 0 {
            self.rest.store(rest - 1, Ordering::Relaxed);
            return 0;
        }
        let grower = self.slot.grower.load();
        let is_held = grower != SessionId::NONE;
        let is_free =
            !is_held || (!session.processes().is_alive(grower) && !planted("buffer: sessions wait for a dead grower"));
        if self.room(bound) == 0 || !is_free || self.slot.grower.compare_exchange(grower, session.id()).is_err() {
            return 0;
        }
        // The room is computed again: another session may have grown the pool part just before.
        failpoint("buffer: makes its pool grow");
        let added = self.add_frames(session, self.room(bound), table);
        failpoint("buffer: pool larger, still the grower");
        self.slot.grower.publish(SessionId::NONE);
        if added == 0 {
            self.rest.store(REFUSAL_REST, Ordering::Relaxed);
        }
        added
    }

    /// Returns whether another session is adding frames now. A session that needs a frame should wait for these frames
    /// rather than write a dirty page.
    pub(crate) fn is_growing(&self, session: &Session) -> bool {
        let grower = self.slot.grower.load();
        grower != SessionId::NONE && session.processes().is_alive(grower)
    }

    /// Returns whether the session that adds frames is certainly stopped.
    pub(crate) fn has_stopped_grower(&self, session: &Session) -> bool {
        session.processes().is_stopped(self.slot.grower.load())
    }

    /// Returns whether the pool part may grow: budget is left, and no growth of the region has failed recently.
    pub(crate) fn can_grow(&self) -> bool {
        // Relaxed is enough: the answer is a hint.
        self.room(Bound::Budget) > 0 && self.rest.load(Ordering::Relaxed) == 0
    }

    /// Returns the number of frames that may be added now.
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

    /// Adds up to `wanted` frames; fewer, or zero, if the region has no room. Only the grower calls this function.
    ///
    /// If the session dies here: before the section that links and counts the frames is closed, only the data area is
    /// lost. The next session that grows the pool part gives the slots another area.
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
        failpoint("buffer: memory for frames allocated, not used");
        for index in 0..adding {
            let slot = self.slab.at(count + 1 + index);
            slot.area.init(Area::new(area.plus(u64::from(index) * page_bytes), self.key.parts()));
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
        failpoint("buffer: new frames linked, table's count old");
        table.add_frames(adding);
        adding
    }
}

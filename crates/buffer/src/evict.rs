//! Gets a frame for one more page: a free frame, a new frame, or a frame whose page is replaced.
//!
//! Paper: LIBTP 3.2.2. Departure: a session that finds only dirty frames writes a batch of them.
//!
//! If a session dies here: it noted a taken frame in the same section in which it took the frame.

use std::ops::ControlFlow;
use std::time::Duration;

use libtp_process::Session;
use rio::{failpoint, planted};

use crate::frame::{FrameSlot, ANY_PAGE};
use crate::pool::{Bound, FrameInHand, PoolPart};
use crate::version::State;
use crate::{BufferManager, Error, Result};

/// An evictor writes the dirty frames that it has seen, at most a batch, as soon as it has seen enough: at least
/// `DIRTY_SEEN_MIN`, and at least one in `DIRTY_SEEN_SHARE` of the pool part's frames.
const DIRTY_SEEN_MIN: usize = 16;
const DIRTY_SEEN_SHARE: usize = 4;
/// The number of rounds in which an evictor finds every frame in use and waits, before it fails: about ten seconds.
const PATIENCE: u32 = 5_000;
/// The number of rounds that find every frame in use, or dirty, before the pool part grows beyond its budget.
const ROUNDS_IN_USE: u32 = 20;
const ROUNDS_DIRTY: u32 = 500;
const MOMENT: Duration = Duration::from_millis(2);
/// While another session adds frames, a session that needs a frame waits, and checks again after each slice. After
/// `GROWTH_LOOKS` checks it asks whether the other session is stopped. After `GROWTH_SLICES` checks, which take far
/// longer than adding frames, it uses the existing frames.
const GROWTH_SLICE: Duration = Duration::from_micros(50);
const GROWTH_LOOKS: u32 = 2;
const GROWTH_SLICES: u32 = 400;

impl BufferManager {
    /// Returns a frame of the pool part, latched and empty.
    pub(crate) fn take_frame<'s>(&'s self, session: &'s Session, part: &'s PoolPart) -> Result<FrameInHand<'s>> {
        let (mut round, mut growth) = (0, 0);
        while round < PATIENCE {
            round += 1;
            if let Some(taken) = part.pop_free(session) {
                return Ok(taken);
            }
            if part.grow(session, &self.table, Bound::Budget) > 0 {
                continue;
            }
            if self.may_be_half_changed() {
                if part.grow(session, &self.table, Bound::Emergency) > 0 {
                    continue;
                }
                let why = "no page is replaced before the records of dead sessions are redone".into();
                return Err(Error::Full { what: "one more page in the page cache", why });
            }
            let is_at_it = || growth < GROWTH_SLICES && !part.has_stopped_grower(session);
            let is_waited_for =
                growth < GROWTH_LOOKS || planted("buffer: sessions wait for a stopped grower") || is_at_it();
            if part.is_growing(session) && is_waited_for {
                session.sleep(GROWTH_SLICE);
                growth += 1;
                round -= 1;
                continue;
            }
            while let Some(slot) = part.next_cleaned() {
                if let Some(taken) = self.try_evict(session, part, slot) {
                    return Ok(taken);
                }
            }
            let mut dirty = Vec::new();
            if let Some(taken) = self.evict_clean(session, part, &mut dirty) {
                return Ok(taken);
            }
            if !dirty.is_empty() && self.write_victims(session, &dirty)? > 0 {
                part.put_cleaned(&dirty);
                continue;
            }
            // If another session is writing, dirty frames will soon be clean. If all frames are in use, they may stay
            // in use.
            let is_stuck = round > if dirty.is_empty() { ROUNDS_IN_USE } else { ROUNDS_DIRTY };
            if is_stuck && part.grow(session, &self.table, Bound::Emergency) > 0 {
                continue;
            }
            if round < 10 {
                std::thread::yield_now();
            } else {
                session.sleep(MOMENT);
            }
        }
        let why = format!(
            "all {} pages of {} bytes in the cache are in use at once: {}; {}give the page cache more memory (`memory` in libtp.toml, or the database's `own_pool`), or use fewer threads",
            part.frame_count(),
            part.page_bytes(),
            part.census(),
            self.describe_stopped(session, part)
        );
        Err(Error::Full { what: "one more page in the page cache", why })
    }

    /// Returns, for an error text, which of the sessions that should make room are stopped.
    fn describe_stopped(&self, session: &Session, part: &PoolPart) -> String {
        let processes = session.processes();
        let tasks = [("writes pages", self.header.writer.load()), ("adds frames", part.slot.grower.load())];
        let stopped = tasks.into_iter().filter(|(_, session)| processes.is_stopped(*session));
        let text =
            stopped.map(|(task, session)| format!("{} {task}: continue or kill it; or ", processes.describe(session)));
        text.collect()
    }

    /// Returns the first frame, in the policy's order, that can be replaced without a write. Collects dirty frames in
    /// `dirty` until there are enough for a batch.
    pub(crate) fn evict_clean<'s>(
        &'s self,
        session: &'s Session,
        part: &'s PoolPart,
        dirty: &mut Vec<&'s FrameSlot>,
    ) -> Option<FrameInHand<'s>> {
        let share = part.frame_count() as usize / DIRTY_SEEN_SHARE;
        let enough = share.clamp(DIRTY_SEEN_MIN, self.settings.batch_pages().max(DIRTY_SEEN_MIN));
        let mut found = None;
        part.policy().offer(part, &mut |slot| {
            if slot.state() != State::Resident || slot.is_pinned() {
                return ControlFlow::Continue(());
            }
            if slot.is_clean() || planted("buffer: dirty pages are replaced before they are written") {
                found = self.try_evict(session, part, slot);
                return if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
            dirty.push(slot);
            if dirty.len() < enough {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        found
    }

    /// Takes the frame if no session has its page latched or pinned, and the page is clean.
    fn try_evict<'s>(
        &'s self,
        session: &'s Session,
        part: &'s PoolPart,
        slot: &'s FrameSlot,
    ) -> Option<FrameInHand<'s>> {
        assert!(!self.may_be_half_changed(), "no page is replaced before the noted records are redone");
        let guard = slot.latch.try_exclusive(session, ANY_PAGE)?;
        let is_clean = slot.is_clean() || planted("buffer: dirty pages are replaced before they are written");
        if slot.state() != State::Resident || !is_clean || !self.table.remove(session, slot, 0) {
            return None;
        }
        failpoint("buffer: evicted, frame in hand");
        part.slot.evictions.fetch_add(1);
        Some(FrameInHand { slot, guard })
    }
}

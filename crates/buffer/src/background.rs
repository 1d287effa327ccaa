//! The background writer: it cleans a few frames before a session needs them.
//!
//! Paper: none; LIBTP's evictor writes its victim itself. Any process may run the background writer: a thread that
//! calls [`BufferManager::background_step`] from time to time. Without such a thread, sessions that need frames write
//! pages.
//!
//! If a session dies here: it holds only the latches and claims that `write_back` describes.

use libtp_process::Session;

use crate::frame::FrameSlot;
use crate::pool::PoolPart;
use crate::version::State;
use crate::{BufferManager, Result};

/// The writer examines one in `AHEAD_SHARE` of the frames, but at least and at most the numbers below: the frames that
/// will be replaced next.
const AHEAD_SHARE: u32 = 8;
const AHEAD_MIN: u32 = 16;
const AHEAD_MAX: u32 = 1024;
/// The writer writes only if at least one in this number of the examined frames is dirty, because each batch has a
/// fixed cost.
const DIRTY_SHARE: usize = 4;

impl BufferManager {
    /// Examines the frames that will be replaced next, and writes the dirty frames, at most one batch for each pool
    /// part. Skips a pool part while it can grow. Returns the number of written frames. If the number is zero, the
    /// caller should call again in a few milliseconds, otherwise at once. The caller holds no latch.
    ///
    /// # Errors
    /// The errors of [`BufferManager::write_all`]. A page that could not be written stays dirty.
    pub fn background_step(&self, session: &Session) -> Result<usize> {
        let mut written = 0;
        for (_, part) in self.pools.parts() {
            if part.can_grow() {
                continue;
            }
            let dirty = next_dirty(part);
            if !dirty.is_empty() {
                written += self.write_victims(session, &dirty)?;
            }
        }
        Ok(written)
    }
}

/// Returns the dirty frames among those that will be replaced next, if there are enough for a batch.
fn next_dirty(part: &PoolPart) -> Vec<&FrameSlot> {
    let ahead = (part.frame_count() / AHEAD_SHARE).clamp(AHEAD_MIN, AHEAD_MAX);
    let next = part.policy().next(part, ahead);
    let looked_at = next.len();
    let is_dirty = |slot: &&FrameSlot| {
        // The slot is read without its latch, so the values are only hints. The writer checks them again.
        slot.state() == State::Resident && !slot.is_pinned() && !slot.recovery.load().is_none()
    };
    let dirty: Vec<&FrameSlot> = next.into_iter().filter(is_dirty).collect();
    if dirty.len() * DIRTY_SHARE < looked_at {
        return Vec::new();
    }
    dirty
}

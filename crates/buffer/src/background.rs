//! The background writer: it cleans a few frames before a session needs them.
//!
//! Paper: none; LIBTP's evictor writes its victim itself. Any process may host it: a thread that calls
//! [`BufferManager::background_step`] from time to time. Without such a thread everything works, and evictors write.
//!
//! If a session dies here: it holds only what `write_back` describes.

use libtp_process::Session;

use crate::frame::FrameSlot;
use crate::pool::PoolPart;
use crate::version::State;
use crate::{BufferManager, Result};

/// How far ahead of the replacement policy the writer looks: this share of the frames, within bounds.
const AHEAD_SHARE: u32 = 8;
const AHEAD_MIN: u32 = 16;
const AHEAD_MAX: u32 = 1024;
/// Nothing is written unless one in this number of the frames looked at is dirty: a batch has its price.
const DIRTY_SHARE: usize = 4;

impl BufferManager {
    /// Looks at the frames that will make room next and writes the dirty ones, at most a batch for each shelf. Does
    /// nothing while a pool still grows. Returns how many were written. If that is not zero, call again at once, else
    /// in a few milliseconds. The caller holds no latch.
    ///
    /// # Errors
    /// As [`BufferManager::write_all`]; a page that could not be written stays dirty.
    pub fn background_step(&self, session: &Session) -> Result<usize> {
        let mut written = 0;
        for (_, part) in self.pools.shelves() {
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

/// Returns the dirty ones of the frames whose turn is next, if they are enough for a batch.
fn next_dirty(part: &PoolPart) -> Vec<&FrameSlot> {
    let ahead = (part.frame_count() / AHEAD_SHARE).clamp(AHEAD_MIN, AHEAD_MAX);
    let next = part.policy().next(part, ahead);
    let looked_at = next.len();
    let is_dirty = |slot: &&FrameSlot| {
        // Hints without the latch: the writer looks again.
        slot.state() == State::Resident && !slot.is_pinned() && !slot.recovery.load().is_none()
    };
    let dirty: Vec<&FrameSlot> = next.into_iter().filter(is_dirty).collect();
    if dirty.len() * DIRTY_SHARE < looked_at {
        return Vec::new();
    }
    dirty
}

//! Removes a file from the table of files, and frees its frames.
//!
//! If the session dies here: repair frees the frames of a file that is not registered, and they are never written.

use std::time::Duration;

use libtp_log::Lsn;
use libtp_process::Session;

use crate::frame::{FrameSlot, ANY_PAGE};
use crate::pool::{FrameInHand, PoolPart};
use crate::version::State;
use crate::{BufferManager, FileId};

/// The pause between two attempts to free a busy frame.
const SLICE: Duration = Duration::from_micros(300);
/// The largest number of attempts to free a busy frame.
const GIVE_UP_TRIES: u32 = 10_000;

impl BufferManager {
    /// Removes a file from the table and frees its frames without writing them: the file was removed, or will be
    /// removed now. No session uses its pages any more (the caller has a lock on the database), and the caller holds no
    /// latch.
    ///
    /// A frame may stay pinned, for example by a stopped process that reads in a snapshot. The session waits for such a
    /// frame for a few seconds. A frame that stays pinned longer is never written, and is replaced later like any other
    /// frame.
    pub fn forget_file(&self, session: &Session, id: FileId) {
        self.files.unregister(session, id);
        for (_, part) in self.pools.parts() {
            for slot in part.frames().filter(|slot| slot.page.load().file() == id) {
                let mut tries = 0..GIVE_UP_TRIES;
                while tries.next().is_some() && !self.give_up_page(session, part, slot, id) {
                    // A writer may have died with a claim on the page.
                    self.settle_dead_writer(session);
                    session.sleep(SLICE);
                }
            }
        }
    }

    /// Frees a frame if it holds a page of the file. Returns false if the frame is busy.
    fn give_up_page(&self, session: &Session, part: &PoolPart, slot: &FrameSlot, id: FileId) -> bool {
        let Some(guard) = slot.latch.try_exclusive(session, ANY_PAGE) else { return false };
        if slot.page.get().file() != id || slot.state() != State::Resident {
            return true;
        }
        if !slot.unsynced.load().is_none() && !self.is_failed() {
            return false;
        }
        slot.recovery.publish(Lsn::NONE);
        slot.unsynced.publish(Lsn::NONE);
        if !self.table.remove(session, slot, 0) {
            return false;
        }
        part.push_free(session, FrameInHand { slot, guard });
        true
    }
}

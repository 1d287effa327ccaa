//! Repair after the death of every session: the region exists, no session is attached, and one process puts the region
//! in order (PROTOCOLS L6). Every open section was rolled back before. The caller redoes the noted records on their
//! pages afterwards: this file changes no page and no page LSN.
//!
//! Until the caller has redone the noted records ([`BufferManager::all_repeated`]), a page may have a part of a change,
//! but the LSN that it had before the change: stores that the redo repeats have no before-images. If other sessions
//! live, the dead session's latch keeps the writer and evictors from such a page. Here the latches are reset, so no
//! page is written or replaced before the records are redone (PROTOCOLS D4). If the redo needs a frame and no frame is
//! free, the pool part grows beyond its budget.
//!
//! What dead sessions leave in the frames, and what the repair does:
//! * latches and pins: no session lives, so all are released;
//! * a frame that was being loaded, or that was taken and not yet put into the table: it is freed;
//! * a frame that was being removed from its chain: it is put into the chain again or freed, depending on its state;
//! * pages of a file that is not registered any more: their frames are freed;
//! * a page that was being written: it is as dirty as before, with its older recovery LSN. The batch stays open, and
//!   the next writer first writes it home (`write_back`).
//!
//! Chains and free lists are rebuilt only from the slots. A second repair changes nothing.
//!
//! If the process dies here: the next process repairs again.

use std::sync::atomic::Ordering;

use libtp_log::Lsn;
use libtp_process::SessionId;

use crate::frame::FrameSlot;
use crate::version::State;
use crate::{BufferManager, PageId};

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRepair {
    /// Pages that stay in memory.
    pub kept: usize,
    /// Frames that were freed: they were being filled, or their file is no longer registered.
    pub dropped: usize,
    /// Pages that were being written, and are dirty again.
    pub unsynced: usize,
}

impl BufferManager {
    /// Puts the buffer manager's part of the region in order. The caller knows that no other session is attached, and
    /// has rolled back the dead sessions' sections.
    pub fn repair_alone(&self) -> FrameRepair {
        let mut found = FrameRepair::default();
        // Relaxed: the threads of this process that write pages are started after the repair.
        self.has_unrepeated.store(true, Ordering::Relaxed);
        self.table.clear_alone();
        self.files.reset_alone();
        self.header.writer.publish(SessionId::NONE);
        let writes = self.header.home_writes.load();
        self.header.home_writes.publish(writes.next_multiple_of(2));
        // The double-write file may have been replaced while no process used it.
        self.header.double_is_empty.publish(0);
        for (_, part) in self.pools.parts() {
            part.frames().for_each(|slot| self.repair_frame(slot, &mut found));
        }
        self.pools.rebuild_alone();
        found
    }

    /// Permits writing and replacing pages again: the caller has redone every noted record on its pages.
    pub fn all_repeated(&self) {
        // Relaxed: as in `repair_alone`.
        self.has_unrepeated.store(false, Ordering::Relaxed);
    }

    /// Returns whether a page may have a part of a noted record's change.
    #[inline]
    pub(crate) fn may_be_half_changed(&self) -> bool {
        // Relaxed: as in `repair_alone`.
        self.has_unrepeated.load(Ordering::Relaxed)
    }

    /// Asserts the invariants of table, pool parts and frames: for tests, and for tools that inspect an idle
    /// environment. No session uses a page meanwhile.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn check_at_rest(&self) {
        let resident: usize = self.pools.parts().into_iter().map(|(_, part)| part.check_at_rest()).sum();
        assert!(resident == self.table.check_at_rest(), "a page is in memory and not in the table");
        assert!(self.header.writer.load() == SessionId::NONE, "a session writes");
        assert!(self.header.home_writes.load() % 2 == 0, "pages are being written home");
    }

    fn repair_frame(&self, slot: &FrameSlot, found: &mut FrameRepair) {
        slot.latch.reset_alone();
        slot.pins.publish(0);
        // If a noted record is redone on the page later, the count is odd again during this redo.
        slot.end_change();
        if !slot.unsynced.load().is_none() && !self.is_failed() {
            slot.undo_write();
            found.unsynced += 1;
        }
        let is_wanted = self.files.has(slot.page.load().file());
        match slot.state() {
            State::Resident if is_wanted => {
                found.kept += 1;
                self.table.insert_alone(slot);
            }
            state => {
                found.dropped += usize::from(state != State::Free);
                slot.recovery.publish(Lsn::NONE);
                slot.unsynced.publish(Lsn::NONE);
                slot.page.publish(PageId::NONE);
                slot.set_state(State::Free);
            }
        }
    }
}

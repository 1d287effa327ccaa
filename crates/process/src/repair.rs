//! Repair when all sessions are dead: the region exists, no process is attached, and one process repairs it
//! (PROTOCOLS L6, D4).
//!
//! The order follows D4. Opening the repair rolls back every open section. Then the caller resets every latch
//! ([`Latch::reset_alone`]), and clears the notes of appends that were not published
//! ([`AloneRepair::forget_unpublished`]). For each noted append that was published, the caller redoes the record on
//! every page that is older than the record. [`AloneRepair::finish`] frees the slots, last.
//!
//! If we die here: the slots are still taken, and the notes of published appends are still there. The next process that
//! opens the region repeats all steps. To roll back an empty undo log, or to redo a record on a page that already has
//! the change, changes nothing.
//!
//! [`Latch::reset_alone`]: crate::Latch::reset_alone

use rio::{failpoint, planted, Undo};

use crate::slot::{SessionId, State};
use crate::ProcessManager;

/// An append that a session had noted when it died (PROTOCOLS D3). The record exists if the log's tail is beyond `lsn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedAppend {
    /// The session that noted the append.
    pub session: SessionId,
    /// The LSN that the session was about to publish.
    pub lsn: u64,
    /// The transaction of the record; zero for none.
    pub txn: u64,
}

/// The repair of a region that no other process is attached to. If it is dropped before
/// [`finish`](AloneRepair::finish), the next repair begins again with all slots.
#[must_use = "the slots are free only after `finish`"]
pub struct AloneRepair<'m> {
    processes: &'m ProcessManager,
    dead: Vec<u32>,
    appends: Vec<NotedAppend>,
    images: usize,
}

impl ProcessManager {
    /// Begins the repair of the sessions of earlier attaches: rolls back their open sections. The caller knows that
    /// no other process is attached. Sessions of this attach stay alive.
    pub fn repair_alone(&self) -> AloneRepair<'_> {
        let mut repair = AloneRepair { processes: self, dead: Vec::new(), appends: Vec::new(), images: 0 };
        self.0.header.growing.publish(0);
        for (index, slot) in self.slots() {
            let status = slot.status.load();
            let ours = status.state() == State::Alive && status.attachment() == self.0.attachments.own();
            if status.state() == State::Free || ours {
                continue;
            }
            slot.status.publish(status.with_state(State::Dead));
            if let Some(log) = slot.undo.load() {
                repair.images += Undo::open(&self.0.region, log).roll_back();
            }
            repair.dead.push(index);
            let lsn = slot.append_lsn.load();
            if lsn != 0 {
                let session = SessionId::new(index, status.generation());
                repair.appends.push(NotedAppend { session, lsn, txn: slot.append_txn.get() });
            }
        }
        repair
    }
}

impl AloneRepair<'_> {
    /// Returns the appends to redo, if the log has them.
    pub fn appends(&self) -> &[NotedAppend] {
        &self.appends
    }

    /// Clears the notes of appends that the log, which ends at `tail`, does not have. Called before any append.
    /// Otherwise the next record could have the LSN of such a note, and if this process then died, a repairer would
    /// take that record for the dead session's record.
    pub fn forget_unpublished(&mut self, tail: u64) {
        failpoint("alone: unpublished appends still noted");
        let unpublished = self.appends.iter().filter(|note| note.lsn >= tail);
        for note in unpublished.filter(|_| !planted("process: notes of unpublished appends are not cleared")) {
            self.processes.0.slots.at(note.session.index()).append_lsn.publish(0);
        }
        self.appends.retain(|note| note.lsn < tail);
    }

    /// Returns the number of dead sessions.
    pub fn sessions(&self) -> usize {
        self.dead.len()
    }

    /// Returns the number of restored before-images.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Frees the dead sessions' slots. The caller has redone the pages and reset the latches.
    pub fn finish(self) {
        for &index in &self.dead {
            self.processes.0.slots.at(index).leave();
        }
    }
}

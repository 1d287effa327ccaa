//! Repair when everyone is dead: the region is there, nobody is attached, and one process puts it in order (PROTOCOLS
//! L6, D4).
//!
//! The order is that of D4. Opening the repair rolls back every open section; the caller resets every latch
//! ([`Latch::reset_alone`]), has the notes of appends that never came to be forgotten
//! ([`AloneRepair::forget_unpublished`]), and redoes, on every page that is older, the records whose append is noted;
//! [`AloneRepair::finish`] frees the slots, last.
//!
//! If we die here: the slots are still taken, and so are the notes of what the log has; the next to open does it all
//! again: rolling back an empty undo log and redoing a record on a page that has it change nothing.
//!
//! [`Latch::reset_alone`]: crate::Latch::reset_alone

use rio::{failpoint, planted, Undo};

use crate::slot::{SessionId, State};
use crate::ProcessManager;

/// An append a session had noted when it died (PROTOCOLS D3). The record exists if the log's tail is beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedAppend {
    /// Whose note it is.
    pub session: SessionId,
    /// The LSN it was about to publish.
    pub lsn: u64,
    /// The transaction it was for; zero for none.
    pub txn: u64,
}

/// The repair of a region nobody else is attached to. Dropped before [`finish`](AloneRepair::finish), it leaves all
/// slots to the next repair.
#[must_use = "the slots are free only after `finish`"]
pub struct AloneRepair<'m> {
    processes: &'m ProcessManager,
    dead: Vec<u32>,
    appends: Vec<NotedAppend>,
    images: usize,
}

impl ProcessManager {
    /// Begins the repair of what sessions of earlier attaches left behind: their open sections are rolled back.
    /// The caller knows that nobody else is attached. Sessions of this attach live on.
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
    /// The appends to be redone, if the log has them.
    pub fn appends(&self) -> &[NotedAppend] {
        &self.appends
    }

    /// Forgets the appends that the log, which ends at `tail`, does not have. To be called before anything is appended: the
    /// next record will lie at that very place, and whoever repairs after our death would take it for the dead one's.
    pub fn forget_unpublished(&mut self, tail: u64) {
        failpoint("alone: appends that never came to be still noted");
        let unpublished = self.appends.iter().filter(|note| note.lsn >= tail);
        for note in unpublished.filter(|_| !planted("process: appends that never came to be stay noted")) {
            self.processes.0.slots.at(note.session.index()).append_lsn.publish(0);
        }
        self.appends.retain(|note| note.lsn < tail);
    }

    /// How many sessions had died.
    pub fn sessions(&self) -> usize {
        self.dead.len()
    }

    /// How many before-images were put back.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Frees the dead sessions' slots: pages are redone and latches reset.
    pub fn finish(self) {
        for &index in &self.dead {
            self.processes.0.slots.at(index).leave();
        }
    }
}

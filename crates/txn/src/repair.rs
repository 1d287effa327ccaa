//! Repair when every session is dead and the region is still there: no log is replayed (PROTOCOLS L6).
//!
//! The process manager has rolled back the open sections, and the managers have reset their latches and pins. The rest
//! is done here, in this order. Notes of appends that were never published are cleared, because this process appends at
//! the same LSNs. Each record that a dead session had appended but not finished is redone on each of its pages that is
//! older than the record (PROTOCOLS D3, D4). Then each transaction ends according to its last record (PROTOCOLS D6).
//!
//! If the process dies here: redo skips pages that have the change (by their LSN), and undo skips changes that have a
//! compensation, so the next process that opens the environment can repeat the repair.

use libtp_log::{Lsn, TxnId};
use libtp_process::{AloneRepair, Rank, SessionId};
use rio::{failpoint, planted};

use crate::log_records::{ABORT_END, COMMIT};
use crate::recovery::redo_record;
use crate::slot::{State, TxnSlot};
use crate::{Error, Managers, Result, TxnSession};

/// The result of a repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Appended records whose page changes were completed.
    pub redone: u64,
    /// Committed transactions that were finished.
    pub finished: u64,
    /// Transactions undone.
    pub undone: u64,
}

impl Managers {
    /// Frees the latch and the checkpointer's role of the transaction table. No other session is attached.
    pub fn reset_alone(&self) {
        self.txns.header.latch.reset_alone();
        self.txns.header.checkpointer.publish(SessionId::NONE);
        // The process that closed the environment may have died before it removed the region: then the control file
        // states a clean close, and must be written again before the next commit that is answered from memory.
        if !planted("txn: the control file does not record Rio commits after a repair") {
            self.txns.header.rio.publish(0);
        }
        self.txns.header.relaxed.publish(0);
    }

    /// Ends the transactions that the dead sessions left unfinished.
    ///
    /// # Errors
    /// A page cannot be read or the log has failed: the next opening begins the repair again. `Broken` if a note in the
    /// region and the log name different transactions for one record.
    pub fn repair_alone(&self, session: &TxnSession, dead: &mut AloneRepair<'_>) -> Result<Repaired> {
        let mut repaired = Repaired::default();
        dead.forget_unpublished(self.log.tail().raw());
        let mut noted: Vec<(u64, u64)> = dead.appends().iter().map(|note| (note.lsn, note.txn)).collect();
        noted.sort_unstable();
        if planted("buffer: a lone repairer writes pages before it has redone the last appends") {
            self.buffers.all_repeated();
            self.buffers.write_all(session.session())?;
        }
        for (lsn, id) in noted.into_iter().map(|(lsn, id)| (Lsn::new(lsn), TxnId::new(id))) {
            let record = self.log.read(lsn)?;
            if record.header.txn() != id {
                let what = format!("{id:?} noted its append at {lsn}, which is {:?}'s record", record.header.txn());
                return Err(Error::Broken { what });
            }
            repaired.redone += redo_record(self, session, &record.borrow())?;
            failpoint("alone: redone, not the transaction's last");
            self.adopt_note(id, lsn);
        }
        // The notes stay until the end: from here on, their records are finished.
        self.buffers.all_repeated();
        failpoint("alone: all redone, nothing ended");
        for index in 1..=self.txns.slots.capacity() {
            if index != session.slot_index() {
                self.end_slot(session, index, &mut repaired)?;
            }
        }
        Ok(repaired)
    }

    /// Makes a noted record the last record of its transaction: the slot may not name the record yet.
    fn adopt_note(&self, id: TxnId, lsn: Lsn) {
        if id == TxnId::NONE {
            return;
        }
        if let Some((_, slot)) = self.txns.running().find(|(_, slot)| slot.id.get() == id) {
            if slot.first_lsn.get() == Lsn::NONE {
                slot.first_lsn.init(lsn);
            }
            slot.last_lsn.fetch_max(lsn);
        }
    }

    /// Ends the transaction of a slot according to its last record. An earlier repair that died, or failed, may have
    /// adopted the transaction: then two slots name the transaction, and the later of their last records is its last
    /// record.
    fn end_slot(&self, session: &TxnSession, index: u32, repaired: &mut Repaired) -> Result<()> {
        let slot = self.txns.slots.at(index);
        let id = slot.id.get();
        let is_running = State::from_word(slot.state.load()) != State::Idle && id != TxnId::NONE;
        if is_running && slot.last_lsn.load() != Lsn::NONE {
            let named = || self.txns.running().filter(|(_, other)| other.id.get() == id);
            let first = slot.first_lsn.get();
            let last = named().map(|(_, other)| other.last_lsn.load()).fold(Lsn::NONE, Lsn::max);
            let kind = self.last_kind(id, last)?;
            let is_over = kind == COMMIT || kind == ABORT_END;
            if kind == COMMIT {
                let has_memory = !planted("txn: repair forgets the segments of a committed transaction");
                self.complete_commit(session.session(), slot, (id, first, last), has_memory)?;
            }
            if is_over {
                self.txns.header.last_commit.fetch_max(last);
                repaired.finished += 1;
            } else {
                repaired.undone += 1;
                if !planted("txn: repair undoes nothing") {
                    session.adopt(id, first, last);
                    failpoint("alone: adopted, not undone");
                }
            }
            // The other slots are cleared before anything is undone: when the undo is over, this session's slot is
            // idle. If another slot still named the transaction, with a last record from before the undo, the
            // transaction would be undone again.
            let others = named().filter(|(other, _)| *other != session.slot_index());
            others.for_each(|(_, other)| other.id.publish(TxnId::NONE));
            failpoint("alone: other slots cleared of the transaction, not undone");
            if !is_over && !planted("txn: repair undoes nothing") {
                session.abort(self)?;
            }
            failpoint("alone: ended, slot not idle");
        }
        self.free_slot(session, index, slot);
        Ok(())
    }

    fn free_slot(&self, session: &TxnSession, index: u32, slot: &TxnSlot) {
        slot.undo_counted.init(0);
        slot.forget_segments();
        if !planted("snapshot: the pin of a dead session is not removed") {
            slot.unpin_all();
        }
        failpoint("alone: slot about to be idle");
        slot.state.publish(State::Idle as u32);
        if slot.owner.get() == SessionId::NONE {
            return;
        }
        let header = &self.txns.header;
        let _guard = header.latch.exclusive(session.session(), Rank::TXN_TABLE);
        let mut section = session.session().section();
        slot.owner.set(&mut section, SessionId::NONE);
        failpoint("alone: slot without owner, in no list");
        slot.next_free.set(&mut section, header.free.get());
        header.free.set(&mut section, index);
        section.close();
    }
}

//! Joining and leaving: a thread takes a session slot and frees it.
//!
//! A thread takes a slot by one compare-and-swap that also names the tenant, so no latch is needed and no session
//! waits for a new session. A slot's first tenant makes an undo log, which stays with the slot.
//!
//! If we die here: between the swap and the return, the slot is marked alive in our name, and is repaired like the slot
//! of any dead session. While slots are added, the claim (`growing`) names our attach, and the next session that needs
//! slots takes the claim over.

use std::time::Duration;

use rio::{failpoint, Offset, Undo, UndoLog};

use crate::attachment_id::AttachmentId;
use crate::slot::{SessionId, SessionSlot, State, SESSIONS_MAX};
use crate::{Error, ProcessManager, Result, Session};

impl ProcessManager {
    /// Makes the calling thread a session, which ends when the handle is dropped.
    ///
    /// # Errors
    /// `Region` if the region cannot grow; `TooManySessions`; `ObserverOnly`.
    pub fn join(&self) -> Result<Session> {
        if self.is_observer() {
            return Err(Error::ObserverOnly);
        }
        let id = loop {
            match self.take_free_slot() {
                Some(id) => break id,
                None => self.add_slots()?,
            }
        };
        let slot = self.0.slots.at(id.index());
        match self.undo_log_of(slot) {
            Ok(log) => Ok(Session::new(self.clone(), id, self.0.slots.place(id.index()), log)),
            Err(error) => {
                slot.leave();
                Err(error)
            }
        }
    }

    fn take_free_slot(&self) -> Option<SessionId> {
        let own = self.0.attachments.own();
        self.slots().find_map(|(index, slot)| {
            let free = slot.status.load();
            let ours = free.next_tenant(own);
            let taken = free.state() == State::Free && slot.status.compare_exchange(free, ours).is_ok();
            if taken {
                failpoint("session: slot taken");
            }
            taken.then_some(SessionId::new(index, ours.generation()))
        })
    }

    fn undo_log_of(&self, slot: &SessionSlot) -> Result<Offset<UndoLog>> {
        if let Some(log) = slot.undo.load() {
            return Ok(log);
        }
        failpoint("session: slot without an undo log");
        let log = Undo::create(&self.0.region, self.0.settings.undo_bytes)?;
        failpoint("session: undo log made, not in the slot");
        slot.undo.publish(Some(log));
        Ok(log)
    }

    /// Adds slots, or waits a moment while another session adds slots.
    fn add_slots(&self) -> Result<()> {
        let growing = &self.0.header.growing;
        let me = self.0.attachments.own().raw();
        if let Err(other) = growing.compare_exchange(0, me) {
            let lives = self.0.attachments.lives(AttachmentId::from_raw(other));
            if lives || growing.compare_exchange(other, me).is_err() {
                // The session that adds slots may be stopped, and the other sessions may have moved on to a new region.
                if self.0.region.is_broken() {
                    crate::session::leave_broken();
                }
                self.leave_if_late();
                std::thread::sleep(Duration::from_micros(50));
                return Ok(());
            }
        }
        failpoint("session: about to add slots");
        let result = self.add_slots_alone();
        failpoint("session: slots added, grower role held");
        growing.publish(0);
        result
    }

    fn add_slots_alone(&self) -> Result<()> {
        if self.slots().any(|(_, slot)| slot.status.load().state() == State::Free) {
            return Ok(());
        }
        let after = self.0.slots.capacity() * 2 + crate::FIRST_SLOTS;
        if after > SESSIONS_MAX {
            return Err(Error::TooManySessions { limit: self.0.slots.capacity() });
        }
        self.0.slots.grow()?;
        Ok(())
    }
}

impl SessionSlot {
    /// Frees the slot. The tenant holds nothing any more.
    pub(crate) fn leave(&self) {
        failpoint("session: about to leave");
        self.clear();
        failpoint("session: cleared, slot still taken");
        self.status.publish(self.status.get().with_state(State::Free));
    }
}

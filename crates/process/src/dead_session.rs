//! The repair of one dead session among living sessions (PROTOCOLS D4, D5).
//!
//! The right to repair is a word in the dead session's slot. A repairer stores its own session there by
//! compare-and-swap. The right is free again when the repairer is dead. The repairer works *in the dead session's
//! name*: with the dead session's undo log, and under the latches that the dead session held.
//!
//! The order is the order of D4: [`DeadSession::roll_back`]; then the caller redoes the record whose append is noted
//! ([`DeadSession::noted_append`]), on each page that does not have the record's change yet; last,
//! [`DeadSession::release_latches`] releases the latches. These steps need no latch and no disk, so a session that
//! waits for a latch of the dead session does them, even if it holds latches itself. The remaining repair
//! (transactions, pins) needs latches, so only a session that holds no latch does it; [`DeadSession::bury`] then frees
//! the slot.
//!
//! If we die here: the slot still has all the notes, and the next repairer begins again. Each step may be done twice.
//! But the rollback of the dead repairer's open section also undoes that section's changes to the first dead session's
//! slot. So a dead repairer's right is taken only after its section was rolled back
//! ([`ProcessManager::dead_repairer`]).

use std::collections::HashMap;
use std::time::Instant;

use rio::{failpoint, planted, Offset, Undo};

use crate::latch::Waker;
use crate::slot::{Claim, SessionSlot, State};
use crate::{Latch, NotedAppend, ProcessManager, Session, SessionId};

/// A dead session, and the right to repair it. If it is dropped before [`DeadSession::bury`], another repairer does the
/// rest.
#[must_use = "the slot is free only after `bury`"]
pub struct DeadSession<'m> {
    processes: &'m ProcessManager,
    /// The handle that works in the dead session's name.
    stand_in: Session,
    by: SessionId,
    taken: Instant,
}

impl ProcessManager {
    /// Returns every session that is dead and not yet repaired. Unwinds if the table of sessions is broken.
    pub fn dead_sessions(&self) -> Vec<SessionId> {
        if let Err(what) = self.check() {
            self.give_up(&what);
        }
        let mut dead = Vec::new();
        // Each process is checked once, because the check may take a system call or two.
        let mut known = HashMap::new();
        for (index, slot) in self.slots() {
            let status = slot.status.load();
            let lives = match status.state() {
                State::Free => true,
                State::Dead => false,
                State::Alive => {
                    let id = status.attachment();
                    *known.entry(id).or_insert_with(|| self.0.attachments.lives(id))
                }
            };
            if !lives {
                dead.push(SessionId::new(index, status.generation()));
            }
        }
        dead
    }

    /// Returns whether a session is marked dead and not yet repaired. Makes no system call.
    pub fn has_marked_dead(&self) -> bool {
        self.slots().any(|(_, slot)| slot.status.load().state() == State::Dead)
    }

    /// Returns the number of dead sessions that were repaired while other sessions lived.
    pub fn repaired_count(&self) -> u64 {
        self.0.header.repaired.load()
    }

    /// Returns the session that died while it repaired `dead`, if it left a section open. That section may have
    /// changed the slot of `dead`, so the caller repairs the dead repairer physically before it takes the right.
    pub fn dead_repairer(&self, dead: SessionId) -> Option<SessionId> {
        let other = self.slot(dead)?.reaper.load().of_tenant(dead.generation());
        (!self.is_alive(other) && self.may_go_back(other)).then_some(other)
    }

    /// Returns whether a dead session has an open section that is not rolled back yet.
    fn may_go_back(&self, dead: SessionId) -> bool {
        let log = self.slot(dead).and_then(|slot| slot.undo.load());
        let is_open = log.is_some_and(|log| Undo::open(&self.0.region, log).has_images());
        is_open && !planted("process: a dead repairer's section is rolled back too late")
    }

    /// Takes the right to repair `dead`, for the session `by`. `None` if `dead` lives or was repaired, or if another
    /// living session repairs it.
    pub fn take_dead(&self, by: &Session, dead: SessionId) -> Option<DeadSession<'_>> {
        let slot = self.slot(dead)?;
        let status = slot.status.load();
        if self.tenant_lives(slot) {
            return None;
        }
        if status.state() == State::Alive {
            // A failure means that another session has marked or buried the dead session.
            let _ = slot.status.compare_exchange(status, status.with_state(State::Dead));
        }
        failpoint("repair: found dead, claim not taken");
        let (me, claim) = (by.id(), slot.reaper.load());
        let own = Claim::new(me, dead.generation());
        let other = claim.of_tenant(dead.generation());
        let is_free = other == SessionId::NONE || (other != me && !self.is_alive(other) && !self.may_go_back(other));
        let is_free = is_free || planted("process: two sessions repair the same dead session");
        if !is_free || slot.reaper.compare_exchange(claim, own).is_err() {
            return None;
        }
        failpoint("repair: claim taken");
        // Before this session took the right, the dead session may have been buried, and its slot may have a new
        // tenant.
        let still = self.slot(dead).is_some_and(|slot| slot.status.load().state() == State::Dead);
        let Some(log) = slot.undo.load().filter(|_| still) else {
            // A session that died before it had an undo log held nothing.
            if still {
                slot.leave();
            }
            let _ = slot.reaper.compare_exchange(own, Claim::NONE);
            return None;
        };
        let stand_in = Session::stand_in(self.clone(), dead, self.0.slots.place(dead.index()), log);
        Some(DeadSession { processes: self, stand_in, by: me, taken: Instant::now() })
    }
}

impl DeadSession<'_> {
    /// Returns the dead session.
    pub fn id(&self) -> SessionId {
        self.stand_in.id()
    }

    /// Returns a session handle that works in the dead session's name, under the dead session's latches.
    pub fn session(&self) -> &Session {
        &self.stand_in
    }

    /// Rolls the open section back. Returns the number of restored before-images.
    pub fn roll_back(&self) -> usize {
        failpoint("repair: before the dead session's section is rolled back");
        if planted("process: sections of dead sessions are not rolled back") {
            return 0;
        }
        self.stand_in.undo().roll_back()
    }

    /// Returns the append that the dead session had noted and not finished, if any.
    pub fn noted_append(&self) -> Option<NotedAppend> {
        let lsn = self.slot().append_lsn.load();
        let is_noted = lsn != 0 && !planted("process: repair ignores the notes of appends");
        is_noted.then(|| NotedAppend { session: self.id(), lsn, txn: self.slot().append_txn.get() })
    }

    /// Returns the number of the object that the dead session had taken from a list; zero for no object.
    pub fn in_hand(&self) -> u64 {
        self.slot().in_hand.load()
    }

    /// Returns the places at which the dead session had pins, or may have had pins.
    pub fn pins(&self) -> impl Iterator<Item = u64> + '_ {
        self.slot().pins.iter().map(|note| note.load()).filter(|note| note.place() != 0).map(|note| note.place())
    }

    /// Returns whether the dead session had more pins than notes: then it may have had a pin at any place.
    pub fn has_unnoted_pins(&self) -> bool {
        self.slot().pins_unnoted.load() != 0
    }

    /// Clears the dead session's notes of pins: the counts no longer include the pins.
    pub fn forget_pins(&self) {
        failpoint("repair: pins recounted, still noted");
        self.slot().pins.iter().for_each(|note| note.init(crate::notes::Note::NONE));
    }

    /// Clears the dead session's note `in_hand`. The frame is already in its place: the session died after it had put
    /// the frame there, and before it cleared the note.
    pub fn put_back(&self) {
        failpoint("repair: frame in its place, still in the dead session's hand");
        self.slot().in_hand.publish(0);
    }

    /// Clears the dead session's note `in_hand` within `section`, a section of another session. The same section puts
    /// the frame in its place.
    pub fn put_back_in(&self, section: &mut rio::Section<'_>) {
        failpoint("repair: about to put back the frame in hand");
        self.slot().in_hand.set(section, 0);
        failpoint("repair: frame put back, section open");
    }

    /// Releases all latches of the dead session. The noted record was redone, so the note of the append is cleared
    /// first.
    pub fn release_latches(&self) {
        failpoint("repair: redone, append still noted");
        self.stand_in.clear_append();
        let region = self.processes.region();
        failpoint("repair: append cleared, latches held");
        for word in &self.slot().notes {
            let note = word.load();
            let latch = Offset::<Latch>::from_raw(note.place()).and_then(|place| region.try_at(place));
            match latch {
                Some(_) if note.is_exclusive() && planted("process: latches of dead sessions stay held") => {}
                Some(latch) if note.is_exclusive() => latch.free_for(&self.stand_in),
                Some(_) if planted("process: shared holders of a latch are not recounted") => {}
                Some(_) => self.processes.recount(self.by, note.place(), &Waker),
                None => {}
            }
            failpoint("repair: latch released, still noted");
            word.init(crate::notes::Note::NONE);
        }
        failpoint("repair: all latches released");
        self.stand_in.forget_notes();
        if let Some(counts) = self.processes.counts() {
            counts.note_physical(self.taken.elapsed());
        }
    }

    /// Returns whether the dead session's latches were released, and so whether all earlier steps are done.
    pub fn is_let_go(&self) -> bool {
        let holds = self.slot().notes.iter().any(|note| note.load().place() != 0);
        !holds && self.slot().append_lsn.load() == 0 && !self.stand_in.undo().has_images()
    }

    /// Frees the slot, after everything of the dead session was repaired. Then releases the right to repair. In the
    /// other order, another repairer could take the right and free the slot again when it has a new tenant.
    ///
    /// If we die here, or are stopped: the right names only the former tenant of the slot, so other sessions can repair
    /// the next tenant.
    ///
    /// `learned` is the time when the repairer learned of the death.
    pub fn bury(self, learned: Instant) {
        if let Some(counts) = self.processes.counts() {
            counts.note_total(learned.elapsed());
        }
        self.processes.0.header.repaired.fetch_add(1);
        failpoint("repair: counted, slot not free");
        if planted("process: the repair claim is released before the slot") {
            self.slot().reaper.publish(Claim::NONE);
            rio::planted::linger();
        } else if planted("process: two sessions repair the same dead session") {
            rio::planted::linger_until(|| self.slot().status.load().generation() != self.id().generation());
        }
        self.slot().leave();
        failpoint("repair: slot free, claim not released");
    }

    fn slot(&self) -> &SessionSlot {
        self.stand_in.slot()
    }
}

impl Drop for DeadSession<'_> {
    fn drop(&mut self) {
        // The swap fails if another session considered this session dead and took the right. It also fails if this
        // session was stopped after the burial and another session has begun to repair the slot's next tenant.
        let own = Claim::new(self.by, self.id().generation());
        let _ = self.slot().reaper.compare_exchange(own, Claim::NONE);
    }
}

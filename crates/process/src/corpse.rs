//! The repair of one dead session among living ones (PROTOCOLS D4, D5).
//!
//! The right to repair is a word in the dead slot, taken by compare-and-swap with the repairer's own session, and free
//! again when that is dead. Whoever has it works *in the dead session's name*: with its undo log, and under the latches
//! it died with.
//!
//! The order is that of D4: [`Corpse::roll_back`]; then the caller redoes the record whose append is noted
//! ([`Corpse::noted_append`]) on those of its pages that are older; [`Corpse::let_go`] gives the latches back, last.
//! All of that needs no latch and no disk, so it is done by whoever waits for a latch of the dead one, whatever it holds
//! itself. What is left (transactions, pins) needs latches, and is done by someone who holds none; [`Corpse::bury`] then
//! frees the slot.
//!
//! If we die here: the slot still says all; the next repairer begins again. Each step done twice is the same as once. But
//! what we did to the slot in a section of ours goes back when that is rolled back. So the right of a dead repairer is taken
//! only after its own section was rolled back ([`ProcessManager::dead_repairer`]).

use std::collections::HashMap;
use std::time::Instant;

use rio::{failpoint, planted, Offset, Undo};

use crate::latch::Waker;
use crate::slot::{Claim, SessionSlot, State};
use crate::{Latch, NotedAppend, ProcessManager, Session, SessionId};

/// A dead session, and the right to repair it. Dropped before [`Corpse::bury`], it leaves the rest to another.
#[must_use = "the slot is free only after `bury`"]
pub struct Corpse<'m> {
    processes: &'m ProcessManager,
    /// Works in the dead one's name.
    stand_in: Session,
    by: SessionId,
    taken: Instant,
}

impl ProcessManager {
    /// Every session that is dead and not yet repaired. Unwinds if the table that says so is broken.
    pub fn dead_sessions(&self) -> Vec<SessionId> {
        if let Err(what) = self.check() {
            self.give_up(&what);
        }
        let mut dead = Vec::new();
        // Of each process it is asked once: that may be a system call or two.
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

    /// Whether a session is marked dead and not yet repaired: without a system call.
    pub fn has_marked_dead(&self) -> bool {
        self.slots().any(|(_, slot)| slot.status.load().state() == State::Dead)
    }

    /// Dead sessions that were repaired while others lived.
    pub fn repaired_count(&self) -> u64 {
        self.0.header.repaired.load()
    }

    /// The session that died while it repaired `dead`, if it left a section open. What it changed in there may be the slot of
    /// the one it repaired: the caller repairs it physically before it takes the right.
    pub fn dead_repairer(&self, dead: SessionId) -> Option<SessionId> {
        let other = self.slot(dead)?.reaper.load().of_tenant(dead.generation());
        (!self.is_alive(other) && self.may_go_back(other)).then_some(other)
    }

    /// Whether a section of a session that is dead is open: nobody has rolled it back.
    fn may_go_back(&self, dead: SessionId) -> bool {
        let log = self.slot(dead).and_then(|slot| slot.undo.load());
        let is_open = log.is_some_and(|log| Undo::open(&self.0.region, log).has_images());
        is_open && !planted("process: the section of a dead repairer goes back later")
    }

    /// The right to repair `dead`, for the session `by`; none if it lives, was repaired, or another living session is at it.
    pub fn take_corpse(&self, by: &Session, dead: SessionId) -> Option<Corpse<'_>> {
        let slot = self.slot(dead)?;
        let status = slot.status.load();
        if self.tenant_lives(slot) {
            return None;
        }
        if status.state() == State::Alive {
            // Refused means that somebody else has marked it, or buried it.
            let _ = slot.status.compare_exchange(status, status.with_state(State::Dead));
        }
        failpoint("repair: found dead, right not taken");
        let (me, claim) = (by.id(), slot.reaper.load());
        let own = Claim::new(me, dead.generation());
        let other = claim.of_tenant(dead.generation());
        let is_free = other == SessionId::NONE || (other != me && !self.is_alive(other) && !self.may_go_back(other));
        let is_free = is_free || planted("process: two repair one session");
        if !is_free || slot.reaper.compare_exchange(claim, own).is_err() {
            return None;
        }
        failpoint("repair: right taken");
        // The slot may have been buried, and have a new tenant, before the right was ours.
        let still = self.slot(dead).is_some_and(|slot| slot.status.load().state() == State::Dead);
        let Some(log) = slot.undo.load().filter(|_| still) else {
            // A session that died before it had an undo log has held nothing.
            if still {
                slot.leave();
            }
            let _ = slot.reaper.compare_exchange(own, Claim::NONE);
            return None;
        };
        let stand_in = Session::stand_in(self.clone(), dead, self.0.slots.place(dead.index()), log);
        Some(Corpse { processes: self, stand_in, by: me, taken: Instant::now() })
    }
}

impl Corpse<'_> {
    /// Who died.
    pub fn id(&self) -> SessionId {
        self.stand_in.id()
    }

    /// A session that works in the dead one's name: what it latched is latched by it.
    pub fn session(&self) -> &Session {
        &self.stand_in
    }

    /// Rolls the open section back. Returns how many before-images were put back.
    pub fn roll_back(&self) -> usize {
        failpoint("repair: before the dead one's section is rolled back");
        if planted("process: the dead are not rolled back") {
            return 0;
        }
        self.stand_in.undo().roll_back()
    }

    /// The append the dead session had noted and not finished, if any.
    pub fn noted_append(&self) -> Option<NotedAppend> {
        let lsn = self.slot().append_lsn.load();
        let is_noted = lsn != 0 && !planted("process: noted appends are not looked at");
        is_noted.then(|| NotedAppend { session: self.id(), lsn, txn: self.slot().append_txn.get() })
    }

    /// What the dead session had in hand; zero for nothing.
    pub fn in_hand(&self) -> u64 {
        self.slot().in_hand.load()
    }

    /// Where it had pins, or may have had.
    pub fn pins(&self) -> impl Iterator<Item = u64> + '_ {
        self.slot().pins.iter().map(|note| note.load()).filter(|note| note.place() != 0).map(|note| note.place())
    }

    /// Whether it had more pins than it could note: then it may have had one anywhere.
    pub fn has_unnoted_pins(&self) -> bool {
        self.slot().pins_unnoted.load() != 0
    }

    /// Forgets where it had pins: they are counted no more.
    pub fn forget_pins(&self) {
        failpoint("repair: pins recounted, still noted");
        self.slot().pins.iter().for_each(|note| note.init(crate::notes::Note::NONE));
    }

    /// What it had in hand is where it belongs: it had only not said so.
    pub fn put_back(&self) {
        failpoint("repair: in its place, still in a dead hand");
        self.slot().in_hand.publish(0);
    }

    /// What it had in hand is where it belongs when the section closes, which is another session's.
    pub fn put_back_in(&self, section: &mut rio::Section<'_>) {
        failpoint("repair: puts back what was in hand");
        self.slot().in_hand.set(section, 0);
        failpoint("repair: put back, section open");
    }

    /// Gives all its latches back. The noted record is redone, so the note goes first.
    pub fn let_go(&self) {
        failpoint("repair: redone, append still noted");
        self.stand_in.clear_append();
        let region = self.processes.region();
        failpoint("repair: append cleared, latches held");
        for word in &self.slot().notes {
            let note = word.load();
            let latch = Offset::<Latch>::from_raw(note.place()).and_then(|place| region.try_at(place));
            match latch {
                Some(_) if note.is_exclusive() && planted("process: latches of the dead stay") => {}
                Some(latch) if note.is_exclusive() => latch.free_for(&self.stand_in),
                Some(_) if planted("process: shared holders are not recounted") => {}
                Some(_) => self.processes.recount(self.by, note.place(), &Waker),
                None => {}
            }
            failpoint("repair: latch given back, still noted");
            word.init(crate::notes::Note::NONE);
        }
        failpoint("repair: all latches given back");
        self.stand_in.forget_notes();
        if let Some(counts) = self.processes.counts() {
            counts.note_physical(self.taken.elapsed());
        }
    }

    /// Whether its latches were given back, and so everything done that comes before.
    pub fn is_let_go(&self) -> bool {
        let holds = self.slot().notes.iter().any(|note| note.load().place() != 0);
        !holds && self.slot().append_lsn.load() == 0 && !self.stand_in.undo().has_images()
    }

    /// Frees the slot: nothing of the dead session is left. The right to repair it is given back after that, or another
    /// would take it for a slot that has a new tenant by the time it is freed again.
    ///
    /// If we die here, or are stopped: the right is for the tenant that was, and keeps nobody from repairing the next.
    ///
    /// `learned` is when the repairer was told of the death.
    pub fn bury(self, learned: Instant) {
        if let Some(counts) = self.processes.counts() {
            counts.note_burial(learned.elapsed());
        }
        self.processes.0.header.repaired.fetch_add(1);
        failpoint("repair: counted, not buried");
        if planted("process: the right to repair is free before the slot") {
            self.slot().reaper.publish(Claim::NONE);
            rio::planted::linger();
        } else if planted("process: two repair one session") {
            rio::planted::linger_until(|| self.slot().status.load().generation() != self.id().generation());
        }
        self.slot().leave();
        failpoint("repair: buried, right not given back");
    }

    fn slot(&self) -> &SessionSlot {
        self.stand_in.slot()
    }
}

impl Drop for Corpse<'_> {
    fn drop(&mut self) {
        // Refused when we were taken for dead, or have stood still since the burial and the next tenant was repaired.
        let own = Claim::new(self.by, self.id().generation());
        let _ = self.slot().reaper.compare_exchange(own, Claim::NONE);
    }
}

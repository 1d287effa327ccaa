//! Passing a running transaction from one session to another, of the same process or not.
//!
//! Departure: in LIBTP (3.2.5) a transaction belongs to the process that began it. Here it is its slot and its locker, and whose the
//! slot is, is one word: who repairs the dead takes their transactions over by it (PROTOCOLS D5), and so does whoever was told of
//! an offer. Until then the transaction is the session's that offered it, and is undone if that dies or leaves.
//!
//! If we die here: before the swap it is still the one's who offered it; after it ours, and the slot tells which locker goes
//! with it, whatever name that bears, and its kept locks are ended when the locker is.

use libtp_lock::LockerId;
use libtp_log::TxnId;
use libtp_process::SessionId;
use rio::{failpoint, planted};

use crate::slot::{State, TxnSlot};
use crate::{Managers, Result, TxnSession};

/// A transaction that may be taken over, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The number of its slot.
    pub slot: u32,
    /// Its identifier.
    pub txn: TxnId,
    /// The session that offers it.
    pub session: SessionId,
}

/// What a slot says, beside who offers, while its transaction is offered: not zero, and not what an offer made there before has left.
fn mark(txn: TxnId) -> u32 {
    u32::try_from(txn.raw() & u64::from(u32::MAX)).unwrap_or(0).max(1)
}

impl TxnSlot {
    /// Whether its transaction is offered to whoever takes it. As soon as it is another's than who offered it, it is not: who takes it
    /// over, or undoes it for one who died, is at work in it before the mark is gone.
    pub(crate) fn is_offered(&self) -> bool {
        let is_by_owner = self.offered_by.load() == self.owner.load();
        self.offered.load() == mark(self.id.load())
            && (is_by_owner || planted("pass: what is taken over is still offered"))
    }
}

impl TxnSession {
    /// Offers the running transaction. From here on this session does nothing in it any more: it waits until another has taken it
    /// over ([`Managers::is_taken`]), or takes it back as any other would.
    pub fn offer(&self) -> Offer {
        debug_assert!(self.session().latch_count() == 0, "who holds a latch is at work");
        self.slot().offered_by.publish(self.session().id());
        self.slot().offered.publish(mark(self.id()));
        failpoint("pass: offered, nobody was told");
        Offer { slot: self.slot_index(), txn: self.id(), session: self.session().id() }
    }
}

impl Managers {
    /// Takes over what was offered, with a new session. None if it is not to be had any more: another has taken it over, or who
    /// offered it has died or left, and it was undone.
    ///
    /// # Errors
    /// The region cannot grow for one more session: it is offered still.
    pub fn take_offered(&self, offer: Offer) -> Result<Option<TxnSession>> {
        if offer.slot == 0 || offer.slot > self.txns.slots.capacity() {
            return Ok(None);
        }
        let slot = self.txns.slots.at(offer.slot);
        let is_there = || {
            let is_running = State::from_word(slot.state.load()) == State::Running;
            is_running && slot.id.load() == offer.txn && slot.owner.load() == offer.session && slot.is_offered()
        };
        // Who offers does nothing: what is seen here stays so until the swap succeeds, or it is not ours.
        if !is_there() || !self.processes.is_alive(offer.session) {
            return Ok(None);
        }
        let session = self.processes.join()?;
        let locker = LockerId(slot.locker.get());
        failpoint("pass: has a session, nothing taken");
        if slot.owner.compare_exchange(offer.session, session.id()).is_err() {
            return Ok(None);
        }
        session.set_owing(true);
        failpoint("pass: slot taken over, locker not");
        self.locks.adopt_locker(&session, locker);
        // Whoever takes such a lock learns what it stands for (`record/indices.rs`), and that was somebody else.
        if !planted("pass: intent locks stay kept") {
            self.locks.unkeep_all(&session, locker);
        }
        failpoint("pass: taken over, still offered");
        slot.offered.publish(0);
        failpoint("pass: taken over");
        Ok(Some(self.session_with(session, offer.slot, locker, offer.txn)))
    }

    /// Every transaction that is offered at this moment.
    pub fn offers(&self) -> Vec<Offer> {
        let offered = self.txns.running().filter(|(_, slot)| slot.is_offered());
        offered.map(|(slot, is)| Offer { slot, txn: is.id.load(), session: is.owner.load() }).collect()
    }

    /// Takes over what was offered, and undoes it. False if it is not to be had any more.
    ///
    /// # Errors
    /// As [`Managers::take_offered`]; what undoing can fail with: then it is left to the repair.
    pub fn abort_offered(&self, offer: Offer) -> Result<bool> {
        let Some(who) = self.take_offered(offer)? else { return Ok(false) };
        let aborted = who.abort(self);
        self.leave(who);
        aborted.map(|_| true)
    }

    /// Whether the transaction that this session offered is another's by now.
    pub fn is_taken(&self, who: &TxnSession) -> bool {
        who.slot().owner.load() != who.session().id()
    }

    /// Ends a session whose transaction was [taken over](Managers::is_taken): slot and locker went with that.
    ///
    /// # Panics
    /// If it was not.
    pub fn leave_taken(&self, who: TxnSession) {
        assert!(self.is_taken(&who), "its transaction is still its own");
        who.session().set_owing(false);
        drop(who);
    }
}

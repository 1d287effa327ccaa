//! Passing a running transaction from one session to another, of the same process or not.
//!
//! Departure: in LIBTP (3.2.5) a transaction belongs to the process that began it. Here a transaction is its slot and
//! its locker, and one word names the slot's owner. The repair of a dead session takes over the session's transactions
//! by a swap of that word (PROTOCOLS D5), and a session that got an offer takes over the offered transaction in the
//! same way. Until the swap the transaction belongs to the session that offered it, and is undone if that session dies
//! or leaves.
//!
//! If a session dies here: before the swap the transaction still belongs to the offering session. After the swap it
//! belongs to the new session. The repair finds the transaction's locker by the slot, even if the locker still names
//! the offering session. The locker's kept locks end with the locker.

use libtp_lock::LockerId;
use libtp_log::TxnId;
use libtp_process::SessionId;
use rio::{failpoint, planted};

use crate::slot::{State, TxnSlot};
use crate::{Managers, Result, TxnSession};

/// An offer of a transaction. One session may take the transaction over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Offer {
    /// The number of the transaction's slot.
    pub slot: u32,
    /// The transaction's identifier.
    pub txn: TxnId,
    /// The session that offers the transaction.
    pub session: SessionId,
}

/// Returns the value of a slot's word `offered` while its transaction is offered. The value is not zero, and differs
/// from the value of an earlier offer.
fn mark(txn: TxnId) -> u32 {
    u32::try_from(txn.raw() & u64::from(u32::MAX)).unwrap_or(0).max(1)
}

impl TxnSlot {
    /// Returns whether the slot's transaction is offered. The offer is over as soon as the slot has another owner than
    /// the offering session: a session that takes the transaction over, or undoes it for a dead session, works in the
    /// transaction before it clears the mark.
    pub(crate) fn is_offered(&self) -> bool {
        let is_by_owner = self.offered_by.load() == self.owner.load();
        self.offered.load() == mark(self.id.load())
            && (is_by_owner || planted("pass: a transaction that was taken over is still offered"))
    }
}

impl TxnSession {
    /// Offers the running transaction. After this call, this session makes no call in the transaction. It waits until
    /// another session has taken the transaction over ([`Managers::is_taken`]), or takes the offer itself like any
    /// other session.
    pub fn offer(&self) -> Offer {
        debug_assert!(self.session().latch_count() == 0, "a session that offers its transaction holds no latch");
        self.slot().offered_by.publish(self.session().id());
        self.slot().offered.publish(mark(self.id()));
        failpoint("pass: offered, offer not returned");
        Offer { slot: self.slot_index(), txn: self.id(), session: self.session().id() }
    }
}

impl Managers {
    /// Takes over an offered transaction, with a new session. Returns `None` if the offer is over: another session has
    /// taken the transaction over, or the offering session has died or left, and the transaction was undone.
    ///
    /// # Errors
    /// The region cannot grow for one more session: the transaction is still offered.
    pub fn take_offered(&self, offer: Offer) -> Result<Option<TxnSession>> {
        if offer.slot == 0 || offer.slot > self.txns.slots.capacity() {
            return Ok(None);
        }
        let slot = self.txns.slots.at(offer.slot);
        let is_there = || {
            let is_running = State::from_word(slot.state.load()) == State::Running;
            is_running && slot.id.load() == offer.txn && slot.owner.load() == offer.session && slot.is_offered()
        };
        // The offering session changes nothing: the values read here stay valid, or the swap fails.
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
        // A session that takes an intent lock also reads facts that stay true while it has the lock
        // (`record/indices.rs`). This session has not read them, so it must not keep the lock.
        if !planted("pass: a takeover keeps the intent locks for later transactions") {
            self.locks.unkeep_all(&session, locker);
        }
        failpoint("pass: taken over, still offered");
        slot.offered.publish(0);
        failpoint("pass: taken over");
        Ok(Some(self.session_with(session, offer.slot, locker, offer.txn)))
    }

    /// Returns every transaction that is offered at this moment.
    pub fn offers(&self) -> Vec<Offer> {
        let offered = self.txns.running().filter(|(_, slot)| slot.is_offered());
        offered.map(|(slot, is)| Offer { slot, txn: is.id.load(), session: is.owner.load() }).collect()
    }

    /// Takes over an offered transaction, and undoes it. Returns false if the offer is over.
    ///
    /// # Errors
    /// As [`Managers::take_offered`]; the errors of undo: then the transaction is left to the repair.
    pub fn abort_offered(&self, offer: Offer) -> Result<bool> {
        let Some(txn) = self.take_offered(offer)? else { return Ok(false) };
        let aborted = txn.abort(self);
        self.leave(txn);
        aborted.map(|_| true)
    }

    /// Returns whether another session has taken over the transaction that this session offered.
    pub fn is_taken(&self, txn: &TxnSession) -> bool {
        txn.slot().owner.load() != txn.session().id()
    }

    /// Ends a session whose transaction was [taken over](Managers::is_taken): slot and locker went with the
    /// transaction.
    ///
    /// # Panics
    /// If no session has taken the transaction over.
    pub fn leave_taken(&self, txn: TxnSession) {
        assert!(self.is_taken(&txn), "no other session has taken the transaction over");
        txn.session().set_owing(false);
        drop(txn);
    }
}

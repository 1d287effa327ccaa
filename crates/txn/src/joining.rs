//! Sessions join the environment with a slot and a locker, and leave it.
//!
//! A slot is in the header's free list, or has an owner: one section changes both. A locker is made before its slot is
//! taken, and freed after its slot is freed.
//!
//! If a session dies while it joins or leaves, the repair ends a locker that names the session and belongs to no slot.

use libtp_lock::LockerId;
use libtp_log::TxnId;
use libtp_process::{Rank, Session, SessionId};
use rio::{failpoint, planted};

use crate::slot::State;
use crate::{Managers, Result, TxnSession};

impl Managers {
    /// Joins the environment with a session that can run transactions.
    ///
    /// # Errors
    /// The region cannot grow for one more session.
    pub fn join(&self) -> Result<TxnSession> {
        let session = self.processes.join()?;
        failpoint("txn: session without a locker");
        let locker = self.locks.new_locker(&session)?;
        session.set_owing(true);
        failpoint("txn: locker without a slot");
        let index = self.take_slot(&session, locker)?;
        failpoint("txn: joined");
        Ok(self.session_on(session, index, locker))
    }

    /// Joins the environment, and takes over the slot, the locker and the transaction of a dead session. Returns `None`
    /// if another session has taken them over.
    pub(crate) fn join_for(&self, index: u32, dead: SessionId) -> Result<Option<TxnSession>> {
        let session = self.spares.take(&self.processes)?;
        failpoint("repair: has a session for the dead session's slot");
        let slot = self.txns.slots.at(index);
        let locker = LockerId(slot.locker.get());
        // One store (PROTOCOLS D5): if this session dies from here on, the transaction counts as this session's.
        let is_adopted = !planted("txn: a repairer does not adopt the transaction");
        if is_adopted && slot.owner.compare_exchange(dead, session.id()).is_err() {
            self.spares.give(session);
            return Ok(None);
        }
        session.set_owing(true);
        failpoint("repair: slot adopted, locker not");
        self.locks.adopt_locker(&session, locker);
        failpoint("repair: slot and locker adopted");
        Ok(Some(self.session_on(session, index, locker)))
    }

    /// Makes a session that has the same state as if it had begun that transaction itself.
    pub(crate) fn session_with(&self, session: Session, index: u32, locker: LockerId, txn: TxnId) -> TxnSession {
        let joined = self.session_on(session, index, locker);
        joined.set_last_id(txn);
        joined
    }

    fn session_on(&self, session: Session, index: u32, locker: LockerId) -> TxnSession {
        TxnSession::new(session, self.region.hold(self.txns.slots.place(index)), index, locker)
    }

    /// Ends a session: other sessions may use its slot and its locker.
    pub fn leave(&self, txn: TxnSession) {
        drop(self.leave_slot(txn));
    }

    /// Does as [`Managers::leave`], and returns the process manager's session, which may be dead.
    pub(crate) fn leave_slot(&self, txn: TxnSession) -> Session {
        let (session, slot, index, locker) = txn.into_parts();
        if session.is_dead() || State::from_word(slot.state.get()) != State::Idle {
            // The session died in a section or in a transaction: the repair releases all that the session holds.
            session.mark_dead();
            return session;
        }
        if !planted("snapshot: the pin of a dead session is not removed") {
            slot.unpin_all();
        }
        failpoint("txn: about to leave");
        let header = &self.txns.header;
        let guard = header.latch.exclusive(&session, Rank::TXN_TABLE);
        // In one section, because a slot is in the list exactly if it has no owner.
        let mut section = session.section();
        slot.owner.set(&mut section, SessionId::NONE);
        failpoint("txn: slot without owner, in no list");
        slot.next_free.set(&mut section, header.free.get());
        header.free.set(&mut section, index);
        section.close();
        failpoint("txn: slot free, table latched");
        drop(guard);
        // The locker is freed last: if the session dies before this, its locker belongs to a dead session and to no
        // slot.
        failpoint("txn: slot free, locker not");
        self.locks.free_locker(&session, locker);
        session.set_owing(false);
        session
    }

    fn take_slot(&self, session: &Session, locker: LockerId) -> Result<u32> {
        let header = &self.txns.header;
        let _guard = header.latch.exclusive(session, Rank::TXN_TABLE);
        let used = header.used.get();
        let is_fresh = header.free.get() == 0;
        if is_fresh && used == u64::from(self.txns.slots.capacity()) {
            self.txns.slots.grow()?;
            // If the session dies here: the new slots have higher numbers than the used slots, so the next session
            // finds them.
            if planted("txn: new slots are lost when their maker dies") {
                header.used.publish(self.txns.slots.capacity().into());
            }
            failpoint("txn: slots added, none used");
        }
        let fresh = || u32::try_from(used + 1).expect("a slab numbers its slots with 32 bits");
        let index = if is_fresh { fresh() } else { header.free.get() };
        let slot = self.txns.slots.at(index);
        let mut section = session.section();
        match is_fresh {
            true => header.used.set(&mut section, u64::from(index)),
            false => header.free.set(&mut section, slot.next_free.get()),
        }
        failpoint("txn: slot off the list, without owner");
        // The locker is stored before the owner: a session that sees the slot's owner also sees that owner's locker.
        slot.locker.set(&mut section, locker.0);
        failpoint("txn: slot taken, without its owner");
        slot.owner.set(&mut section, session.id());
        section.close();
        failpoint("txn: slot taken");
        Ok(index)
    }
}

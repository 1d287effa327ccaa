//! Begins and ends transactions, and reserves log space for their undo.
//!
//! Paper: LIBTP 3.2.5, `txn_begin`. Nothing is logged until the transaction changes something. The beginning and the
//! end of a transaction write only the session's slot, and a session takes identifiers in blocks: a small transaction
//! touches no shared word or list.
//!
//! If the session dies here: a slot whose state is idle has no transaction. Both the beginning and the end of a
//! transaction store the state last.

use libtp_log::{Lsn, TxnId};
use rio::failpoint;

use crate::slot::{State, ID_BLOCK, UNDO_STEP};
use crate::{Managers, Result, TxnSession};

impl TxnSession {
    /// Notes that this thread begins the running transaction.
    #[inline]
    pub fn open_here(&self, managers: &Managers) {
        self.open_in().begin(&managers.locks, self.locker(), self.id().raw());
    }

    /// Notes that this thread uses the running transaction.
    #[inline]
    pub fn note_use(&self, managers: &Managers) {
        self.open_in().note_use(&managers.locks, self.locker(), || self.id().raw());
    }

    /// Waits until this session may begin its next transaction, if many sessions compete for hot locks (see "Lane" in
    /// the glossary). Called while the session holds nothing that other sessions wait for.
    #[inline]
    pub fn wait_for_turn(&self, managers: &Managers) {
        managers.locks.pause_before_begin(self.session(), self.locker());
    }

    /// Begins a transaction: the paper's `txn_begin`. Nothing is logged until it changes something.
    ///
    /// # Panics
    /// If a transaction is running.
    #[inline]
    pub fn begin(&self, managers: &Managers) -> TxnId {
        assert_eq!(self.state(), State::Idle, "a session runs one transaction at a time");
        let id = self.take_id(|| managers.txns.header.next_id.fetch_add(ID_BLOCK));
        self.forget_last();
        let slot = self.slot();
        // A store with release order, like the store of the first LSN below: a session that takes a snapshot and reads
        // this value also reads every earlier store (`snapshot.rs`).
        slot.id.publish(id);
        failpoint("txn: begins, has a number");
        slot.first_lsn.publish(Lsn::NONE);
        slot.last_lsn.init(Lsn::NONE);
        slot.undo_bytes.init(0);
        managers.locks.set_birth(self.locker(), id.raw());
        // The last store: from here on a checkpoint counts the transaction.
        failpoint("txn: begun, not running");
        slot.state.publish(State::Running as u32);
        id
    }

    /// Reserves log space for the undo of `bytes` further bytes, so that an abort never fails because of a full disk
    /// (PROTOCOLS D11). The log counts such reservations in large steps, so small transactions never touch a shared
    /// word.
    #[inline]
    pub(crate) fn promise_undo(&self, managers: &Managers, bytes: u64) -> Result<()> {
        let slot = self.slot();
        let total = slot.undo_bytes.get() + bytes;
        if total > slot.undo_counted.get() + UNDO_STEP {
            managers.with_log_room(self, || managers.log.promise(self.session(), UNDO_STEP.max(bytes)))?;
            failpoint("txn: room promised, not noted");
            slot.undo_counted.init(slot.undo_counted.get() + UNDO_STEP.max(bytes));
        }
        Ok(())
    }

    /// Adds `bytes`, the log space for the undo of one log record, to the log space that the undo of the transaction
    /// needs. Space that was reserved for the undo of a record, and for which no record was logged, does not count.
    #[inline]
    pub(crate) fn count_undo(&self, managers: &Managers, bytes: u64) {
        self.set_undo_bytes(managers, self.slot().undo_bytes.get() + bytes);
    }

    /// Sets the bytes that are needed for undoing to `total`. Room that the log has promised stays promised.
    #[inline]
    pub(crate) fn set_undo_bytes(&self, managers: &Managers, total: u64) {
        self.slot().undo_bytes.init(total);
        if managers.settings.count_log_bytes {
            managers.locks.set_log_bytes(self.locker(), total);
        }
    }

    /// Ends the transaction: the slot is free for the next one.
    #[inline]
    pub(crate) fn end(&self, managers: &Managers) {
        let slot = self.slot();
        let counted = slot.undo_counted.get();
        if counted != 0 {
            // If the session dies between the two stores, the log keeps room that is not needed. In the other order,
            // the log could lack room that is needed.
            slot.undo_counted.init(0);
            failpoint("txn: promise cleared, room not returned");
            managers.log.release_promise(counted);
        }
        slot.forget_segments();
        failpoint("txn: ended, not idle");
        slot.state.publish(State::Idle as u32);
    }
}

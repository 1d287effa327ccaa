//! A session that runs transactions: a process-manager session with a slot and a locker of its own.
//!
//! One transaction at a time. A program's threads take such sessions from a pool (in the door crate) and give them
//! back, so beginning and ending a transaction allocates nothing and touches no shared list.

use std::cell::{Cell, RefCell};

use libtp_lock::{LockerId, OpenIn, Wait};
use libtp_log::{Lsn, RecordBuffer, TxnId};
use libtp_process::{Rank, Session, SessionId};
use rio::{failpoint, planted, Held};

use crate::log_records::COMMIT;
use crate::slot::{State, TxnSlot, ID_BLOCK, UNDO_STEP};
use crate::{Managers, Result};

/// A session with its transaction slot. `Send`, not `Sync`.
pub struct TxnSession {
    session: Session,
    slot: Held<TxnSlot>,
    index: u32,
    locker: LockerId,
    id_next: Cell<u64>,
    id_end: Cell<u64>,
    /// The buffer in which log records are put together.
    scratch: RefCell<RecordBuffer>,
    /// A buffer for values, lent and given back.
    spare: Cell<Vec<u8>>,
    entered: Entered,
    /// Places to look at when the running transaction has committed, see [`TxnSession::note_for_later`].
    after_commit: RefCell<Vec<(u32, Vec<u8>)>>,
    /// How long the session waits for locks.
    wait: Cell<Wait>,
    open_in: OpenIn,
    /// The commit record of the transaction that ends; `Lsn::NONE` before it is written.
    commit_record: Cell<Lsn>,
    /// The last append noted before the commit record; `None` before the commit began.
    noted_before_commit: Cell<Option<u64>>,
    /// The horizon of the session's last view; `Lsn::NONE` before the first. Later views have no lower horizon.
    pub(crate) last_horizon: Cell<Lsn>,
}

/// The files that the running transaction is known to have locked as a whole, in private memory: a hint that saves a
/// look at the lock table for every record.
#[derive(Default)]
struct Entered {
    /// By the file's number modulo the number of cells: the file, and the owner's bits. Zero is no file.
    files: [Cell<u64>; ENTERED],
    /// The number of locks from which on the owner wants to trade them for fewer.
    escalate_at: Cell<u32>,
}

/// The most notes that a transaction leaves.
const FOR_LATER_MAX: usize = 1024;

/// How many databases a transaction uses at once, usually.
const ENTERED: usize = 8;

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

    /// Joins with the slot and the locker, and so the transaction, of a dead session. Returns `None` if another session
    /// took them.
    pub(crate) fn join_for(&self, index: u32, dead: SessionId) -> Result<Option<TxnSession>> {
        let session = self.take_spare()?;
        failpoint("repair: has a session for a dead one's slot");
        let slot = self.txns.slots.at(index);
        let locker = LockerId(slot.locker.get());
        // One store (PROTOCOLS D5): if this session dies from here on, the transaction is simply its own.
        let is_adopted = !planted("txn: transactions are not adopted");
        if is_adopted && slot.owner.compare_exchange(dead, session.id()).is_err() {
            self.give_spare(session);
            return Ok(None);
        }
        session.set_owing(true);
        failpoint("repair: slot adopted, locker not");
        self.locks.adopt_locker(&session, locker);
        failpoint("repair: slot and locker adopted");
        Ok(Some(self.session_on(session, index, locker)))
    }

    /// Makes a session as if it had begun that transaction itself.
    pub(crate) fn session_with(&self, session: Session, index: u32, locker: LockerId, txn: TxnId) -> TxnSession {
        let joined = self.session_on(session, index, locker);
        // The transaction has the last number of a block: by that `commit_record_of_dead` tells its notes from those of
        // others.
        joined.id_next.set(txn.raw() + 1);
        joined.id_end.set(txn.raw() + 1);
        joined
    }

    fn session_on(&self, session: Session, index: u32, locker: LockerId) -> TxnSession {
        TxnSession {
            session,
            slot: self.region.hold(self.txns.slots.place(index)),
            index,
            locker,
            id_next: Cell::new(0),
            id_end: Cell::new(0),
            scratch: RefCell::new(RecordBuffer::default()),
            spare: Cell::new(Vec::new()),
            entered: Entered::default(),
            after_commit: RefCell::default(),
            wait: Cell::new(Wait::Forever),
            open_in: OpenIn::default(),
            commit_record: Cell::new(Lsn::NONE),
            noted_before_commit: Cell::new(None),
            last_horizon: Cell::new(Lsn::NONE),
        }
    }

    /// Ends a session: other sessions may use its slot and its locker.
    pub fn leave(&self, txn: TxnSession) {
        drop(self.leave_slot(txn));
    }

    /// Does as [`Managers::leave`], and returns the process manager's session, which may be dead.
    pub(crate) fn leave_slot(&self, txn: TxnSession) -> Session {
        let TxnSession { session, slot, index, locker, .. } = txn;
        if session.is_dead() || State::from_word(slot.state.get()) != State::Idle {
            // The session died in a section or in mid-transaction: the repair gives back all that it holds.
            session.mark_dead();
            return session;
        }
        if !planted("snapshot: a dead one's pin stays") {
            slot.unpin_all();
        }
        failpoint("txn: about to leave");
        let header = &self.txns.header;
        let guard = header.latch.exclusive(&session, Rank::TXN_TABLE);
        // In one section: a slot that has an owner is not in the list, and a slot without an owner is.
        let mut section = session.section();
        slot.owner.set(&mut section, SessionId::NONE);
        failpoint("txn: slot without owner, in no list");
        slot.next_free.set(&mut section, header.free.get());
        header.free.set(&mut section, index);
        section.close();
        failpoint("txn: slot free, table latched");
        drop(guard);
        // Last: if the session dies before this, its locker belongs to a dead session and to no slot.
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
            // If the session dies here: the new slots are above the used ones, and so the next session finds them.
            if planted("txn: slots that were added and not used are lost") {
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
        failpoint("txn: slot off the list, nobody's");
        // Before the owner: a session that sees the slot's owner finds the locker that goes with it.
        slot.locker.set(&mut section, locker.0);
        failpoint("txn: slot taken, without its owner");
        slot.owner.set(&mut section, session.id());
        section.close();
        failpoint("txn: slot taken");
        Ok(index)
    }
}

impl Entered {
    #[inline]
    fn of(&self, file: u32) -> &Cell<u64> {
        &self.files[file as usize % ENTERED]
    }
}

impl TxnSession {
    /// Returns the process manager's session.
    #[inline]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the locker that holds the transaction's locks.
    #[inline]
    pub fn locker(&self) -> LockerId {
        self.locker
    }

    /// Returns the running transaction's identifier.
    #[inline]
    pub fn id(&self) -> TxnId {
        self.slot.id.get()
    }

    /// Returns its last log record; `Lsn::NONE` if it has written nothing.
    #[inline]
    pub fn last_lsn(&self) -> Lsn {
        self.slot.last_lsn.get()
    }

    /// Returns the commit record that decided the transaction that ran last; `Lsn::NONE` if no such record was written.
    /// For a caller that did not get the result of [`TxnSession::commit`].
    #[inline]
    pub fn commit_record(&self) -> Lsn {
        self.commit_record.get()
    }

    /// Does as [`TxnSession::commit_record`], for a transaction whose commit was cut short by the end of its region.
    /// Also returns the LSN that the session had only noted for its commit record: the next life knows whether the
    /// record is there.
    pub fn commit_record_noted(&self) -> Lsn {
        let noted = self.session.last_noted().0;
        match self.noted_before_commit.get() {
            Some(before) if self.commit_record() == Lsn::NONE && noted != before => Lsn::new(noted),
            _ => self.commit_record(),
        }
    }

    #[inline]
    pub(crate) fn begin_commit_record(&self) {
        self.noted_before_commit.set(Some(self.session.last_noted().0));
    }

    /// Does as [`TxnSession::commit_record`], for a transaction whose commit panicked, so that its session is dead. The
    /// last record decides the transaction's fate (PROTOCOLS D6), whichever session ends it.
    ///
    /// # Errors
    /// The record cannot be read: then the fate is not known.
    pub fn commit_record_of_dead(&self, managers: &Managers) -> Result<Lsn> {
        let (lsn, txn) = self.session.last_noted();
        // The slot may be another session's by now, so it is not read.
        let is_own = txn != 0 && txn + 1 == self.id_next.get();
        // An append that was noted before the commit began is another record, which the log may not have any more.
        let is_of_the_commit = self.noted_before_commit.get().is_some_and(|before| before != lsn);
        if self.commit_record() != Lsn::NONE || !is_own || !is_of_the_commit || lsn >= managers.log.tail().raw() {
            return Ok(self.commit_record());
        }
        // If the session died before it published the record, another session's record may stand there.
        let record = managers.log.read(Lsn::new(lsn))?;
        let decides = record.header.kind() == COMMIT && record.header.txn() == TxnId::new(txn);
        Ok(if decides { Lsn::new(lsn) } else { Lsn::NONE })
    }

    #[inline]
    pub(crate) fn note_commit_record(&self, lsn: Lsn) {
        self.commit_record.set(lsn);
    }

    /// Returns how long the session waits for locks: for ever unless set.
    #[inline]
    pub fn wait(&self) -> Wait {
        self.wait.get()
    }

    /// Sets how long the session waits for locks, until the next call.
    #[inline]
    pub fn set_wait(&self, wait: Wait) {
        self.wait.set(wait);
    }

    /// Notes that the running transaction is open in this thread from now on.
    #[inline]
    pub fn open_here(&self, managers: &Managers) {
        self.open_in.begin(&managers.locks, self.locker, self.id().raw());
    }

    /// Notes that this thread uses the running transaction.
    #[inline]
    pub fn note_use(&self, managers: &Managers) {
        self.open_in.note_use(&managers.locks, self.locker, || self.id().raw());
    }

    /// Returns the state of the transaction.
    #[inline]
    pub fn state(&self) -> State {
        State::from_word(self.slot.state.get())
    }

    /// Returns the number of its slot.
    pub fn slot_index(&self) -> u32 {
        self.index
    }

    /// Returns an empty buffer for a log record.
    ///
    /// # Panics
    /// If it is already borrowed: records are built one at a time.
    #[inline]
    pub fn scratch(&self) -> std::cell::RefMut<'_, RecordBuffer> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch
    }

    /// Lends an empty buffer; a new one while the first is lent. [`TxnSession::give_spare`] takes it back.
    #[inline]
    pub fn take_spare(&self) -> Vec<u8> {
        let mut spare = self.spare.take();
        spare.clear();
        spare
    }

    /// Takes a buffer back, to be lent again.
    #[inline]
    pub fn give_spare(&self, spare: Vec<u8>) {
        self.spare.set(spare);
    }

    /// Returns whether the running transaction noted `bits` of that file.
    #[inline]
    pub fn has_entered(&self, file: u32, bits: u8) -> bool {
        let word = self.entered.of(file).get();
        word >> 32 == u64::from(file) && word & u64::from(bits) == u64::from(bits)
    }

    /// Notes that the running transaction holds, until it ends, the locks that `bits` mean to the owner.
    #[inline]
    pub fn note_entered(&self, file: u32, bits: u8) {
        let cell = self.entered.of(file);
        let known = if cell.get() >> 32 == u64::from(file) { cell.get() } else { 0 };
        cell.set(u64::from(file) << 32 | known | u64::from(bits));
    }

    /// Forgets these notes: locks have changed.
    pub fn forget_entered(&self) {
        self.entered.files.iter().for_each(|file| file.set(0));
    }

    /// Returns the number of locks from which on the running transaction should trade them for fewer, as last set.
    #[inline]
    pub fn escalate_at(&self) -> u32 {
        self.entered.escalate_at.get()
    }

    /// Sets the number for [`TxnSession::escalate_at`], until the transaction ends.
    pub fn set_escalate_at(&self, count: u32) {
        self.entered.escalate_at.set(count);
    }

    /// Notes a place in a file, to be looked at when the running transaction has committed. The notes are a service: of
    /// very many not all are kept, and no note of a transaction that is aborted or passed on.
    #[cold]
    pub fn note_for_later(&self, file: u32, place: Vec<u8>) {
        let mut notes = self.after_commit.borrow_mut();
        if notes.len() < FOR_LATER_MAX {
            notes.push((file, place));
        }
    }

    /// Takes the notes of the running transaction.
    pub fn take_for_later(&self) -> Vec<(u32, Vec<u8>)> {
        self.after_commit.take()
    }

    #[inline]
    pub(crate) fn slot(&self) -> &TxnSlot {
        &self.slot
    }

    /// Waits, where the environment is crowded, until this session may begin its next transaction. Called while the
    /// session holds nothing that other sessions wait for.
    #[inline]
    pub fn wait_for_turn(&self, managers: &Managers) {
        managers.locks.pause_before_begin(self.session(), self.locker);
    }

    /// Begins a transaction: the paper's `txn_begin`. Nothing is logged until it changes something.
    ///
    /// # Panics
    /// If a transaction is running.
    #[inline]
    pub fn begin(&self, managers: &Managers) -> TxnId {
        assert_eq!(self.state(), State::Idle, "a session runs one transaction at a time");
        if self.id_next.get() == self.id_end.get() {
            let first = managers.txns.header.next_id.fetch_add(ID_BLOCK);
            self.id_next.set(first);
            self.id_end.set(first + ID_BLOCK);
        }
        let id = TxnId::new(self.id_next.get());
        self.id_next.set(id.raw() + 1);
        self.forget_entered();
        self.after_commit.borrow_mut().clear();
        self.commit_record.set(Lsn::NONE);
        self.noted_before_commit.set(None);
        self.entered.escalate_at.set(0);
        let slot = self.slot();
        // Released, as is the first LSN: a session that takes a snapshot and sees this store sees the stores before it
        // (`snapshot.rs`).
        slot.id.publish(id);
        failpoint("txn: begins, has a number");
        slot.first_lsn.publish(Lsn::NONE);
        slot.last_lsn.init(Lsn::NONE);
        let tail = managers.log.tail();
        slot.begin_lsn.init(tail);
        slot.undo_bytes.init(0);
        managers.locks.set_birth(self.locker, id.raw());
        // The last store: from here on a checkpoint counts the transaction.
        failpoint("txn: begins, not running");
        slot.state.publish(State::Running as u32);
        id
    }

    /// Takes over a transaction that restart found unfinished, to undo it.
    pub(crate) fn adopt(&self, id: TxnId, first: Lsn, last: Lsn) {
        let slot = self.slot();
        slot.id.init(id);
        slot.first_lsn.init(first);
        slot.last_lsn.init(last);
        slot.begin_lsn.init(first);
        slot.undo_bytes.init(0);
        slot.state.publish(State::Running as u32);
    }

    /// Reserves log space for undoing `bytes` more than were counted, so that an abort never meets a full disk
    /// (PROTOCOLS D11). The log counts it in large steps: small transactions never touch a shared word.
    #[inline]
    pub(crate) fn promise_undo(&self, managers: &Managers, bytes: u64) -> Result<()> {
        let slot = self.slot();
        let total = slot.undo_bytes.get() + bytes;
        if total > slot.undo_counted.get() + UNDO_STEP {
            managers.with_log_room(self, || managers.log.promise(&self.session, UNDO_STEP.max(bytes)))?;
            failpoint("txn: room promised, not noted");
            slot.undo_counted.init(slot.undo_counted.get() + UNDO_STEP.max(bytes));
        }
        Ok(())
    }

    /// Counts `bytes` as needed for undoing. Space that was reserved and not used by a record is not counted.
    #[inline]
    pub(crate) fn count_undo(&self, managers: &Managers, bytes: u64) {
        self.set_undo_bytes(managers, self.slot().undo_bytes.get() + bytes);
    }

    /// Sets the bytes that are needed for undoing to `total`. Room that the log has promised stays promised.
    #[inline]
    pub(crate) fn set_undo_bytes(&self, managers: &Managers, total: u64) {
        self.slot().undo_bytes.init(total);
        if managers.settings.count_log_bytes {
            managers.locks.set_log_bytes(self.locker, total);
        }
    }

    /// Notes a record of the running transaction, just published at `lsn`.
    #[inline]
    pub(crate) fn logged(&self, lsn: Lsn) {
        let slot = self.slot();
        if slot.first_lsn.get() == Lsn::NONE {
            slot.first_lsn.init(lsn);
        }
        failpoint("txn: logged, not the last record");
        slot.last_lsn.publish(lsn);
    }

    /// Ends the transaction: the slot is free for the next one.
    #[inline]
    pub(crate) fn end(&self, managers: &Managers) {
        let slot = self.slot();
        let counted = slot.undo_counted.get();
        if counted != 0 {
            // In this order: if the session dies in between, the log keeps room that is not needed; never the other way
            // round.
            slot.undo_counted.init(0);
            failpoint("txn: promise forgotten, not given back");
            managers.log.release_promise(counted);
        }
        slot.forget_segments();
        failpoint("txn: over, not idle");
        slot.state.publish(State::Idle as u32);
    }
}

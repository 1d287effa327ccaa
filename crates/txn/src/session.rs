//! A session that runs transactions: a process-manager session with a slot and a locker of its own.
//!
//! One transaction at a time. A program's threads take such sessions from a pool (in the door crate) and give them back,
//! so beginning and ending a transaction allocates nothing and touches no shared list.

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
    /// Where log records are put together.
    scratch: RefCell<RecordBuffer>,
    /// A buffer for values, lent and given back.
    spare: Cell<Vec<u8>>,
    entered: Entered,
    /// What is to be looked at when the running transaction has committed, see [`TxnSession::note_for_later`].
    for_later: RefCell<Vec<(u32, Vec<u8>)>>,
    /// How long its locks are waited for.
    wait: Cell<Wait>,
    open_in: OpenIn,
    /// The commit record of the transaction that ends, none before it is written.
    commit_record: Cell<Lsn>,
    /// The last append noted before the commit record was to be written; none before that.
    noted_before_commit: Cell<Option<u64>>,
    /// The horizon of the last view it took, none before the first: later ones have no lower one.
    pub(crate) last_horizon: Cell<Lsn>,
}

/// What the running transaction is known to have locked as a whole, kept in private memory: a hint that saves a look at
/// the lock table for every record.
#[derive(Default)]
struct Entered {
    /// By the file's number modulo their count: the file, and the owner's bits. Zero is none.
    files: [Cell<u64>; ENTERED],
    /// From so many locks on, the owner wants to know.
    escalate_at: Cell<u32>,
}

/// More notes than these a transaction does not leave.
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

    /// Joins with the slot and the locker, and so the transaction, of a dead session: none if another took them.
    pub(crate) fn join_for(&self, index: u32, dead: SessionId) -> Result<Option<TxnSession>> {
        let session = self.take_spare()?;
        failpoint("repair: has a session for a dead one's slot");
        let slot = self.txns.slots.at(index);
        let locker = LockerId(slot.locker.get());
        // One store (PROTOCOLS D5): if we die from here on, the transaction is simply ours.
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

    /// As one that began that transaction itself has it.
    pub(crate) fn session_with(&self, session: Session, index: u32, locker: LockerId, txn: TxnId) -> TxnSession {
        let who = self.session_on(session, index, locker);
        // The last of its block: what it noted is told from others' by that.
        who.id_next.set(txn.raw() + 1);
        who.id_end.set(txn.raw() + 1);
        who
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
            for_later: RefCell::default(),
            wait: Cell::new(Wait::Forever),
            open_in: OpenIn::default(),
            commit_record: Cell::new(Lsn::NONE),
            noted_before_commit: Cell::new(None),
            last_horizon: Cell::new(Lsn::NONE),
        }
    }

    /// Ends a session: its slot and locker may be used by others.
    pub fn leave(&self, who: TxnSession) {
        drop(self.leave_slot(who));
    }

    /// As [`Managers::leave`], and returns what is left: the process manager's session, or a dead one.
    pub(crate) fn leave_slot(&self, who: TxnSession) -> Session {
        let TxnSession { session, slot, index, locker, .. } = who;
        if session.is_dead() || State::from_word(slot.state.get()) != State::Idle {
            // It died in a section or in mid-transaction: what it holds is the repair's to give back.
            session.mark_dead();
            return session;
        }
        if !planted("snapshot: a dead one's pin stays") {
            slot.unpin_all();
        }
        failpoint("txn: about to leave");
        let header = &self.txns.header;
        let guard = header.latch.exclusive(&session, Rank::TXN_TABLE);
        // Together: a slot that has an owner is not in the list, and one that has none is.
        let mut section = session.section();
        slot.owner.set(&mut section, SessionId::NONE);
        failpoint("txn: slot without owner, in no list");
        slot.next_free.set(&mut section, header.free.get());
        header.free.set(&mut section, index);
        section.close();
        failpoint("txn: slot free, table latched");
        drop(guard);
        // Last: if we die before it, the locker is a dead session's and no slot's.
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
            // If we die here: they are above those that are used, and so found by the next.
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
        // Before the owner: whoever sees that the slot has one finds the locker that goes with it.
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
    /// The process manager's session.
    #[inline]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Whose locks the transaction's locks are.
    #[inline]
    pub fn locker(&self) -> LockerId {
        self.locker
    }

    /// The running transaction's identifier.
    #[inline]
    pub fn id(&self) -> TxnId {
        self.slot.id.get()
    }

    /// Its last log record, none if it has written nothing.
    #[inline]
    pub fn last_lsn(&self) -> Lsn {
        self.slot.last_lsn.get()
    }

    /// The commit record that decided the transaction that ran last, none if none was written: for who could not hear the
    /// end of [`TxnSession::commit`].
    #[inline]
    pub fn commit_record(&self) -> Lsn {
        self.commit_record.get()
    }

    /// As [`TxnSession::commit_record`], for a transaction whose commit was cut short by the end of its region: also if it came
    /// no further than to note where it was about to be. Whether it is there the next life knows.
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

    /// As [`TxnSession::commit_record`], for a transaction whose commit panicked, so that its session is dead: its fate is
    /// decided by its last record (PROTOCOLS D6), whoever ends it.
    ///
    /// # Errors
    /// The record cannot be read: nobody knows.
    pub fn commit_record_of_dead(&self, managers: &Managers) -> Result<Lsn> {
        let (lsn, txn) = self.session.last_noted();
        // Its slot may be another's by now, so it is asked for nothing.
        let is_own = txn != 0 && txn + 1 == self.id_next.get();
        // What was noted before the commit began is another record, which the log may not have any more.
        let is_of_the_commit = self.noted_before_commit.get().is_some_and(|before| before != lsn);
        if self.commit_record() != Lsn::NONE || !is_own || !is_of_the_commit || lsn >= managers.log.tail().raw() {
            return Ok(self.commit_record());
        }
        // Who died before it published may have been overtaken by another's record there.
        let record = managers.log.read(Lsn::new(lsn))?;
        let decides = record.header.kind() == COMMIT && record.header.txn() == TxnId::new(txn);
        Ok(if decides { Lsn::new(lsn) } else { Lsn::NONE })
    }

    #[inline]
    pub(crate) fn note_commit_record(&self, lsn: Lsn) {
        self.commit_record.set(lsn);
    }

    /// How long its locks are waited for; for ever unless it was said.
    #[inline]
    pub fn wait(&self) -> Wait {
        self.wait.get()
    }

    /// Says how long its locks are waited for, until the next word.
    #[inline]
    pub fn set_wait(&self, wait: Wait) {
        self.wait.set(wait);
    }

    /// The running transaction is open in this thread from now on.
    #[inline]
    pub fn open_here(&self, managers: &Managers) {
        self.open_in.begin(&managers.locks, self.locker, self.id().raw());
    }

    /// This thread uses the running transaction.
    #[inline]
    pub fn note_use(&self, managers: &Managers) {
        self.open_in.note_use(&managers.locks, self.locker, || self.id().raw());
    }

    /// What the transaction is doing.
    #[inline]
    pub fn state(&self) -> State {
        State::from_word(self.slot.state.get())
    }

    /// The number of its slot.
    pub fn slot_index(&self) -> u32 {
        self.index
    }

    /// A buffer for a log record, empty.
    ///
    /// # Panics
    /// If it is already borrowed: records are built one at a time.
    #[inline]
    pub fn scratch(&self) -> std::cell::RefMut<'_, RecordBuffer> {
        let mut scratch = self.scratch.borrow_mut();
        scratch.clear();
        scratch
    }

    /// Lends a buffer, empty; another one while it is lent. [`TxnSession::give_spare`] takes it back.
    #[inline]
    pub fn take_spare(&self) -> Vec<u8> {
        let mut spare = self.spare.take();
        spare.clear();
        spare
    }

    /// Takes a buffer back, for the next to need one.
    #[inline]
    pub fn give_spare(&self, spare: Vec<u8>) {
        self.spare.set(spare);
    }

    /// Whether the running transaction noted `bits` of that file.
    #[inline]
    pub fn has_entered(&self, file: u32, bits: u8) -> bool {
        let word = self.entered.of(file).get();
        word >> 32 == u64::from(file) && word & u64::from(bits) == u64::from(bits)
    }

    /// Notes that the running transaction holds what `bits` mean to the owner, until it ends.
    #[inline]
    pub fn note_entered(&self, file: u32, bits: u8) {
        let cell = self.entered.of(file);
        let known = if cell.get() >> 32 == u64::from(file) { cell.get() } else { 0 };
        cell.set(u64::from(file) << 32 | known | u64::from(bits));
    }

    /// Forgets what was noted: locks have changed.
    pub fn forget_entered(&self) {
        self.entered.files.iter().for_each(|file| file.set(0));
    }

    /// The number of locks from which on the running transaction should trade them for fewer, as last set.
    #[inline]
    pub fn escalate_at(&self) -> u32 {
        self.entered.escalate_at.get()
    }

    /// Sets it, until the transaction ends.
    pub fn set_escalate_at(&self, count: u32) {
        self.entered.escalate_at.set(count);
    }

    /// Notes a place in a file for whoever ends the running transaction: when it has committed, there is something to be done. A service:
    /// of very many not all are noted, and of one that is aborted or passed on none.
    #[cold]
    pub fn note_for_later(&self, file: u32, place: Vec<u8>) {
        let mut notes = self.for_later.borrow_mut();
        if notes.len() < FOR_LATER_MAX {
            notes.push((file, place));
        }
    }

    /// Takes what the running transaction noted.
    pub fn take_for_later(&self) -> Vec<(u32, Vec<u8>)> {
        self.for_later.take()
    }

    #[inline]
    pub(crate) fn slot(&self) -> &TxnSlot {
        &self.slot
    }

    /// Waits, where it is crowded, until this session may begin its next transaction. To be called while nothing is held that
    /// others wait for.
    #[inline]
    pub fn wait_for_turn(&self, managers: &Managers) {
        managers.locks.stand_aside(self.session(), self.locker);
    }

    /// Begins a transaction: the paper's `txn_begin`. Nothing is logged until it changes something.
    ///
    /// # Panics
    /// If one is running.
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
        self.for_later.borrow_mut().clear();
        self.commit_record.set(Lsn::NONE);
        self.noted_before_commit.set(None);
        self.entered.escalate_at.set(0);
        let slot = self.slot();
        // Released, as is the first LSN: who takes a snapshot and finds the one finds what was before it (`snapshot.rs`).
        slot.id.publish(id);
        failpoint("txn: begins, has a number");
        slot.first_lsn.publish(Lsn::NONE);
        slot.last_lsn.init(Lsn::NONE);
        let tail = managers.log.tail();
        slot.begin_lsn.init(tail);
        slot.undo_bytes.init(0);
        managers.locks.set_birth(self.locker, id.raw());
        // The last store: from here on a checkpoint counts it.
        failpoint("txn: begins, not running");
        slot.state.publish(State::Running as u32);
        id
    }

    /// Takes over a transaction found unfinished by restart, to undo it.
    pub(crate) fn adopt(&self, id: TxnId, first: Lsn, last: Lsn) {
        let slot = self.slot();
        slot.id.init(id);
        slot.first_lsn.init(first);
        slot.last_lsn.init(last);
        slot.begin_lsn.init(first);
        slot.undo_bytes.init(0);
        slot.state.publish(State::Running as u32);
    }

    /// Sets log space aside for undoing `bytes` more than what is counted, so that an abort never meets a full disk (PROTOCOLS D11). Counted in
    /// the log in large steps: small transactions never touch a shared word.
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

    /// Counts `bytes` as needed for undoing: what was reserved for and not logged needs nothing.
    #[inline]
    pub(crate) fn count_undo(&self, managers: &Managers, bytes: u64) {
        self.set_undo_bytes(managers, self.slot().undo_bytes.get() + bytes);
    }

    /// Counts that `total` bytes are needed for undoing. What the log was made to promise stays promised.
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

    /// The transaction is over: the slot is free for the next.
    #[inline]
    pub(crate) fn end(&self, managers: &Managers) {
        let slot = self.slot();
        let counted = slot.undo_counted.get();
        if counted != 0 {
            // In this order: if we die between, the log keeps room that nobody needs; never the other way round.
            slot.undo_counted.init(0);
            failpoint("txn: promise forgotten, not given back");
            managers.log.release_promise(counted);
        }
        slot.forget_segments();
        failpoint("txn: over, not idle");
        slot.state.publish(State::Idle as u32);
    }
}

//! A session that runs transactions: a process-manager session with a transaction slot and a locker.
//!
//! It runs one transaction at a time. A program's threads take such sessions from a pool (in the crate `libtp`) and
//! return them, so beginning and ending a transaction allocates nothing and touches no shared list.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use libtp_lock::{KeptLock, LockManager, LockerId, OpenIn, Wait};
use libtp_log::{Lsn, RecordBuffer, TxnId};
use libtp_process::Session;
use rio::{failpoint, Held};

use crate::slot::{State, TxnSlot, ID_BLOCK};

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
    /// A buffer for values that callers borrow.
    spare: Cell<Vec<u8>>,
    entered: Entered,
    /// Places to visit after the commit of the running transaction: see [`TxnSession::note_for_later`].
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

/// The files on which the running transaction is known to hold an intent lock, and the files on which the locker keeps
/// an intent lock. With this copy in private memory, not every record needs an access to the lock table.
///
/// A cell has the file's number (high half), the kept lock's number (bits 16 to 23), a bit for each kind of lock that
/// the kept lock covers (bits 8 to 15), and a bit for each kind of lock that the transaction holds (bits 0 to 7). The
/// record manager chooses the bit of each kind. A cell of zero has no file.
#[derive(Default)]
struct Entered {
    /// The cells. The index of a file's cell is the file's number modulo the number of cells.
    files: [Cell<u64>; ENTERED_FILES],
    /// The epoch in which the kept locks were learnt.
    epoch: Cell<u64>,
    /// If the transaction holds this number of locks, the record manager wants to replace them by fewer locks.
    escalate_at: Cell<u32>,
    /// The number of calls that found a noted lock.
    calls: Cell<u32>,
}

/// The largest number of noted places to visit after the commit.
const FOR_LATER_MAX: usize = 1024;

/// Of this number of calls, one call counts the transaction's locks.
const COUNTED_EVERY: u32 = 32;

/// A transaction usually uses at most this number of databases.
const ENTERED_FILES: usize = 8;

/// The bits of a cell that end with the transaction.
const TXN_BITS: u64 = 0xFF;

impl Entered {
    #[inline]
    fn of(&self, file: u32) -> &Cell<u64> {
        &self.files[file as usize % ENTERED_FILES]
    }
}

impl TxnSession {
    /// Makes the session with that slot and locker. It has no identifiers to hand out yet.
    pub(crate) fn new(session: Session, slot: Held<TxnSlot>, index: u32, locker: LockerId) -> TxnSession {
        TxnSession {
            session,
            slot,
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

    /// Takes the session apart: the process manager's session, the slot, its number, and the locker.
    pub(crate) fn into_parts(self) -> (Session, Held<TxnSlot>, u32, LockerId) {
        (self.session, self.slot, self.index, self.locker)
    }

    /// Returns the next identifier. `more` reserves a block of identifiers, and returns the first.
    #[inline]
    pub(crate) fn take_id(&self, more: impl FnOnce() -> u64) -> TxnId {
        if self.id_next.get() == self.id_end.get() {
            let first = more();
            self.id_next.set(first);
            self.id_end.set(first + ID_BLOCK);
        }
        let id = TxnId::new(self.id_next.get());
        self.id_next.set(id.raw() + 1);
        id
    }

    /// Makes `txn` the identifier that the session has taken last, as if the session had begun that transaction itself.
    /// Then [`TxnSession::noted_in_commit`] recognises the transaction's notes.
    pub(crate) fn set_last_id(&self, txn: TxnId) {
        self.id_next.set(txn.raw() + 1);
        self.id_end.set(txn.raw() + 1);
    }

    /// Forgets the notes about the transaction that ran last.
    #[inline]
    pub(crate) fn forget_last(&self) {
        self.entered.files.iter().for_each(|file| file.set(file.get() & !TXN_BITS));
        self.after_commit.borrow_mut().clear();
        self.commit_record.set(Lsn::NONE);
        self.noted_before_commit.set(None);
        self.entered.escalate_at.set(0);
    }

    /// Returns the append that the session noted for its own transaction after the commit began: the LSN, and the
    /// transaction.
    pub(crate) fn noted_in_commit(&self) -> Option<(Lsn, TxnId)> {
        let (lsn, txn) = self.session.last_noted();
        // The slot may belong to another session now, so it is not read.
        let is_own = txn != 0 && txn + 1 == self.id_next.get();
        // An append that was noted before the commit began is not the commit record.
        let is_of_the_commit = self.noted_before_commit.get().is_some_and(|before| before != lsn);
        (is_own && is_of_the_commit).then(|| (Lsn::new(lsn), TxnId::new(txn)))
    }

    /// Returns the thread in which the running transaction is open.
    #[inline]
    pub(crate) fn open_in(&self) -> &OpenIn {
        &self.open_in
    }

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

    /// Returns the running transaction's last log record; `Lsn::NONE` if it has written nothing.
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
    /// Also returns an LSN that the session had only noted for its commit record: in the next region's log the caller
    /// can find out whether the record was written.
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

    #[inline]
    pub(crate) fn note_commit_record(&self, lsn: Lsn) {
        self.commit_record.set(lsn);
    }

    /// Returns how long the session waits for locks: for ever unless set.
    #[inline]
    pub fn wait(&self) -> Wait {
        self.wait.get()
    }

    /// Sets how long the session waits for locks, until the next call. This is also the bound of its waits for a flush
    /// of the log whose leader is stopped.
    #[inline]
    pub fn set_wait(&self, wait: Wait) {
        self.wait.set(wait);
        self.session.set_patience(match wait {
            Wait::No => Duration::ZERO,
            Wait::For(longest) => longest,
            Wait::Forever => Duration::MAX,
        });
    }

    /// Returns the state of the transaction.
    #[inline]
    pub fn state(&self) -> State {
        State::from_word(self.slot.state.get())
    }

    /// Returns the number of the session's slot.
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

    /// Lends an empty buffer, or a new buffer while the first is lent. [`TxnSession::give_spare`] returns it.
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

    /// Returns whether it is noted that the running transaction holds the locks `bits` on that file.
    #[inline]
    pub fn has_entered(&self, file: u32, bits: u8) -> bool {
        let word = self.entered.of(file).get();
        word >> 32 == u64::from(file) && word & u64::from(bits) == u64::from(bits)
    }

    /// Notes that the running transaction holds the locks `bits` on that file until it ends.
    #[inline]
    pub fn note_entered(&self, file: u32, bits: u8) {
        let cell = self.entered.of(file);
        let known = if cell.get() >> 32 == u64::from(file) { cell.get() } else { 0 };
        cell.set(u64::from(file) << 32 | known | u64::from(bits));
    }

    /// Returns whether the running transaction holds the locks `bits` on that file: they are noted, or the locker keeps
    /// an intent lock that covers them, and takes this lock again in this call. Also returns false at one call in
    /// `COUNTED_EVERY`, so that the record manager counts the transaction's locks.
    #[inline]
    pub fn enter(&self, locks: &LockManager, file: u32, bits: u8) -> bool {
        let cell = self.entered.of(file);
        let (word, bits) = (cell.get(), u64::from(bits));
        if word >> 32 != u64::from(file) {
            return false;
        }
        if word & bits == bits {
            let calls = self.entered.calls.get().wrapping_add(1);
            self.entered.calls.set(calls);
            return calls % COUNTED_EVERY != 0;
        }
        if word >> 8 & bits != bits {
            return false;
        }
        #[allow(clippy::cast_possible_truncation, reason = "the number is one byte")]
        let is_taken = locks.lock_again(self.locker, (word >> 16) as u8, self.entered.epoch.get());
        if is_taken {
            cell.set(word | word >> 8 & TXN_BITS);
        } else {
            self.forget_entered();
        }
        is_taken
    }

    /// Notes a kept intent lock that the running transaction has taken, and that covers the locks `bits`.
    pub fn note_kept(&self, file: u32, bits: u8, kept: KeptLock) {
        let Some(epoch) = kept.epoch else { return self.note_entered(file, bits) };
        if self.entered.epoch.replace(epoch) != epoch {
            self.forget_entered();
        }
        let bits = u64::from(bits);
        self.entered.of(file).set(u64::from(file) << 32 | u64::from(kept.index) << 16 | bits << 8 | bits);
    }

    /// Forgets the notes of locks: the locks have changed.
    pub fn forget_entered(&self) {
        self.entered.files.iter().for_each(|file| file.set(0));
    }

    /// Returns the number of locks at which the running transaction should replace its locks by fewer locks
    /// ([`TxnSession::set_escalate_at`]).
    #[inline]
    pub fn escalate_at(&self) -> u32 {
        self.entered.escalate_at.get()
    }

    /// Sets the number for [`TxnSession::escalate_at`], until the transaction ends.
    pub fn set_escalate_at(&self, count: u32) {
        self.entered.escalate_at.set(count);
    }

    /// Notes a place in a file that is to be visited after the commit of the running transaction. The notes need not be
    /// complete: beyond a limit they are dropped, and a transaction that is aborted or passed on loses them.
    #[cold]
    pub fn note_for_later(&self, file: u32, place: Vec<u8>) {
        let mut notes = self.after_commit.borrow_mut();
        if notes.len() < FOR_LATER_MAX {
            notes.push((file, place));
        }
    }

    /// Returns whether the running transaction has such notes ([`TxnSession::note_for_later`]).
    #[inline]
    pub fn has_notes_for_later(&self) -> bool {
        !self.after_commit.borrow().is_empty()
    }

    /// Takes the notes of [`TxnSession::note_for_later`].
    pub fn take_for_later(&self) -> Vec<(u32, Vec<u8>)> {
        self.after_commit.take()
    }

    #[inline]
    pub(crate) fn slot(&self) -> &TxnSlot {
        &self.slot
    }

    /// Takes over a transaction that a restart or a repair has found unfinished, to undo the transaction.
    pub(crate) fn adopt(&self, id: TxnId, first: Lsn, last: Lsn) {
        let slot = self.slot();
        slot.id.init(id);
        slot.first_lsn.init(first);
        slot.last_lsn.init(last);
        slot.undo_bytes.init(0);
        slot.state.publish(State::Running as u32);
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
}

//! Commit: one log record decides, the locks are released at once, and the answer waits for the disk if the caller
//! asked for that.
//!
//! Paper: LIBTP 3.2.5 and 4.2. Departure: locks are released as soon as the commit record has its LSN (early lock
//! release, ARCHITECTURE.md, step 9), not after the flush. So a hot record does not wait for the disk. PROTOCOLS L4
//! makes this safe: a transaction that read this transaction's changes has a later commit record, or waits for this
//! transaction's record.
//!
//! Every commit takes these steps, in this order. [`TxnSession::commit`] takes all of them. A caller that recovers from
//! a death between two steps takes them one by one.
//!
//! 1. *Prepare* ([`TxnSession::prepare_answer`]): the control file states that commits are
//!    answered from memory.
//! 2. *Reserve* room for the commit record.
//! 3. *Decide* (`decide`): the state, the commit record, the highest commit, the slot's last record, and the end that
//!    snapshots remember. Before the commit record the transaction can be aborted; after the record it is committed
//!    (PROTOCOLS D6).
//! 4. *Carry out* the decision: fates of databases (`databases.rs`), joined memory (`joined.rs`).
//! 5. *Release* the locks, then *end* the transaction (`release_and_end`). A commit of databases ends before it
//!    releases its locks (`databases.rs`).
//! 6. *Make durable* ([`TxnSession::make_durable`]): the disk, or memory that outlives the system.
//! 7. *Note the answer* ([`TxnSession::note_answer`]), if it comes before the disk.
//!
//! The repair of a dead session, and the repair after the death of all sessions, do the rest of steps 3 and 4
//! ([`Managers::complete_commit`]), and then step 5.

use libtp_log::{record_bytes, Lsn, TxnId};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::log_records::COMMIT;
use crate::slot::{State, TxnSlot};
use crate::{Managers, Result, TxnSession};

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the commit is on disk.
    #[default]
    Sync,
    /// At once: the commit survives the death of any process now, and is on disk within the set time (PROTOCOLS L5).
    Relaxed,
    /// At once, if the environment's memory outlives a crash of the system, or the loss of power: the commit survives
    /// such a crash now, without a system call (PROTOCOLS L9), and is on disk within the set time. Refused if the
    /// memory does not outlive the system.
    Rio,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The LSN of the commit record; for a transaction that wrote nothing, the LSN of the last commit that it may have
    /// read from; `Lsn::NONE` if there was no commit. [`TxnSession::wait_durable`] waits until this LSN is on disk.
    pub lsn: Lsn,
}

/// A place between two steps of the decision, where the session may die.
#[derive(Clone, Copy)]
pub(crate) enum Between {
    /// The slot states that the transaction commits, and nothing is logged.
    StateAndRecord,
    /// The record is logged and is not yet the highest commit.
    RecordAndLastCommit,
    /// The record is the highest commit and is not yet the slot's last record.
    LastCommitAndSlot,
}

impl TxnSession {
    /// Ends the transaction and keeps its changes: the paper's `txn_commit`. Returns when the commit is at least as
    /// durable as asked: where the memory survives only processes, `Rio` waits for the disk.
    ///
    /// # Errors
    /// `Log`. If the commit record was not written, the transaction still runs and can be aborted
    /// ([`TxnSession::state`] is `Running`). If the wait for the disk failed, the transaction is committed in memory
    /// but a crash of the machine may undo it, as the error states.
    pub fn commit(&self, managers: &Managers, durability: Durability) -> Result<Committed> {
        // The caller refuses `Rio` on memory that survives only processes, with a better error text. Here such a commit
        // waits for the disk, which is at least as durable.
        let durability = match durability {
            Durability::Rio if !managers.lasting().is_lasting() => Durability::Sync,
            asked => asked,
        };
        self.prepare_answer(managers, durability)?;
        let committed = self.commit_now(managers)?;
        self.make_durable(managers, committed, durability)?;
        self.note_answer(managers, durability);
        Ok(committed)
    }

    /// Does the step that must come before a commit that is answered from memory.
    ///
    /// # Errors
    /// As [`Managers::begin_rio`]: nothing was changed.
    #[inline]
    pub fn prepare_answer(&self, managers: &Managers, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => Ok(()),
            Durability::Rio => managers.begin_rio(self),
            Durability::Relaxed => managers.begin_relaxed(self),
        }
    }

    /// Writes the commit record and releases the locks; does not wait for the disk. At first, a snapshot that reads the
    /// transaction's changes waits for the disk, and the room of the records that the transaction deleted is not reused
    /// (PROTOCOLS S1, S3). This ends when the record is on disk, or when [`TxnSession::note_answer`] notes that the
    /// commit was answered earlier.
    ///
    /// # Errors
    /// `Log` if the record cannot be written: the transaction still runs.
    #[inline]
    pub fn commit_now(&self, managers: &Managers) -> Result<Committed> {
        if self.last_lsn() == Lsn::NONE {
            // PROTOCOLS L4. This LSN is read while the locks are held: every commit that this transaction read from is
            // at or below this LSN.
            let lsn = managers.txns.header.last_commit.load();
            let lsn = if planted("txn: a reader does not wait for the commits that it read") { Lsn::NONE } else { lsn };
            failpoint("commit: read only, locks held");
            self.release_and_end(managers, || failpoint("commit: read only, locks released"));
            return Ok(Committed { lsn });
        }
        self.commit_changes(managers)
    }

    #[inline(never)]
    fn commit_changes(&self, managers: &Managers) -> Result<Committed> {
        managers.reserve_last(self.session(), record_bytes(0))?;
        let lsn = self.decide(managers, self.last_lsn(), &[], |between| match between {
            Between::StateAndRecord => failpoint("commit: committing, nothing logged"),
            Between::RecordAndLastCommit => failpoint("commit: logged, not the last commit"),
            Between::LastCommitAndSlot => failpoint("commit: logged, record not in the slot"),
        });
        failpoint("commit: record in the slot, locks held");
        self.release_and_end(managers, || failpoint("commit: locks released, not ended"));
        failpoint("commit: ended, append noted");
        self.session().clear_append();
        Ok(Committed { lsn })
    }

    /// Writes the commit record, which decides; `prev` is the transaction's record before it. If the session dies after
    /// the record, the transaction is committed: its last record is a commit record (PROTOCOLS D6). `failpoint` is
    /// called between the steps.
    #[inline]
    pub(crate) fn decide(&self, managers: &Managers, prev: Lsn, body: &[&[u8]], failpoint: impl Fn(Between)) -> Lsn {
        self.slot().state.publish(State::Committing as u32);
        failpoint(Between::StateAndRecord);
        self.begin_commit_record();
        let lsn = managers.log.log(self.session(), COMMIT, self.id(), prev, body);
        self.note_commit_record(lsn);
        failpoint(Between::RecordAndLastCommit);
        managers.txns.header.last_commit.fetch_max(lsn);
        failpoint(Between::LastCommitAndSlot);
        self.logged(lsn);
        let slot = self.slot();
        slot.remember_end(slot.id.get(), slot.first_lsn.get(), lsn);
        lsn
    }

    /// Releases the locks of a transaction whose fate is decided, and ends it. `failpoint` is called in between.
    #[inline]
    pub(crate) fn release_and_end(&self, managers: &Managers, failpoint: impl FnOnce()) {
        managers.locks.unlock_all(self.session(), self.locker());
        failpoint();
        self.end(managers);
    }

    /// Does as [`TxnSession::commit_record`], for a transaction whose commit panicked, so that its session is dead. The
    /// last record decides the transaction's fate (PROTOCOLS D6), whichever session ends it.
    ///
    /// # Errors
    /// The record cannot be read: then the fate is not known.
    pub fn commit_record_of_dead(&self, managers: &Managers) -> Result<Lsn> {
        let noted = self.noted_in_commit().filter(|(lsn, _)| *lsn < managers.log.tail());
        let Some((lsn, txn)) = noted.filter(|_| self.commit_record() == Lsn::NONE) else {
            return Ok(self.commit_record());
        };
        // If the session died before it published the record, the log may have another session's record at that LSN.
        let record = managers.log.read(lsn)?;
        let decides = record.header.kind() == COMMIT && record.header.txn() == txn;
        Ok(if decides { lsn } else { Lsn::NONE })
    }

    /// Makes a commit as durable as its answer promises: waits for the disk, or puts the commit into lasting memory.
    ///
    /// # Errors
    /// As [`TxnSession::wait_durable`].
    #[inline]
    pub fn make_durable(&self, managers: &Managers, committed: Committed, durability: Durability) -> Result<()> {
        match durability {
            Durability::Sync => self.wait_durable(managers, committed)?,
            Durability::Rio => self.keep(managers, committed),
            Durability::Relaxed => {}
        }
        Ok(())
    }

    /// Waits until the commit is on disk.
    ///
    /// # Errors
    /// `Log` if a sync failed: the commit may be lost with the machine.
    #[inline]
    pub fn wait_durable(&self, managers: &Managers, committed: Committed) -> Result<()> {
        let is_durable = managers.log.durable() > committed.lsn || planted("txn: a commit does not wait for the disk");
        if committed.lsn == Lsn::NONE || is_durable {
            return Ok(());
        }
        failpoint("commit: waits for the disk");
        managers.log.force_group(self.session(), committed.lsn, managers.running_count())?;
        managers.locks.forget_crowd(self.locker());
        failpoint("commit: durable, not returned");
        Ok(())
    }

    /// Notes with which durability the commit of the session's last transaction is answered. If the answer comes before
    /// the commit is on disk, a snapshot that is taken from now on shows the commit without waiting for the disk
    /// (PROTOCOLS S1).
    #[inline]
    pub fn note_answer(&self, managers: &Managers, durability: Durability) {
        let own = self.commit_record();
        if durability != Durability::Sync
            && own != Lsn::NONE
            && !planted("snapshot: a snapshot waits for relaxed commits")
        {
            managers.txns.header.answered.fetch_max(own);
        }
    }
}

impl Managers {
    /// Completes the commit of a session that died after its commit record and before its locks were released: the open
    /// outcomes of joined memory, if `has_memory`; the end that snapshots remember; and the fates of databases. May be
    /// done twice. `first` is the transaction's first record, `commit` its commit record.
    ///
    /// # Errors
    /// The record cannot be read, or a fate cannot be carried out.
    pub(crate) fn complete_commit(
        &self,
        by: &Session,
        slot: &TxnSlot,
        (txn, first, commit): (TxnId, Lsn, Lsn),
        has_memory: bool,
    ) -> Result<()> {
        if has_memory {
            self.leave_segments_open(by, slot, txn, commit)?;
        }
        if !slot.remembers_end(commit) {
            slot.remember_end(txn, first, commit);
        }
        self.finish_databases(by, commit)
    }

    /// Returns how many transactions run. Group commit compares the paper's threshold with this number.
    pub fn running_count(&self) -> u32 {
        u32::try_from(self.txns.running().count()).unwrap_or(u32::MAX)
    }
}

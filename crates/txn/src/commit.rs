//! Commit: one log record decides, the locks are released at once, the answer waits for the disk if the caller asked
//! for that.
//!
//! Paper: LIBTP 3.2.5 and 4.2. Departure: locks are released as soon as the commit record has its LSN (early lock
//! release, ARCHITECTURE.md, step 9), not after the flush. So a hot record does not wait for the disk. PROTOCOLS L4
//! keeps this right: a transaction that read this one's changes has a later commit record, or waits for this one.

use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::log_records::COMMIT;
use crate::slot::State;
use crate::{Managers, Result, TxnSession};

/// When a commit is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// When the commit is on disk.
    #[default]
    Sync,
    /// At once: the commit survives the death of any process now, and is on disk within the set time (PROTOCOLS L5).
    Relaxed,
    /// At once, where the environment's memory outlives a crash of the system, or the loss of power: the commit
    /// survives that now, without a system call (PROTOCOLS L9), and is on disk within the set time. Refused where the
    /// memory does not.
    Rio,
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The commit record; for a transaction that wrote nothing, the last commit that it may have read from; `Lsn::NONE`
    /// if there was no commit. `wait_durable` takes it.
    pub lsn: Lsn,
}

impl TxnSession {
    /// Ends the transaction and keeps its changes: the paper's `txn_commit`. Returns when the commit is as durable as
    /// asked, or more: where the memory survives only processes, `Rio` waits for the disk.
    ///
    /// # Errors
    /// `Log`. If the commit record was not written, the transaction still runs and can be aborted
    /// ([`TxnSession::state`] says `Running`). If the wait for the disk failed, the transaction is committed in memory
    /// but may be lost with the machine, as the error says.
    pub fn commit(&self, managers: &Managers, durability: Durability) -> Result<Committed> {
        // The caller refuses `Rio` on such memory, with a fuller error. Here the disk is as good as any memory.
        let durability = match durability {
            Durability::Rio if !managers.lasting().is_lasting() => Durability::Sync,
            asked => asked,
        };
        if durability == Durability::Rio {
            managers.begin_rio(self)?;
        }
        if durability == Durability::Relaxed {
            managers.begin_relaxed(self)?;
        }
        let committed = self.commit_now(managers)?;
        match durability {
            Durability::Sync => self.wait_durable(managers, committed)?,
            Durability::Rio => self.keep(managers, committed),
            Durability::Relaxed => {}
        }
        self.note_answer(managers, durability);
        Ok(committed)
    }

    /// Writes the commit record and releases the locks; does not wait for the disk. Until the record is on
    /// disk, or [`TxnSession::note_answer`] notes that the commit was answered before that, a snapshot that reads its
    /// changes waits for the disk, and records that it deleted keep their room (PROTOCOLS S1, S3).
    ///
    /// # Errors
    /// `Log` if the record cannot be written: the transaction still runs.
    #[inline]
    pub fn commit_now(&self, managers: &Managers) -> Result<Committed> {
        if self.last_lsn() == Lsn::NONE {
            // PROTOCOLS L4. Read while the locks are held: every commit this transaction read from is at or below it.
            let lsn = managers.txns.header.last_commit.load();
            let lsn = if planted("txn: reader does not wait for what it read") { Lsn::NONE } else { lsn };
            failpoint("commit: read only, locks held");
            managers.locks.unlock_all(self.session(), self.locker());
            failpoint("commit: read only, locks released");
            self.end(managers);
            return Ok(Committed { lsn });
        }
        self.reserve_commit(managers, 0)?;
        self.slot().state.publish(State::Committing as u32);
        failpoint("commit: committing, nothing logged");
        self.begin_commit_record();
        let lsn = managers.log.log(self.session(), COMMIT, self.id(), self.last_lsn(), &[]);
        self.note_commit_record(lsn);
        // If the session dies from here on, the transaction is committed: its last record says so (PROTOCOLS D6).
        failpoint("commit: logged, not the last commit");
        managers.txns.header.last_commit.fetch_max(lsn);
        failpoint("commit: logged, record not in the slot");
        self.logged(lsn);
        self.remember_end(lsn);
        failpoint("commit: record in the slot, locks held");
        managers.locks.unlock_all(self.session(), self.locker());
        failpoint("commit: locks released, not over");
        self.end(managers);
        failpoint("commit: over, append noted");
        self.session().clear_append();
        Ok(Committed { lsn })
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
        // If the session died before it published the record, another session's record may stand there.
        let record = managers.log.read(lsn)?;
        let decides = record.header.kind() == COMMIT && record.header.txn() == txn;
        Ok(if decides { lsn } else { Lsn::NONE })
    }

    /// Reserves room for the commit record. On a full disk the record takes of the room for undo, which a transaction
    /// that commits does not need any more.
    #[inline]
    pub(crate) fn reserve_commit(&self, managers: &Managers, body_bytes: usize) -> Result<()> {
        let (log, bytes) = (&managers.log, libtp_log::record_bytes(body_bytes));
        Ok(log.reserve(self.session(), bytes).or_else(|_| log.reserve_undo(self.session(), bytes))?)
    }

    /// Waits until a commit is on disk.
    ///
    /// # Errors
    /// `Log` if a sync failed: the commit may be lost with the machine.
    #[inline]
    pub fn wait_durable(&self, managers: &Managers, committed: Committed) -> Result<()> {
        let is_durable = managers.log.durable() > committed.lsn || planted("txn: commit does not wait");
        if committed.lsn == Lsn::NONE || is_durable {
            return Ok(());
        }
        failpoint("commit: waits for the disk");
        managers.log.force_group(self.session(), committed.lsn, managers.running_count())?;
        managers.locks.forget_crowd(self.locker());
        failpoint("commit: durable, not answered");
        Ok(())
    }
}

impl Managers {
    /// Returns how many transactions run. The paper's group threshold is compared with it.
    pub fn running_count(&self) -> u32 {
        u32::try_from(self.txns.running().count()).unwrap_or(u32::MAX)
    }
}

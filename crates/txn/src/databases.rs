//! The commit of a transaction that drops or renames databases.
//!
//! Not in the paper. The transaction holds exclusive locks on those databases and on their names. A log record before
//! its commit record has the databases' fates (dropped or renamed). When both records are on disk the fates are carried
//! out, and only then are the locks released.
//!
//! If the session dies here: before the commit record nothing has changed. After it, the repair of the session (or a
//! restart) carries out the rest before the locks are released. A checkpoint meanwhile counts the transaction as
//! running, so the records are kept.

use libtp_buffer::Fate;
use libtp_lock::{LockName, Mode};
use libtp_log::{record_bytes, Lsn, Record, BODY_BYTES_MAX};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::commit::Between;
use crate::log_records::databases::{damaged, decode, encode};
use crate::log_records::DATABASES;
use crate::{Committed, Error, Managers, Result, TxnSession};

impl TxnSession {
    /// Does as [`TxnSession::commit_now`], for a transaction that drops or renames databases. The commit is on disk,
    /// and the fates are carried out, when this returns. Backups that copy the files hold the lock `files`: the call
    /// waits for them.
    ///
    /// # Errors
    /// `Lock`, `TooManyDatabases`, or `Log` before the commit record was written: the transaction still runs. If the
    /// commit record was written ([`TxnSession::commit_record`] returns it), the session is dead, and its repair, or a
    /// restart, carries out the rest.
    pub fn commit_databases(&self, managers: &Managers, files: LockName, fates: &[Fate]) -> Result<Committed> {
        managers.locks.lock(self.session(), self.locker(), files, Mode::X, self.wait())?;
        let body = encode(fates);
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::TooManyDatabases { count: fates.len(), bytes: body.len(), most: BODY_BYTES_MAX });
        }
        let bytes = record_bytes(body.len()) + record_bytes(0);
        managers.reserve_last(self.session(), bytes)?;
        let changes_lsn = managers.log.log(self.session(), DATABASES, self.id(), self.last_lsn(), &[&body]);
        self.logged(changes_lsn);
        self.session().clear_append();
        failpoint("databases: changes logged, not committed");
        let lsn = self.decide(managers, changes_lsn, &[], |between| match between {
            Between::RecordAndLastCommit => failpoint("databases: committed, not the last commit"),
            Between::StateAndRecord | Between::LastCommitAndSlot => {}
        });
        self.session().clear_append();
        failpoint("databases: committed, nothing carried out");
        if let Err(error) = self.carry_out(managers, lsn, fates) {
            // The transaction is committed, so no other end is allowed. Its session counts as dead, and the repair of
            // that session ends the transaction.
            self.session().mark_dead();
            return Err(error);
        }
        failpoint("databases: carried out, locks held");
        // The transaction ends before the locks are released: a repair carries out again the fates of a transaction
        // that has not ended, and the next holder of the locks may have decided other fates.
        let is_late = planted("txn: locks are released before a drop or rename has ended");
        if !is_late {
            self.end(managers);
        }
        failpoint("databases: ended, locks held");
        managers.locks.unlock_all(self.session(), self.locker());
        failpoint("databases: locks released");
        if is_late {
            self.end(managers);
        }
        Ok(Committed { lsn })
    }

    fn carry_out(&self, managers: &Managers, commit: Lsn, fates: &[Fate]) -> Result<()> {
        if !planted("txn: databases are dropped before the commit is on disk") {
            managers.log.force(self.session(), commit)?;
        }
        Ok(managers.buffers.carry_out(self.session(), fates)?)
    }
}

impl Managers {
    /// Logs that a database whose file is missing is given up, and forces the record to disk. The record belongs to no
    /// transaction, so it is never undone.
    ///
    /// # Errors
    /// `Log`: nothing was changed.
    pub fn log_given_up(&self, session: &Session, fate: &Fate) -> Result<()> {
        let body = encode(std::slice::from_ref(fate));
        let bytes = record_bytes(body.len());
        self.reserve_last(session, bytes)?;
        let lsn = self.log.log(session, DATABASES, libtp_log::TxnId::NONE, Lsn::NONE, &[&body]);
        session.clear_append();
        failpoint("databases: cancelled, not on disk");
        self.log.force(session, lsn)?;
        failpoint("databases: cancelled, not in the register");
        Ok(())
    }

    /// Carries out the fates that a transaction has decided, if its session died after the commit record.
    pub(crate) fn finish_databases(&self, by: &Session, commit: Lsn) -> Result<()> {
        let fates = fates_of(&|lsn| self.log.read(lsn), commit)?;
        if fates.is_empty() || planted("txn: repair skips drops and renames of a dead session") {
            return Ok(());
        }
        self.log.force(by, commit)?;
        Ok(self.buffers.carry_out(by, &fates)?)
    }

    /// Carries out the fates that a restart found in the log, in the order of the log.
    pub(crate) fn settle_databases(&self, by: &Session, decided: Vec<Fate>) -> Result<()> {
        if decided.is_empty() || planted("txn: restart skips committed drops and renames") {
            return Ok(());
        }
        let last = self.buffers.last_fates(decided)?;
        self.buffers.carry_out(by, &last)?;
        Ok(self.buffers.forgive_dropped()?)
    }
}

/// Reads one record of the log.
pub(crate) type ReadRecord<'l> = dyn Fn(Lsn) -> libtp_log::Result<Record> + 'l;

/// Returns the fates that a transaction has decided, by the LSN of its commit record.
pub(crate) fn fates_of(read: &ReadRecord<'_>, commit: Lsn) -> Result<Vec<Fate>> {
    let before = read(commit)?.header.prev();
    if before == Lsn::NONE {
        return Ok(Vec::new());
    }
    let record = read(before)?;
    match record.header.kind() {
        DATABASES => decode(&record.body).ok_or_else(|| damaged(before)),
        _ => Ok(Vec::new()),
    }
}

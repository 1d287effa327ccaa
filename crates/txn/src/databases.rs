//! The commit of a transaction that drops or renames databases.
//!
//! Not in the paper. The transaction holds each of those databases, and their names, locked exclusively. A record in
//! front of its commit record states their fates. When both records are on disk the fates are carried out, and only
//! then are the locks released.
//!
//! If the session dies here: before the commit record nothing has changed. After it, the repair of the session (or a
//! restart) carries out the rest before the locks are released. A checkpoint meanwhile counts the transaction as
//! running, so the records are kept.

use libtp_buffer::{Fate, FileId, NAME_BYTES_MAX};
use libtp_log::{record_bytes, Lsn, BODY_BYTES_MAX};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::log_records::{COMMIT, DATABASES};
use crate::slot::State;
use crate::{Committed, Error, Managers, Result, TxnSession};

/// Bytes in front of the names of one database.
const FRONT: usize = 12;

/// Returns the body of a record of fates: for each database the file's number and the bytes of a page (4 bytes each),
/// the bytes of its name and of its new name (2 bytes each, zero for none), and both names.
pub(crate) fn encode(fates: &[Fate]) -> Vec<u8> {
    let mut body = Vec::new();
    let length = |name: &str| u16::try_from(name.len()).expect("names have at most 200 bytes").to_le_bytes();
    for fate in fates {
        let new_name = fate.new_name.as_deref().unwrap_or_default();
        body.extend_from_slice(&fate.id.raw().to_le_bytes());
        body.extend_from_slice(&fate.page_bytes.to_le_bytes());
        body.extend_from_slice(&length(&fate.name));
        body.extend_from_slice(&length(new_name));
        body.extend_from_slice(fate.name.as_bytes());
        body.extend_from_slice(new_name.as_bytes());
    }
    body
}

/// Reads such a body; `None` if it is not one.
pub(crate) fn decode(mut body: &[u8]) -> Option<Vec<Fate>> {
    let mut fates = Vec::new();
    while !body.is_empty() {
        let (front, rest) = body.split_at_checked(FRONT)?;
        let four = |at: usize| front[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let two = |at: usize| front[at..at + 2].try_into().map(u16::from_le_bytes).ok().map(usize::from);
        let (name, rest) = rest.split_at_checked(two(8)?)?;
        let (new_name, rest) = rest.split_at_checked(two(10)?)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok().filter(|text| text.len() <= NAME_BYTES_MAX);
        let (name, new_name) = (text(name).filter(|name| !name.is_empty())?, text(new_name)?);
        let new_name = Some(new_name).filter(|name| !name.is_empty());
        fates.push(Fate { id: FileId::new(four(0)?), page_bytes: four(4)?, name, new_name });
        body = rest;
    }
    Some(fates)
}

/// Returns one line for people.
pub(crate) fn describe(body: &[u8]) -> String {
    let Some(fates) = decode(body) else { return "unreadable".into() };
    let one = |fate: &Fate| match &fate.new_name {
        Some(name) => format!("file {} ({}) is called {name}", fate.id, fate.name),
        None => format!("file {} ({}) is dropped", fate.id, fate.name),
    };
    fates.iter().map(one).collect::<Vec<String>>().join(", ")
}

impl TxnSession {
    /// Does as [`TxnSession::commit_now`], for a transaction that drops or renames databases. The commit is on disk,
    /// and the fates are carried out, when this returns.
    ///
    /// # Errors
    /// `TooManyDatabases`, or `Log` before the commit record was written: the transaction still runs. After it
    /// ([`TxnSession::commit_record`] says so) the session is dead, and its repair, or a restart, carries out the rest.
    pub fn commit_databases(&self, managers: &Managers, fates: &[Fate]) -> Result<Committed> {
        let body = encode(fates);
        if body.len() > BODY_BYTES_MAX {
            return Err(Error::TooManyDatabases { count: fates.len(), bytes: body.len(), most: BODY_BYTES_MAX });
        }
        let bytes = record_bytes(body.len()) + record_bytes(0);
        // On a full disk the room for undo is used: a drop makes room.
        managers.log.reserve(self.session(), bytes).or_else(|_| managers.log.reserve_undo(self.session(), bytes))?;
        let said = managers.log.log(self.session(), DATABASES, self.id(), self.last_lsn(), &[&body]);
        self.logged(said);
        self.session().clear_append();
        failpoint("databases: said, not committed");
        self.slot().state.publish(State::Committing as u32);
        self.begin_commit_record();
        let lsn = managers.log.log(self.session(), COMMIT, self.id(), said, &[]);
        self.note_commit_record(lsn);
        failpoint("databases: committed, not the last commit");
        managers.txns.header.last_commit.fetch_max(lsn);
        self.logged(lsn);
        self.remember_end(lsn);
        self.session().clear_append();
        failpoint("databases: committed, nothing carried out");
        if let Err(error) = self.carry_out(managers, lsn, fates) {
            // The transaction is committed and may not end otherwise. It stays a dead session's, and the repair of that
            // session ends it.
            self.session().mark_dead();
            return Err(error);
        }
        failpoint("databases: carried out, locks held");
        // Ended before the locks are released: a repair carries out again the fates of a transaction that has not
        // ended, and the next holder of the locks may have decided otherwise.
        let is_late = planted("txn: locks are released before a drop or a new name is over");
        if !is_late {
            self.end(managers);
        }
        failpoint("databases: over, locks held");
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
    /// Logs that a database whose file is missing is given up, and forces the record. The record belongs to no
    /// transaction: nothing takes it back.
    ///
    /// # Errors
    /// `Log`: nothing was changed.
    pub fn log_given_up(&self, session: &Session, fate: &Fate) -> Result<()> {
        let body = encode(std::slice::from_ref(fate));
        let bytes = record_bytes(body.len());
        self.log.reserve(session, bytes).or_else(|_| self.log.reserve_undo(session, bytes))?;
        let lsn = self.log.log(session, DATABASES, libtp_log::TxnId::NONE, Lsn::NONE, &[&body]);
        session.clear_append();
        failpoint("databases: given up, not on disk");
        self.log.force(session, lsn)?;
        failpoint("databases: given up, not in the register");
        Ok(())
    }

    /// Returns the fates that a transaction has decided, by the LSN of its commit record.
    pub(crate) fn fates_of(&self, commit: Lsn) -> Result<Vec<Fate>> {
        let before = self.log.read(commit)?.header.prev();
        if before == Lsn::NONE {
            return Ok(Vec::new());
        }
        let record = self.log.read(before)?;
        match record.header.kind() {
            DATABASES => decode(&record.body).ok_or_else(|| damaged(before)),
            _ => Ok(Vec::new()),
        }
    }

    /// Carries out the fates that a transaction has decided whose session died after the commit record.
    pub(crate) fn finish_databases(&self, by: &Session, commit: Lsn) -> Result<()> {
        let fates = self.fates_of(commit)?;
        if fates.is_empty() || planted("txn: what a dead one decided of databases is left") {
            return Ok(());
        }
        self.log.force(by, commit)?;
        Ok(self.buffers.carry_out(by, &fates)?)
    }

    /// Carries out, at a restart, the fates in the log, in its order.
    pub(crate) fn settle_databases(&self, by: &Session, decided: Vec<Fate>) -> Result<()> {
        if decided.is_empty() || planted("txn: restart leaves what was decided of databases") {
            return Ok(());
        }
        let last = self.buffers.last_fates(decided)?;
        self.buffers.carry_out(by, &last)?;
        Ok(self.buffers.forgive_dropped()?)
    }
}

pub(crate) fn damaged(lsn: Lsn) -> Error {
    Error::Damaged { lsn, name: "databases", what: "its body is no list of databases".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_databases_reads_back_as_it_was_written() {
        let fate = |id, name: &str, new_name: Option<&str>| Fate {
            id: FileId::new(id),
            page_bytes: 8192,
            name: name.into(),
            new_name: new_name.map(str::to_owned),
        };
        let fates = vec![fate(1, "kv", None), fate(7, "kv.new", Some("kv"))];
        let body = encode(&fates);
        assert_eq!(decode(&body), Some(fates));
        assert_eq!(describe(&body), "file 1 (kv) is dropped, file 7 (kv.new) is called kv");
        assert_eq!(decode(&body[..body.len() - 1]), None);
        assert_eq!(decode(&body[..5]), None);
    }
}

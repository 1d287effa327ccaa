//! Changes of a loser that a restart cannot undo, because a file is missing. They are logged as *left* changes, and
//! undone when the file is there again.
//!
//! Only the database of a missing file cannot be used. So the restart undoes the loser's changes in all other files,
//! and ends the loser. Separate log records list its left changes. These records are logged before any compensation
//! that states a place before a left change as the place where undo continues. As long as the file is missing, the log
//! is kept from the loser's first record on, and each restart reads all of that log.
//!
//! A left change is undone later in the loser's name. Its compensation has the LSN of the loser's record before the
//! change as the place where undo would continue. So a restart knows from the compensations which changes are no longer
//! left.
//!
//! If the process dies here: the changes that are logged as left and not compensated are still left. The log then has
//! no end record of the loser, and the file may exist at the next restart. If the loser's own undo reaches a left
//! change, only that undo undoes the change.

use std::collections::{HashMap, HashSet};

use libtp_buffer::FileId;
use libtp_log::{record_bytes, Lsn, RecordRef, TxnId};
use rio::{failpoint, planted};

use super::analysis::Found;
use crate::abort::{before, undo_one};
use crate::log_records::left::encode;
use crate::log_records::{CheckpointEntry, CLR_FLAG, LEFT};
use crate::{Change, Error, Managers, Result, TxnSession};

/// The number of changes in one record.
const CHANGES_A_RECORD: usize = 1000;

/// The state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileState {
    Present,
    Missing,
    /// Its database was dropped.
    Dropped,
}

/// Undoes the changes of the losers, and the left changes of earlier losers.
pub(super) struct Undo<'m> {
    managers: &'m Managers,
    txn: &'m TxnSession,
    states: HashMap<FileId, FileState>,
}

impl<'m> Undo<'m> {
    pub(super) fn new(managers: &'m Managers, txn: &'m TxnSession) -> Undo<'m> {
        Undo { managers, txn, states: HashMap::new() }
    }

    /// Undoes the left changes in files that exist now, except the changes that [`Undo::undo_loser`] will undo.
    pub(super) fn undo_left_changes(&mut self, found: &Found) -> Result<()> {
        for (id, left) in &found.left {
            let undone_later = match found.losers.get(id) {
                Some(loser) => self.records_to_undo(loser)?,
                None => HashSet::new(),
            };
            // The log is kept for a missing file, but not for the file of a dropped database.
            let oldest = self.managers.log.oldest();
            let is_to_do = |lsn: &Lsn| !undone_later.contains(lsn) && *lsn >= oldest;
            let changes: Vec<Lsn> = left.changes.values().rev().copied().filter(is_to_do).collect();
            let Some(&newest) = changes.first() else { continue };
            self.txn.adopt(TxnId::new(*id), left.first, newest);
            for lsn in changes {
                let record = self.managers.log.read(lsn)?;
                let record = record.borrow();
                match self.file_to_undo(&record)? {
                    Some((_, FileState::Present)) => _ = undo_one(&Change::new(self.managers, self.txn), &record)?,
                    Some((file, FileState::Missing)) => {
                        self.managers.buffers.note_unrepeated(self.txn.session(), file, left.first)
                    }
                    _ => {}
                }
                failpoint("undo: a left-over change undone");
            }
            self.txn.end(self.managers);
        }
        Ok(())
    }

    /// Returns the records that the undo of a loser passes.
    fn records_to_undo(&self, loser: &CheckpointEntry) -> Result<HashSet<Lsn>> {
        let mut records = HashSet::new();
        let mut at = loser.last_lsn;
        while at > Lsn::NONE && !planted("txn: a loser's changes in a file that was missing are undone twice") {
            records.insert(at);
            at = before(&self.managers.log.read(at)?.borrow())?;
        }
        Ok(records)
    }

    /// Undoes the changes of a loser in the files that exist.
    pub(super) fn undo_loser(&mut self, loser: &CheckpointEntry, found: &Found) -> Result<()> {
        self.txn.adopt(loser.id, loser.first_lsn, loser.last_lsn);
        let mut is_noted = false;
        let mut at = loser.last_lsn;
        while at > Lsn::NONE {
            let record = self.managers.log.read(at)?;
            let record = record.borrow();
            at = match self.file_to_undo(&record)? {
                Some((_, FileState::Missing)) if !is_noted => {
                    self.note_left(loser, at, found)?;
                    is_noted = true;
                    before(&record)?
                }
                Some((_, FileState::Missing | FileState::Dropped)) => before(&record)?,
                _ => undo_one(&Change::new(self.managers, self.txn), &record)?,
            };
        }
        self.txn.abort_to_its_end(self.managers)
    }

    /// Goes back from the record at `at`, and logs all changes of the loser in missing files as left changes.
    fn note_left(&mut self, loser: &CheckpointEntry, mut at: Lsn, found: &Found) -> Result<()> {
        let known = found.left.get(&loser.id.raw());
        let mut changes = Vec::new();
        while at > Lsn::NONE {
            let record = self.managers.log.read(at)?;
            let record = record.borrow();
            if let Some((file, FileState::Missing)) = self.file_to_undo(&record)? {
                self.managers.buffers.note_unrepeated(self.txn.session(), file, loser.first_lsn);
                let change = (at, record.header.prev());
                if known.is_none_or(|left| left.changes.get(&change.1) != Some(&at)) {
                    changes.push(change);
                }
            }
            at = before(&record)?;
        }
        if planted("txn: restart drops a loser's changes in a missing file") {
            return Ok(());
        }
        for some in changes.chunks(CHANGES_A_RECORD) {
            let (log, session) = (&self.managers.log, self.txn.session());
            let body = encode(loser.id, loser.first_lsn, some);
            log.reserve_undo(session, record_bytes(body.len()))?;
            log.log(session, LEFT, TxnId::NONE, Lsn::NONE, &[&body]);
            session.clear_append();
            failpoint("undo: remaining changes logged");
        }
        Ok(())
    }

    /// Returns the file that the undo of a record would change, and its state; `None` if the undo changes no file.
    fn file_to_undo(&mut self, record: &RecordRef<'_>) -> Result<Option<(FileId, FileState)>> {
        let Some(record_type) = self.managers.types.get(record.header.kind()) else { return Ok(None) };
        if record_type.undo.is_none() || record.header.flags() & CLR_FLAG != 0 {
            return Ok(None);
        }
        let Some((_, page)) = (record_type.pages)(record.body).iter().next() else { return Ok(None) };
        let file = page.file();
        if let Some(&state) = self.states.get(&file) {
            return Ok(Some((file, state)));
        }
        let state = match self.managers.buffers.check_place(self.txn.session(), file) {
            _ if planted("txn: a restart fails if a file that a loser changed is missing") => FileState::Present,
            Ok(()) => FileState::Present,
            Err(libtp_buffer::Error::Dropped { .. }) => FileState::Dropped,
            Err(libtp_buffer::Error::FileMissing { .. } | libtp_buffer::Error::UnknownFile { .. }) => {
                FileState::Missing
            }
            Err(error) => return Err(Error::from(error)),
        };
        self.states.insert(file, state);
        Ok(Some((file, state)))
    }
}

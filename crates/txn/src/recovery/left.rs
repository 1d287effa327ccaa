//! Changes of a loser that a restart cannot take back, because a file is away: they are written down, and taken back
//! when the file is there.
//!
//! A file that is away stops its own database and no other. So a loser that has changed it is taken back in all other
//! files, and ends. The changes that are left of it stand in records of their own, which come before every compensation
//! that passes over a left change. As long as the file is away, the log is kept from the loser's first record on, and
//! each restart reads all of that.
//!
//! A change that was left is taken back in the loser's name. Its compensation says where undo would go on, which is the
//! record before the change: by that a restart knows which changes are not left any more.
//!
//! If the process dies here: the changes that are written down and not compensated are left. The loser has no end then,
//! and its file may be there at the next restart. A change that the loser's own undo comes to is taken back by that
//! undo alone.

use std::collections::{HashMap, HashSet};

use libtp_buffer::FileId;
use libtp_log::{record_bytes, Lsn, RecordRef, TxnId};
use rio::{failpoint, planted};

use super::analysis::Found;
use crate::abort::{before, undo_one};
use crate::log_records::left::encode;
use crate::log_records::{CheckpointEntry, CLR_FLAG, LEFT};
use crate::{Change, Error, Managers, Result, TxnSession};

/// Changes in one record.
const CHANGES_A_RECORD: usize = 1000;

/// The place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Here,
    Away,
    /// Its database was dropped.
    Gone,
}

/// Takes back the losers, and the changes left of earlier losers.
pub(super) struct Undo<'m> {
    managers: &'m Managers,
    txn: &'m TxnSession,
    places: HashMap<FileId, Place>,
}

impl<'m> Undo<'m> {
    pub(super) fn new(managers: &'m Managers, txn: &'m TxnSession) -> Undo<'m> {
        Undo { managers, txn, places: HashMap::new() }
    }

    /// Takes back the changes that were left, in files that are there now. Leaves the changes that [`Undo::take_back`]
    /// comes to.
    pub(super) fn take_back_left(&mut self, found: &Found) -> Result<()> {
        for (id, left) in &found.left {
            let coming = match found.losers.get(id) {
                Some(loser) => self.undone_by_walk(loser)?,
                None => HashSet::new(),
            };
            // The log is kept for a file that is away, and not for one that was dropped meanwhile.
            let oldest = self.managers.log.oldest();
            let is_to_do = |lsn: &Lsn| !coming.contains(lsn) && *lsn >= oldest;
            let changes: Vec<Lsn> = left.changes.values().rev().copied().filter(is_to_do).collect();
            let Some(&newest) = changes.first() else { continue };
            self.txn.adopt(TxnId::new(*id), left.first, newest);
            for lsn in changes {
                let record = self.managers.log.read(lsn)?;
                let record = record.borrow();
                match self.place_of(&record)? {
                    Some((_, Place::Here)) => _ = undo_one(&Change::new(self.managers, self.txn), &record)?,
                    Some((file, Place::Away)) => {
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

    /// Returns the records that the undo of a loser comes to.
    fn undone_by_walk(&self, loser: &CheckpointEntry) -> Result<HashSet<Lsn>> {
        let mut records = HashSet::new();
        let mut at = loser.last_lsn;
        while at > Lsn::NONE && !planted("txn: changes of a loser that were left are undone twice") {
            records.insert(at);
            at = before(&self.managers.log.read(at)?.borrow())?;
        }
        Ok(records)
    }

    /// Takes a loser back, as far as its files are there.
    pub(super) fn take_back(&mut self, loser: &CheckpointEntry, found: &Found) -> Result<()> {
        self.txn.adopt(loser.id, loser.first_lsn, loser.last_lsn);
        let mut is_noted = false;
        let mut at = loser.last_lsn;
        while at > Lsn::NONE {
            let record = self.managers.log.read(at)?;
            let record = record.borrow();
            at = match self.place_of(&record)? {
                Some((_, Place::Away)) if !is_noted => {
                    self.note_left(loser, at, found)?;
                    is_noted = true;
                    before(&record)?
                }
                Some((_, Place::Away | Place::Gone)) => before(&record)?,
                _ => undo_one(&Change::new(self.managers, self.txn), &record)?,
            };
        }
        self.txn.abort_to_its_end(self.managers)
    }

    /// Writes down all changes of a loser, from `at` back, in files that are away.
    fn note_left(&mut self, loser: &CheckpointEntry, mut at: Lsn, found: &Found) -> Result<()> {
        let known = found.left.get(&loser.id.raw());
        let mut changes = Vec::new();
        while at > Lsn::NONE {
            let record = self.managers.log.read(at)?;
            let record = record.borrow();
            if let Some((file, Place::Away)) = self.place_of(&record)? {
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

    /// Returns the file that the undo of a record would change, and its place; `None` if the undo changes no file.
    fn place_of(&mut self, record: &RecordRef<'_>) -> Result<Option<(FileId, Place)>> {
        let Some(record_type) = self.managers.types.get(record.header.kind()) else { return Ok(None) };
        if record_type.undo.is_none() || record.header.flags() & CLR_FLAG != 0 {
            return Ok(None);
        }
        let Some((_, page)) = (record_type.pages)(record.body).iter().next() else { return Ok(None) };
        let file = page.file();
        if let Some(&place) = self.places.get(&file) {
            return Ok(Some((file, place)));
        }
        let place = match self.managers.buffers.check_place(self.txn.session(), file) {
            _ if planted("txn: a loser's missing file fails the restart") => Place::Here,
            Ok(()) => Place::Here,
            Err(libtp_buffer::Error::Dropped { .. }) => Place::Gone,
            Err(libtp_buffer::Error::Away { .. } | libtp_buffer::Error::UnknownFile { .. }) => Place::Away,
            Err(error) => return Err(Error::from(error)),
        };
        self.places.insert(file, place);
        Ok(Some((file, place)))
    }
}

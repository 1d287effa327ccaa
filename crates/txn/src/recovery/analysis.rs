//! Analysis finds the transactions that did not end, and the place where redo starts.
//!
//! It begins with the contents of the checkpoint and examines every later record while the log is read for redo: its
//! results are needed only at the end of the log.

use std::collections::BTreeMap;

use libtp_buffer::Fate;
use libtp_log::{Lsn, RecordRef, TxnId};

use rio::planted;

use crate::abort::undo_next;
use crate::databases::{fates_of, ReadRecord};
use crate::log_records::databases::{damaged, decode};
use crate::log_records::left::{self, PendingUndo};
use crate::log_records::{
    segments_of, Checkpoint, CheckpointEntry, ABORT_END, CHECKPOINT, CLR_FLAG, COMMIT, DATABASES, LEFT,
};
use crate::{Error, OpenOutcome, Result};

/// The result of analysis.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The LSN at which redo starts.
    pub(super) redo_from: Lsn,
    /// The end of the records that the checkpoint's list covers.
    listed_below: Lsn,
    /// The next identifier: smaller identifiers are used up.
    pub(super) next_id: u64,
    /// The transactions without an end, by identifier.
    pub(super) losers: BTreeMap<u64, CheckpointEntry>,
    /// For each segment of memory, the last commit that has changed it, if the segment may not know of that commit yet.
    pub(super) open: BTreeMap<u32, OpenOutcome>,
    /// The changes of earlier losers that could not be undone, by the losers' identifiers.
    pub(super) left: BTreeMap<u64, PendingUndo>,
    /// The fates of databases that take effect if the transactions of these numbers commit.
    undecided: BTreeMap<u64, Vec<Fate>>,
    /// The decided fates of databases, in the order of the log.
    pub(super) decided: Vec<Fate>,
}

/// Begins with the contents of the last checkpoint, or with nothing if there never was one.
pub(super) fn begin(read: &ReadRecord<'_>, checkpoint: Option<Lsn>, oldest: Lsn) -> Result<Found> {
    let mut found = Found { redo_from: oldest, listed_below: oldest, next_id: 1, ..Found::default() };
    let Some(lsn) = checkpoint else { return Ok(found) };
    let checkpoint = read_checkpoint(read, lsn)?;
    found.redo_from = checkpoint.redo_point;
    found.listed_below = checkpoint.begin_lsn;
    found.next_id = checkpoint.next_id;
    found.open = checkpoint.open.into_iter().map(|open| (open.segment, open)).collect();
    for entry in checkpoint.running {
        // The entry's last record may be the end of the transaction: the checkpoint read the slot while the transaction
        // ended.
        let last = read(entry.last_lsn)?;
        if is_end(last.header.kind()) {
            found.note_end(&last.borrow());
            if last.header.kind() == COMMIT {
                found.decided.extend(fates_of(read, entry.last_lsn)?);
            }
        } else {
            found.note_databases(&last.borrow())?;
            found.losers.insert(entry.id.raw(), entry);
        }
    }
    Ok(found)
}

/// A transaction number that is never reached: with a billion transactions a second, it takes more than a hundred
/// years.
const NUMBERS_END: u64 = 1 << 62;

impl Found {
    /// Examines the next record of the log.
    pub(super) fn note(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let id = record.header.txn();
        // Records below the checkpoint's list are examined for fates, too. It does no harm to carry out a fate again.
        self.note_databases(record)?;
        if self.note_left(record)? {
            return Ok(());
        }
        if id == TxnId::NONE || record.lsn < self.listed_below {
            return Ok(());
        }
        // No transaction gets a larger number: if a record has a larger number, a wild store has hit the record.
        if id.raw() < NUMBERS_END {
            self.next_id = self.next_id.max(id.raw() + 1);
        }
        if is_end(record.header.kind()) {
            self.losers.remove(&id.raw());
            self.note_end(record);
            return Ok(());
        }
        let fresh = CheckpointEntry { id, first_lsn: record.lsn, last_lsn: record.lsn };
        let entry = self.losers.entry(id.raw()).or_insert(fresh);
        entry.last_lsn = entry.last_lsn.max(record.lsn);
        Ok(())
    }

    /// Examines a record about changes that were left undone. Returns true if the record has nothing else for the
    /// analysis.
    fn note_left(&mut self, record: &RecordRef<'_>) -> Result<bool> {
        if record.header.kind() == LEFT {
            let damaged =
                || Error::Damaged { lsn: record.lsn, name: "left", what: "its body is no list of changes".into() };
            let (txn, left) = left::decode(record.body).ok_or_else(damaged)?;
            let known = self.left.entry(txn.raw()).or_default();
            known.first = left.first;
            known.changes.extend(left.changes);
            return Ok(true);
        }
        if record.header.flags() & CLR_FLAG == 0 {
            return Ok(false);
        }
        let Some(left) = self.left.get_mut(&record.header.txn().raw()) else { return Ok(false) };
        let was_left = left.changes.remove(&undo_next(record)?).is_some();
        // A compensation in the loser's own chain also states where the loser's undo continues.
        let is_in_chain =
            self.losers.get(&record.header.txn().raw()).is_some_and(|loser| loser.last_lsn == record.header.prev());
        Ok(was_left && !is_in_chain)
    }

    /// Notes the fates in a record. They take effect when the record's transaction commits, or at once if the record
    /// has no transaction.
    fn note_databases(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let id = record.header.txn();
        match record.header.kind() {
            DATABASES => {
                let fates = decode(record.body).ok_or_else(|| damaged(record.lsn))?;
                match id {
                    TxnId::NONE => self.decided.extend(fates),
                    id => drop(self.undecided.insert(id.raw(), fates)),
                }
            }
            COMMIT => self.decided.extend(self.undecided.remove(&id.raw()).into_iter().flatten()),
            _ => {}
        }
        Ok(())
    }

    /// Notes the segments of a commit record. A session that joins a segment has found that the segment knows of all
    /// earlier commits: so only the last commit matters.
    fn note_end(&mut self, record: &RecordRef<'_>) {
        if record.header.kind() != COMMIT || planted("txn: restart forgets the segments of a committed transaction") {
            return;
        }
        for segment in segments_of(record.body) {
            let last = OpenOutcome { segment, txn: record.header.txn(), lsn: record.lsn };
            let known = self.open.entry(segment).or_insert(last);
            if known.lsn < last.lsn {
                *known = last;
            }
        }
    }
}

fn is_end(kind: u16) -> bool {
    kind == COMMIT || kind == ABORT_END
}

fn read_checkpoint(read: &ReadRecord<'_>, lsn: Lsn) -> Result<Checkpoint> {
    let record = read(lsn)?;
    let damaged = |what: &str| Error::Damaged { lsn, name: "checkpoint", what: what.into() };
    if record.header.kind() != CHECKPOINT {
        return Err(damaged("the control file names it, but there is another record at that place"));
    }
    let checkpoint = Checkpoint::decode(&record.body).ok_or_else(|| damaged("its body does not fit its count"))?;
    if checkpoint.redo_point > checkpoint.begin_lsn {
        return Err(damaged("it states that redo starts after its own beginning"));
    }
    Ok(checkpoint)
}

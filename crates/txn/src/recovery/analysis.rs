//! Analysis: which transactions did not end, and where redo starts.

use std::collections::BTreeMap;

use libtp_log::{Lsn, RecordRef, TxnId};

use crate::log_records::{Checkpoint, CheckpointEntry, ABORT_END, CHECKPOINT, COMMIT};
use crate::{Error, Managers, Result};

/// What analysis found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Redo starts here.
    pub(super) redo_from: Lsn,
    /// Identifiers below are used up.
    pub(super) next_id: u64,
    /// The transactions without an end, by identifier.
    pub(super) losers: BTreeMap<u64, CheckpointEntry>,
}

pub(super) fn analyse(managers: &Managers, checkpoint: Option<Lsn>, oldest: Lsn) -> Result<Found> {
    let mut found = Found { redo_from: oldest, next_id: 1, losers: BTreeMap::new() };
    let mut scan_from = oldest;
    if let Some(lsn) = checkpoint {
        let checkpoint = read_checkpoint(managers, lsn)?;
        found.redo_from = checkpoint.redo_point;
        found.next_id = checkpoint.next_id;
        scan_from = checkpoint.begin_lsn;
        for entry in checkpoint.running {
            // The entry's last record may be its end, whose slot the checkpoint saw a moment too early.
            let last = managers.log.read(entry.last_lsn)?;
            if !is_end(last.header.kind()) {
                found.losers.insert(entry.id.raw(), entry);
            }
        }
    }
    let mut roll = managers.log.roll(scan_from);
    while let Some(record) = roll.next_record() {
        note(&mut found, &record?);
    }
    Ok(found)
}

fn note(found: &mut Found, record: &RecordRef<'_>) {
    let id = record.header.txn();
    if id == TxnId::NONE {
        return;
    }
    found.next_id = found.next_id.max(id.raw() + 1);
    if is_end(record.header.kind()) {
        found.losers.remove(&id.raw());
        return;
    }
    let fresh = CheckpointEntry { id, first_lsn: record.lsn, last_lsn: record.lsn };
    let entry = found.losers.entry(id.raw()).or_insert(fresh);
    entry.last_lsn = entry.last_lsn.max(record.lsn);
}

fn is_end(kind: u16) -> bool {
    kind == COMMIT || kind == ABORT_END
}

fn read_checkpoint(managers: &Managers, lsn: Lsn) -> Result<Checkpoint> {
    let record = managers.log.read(lsn)?;
    let damaged = |what: &str| Error::Damaged { lsn, name: "checkpoint", what: what.into() };
    if record.header.kind() != CHECKPOINT {
        return Err(damaged("the control file names it, but another record stands there"));
    }
    Checkpoint::decode(&record.body).ok_or_else(|| damaged("its body does not fit its count"))
}

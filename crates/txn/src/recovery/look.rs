//! A first look: the log that a restart will read is read before the restart changes the first byte of a file
//! (PROTOCOLS L6).
//!
//! Redo and undo read the records from the redo point on, and undo reads further back, along the chain of each loser.
//! If a record is damaged, or has a type that this process does not know, the opening is refused here. Faults that are
//! not in the log (a full disk, a damaged page) can still end the restart later. The error then says that recovery was
//! begun (docs/reliability.md).

use libtp_log::{Control, LogFiles, Lsn, RecordRef};
use rio::planted;

use super::analysis::{self, Found};
use super::redo::redo_part;
use crate::abort::before;
use crate::log_records::CLR_FLAG;
use crate::{Error, RecordTable, Result};

/// Reads the log that a restart will read, up to its `end`, only from the files.
///
/// # Errors
/// A damaged or missing record; [`Error::UnknownRecord`], and [`Error::Unregistered`] and [`Error::OtherType`] for a
/// type of the application.
pub fn look(types: &RecordTable, files: &LogFiles, control: &Control, end: Lsn) -> Result<()> {
    let checkpoint = Some(control.checkpoint).filter(|&lsn| lsn != Lsn::NONE);
    let mut found = analysis::begin(&|lsn| files.read(lsn), checkpoint, control.oldest)?;
    let mut roll = files.roll(found.redo_from, end);
    while let Some(record) = roll.next_record() {
        let record = record?;
        found.note(&record)?;
        check(types, &record)?;
    }
    drop(roll);
    if planted("txn: a restart looks at no record before the redo point") {
        return Ok(());
    }
    look_at_undo(types, files, control.oldest, &found)
}

/// Reads the records that undo will read.
fn look_at_undo(types: &RecordTable, files: &LogFiles, oldest: Lsn, found: &Found) -> Result<()> {
    for loser in found.losers.values() {
        let mut at = loser.last_lsn;
        while at > Lsn::NONE {
            at = before(&check_undo(types, files, at)?.borrow())?;
        }
    }
    for &lsn in found.left.values().flat_map(|left| left.changes.values()).filter(|&&lsn| lsn >= oldest) {
        check_undo(types, files, lsn)?;
    }
    Ok(())
}

fn check_undo(types: &RecordTable, files: &LogFiles, lsn: Lsn) -> Result<libtp_log::Record> {
    let record = files.read(lsn)?;
    let (kind, is_clr) = (record.header.kind(), record.header.flags() & CLR_FLAG != 0);
    if !is_clr && types.get(kind).is_none() {
        return Err(Error::UnknownRecord { lsn, code: kind });
    }
    check(types, &record.borrow())?;
    Ok(record)
}

/// Refuses a record that this process cannot repeat, or cannot undo.
fn check(types: &RecordTable, record: &RecordRef<'_>) -> Result<()> {
    if !planted("txn: restart skips unregistered record types") {
        types.applications.check(record)?;
    }
    redo_part(types, record).map(|_| ())
}

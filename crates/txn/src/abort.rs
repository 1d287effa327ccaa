//! Abort: the log is read backwards, and each change is undone, by key, with a compensation record.
//!
//! Paper: LIBTP 3.2.5, "calls on log_unroll to read the transaction's log records and undo any modifications". A
//! compensation record states the LSN where undo continues. An abort that a crash has interrupted continues there, and
//! no change is undone twice.

use libtp_log::{Lsn, RecordRef};
use rio::failpoint;

use crate::log_records::{ABORT_END, CLR_FLAG};
use crate::slot::State;
use crate::{Change, Error, Managers, Result, TxnSession};

impl TxnSession {
    /// Ends the transaction and undoes its changes: the paper's `txn_abort`.
    ///
    /// # Errors
    /// A page cannot be read or the log has failed. The transaction then stays unfinished with its locks, and restart
    /// or repair undoes it.
    pub fn abort(&self, managers: &Managers) -> Result<()> {
        if self.last_lsn() != Lsn::NONE {
            self.slot().state.publish(State::Aborting as u32);
            failpoint("abort: aborting, nothing undone");
            self.undo_to(managers, Lsn::NONE)?;
        }
        self.abort_to_its_end(managers)
    }

    /// Logs the end of an abort and ends the transaction. The transaction's changes were undone before this call.
    pub(crate) fn abort_to_its_end(&self, managers: &Managers) -> Result<()> {
        if self.last_lsn() != Lsn::NONE {
            managers.log.reserve_undo(self.session(), libtp_log::record_bytes(0))?;
            failpoint("abort: all undone, end not logged");
            let lsn = managers.log.log(self.session(), ABORT_END, self.id(), self.last_lsn(), &[]);
            failpoint("abort: end logged, record not in the slot");
            self.logged(lsn);
        }
        failpoint("abort: undone, locks held");
        self.release_and_end(managers, || {
            failpoint("abort: locks released, not over");
            let aborted = &self.slot().aborted_count;
            aborted.publish(aborted.get() + 1);
        });
        failpoint("abort: over, append noted");
        self.session().clear_append();
        Ok(())
    }

    /// Undoes everything the transaction logged after `mark`, newest first.
    pub(crate) fn undo_to(&self, managers: &Managers, mark: Lsn) -> Result<()> {
        let change = Change::new(managers, self);
        let mut at = self.last_lsn();
        while at > mark {
            failpoint("abort: between two records");
            let record = managers.log.read(at)?;
            at = undo_one(&change, &record.borrow())?;
        }
        Ok(())
    }
}

/// Undoes one record and returns the LSN where undo continues.
pub(crate) fn undo_one(change: &Change<'_>, record: &RecordRef<'_>) -> Result<Lsn> {
    let header = &record.header;
    let is_clr = header.flags() & CLR_FLAG != 0;
    let next = before(record)?;
    if is_clr {
        // The compensation may be the last of several changes that are never undone (`Change::conclude`). From now on,
        // readers of these changes must wait for this record.
        change.managers.txns.header.last_commit.fetch_max(record.lsn);
        return Ok(next);
    }
    let unknown = Error::UnknownRecord { lsn: record.lsn, code: header.kind() };
    let record_type = change.managers.types.get(header.kind()).ok_or(unknown)?;
    if let Some(undo) = record_type.undo {
        undo(change, record)?;
    }
    Ok(next)
}

/// Returns the LSN where undo continues after a record.
///
/// # Errors
/// The record states an LSN that is not earlier: an undo that continued there would never end.
pub(crate) fn before(record: &RecordRef<'_>) -> Result<Lsn> {
    let is_clr = record.header.flags() & CLR_FLAG != 0;
    let next = if is_clr { undo_next(record)? } else { record.header.prev() };
    if next >= record.lsn {
        let what = format!("undo would continue at LSN {next}, which is not before the record");
        return Err(Error::Undo { lsn: record.lsn, what });
    }
    Ok(next)
}

/// Returns the LSN that a compensation's body begins with.
pub(crate) fn undo_next(record: &RecordRef<'_>) -> Result<Lsn> {
    match record.body.first_chunk::<8>() {
        Some(word) => Ok(Lsn::new(u64::from_le_bytes(*word))),
        None => Err(Error::Damaged {
            lsn: record.lsn,
            name: "compensation",
            what: "its body is too short for the LSN where undo continues".into(),
        }),
    }
}

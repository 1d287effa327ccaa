//! `log_unroll`: reads the records of one transaction, backwards along its chain.
//!
//! Paper: LIBTP section 3.2.1, "following backward transaction pointers". The caller decides what to do with each
//! record (undo, or a jump over records that a CLR has already undone).
//!
//! Invariant: the chain goes strictly backwards. A link that goes forward is reported as damage, so a walk never loops.

use crate::{Error, Lsn, Record, Result};

/// A source that can read one record.
pub(crate) trait ReadRecord {
    /// Reads the record at `lsn`.
    fn record(&self, lsn: Lsn) -> Result<Record>;
    /// Returns the error for a record at `lsn` that cannot be right.
    fn damage(&self, lsn: Lsn, what: &str) -> Error;
}

impl ReadRecord for crate::LogFiles {
    fn record(&self, lsn: Lsn) -> Result<Record> {
        self.read(lsn)
    }
    fn damage(&self, lsn: Lsn, what: &str) -> Error {
        crate::LogFiles::damage(self, lsn, what)
    }
}

/// A backward walk along the prev-LSNs.
pub struct Unroll<'l> {
    source: &'l dyn ReadRecord,
    next: Lsn,
}

impl<'l> Unroll<'l> {
    /// Begins with the record at `last`, the end of its chain. Returns no records if `last` is `Lsn::NONE`.
    pub(crate) fn new(source: &'l dyn ReadRecord, last: Lsn) -> Unroll<'l> {
        Unroll { source, next: last }
    }

    /// Continues at `lsn`, which a CLR states, instead of the previous record.
    pub fn continue_at(&mut self, lsn: Lsn) {
        self.next = lsn;
    }
}

impl Iterator for Unroll<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let lsn = std::mem::take(&mut self.next);
        if lsn.is_none() {
            return None;
        }
        let record = match self.source.record(lsn) {
            Ok(record) => record,
            Err(error) => return Some(Err(error)),
        };
        let prev = record.header.prev();
        if prev >= lsn {
            return Some(Err(self
                .source
                .damage(lsn, "its link to the transaction's previous record does not go back")));
        }
        self.next = prev;
        Some(Ok(record))
    }
}

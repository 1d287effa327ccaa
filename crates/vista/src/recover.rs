//! Recovery: mapping a segment rolls back an unfinished transaction.
//!
//! Paper: Rio Vista, section 4: "fewer than 20 lines". Recovery is the abort that the dead process did not make, and is
//! idempotent: a death during recovery leaves the same log, or an empty one.

use crate::{Error, Result, Segment};

impl Segment {
    /// Undoes the changes of an unfinished transaction, and returns the number of ranges that were restored.
    pub(crate) fn recover(&mut self) -> Result<usize> {
        self.kept.check_seal(&self.metadata())?;
        let damaged = |what| Error::Damaged { path: self.path().to_path_buf(), what };
        self.own_undo().map_or(Ok(()), |undo| undo.audit_all()).map_err(damaged)?;
        // All checks are done; from here on the segment changes.
        self.kept.begin()?;
        let ranges = self.own_undo().map_or(0, |undo| undo.recover_all());
        self.hide_metadata()?;
        self.verify_unsealed().map(|()| ranges)
    }
}

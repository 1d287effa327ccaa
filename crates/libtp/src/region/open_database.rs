//! A database that this process has open, and its registration in the next generation of the shared memory.

use super::generation::Generation;
use crate::Result;

/// A database open in this process, shared by all handles to it.
pub(crate) type OpenDatabase = libtp_record::Database;

/// Carries an open database into a new generation of the shared memory, with the same granularity.
pub(crate) fn take_along(generation: &Generation, open: &OpenDatabase) -> Result<()> {
    let number = match open.granularity() {
        libtp_record::Granularity::Record => 1,
        libtp_record::Granularity::Page => 2,
    };
    open.forget_unlinked();
    let buffers = &generation.managers.buffers;
    if buffers.registered(open.id()).is_none() {
        let txn = generation.managers.join()?;
        let admitted = buffers.admit(txn.session(), open.id());
        generation.managers.leave(txn);
        match admitted {
            // The database was dropped: each use of the handle reports that.
            Err(libtp_buffer::Error::UnknownFile { .. } | libtp_buffer::Error::Dropped { .. }) => return Ok(()),
            admitted => admitted?,
        }
    }
    buffers.agree(open.id(), number)?;
    Ok(())
}

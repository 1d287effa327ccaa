//! Commits that are answered from memory, before they are on disk: with [`Durability::Rio`](crate::Durability) from
//! memory that outlives the system, with [`Durability::Relaxed`](crate::Durability) from memory that need not outlive
//! the system.
//!
//! Papers: Rio Vista, section 3, under the commit of LIBTP 3.2.5; PROTOCOLS L9. The log has a note of the failures that
//! its memory survives, and puts records into that memory (`libtp_log`'s `lasting.rs`). This file makes sure that the
//! control file has a note of such commits before the first of them is answered. If the memory is missing when the
//! environment is opened next, that opening must report this.
//!
//! If a session dies here: no commit was answered from memory yet. If the note is not in the control file, or not in
//! the region, the next session writes the note again.

use libtp_log::Lsn;
use rio::{failpoint, planted, Lasting};

use crate::{Committed, Managers, Result, TxnSession};

impl Managers {
    /// Returns the events that the log's memory survives. Commits are answered from that memory.
    #[inline]
    pub fn lasting(&self) -> Lasting {
        self.log.lasting()
    }

    /// Prepares for `Rio` commits. Writes the control file once in a region's life, and again after each repair of a
    /// region in which all sessions had died.
    ///
    /// # Errors
    /// The control file cannot be written; `ControlHeld`.
    #[inline]
    pub fn begin_rio(&self, txn: &TxnSession) -> Result<()> {
        if self.txns.header.rio.load() != 0 || planted("txn: the control file does not record Rio commits") {
            return Ok(());
        }
        self.note_rio(txn)
    }

    /// Prepares for the answer of a relaxed commit, as [`Managers::begin_rio`] does. If the memory is lost with commits
    /// that were answered from it, the next opening must report that commits may be lost.
    ///
    /// # Errors
    /// As [`Managers::begin_rio`].
    #[inline]
    pub fn begin_relaxed(&self, txn: &TxnSession) -> Result<()> {
        if self.txns.header.relaxed.load() != 0 || txn.last_lsn() == Lsn::NONE {
            return Ok(());
        }
        self.note_relaxed(txn)
    }

    #[cold]
    fn note_relaxed(&self, txn: &TxnSession) -> Result<()> {
        if planted("txn: the control file does not record relaxed commits") {
            return Ok(());
        }
        self.change_control(txn.session(), |words| {
            words.relaxed = true;
            words.clean = false;
        })?;
        failpoint("relaxed: noted in the control file, not in the region");
        self.txns.header.relaxed.publish(1);
        Ok(())
    }

    #[cold]
    fn note_rio(&self, txn: &TxnSession) -> Result<()> {
        self.change_control(txn.session(), |words| {
            words.rio = true;
            words.clean = false;
        })?;
        failpoint("rio: noted in the control file, not in the region");
        self.txns.header.rio.publish(1);
        Ok(())
    }
}

impl TxnSession {
    /// Puts a commit, and every commit that its transaction may have read, into memory that survives the events that
    /// [`Managers::lasting`] names.
    #[inline]
    pub fn keep(&self, managers: &Managers, committed: Committed) {
        if committed.lsn != Lsn::NONE {
            managers.log.keep(committed.lsn);
        }
    }
}

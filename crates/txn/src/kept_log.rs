//! The log that is kept for a copy. A backup takes a checkpoint before it copies its first page, and needs all log from
//! that checkpoint to the end of the backup.
//!
//! Not in the paper (PROTOCOLS L7, L10). One word in the session's slot has the LSN from which on the log is kept. The
//! word is cleared with the slot, so a session that dies in the middle of a backup keeps no log. A checkpoint reads
//! these words before it recycles log.
//!
//! The log is kept while other sessions continue. First the session stores the LSN of the log's present beginning in
//! the word. Then it takes a checkpoint itself. Only one checkpoint runs at a time. So when this checkpoint begins, an
//! earlier checkpointer, which may have read the words before the store, is done: it recycles no more log. Every later
//! checkpointer sees the word. The copy needs the same log as a restart after this checkpoint, so the word is then
//! raised to the beginning of that log.
//!
//! If the session dies here: its repair frees the slot and clears the word.

use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::{Checkpointed, Error, Managers, Result, TxnSession};

/// The longest wait for another session's checkpoint, which may have to write all of a large cache.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(300);
/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

impl Managers {
    /// Keeps the log from `from` on for the session, until [`Managers::end_copy`]. A record begins at `from`. Takes a
    /// checkpoint.
    ///
    /// # Errors
    /// `Log` with `TooOld` if the files do not reach back that far; the errors of a checkpoint; `CheckpointHeld`.
    pub fn begin_copy_from(&self, txn: &TxnSession, from: Lsn) -> Result<()> {
        self.pin_log(txn, from.min(self.log.oldest()))?;
        let oldest = self.log.files_from()?;
        // When the disk was full, the log may have freed blocks that only a copy needs.
        if from < oldest || from < self.log.oldest() && !self.log.is_in_files(from) {
            self.end_copy(txn);
            return Err(libtp_log::Error::TooOld { lsn: from, oldest }.into());
        }
        self.move_up(txn, from);
        Ok(())
    }

    /// Takes a checkpoint, and keeps the log that a restart from it needs, until [`Managers::end_copy`]. Copies of the
    /// files that are made from now on are complete together with this log. The session must not keep log for another
    /// copy.
    ///
    /// # Errors
    /// The errors of a checkpoint; `CheckpointHeld`.
    pub fn begin_copy(&self, txn: &TxnSession) -> Result<Checkpointed> {
        let taken = self.pin_log(txn, self.log.oldest())?;
        self.move_up(txn, taken.restart_from);
        Ok(taken)
    }

    /// Stops keeping the log for the session.
    pub fn end_copy(&self, txn: &TxnSession) {
        txn.slot().kept_from.publish(Lsn::NONE);
    }

    /// Takes a checkpoint and recycles the log's files below `end` that are not needed, even files that the settings
    /// keep.
    ///
    /// # Errors
    /// As [`Managers::begin_copy`].
    pub fn give_up_log(&self, txn: &TxnSession, end: Lsn) -> Result<()> {
        self.own_checkpoint(txn, end).map(|_| ())
    }

    fn pin_log(&self, txn: &TxnSession, from: Lsn) -> Result<Checkpointed> {
        txn.slot().kept_from.publish(from);
        // Pairs with the fence of a checkpointer: either the checkpointer sees the word, or this session takes its
        // checkpoint afterwards.
        fence(Ordering::SeqCst);
        failpoint("kept log: setting noted, no checkpoint");
        let taken = self.own_checkpoint(txn, self.kept_by_setting()).inspect_err(|_| self.end_copy(txn))?;
        failpoint("kept log: checkpoint taken");
        Ok(taken)
    }

    /// Takes a checkpoint, after any checkpoint that another session is taking.
    fn own_checkpoint(&self, txn: &TxnSession, kept: Lsn) -> Result<Checkpointed> {
        let begun = Instant::now();
        loop {
            if let Some(taken) = self.checkpoint_keeping(txn, kept)? {
                return Ok(taken);
            }
            if begun.elapsed() >= CHECKPOINT_TIMEOUT {
                let holder = self.processes.describe(self.txns.header.checkpointer.load());
                return Err(Error::CheckpointHeld { holder, seconds: CHECKPOINT_TIMEOUT.as_secs() });
            }
            txn.session().sleep(RETRY_PAUSE);
        }
    }

    fn move_up(&self, txn: &TxnSession, from: Lsn) {
        txn.slot().kept_from.publish(from);
        failpoint("kept log: kept for a restart alone");
    }

    /// Returns the LSN from which on sessions need the log for copies.
    pub(crate) fn needed_by_copies(&self) -> Lsn {
        let none = Lsn::new(u64::MAX);
        if planted("txn: checkpoints recycle log that a backup copies") {
            return none;
        }
        // Pairs with the fence in `pin_log`.
        fence(Ordering::SeqCst);
        let slots = self.txns.slots.iter();
        // Acquire: a session that sees the word cleared also sees the copy finished.
        slots.map(|slot| slot.kept_from.load()).filter(|&from| from != Lsn::NONE).fold(none, Lsn::min)
    }

    /// Returns the LSN from which on the settings keep the log's files. It need not be the beginning of a record.
    pub(crate) fn kept_by_setting(&self) -> Lsn {
        match self.txns.header.keep_log.load().max(self.settings.keep_log_bytes) {
            0 => Lsn::new(u64::MAX),
            bytes => self.log.tail().minus(bytes),
        }
    }
}

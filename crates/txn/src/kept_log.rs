//! The log is kept for who copies it: a backup needs all of it from a checkpoint before its first page to its end.
//!
//! Not in the paper (PROTOCOLS L7, L10). One word in the session's slot says from where on; it goes with the slot, so who
//! dies in the middle of a backup keeps no log. A checkpoint reads these words before it gives log up.
//!
//! How the log is held on to while everybody goes on: first the word says where the log begins now, then the session takes
//! a checkpoint itself. Checkpoints come one after the other, so whoever had looked at the words before has ended, and
//! given up what it was to give up; from then on the word holds. What a restart needs after this checkpoint is what the
//! copy needs, and the word is moved up to there.
//!
//! If we die here: the slot is given back by who repairs it, the word with it.

use std::sync::atomic::{fence, Ordering};
use std::time::{Duration, Instant};

use libtp_log::Lsn;
use rio::{failpoint, planted};

use crate::{Checkpointed, Error, Managers, Result, TxnSession};

/// So long another who takes a checkpoint is waited for: it may have all of a large cache to write.
const PATIENCE: Duration = Duration::from_secs(300);
/// So long between looks.
const MOMENT: Duration = Duration::from_millis(1);

impl Managers {
    /// Keeps the log for the session, until [`Managers::end_copy`], from `from` on, where a record begins. Takes a checkpoint.
    ///
    /// # Errors
    /// `Log` with `TooOld` if the files do not reach back so far; what a checkpoint can fail with; `CheckpointHeld`.
    pub fn begin_copy_from(&self, who: &TxnSession, from: Lsn) -> Result<()> {
        self.pin_log(who, from.min(self.log.oldest()))?;
        let oldest = self.log.files_from()?;
        // A full disk may have been given back the blocks of log that only a copy wants.
        if from < oldest || from < self.log.oldest() && !self.log.is_in_files(from) {
            self.end_copy(who);
            return Err(libtp_log::Error::TooOld { lsn: from, oldest }.into());
        }
        self.move_up(who, from);
        Ok(())
    }

    /// Takes a checkpoint, and keeps the log that a restart from there needs, until [`Managers::end_copy`]: whoever copies
    /// the files from now on, and then this log, has all. The session holds no other copy.
    ///
    /// # Errors
    /// What a checkpoint can fail with; `CheckpointHeld`.
    pub fn begin_copy(&self, who: &TxnSession) -> Result<Checkpointed> {
        let taken = self.pin_log(who, self.log.oldest())?;
        self.move_up(who, taken.restart_from);
        Ok(taken)
    }

    /// The log is not kept for the session any more.
    pub fn end_copy(&self, who: &TxnSession) {
        who.slot().kept_from.publish(Lsn::NONE);
    }

    /// Takes a checkpoint and gives up the log's files below `end` that nobody needs, also those that the settings keep.
    ///
    /// # Errors
    /// As [`Managers::begin_copy`].
    pub fn give_up_log(&self, who: &TxnSession, end: Lsn) -> Result<()> {
        self.own_checkpoint(who, end).map(|_| ())
    }

    fn pin_log(&self, who: &TxnSession, from: Lsn) -> Result<Checkpointed> {
        who.slot().kept_from.publish(from);
        // With that of who takes a checkpoint: either it sees the word, or we take ours after its.
        fence(Ordering::SeqCst);
        failpoint("kept log: said, no checkpoint");
        let taken = self.own_checkpoint(who, self.kept_by_setting()).inspect_err(|_| self.end_copy(who))?;
        failpoint("kept log: checkpoint taken");
        Ok(taken)
    }

    /// Takes a checkpoint, after whoever is taking one.
    fn own_checkpoint(&self, who: &TxnSession, kept: Lsn) -> Result<Checkpointed> {
        let begun = Instant::now();
        loop {
            if let Some(taken) = self.checkpoint_keeping(who, kept)? {
                return Ok(taken);
            }
            if begun.elapsed() >= PATIENCE {
                let holder = self.processes.describe(self.txns.header.checkpointer.load());
                return Err(Error::CheckpointHeld { holder, seconds: PATIENCE.as_secs() });
            }
            who.session().sleep(MOMENT);
        }
    }

    fn move_up(&self, who: &TxnSession, from: Lsn) {
        who.slot().kept_from.publish(from);
        failpoint("kept log: kept for a restart alone");
    }

    /// The log from here on is being copied.
    pub(crate) fn needed_by_copies(&self) -> Lsn {
        let none = Lsn::new(u64::MAX);
        if planted("txn: the log does not wait for who copies it") {
            return none;
        }
        // As in `pin_log`.
        fence(Ordering::SeqCst);
        let slots = (1..=self.txns.slots.capacity()).map(|index| self.txns.slots.at(index));
        // Acquire: who sees it gone finds the copy done.
        slots.map(|slot| slot.kept_from.load()).filter(|&from| from != Lsn::NONE).fold(none, Lsn::min)
    }

    /// The log's files from here on are kept because the settings say so. No record need begin here.
    pub(crate) fn kept_by_setting(&self) -> Lsn {
        match self.settings.keep_log_bytes {
            0 => Lsn::new(u64::MAX),
            bytes => self.log.tail().minus(bytes),
        }
    }
}

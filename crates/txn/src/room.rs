//! Room in the log when the disk is full (PROTOCOLS D11).
//!
//! Not in the paper. Before a change is refused for lack of log space, a checkpoint is tried: it recycles the log that
//! no restart needs, or returns its blocks to the disk. A change that frees space may also use the room that the log
//! reserves for such changes ([`Session::begin_freeing`](libtp_process::Session::begin_freeing)).
//!
//! No latch is held here: room is asked for before the first latch.

use std::time::Duration;

use libtp_log::Error::Full;
use libtp_process::{Session, SessionId};
use rio::planted;

use crate::{Managers, Result, TxnSession};

/// The longest wait of a session for another session's checkpoint.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);
/// The number of times that a session asks again after a checkpoint.
const TRIES: usize = 5;

impl Managers {
    /// Asks the log for room; if the disk is full, asks again after a checkpoint.
    ///
    /// # Errors
    /// The log's errors.
    #[inline]
    pub fn with_log_room(&self, txn: &TxnSession, ask: impl Fn() -> libtp_log::Result<()>) -> Result<()> {
        match ask() {
            Ok(()) => Ok(()),
            Err(refusal @ Full { .. }) => self.ask_again(txn, &ask, refusal),
            Err(other) => Err(other.into()),
        }
    }

    /// Reserves room for a record that ends a transaction or frees space. On a full disk the record may use the room
    /// that is kept for undo: a transaction that commits does not need that room any more, and a checkpoint or a drop
    /// frees other room.
    ///
    /// # Errors
    /// The log's errors.
    #[inline]
    pub(crate) fn reserve_last(&self, session: &Session, bytes: usize) -> Result<()> {
        let may_use_room_of_undo = !planted("txn: a record that ends or frees has no log space of its own");
        Ok(self.log.reserve(session, bytes).or_else(|refusal| match may_use_room_of_undo {
            true => self.log.reserve_undo(session, bytes),
            false => Err(refusal),
        })?)
    }

    #[cold]
    fn ask_again(
        &self,
        txn: &TxnSession,
        ask: &dyn Fn() -> libtp_log::Result<()>,
        mut refusal: libtp_log::Error,
    ) -> Result<()> {
        // Other sessions may take the room that a checkpoint has freed. If the checkpoint fails, the log has no room,
        // and the caller gets that refusal.
        for _ in 0..TRIES {
            let is_freed = self.free_log(txn).unwrap_or(false);
            // The session asks again in any case: another session's checkpoint may have ended after the refusal.
            match ask() {
                Err(again @ Full { .. }) => refusal = again,
                answer => return Ok(answer?),
            }
            if !is_freed {
                break;
            }
        }
        Err(refusal.into())
    }

    /// Takes a checkpoint, if it would free enough log to be worth its work, or waits for the end of another session's
    /// checkpoint. Returns whether a checkpoint was taken. If a checkpoint is not worth its work, frees the disk
    /// blocks of unneeded log that the last checkpoint kept because the log had enough room then.
    ///
    /// # Errors
    /// As [`Managers::checkpoint`].
    pub fn free_log(&self, txn: &TxnSession) -> Result<bool> {
        if planted("txn: no checkpoint is taken when the log is full") {
            return Ok(false);
        }
        let role = &self.txns.header.checkpointer;
        let (mut waited, mut was_held) = (Duration::ZERO, false);
        while waited < PATIENCE {
            let holder = role.load();
            if holder != SessionId::NONE && self.processes.is_alive(holder) {
                was_held = true;
            } else if was_held {
                return Ok(true);
            } else if !self.is_checkpoint_worth() {
                // If another session has begun a checkpoint since, this session waits for its end.
                if self.give_back_log(txn)? {
                    return Ok(false);
                }
            } else if self.checkpoint(txn)?.is_some() {
                return Ok(true);
            }
            txn.session().sleep(PAUSE);
            waited += PAUSE;
        }
        Ok(false)
    }
}

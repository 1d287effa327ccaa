//! Room in the log where the disk is full (PROTOCOLS D11).
//!
//! Not in the paper. Before a change is refused for want of log, a checkpoint is tried: it sets the log free that no restart needs, and
//! the disk has its blocks back. What frees space may use what the log keeps back besides
//! ([`Session::begin_freeing`](libtp_process::Session::begin_freeing)).
//!
//! Holds no latch: room is asked for before the first.

use std::time::Duration;

use libtp_log::Error::Full;
use libtp_process::SessionId;
use rio::planted;

use crate::{Managers, Result, TxnSession};

/// So long a session waits for the checkpoint of another.
const PATIENCE: Duration = Duration::from_secs(1);
const NAP: Duration = Duration::from_millis(2);
/// So often a session asks again after a checkpoint.
const TRIES: usize = 5;

impl Managers {
    /// Asks the log for room, and again after a checkpoint where the disk is full.
    ///
    /// # Errors
    /// What the log answers.
    #[inline]
    pub fn with_log_room(&self, who: &TxnSession, ask: impl Fn() -> libtp_log::Result<()>) -> Result<()> {
        match ask() {
            Ok(()) => Ok(()),
            Err(refusal @ Full { .. }) => self.ask_again(who, &ask, refusal),
            Err(other) => Err(other.into()),
        }
    }

    #[cold]
    fn ask_again(
        &self,
        who: &TxnSession,
        ask: &dyn Fn() -> libtp_log::Result<()>,
        mut refusal: libtp_log::Error,
    ) -> Result<()> {
        // Others may take what the first has freed. Where it fails, the log has no room, and that is what is said.
        for _ in 0..TRIES {
            let is_freed = self.free_log(who).unwrap_or(false);
            // The session asks again in any case: a checkpoint of another may have ended between the refusal and the look.
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

    /// Takes a checkpoint, if one would set so much log free that it is worth its work, or waits for the end of that of another session. Whether
    /// there was one. Where none is worth its work, the disk gets the blocks that the last one left needed by nobody: it kept them if
    /// the log had room enough then.
    ///
    /// # Errors
    /// As [`Managers::checkpoint`].
    pub fn free_log(&self, who: &TxnSession) -> Result<bool> {
        if planted("txn: a full log waits for a checkpoint that nobody takes") {
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
                self.give_back_log(who)?;
                return Ok(false);
            } else if self.checkpoint(who)?.is_some() {
                return Ok(true);
            }
            who.session().sleep(NAP);
            waited += NAP;
        }
        Ok(false)
    }
}

//! Changes of the control file, one session at a time.
//!
//! Not in the paper. The file has the LSN where a restart begins. The file changes at a checkpoint, when a new database
//! gets its number, and before the first commit that is answered from memory.
//!
//! If the session dies here: the kernel releases the file's lock, and one of the file's two slots is whole.

use std::sync::TryLockError;
use std::time::{Duration, Instant};

use libtp_log::{Control, Lsn};
use libtp_process::Session;
use rio::{failpoint, planted};

use crate::roles::Role;
use crate::{Managers, Result};

/// The longest wait for a session that changes the control file: far longer than two syncs take.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two checks whether another thread of this process still changes the control file.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The result of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpointed {
    /// The checkpoint's record.
    pub lsn: Lsn,
    /// The LSN where redo would start.
    pub redo_point: Lsn,
    /// The LSN below which the log is not needed any more.
    pub keep_from: Lsn,
    /// A restart needs the log from this LSN on. Log that is kept for other purposes may begin earlier.
    pub restart_from: Lsn,
}

impl Managers {
    /// Writes to the control file the place where a restart would begin.
    ///
    /// # Errors
    /// The control file cannot be written or synced: its earlier contents stay in force.
    pub(crate) fn write_control(&self, by: &Session, taken: &Checkpointed, kept: Lsn, clean: bool) -> Result<()> {
        let unresolved = self.unresolved_txns(by);
        self.change_control(by, |words| {
            words.checkpoint = taken.lsn;
            words.redo_point = taken.redo_point;
            words.oldest = taken.keep_from;
            words.durable_end = self.log.durable();
            words.clean = clean;
            words.rio &= !clean;
            words.relaxed &= !clean;
            words.unresolved = unresolved;
            let kept = if planted("txn: the control file drops incarnations whose log is kept") {
                taken.keep_from
            } else {
                kept
            };
            words.incarnations.forget_below(taken.keep_from.min(kept));
        })
    }

    /// Changes the contents of the control file. No other session, in this process or another, changes them between the
    /// read and the write: otherwise a checkpoint and a new database's number would overwrite each other. The session
    /// that changes the file may be stopped, so this call waits for it at most `CONTROL_TIMEOUT`.
    pub(crate) fn change_control<T>(&self, by: &Session, change: impl FnOnce(&mut Control) -> T) -> Result<T> {
        let changer = &self.txns.header.changer;
        let held = || {
            let holder = Some(changer.load()).filter(|&holder| self.processes.is_alive(holder));
            let what = holder.map_or_else(|| "another process".into(), |holder| self.processes.describe(holder));
            crate::Error::ControlHeld { holder: what, seconds: CONTROL_TIMEOUT.as_secs() }
        };
        // Both waits have one common limit. Otherwise each of several threads would wait for all earlier threads.
        let begun = Instant::now();
        let control = loop {
            match self.control.try_lock() {
                Ok(control) => break control,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if begun.elapsed() >= CONTROL_TIMEOUT => return Err(held()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY_PAUSE),
            }
        };
        let Some(_changing) = control.changing_within(CONTROL_TIMEOUT.saturating_sub(begun.elapsed()))? else {
            return Err(held());
        };
        // The word is for the tools, and for the session that rebuilds the region and waits for writers. The kernel's
        // lock, not the word, excludes other sessions: the word may name a dead session.
        changer.publish(by.id());
        let _changer = Role { region: &self.region, word: changer, me: by.id() };
        by.leave_if_broken();
        failpoint("control: file held");
        let mut words = control.read()?;
        let changed = change(&mut words);
        failpoint("control: about to be written");
        // Checked last: this process may have been stopped for so long that the region was rebuilt meanwhile.
        if control.read()?.incarnation() != self.log.incarnation() {
            let what = "the log has begun another incarnation in other memory".to_string();
            return Err(crate::Error::Broken { what });
        }
        let written = control.write(&words);
        if let Err(libtp_log::Error::Failed { .. }) = &written {
            // It is unknown which slot of the file is on the disk, so it is unknown where a restart would begin.
            self.log.poison();
        }
        failpoint("control: written, held");
        written?;
        Ok(changed)
    }

    /// Notes that a program has read the report of lost commits: no later opening reports these commits.
    ///
    /// # Errors
    /// The control file cannot be written; `ControlHeld`.
    pub fn note_loss_read(&self, by: &Session) -> Result<()> {
        self.change_control(by, |words| words.lost = false)
    }

    /// Takes the number of the next database file. No number is taken twice.
    ///
    /// # Errors
    /// The control file cannot be written; `ControlHeld`.
    pub fn next_file_id(&self, by: &Session) -> Result<u32> {
        self.change_control(by, |words| {
            let id = words.next_file_id;
            words.next_file_id = id + 1;
            id
        })
    }
}

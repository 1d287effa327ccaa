//! Decides which processes are attached, by locks on bytes of the control file (PROTOCOLS F1, D9).
//!
//! One byte is the *door*: a process locks it exclusively while it creates, attaches, restarts or detaches. The bytes
//! after the door are the *attachment locks*. Each handle of the environment locks one of them before its first session
//! joins, and every session's slot names its attachment lock. The kernel releases the attachment lock when the process
//! ends. Without the control file there is no environment, so deleting the file cannot lead to a second environment.
//!
//! The process that holds the door (*the process at the door*) also locks the byte of its own number
//! ([`ProcessNumber`]). If that process is stopped, waiters give up, and their error names the stopped process. A
//! process at the door never waits for anything that a stopped process may hold.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{File, LockMode};
use libtp_process::{AttachmentLocks, Patience, ProcessNumber};
use rio::{failpoint, planted};

use crate::{Error, Result};

/// The byte of the door, far beyond the end of the file.
const DOOR: u64 = 1 << 32;
/// The first byte of the attachment locks.
const ATTACHMENT_LOCKS: u64 = 1 << 33;
/// The number of attachment locks: as many as the process manager can name.
const ATTACHMENT_LOCK_COUNT: u64 = 1 << 36;
/// No attachment lock; every attachment lock is below [`ATTACHMENT_LOCK_COUNT`].
const NONE: u64 = u64::MAX;
/// The first of the bytes that stand for process numbers: the process at the door locks the byte of its own number.
const PROCESS_NUMBERS: u64 = 1 << 60;

/// The pause between two attempts to take the door.
const MOMENT: Duration = Duration::from_millis(1);

/// An open control file whose locks show that this environment handle is attached.
pub(crate) struct Liveness {
    file: Arc<dyn File>,
    /// The environment's directory, for messages.
    path: PathBuf,
    /// The attachment lock of this handle.
    lock: AtomicU64,
}

/// The held door. Dropping this value releases the door.
pub(crate) struct Door<'j> {
    liveness: &'j Liveness,
    /// This process's number, locked at the door.
    own: ProcessNumber,
}

impl Liveness {
    pub(crate) fn new(file: Arc<dyn File>, path: PathBuf) -> Liveness {
        Liveness { file, path, lock: AtomicU64::new(NONE) }
    }

    /// Releases the attachment lock, because its region was replaced by a new one, in which this handle has another
    /// attachment lock.
    pub(crate) fn release_attachment_lock(&self) {
        let lock = self.lock.swap(NONE, Ordering::Relaxed);
        if lock != NONE {
            self.give_back(lock);
        }
    }

    /// Waits until the door is free, and takes it.
    ///
    /// # Errors
    /// `Environment`, naming the process at the door, if that process is stopped, or if for a long time no check has
    /// seen it running.
    pub(crate) fn door(&self) -> Result<Door<'_>> {
        if planted("libtp: the wait for the door does not check the process at the door") {
            self.file.lock(DOOR, LockMode::Exclusive, true)?;
            return Ok(self.come());
        }
        let mut patience = Patience::new();
        loop {
            if let Some(door) = self.try_door()? {
                return Ok(door);
            }
            if patience.is_over(|| self.opening_process()) {
                return Err(self.waited_for());
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// As [`Liveness::door`], for a caller that does not depend on the door: `None` if another process holds it for
    /// longer than `patience`.
    pub(crate) fn door_within(&self, patience: Duration) -> Result<Option<Door<'_>>> {
        let begun = Instant::now();
        loop {
            let door = self.try_door()?;
            if door.is_some() || begun.elapsed() >= patience {
                return Ok(door);
            }
            std::thread::sleep(MOMENT);
        }
    }

    fn try_door(&self) -> Result<Option<Door<'_>>> {
        Ok(self.file.lock(DOOR, LockMode::Exclusive, false)?.then(|| self.come()))
    }

    /// Marks this process as the process at the door. If marking fails, other processes cannot name this process.
    fn come(&self) -> Door<'_> {
        let own = ProcessNumber::this();
        let _ = self.file.lock(PROCESS_NUMBERS + own.raw(), LockMode::Exclusive, false);
        Door { liveness: self, own }
    }

    /// Returns the process at the door, if another process is at the door and has marked itself.
    pub(crate) fn opening_process(&self) -> Option<ProcessNumber> {
        let byte = self.file.locked_by_other(PROCESS_NUMBERS, ProcessNumber::END).ok().flatten()?;
        Some(ProcessNumber::from_raw(byte - PROCESS_NUMBERS))
    }

    /// Describes the process at the door in words.
    pub(crate) fn describe_opening_process(&self) -> String {
        let unknown = || "a process that cannot be named".into();
        self.opening_process().map_or_else(unknown, ProcessNumber::describe)
    }

    fn waited_for(&self) -> Error {
        let process = self.describe_opening_process();
        let what = format!(
            "{process} is opening the environment, closing it or rebuilding its shared memory, and has not finished in time. Continue that process or end it, and try again (`tp sessions` lists the processes)"
        );
        Error::Environment { environment: self.path.clone(), what }
    }

    /// Returns whether another process is attached. `ghost` returns whether the process of an attachment lock has
    /// certainly died: a child that was forked without the library's knowledge may still hold that attachment lock.
    pub(crate) fn others(&self, mut ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        let end = ATTACHMENT_LOCKS + ATTACHMENT_LOCK_COUNT;
        let mut from = ATTACHMENT_LOCKS;
        while let Some(taken) = self.file.locked_by_other(from, end - from)? {
            if !ghost(taken - ATTACHMENT_LOCKS) {
                return Ok(true);
            }
            from = taken + 1;
        }
        Ok(false)
    }
}

impl AttachmentLocks for Liveness {
    fn take(&self, lock: u64) -> std::result::Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let taken = self.file.lock(ATTACHMENT_LOCKS + lock, LockMode::Exclusive, false)?;
        if taken {
            // Relaxed, here and below: only the number matters, and the door orders the accesses.
            self.lock.store(lock, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn give_back(&self, lock: u64) {
        // An error needs no report: the kernel releases the byte when the file is closed, at the latest.
        let _ = self.file.unlock(ATTACHMENT_LOCKS + lock);
    }

    fn is_free(&self, lock: u64) -> bool {
        // An error of the query does not prove a death.
        matches!(self.file.locked_by_other(ATTACHMENT_LOCKS + lock, 1), Ok(None))
    }
}

impl Door<'_> {
    /// As [`Liveness::others`]. The answer is valid while the door is held.
    pub(crate) fn others(&self, ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        self.liveness.others(ghost)
    }

    /// Releases the attachment lock: this handle is no longer attached. The door is held meanwhile: after this handle
    /// has removed the shared memory, the next process at the door must not find the attachment lock taken and believe
    /// that this handle is attached.
    pub(crate) fn release_attachment_lock(&self) -> Result<()> {
        failpoint("leave: about to give up the attachment lock");
        match self.liveness.lock.swap(NONE, Ordering::Relaxed) {
            NONE => Ok(()),
            lock => Ok(self.liveness.file.unlock(ATTACHMENT_LOCKS + lock)?),
        }
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // Errors need no report: the kernel releases the bytes when the file is closed, at the latest.
        let _ = self.liveness.file.unlock(PROCESS_NUMBERS + self.own.raw());
        let _ = self.liveness.file.unlock(DOOR);
    }
}

#[cfg(test)]
mod tests {
    use libtp_io::{Directory, OpenMode, PosixDirectory};

    use super::*;

    #[test]
    fn a_child_that_keeps_the_door_of_its_dead_parent_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let directory = PosixDirectory::open(dir.path()).unwrap();
        let liveness = || Liveness::new(directory.open("control", OpenMode::Create).unwrap(), dir.path().to_path_buf());
        let mut parent = std::process::Command::new("true").spawn().unwrap();
        let number = ProcessNumber::this().raw() - u64::from(std::process::id()) + u64::from(parent.id());
        parent.wait().unwrap();
        // The locks of a child that the parent forked without the library's knowledge.
        let (child, other) = (liveness(), liveness());
        assert!(child.file.lock(DOOR, LockMode::Exclusive, false).unwrap());
        assert!(child.file.lock(PROCESS_NUMBERS + number, LockMode::Exclusive, false).unwrap());
        let refused = other.door().err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains(&format!("a child of process {}, which itself has ended", parent.id())), "{refused}");
        drop(child);
        assert!(other.door().is_ok());
    }
}

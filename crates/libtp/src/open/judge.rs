//! Decides which processes are attached, by locks on bytes of the control file (PROTOCOLS F1, D9).
//!
//! One byte, the *door*, is held exclusively by the process that creates, attaches, restarts or detaches. Beyond it lie
//! the *seats*: each open environment holds one, taken before its first session joins and named in every session's
//! slot; the kernel releases it when the process ends. Without the control file there is no environment, so deleting it
//! cannot make a second one.
//!
//! The process at the door identifies itself by locking the byte of its own number ([`ProcessNumber`]). If it is stopped
//! there, waiters stop waiting and name it in their error. No process waits at the door for anything that a stopped
//! process may hold.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{File, LockMode};
use libtp_process::{Patience, ProcessNumber, Seats};
use rio::{failpoint, planted};

use crate::{Error, Result};

/// Byte of the door, far beyond the end of the file.
const DOOR: u64 = 1 << 32;
/// First byte of the seats.
const SEATS: u64 = 1 << 33;
/// The number of seats: as many as the process manager can name.
const SEAT_COUNT: u64 = 1 << 36;
/// No seat; every seat is below [`SEAT_COUNT`].
const NONE: u64 = u64::MAX;
/// First byte of the process numbers: the process at the door locks its own.
const PASSERS: u64 = 1 << 60;

/// The pause between looks.
const MOMENT: Duration = Duration::from_millis(1);

/// An open control file whose locks show that this environment handle is attached.
pub(crate) struct Judge {
    file: Arc<dyn File>,
    /// The environment's directory, for messages.
    path: PathBuf,
    /// The seat of this handle.
    seat: AtomicU64,
}

/// The held door. Dropping it releases the door.
pub(crate) struct Door<'j> {
    judge: &'j Judge,
    /// This process's number, locked at the door.
    own: ProcessNumber,
}

impl Judge {
    pub(crate) fn new(file: Arc<dyn File>, path: PathBuf) -> Judge {
        Judge { file, path, seat: AtomicU64::new(NONE) }
    }

    /// Gives the seat back: its region was replaced by a new one, in which this handle has another seat.
    pub(crate) fn leave_seat(&self) {
        let seat = self.seat.swap(NONE, Ordering::Relaxed);
        if seat != NONE {
            self.give_back(seat);
        }
    }

    /// Waits until the door is free, and takes it.
    ///
    /// # Errors
    /// `Environment`, naming the process at the door, if that process is stopped or does not seem to run for long.
    pub(crate) fn door(&self) -> Result<Door<'_>> {
        if planted("libtp: a wait for the door checks no holder") {
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

    /// As [`Judge::door`], for a caller that can do without the door: `None` if another process holds it for longer
    /// than `patience`.
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

    /// Marks this process as the process at the door. Without the mark, no other process can name it.
    fn come(&self) -> Door<'_> {
        let own = ProcessNumber::this();
        let _ = self.file.lock(PASSERS + own.raw(), LockMode::Exclusive, false);
        Door { judge: self, own }
    }

    /// Returns the process at the door, if it is another one that has marked itself.
    pub(crate) fn opening_process(&self) -> Option<ProcessNumber> {
        let byte = self.file.locked_by_other(PASSERS, ProcessNumber::END).ok().flatten()?;
        Some(ProcessNumber::from_raw(byte - PASSERS))
    }

    /// Describes the process at the door in words.
    pub(crate) fn describe_opening_process(&self) -> String {
        let unknown = || "a process that cannot be named".into();
        self.opening_process().map_or_else(unknown, ProcessNumber::describe)
    }

    fn waited_for(&self) -> Error {
        let txn = self.describe_opening_process();
        let what = format!(
            "{txn} is opening it, closing it or making its shared memory anew, and has not finished in time. Continue that process or end it, and try again (`tp sessions` lists the processes)"
        );
        Error::Environment { environment: self.path.clone(), what }
    }

    /// Returns whether another process is attached. `ghost` tells of a seat that its process has certainly died: a
    /// child forked without the library's knowledge may still hold the lock.
    pub(crate) fn others(&self, mut ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        let end = SEATS + SEAT_COUNT;
        let mut from = SEATS;
        while let Some(taken) = self.file.locked_by_other(from, end - from)? {
            if !ghost(taken - SEATS) {
                return Ok(true);
            }
            from = taken + 1;
        }
        Ok(false)
    }
}

impl Seats for Judge {
    fn take(&self, seat: u64) -> std::result::Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let taken = self.file.lock(SEATS + seat, LockMode::Exclusive, false)?;
        if taken {
            // Relaxed, here and below: only the number matters, and the door orders the accesses.
            self.seat.store(seat, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn give_back(&self, seat: u64) {
        // The kernel releases it at the latest when the file is closed; an error needs no report.
        let _ = self.file.unlock(SEATS + seat);
    }

    fn is_free(&self, seat: u64) -> bool {
        // An unanswered query proves no death.
        matches!(self.file.locked_by_other(SEATS + seat, 1), Ok(None))
    }
}

impl Door<'_> {
    /// As [`Judge::others`], for as long as the door is held.
    pub(crate) fn others(&self, ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        self.judge.others(ghost)
    }

    /// Gives the seat back: this handle is no longer attached. It does so behind the door: the next process through it
    /// must not take this handle for attached after the handle has removed the shared memory.
    pub(crate) fn give_back_seat(&self) -> Result<()> {
        failpoint("leave: about to give up the seat");
        match self.judge.seat.swap(NONE, Ordering::Relaxed) {
            NONE => Ok(()),
            seat => Ok(self.judge.file.unlock(SEATS + seat)?),
        }
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // Errors need no report, as with a seat.
        let _ = self.judge.file.unlock(PASSERS + self.own.raw());
        let _ = self.judge.file.unlock(DOOR);
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
        let judge = || Judge::new(directory.open("control", OpenMode::Create).unwrap(), dir.path().to_path_buf());
        let mut parent = std::process::Command::new("true").spawn().unwrap();
        let number = ProcessNumber::this().raw() - u64::from(std::process::id()) + u64::from(parent.id());
        parent.wait().unwrap();
        // The state of a copy that the parent made without the library's knowledge.
        let (child, other) = (judge(), judge());
        assert!(child.file.lock(DOOR, LockMode::Exclusive, false).unwrap());
        assert!(child.file.lock(PASSERS + number, LockMode::Exclusive, false).unwrap());
        let refused = other.door().err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains(&format!("a child of process {}, which itself has ended", parent.id())), "{refused}");
        drop(child);
        assert!(other.door().is_ok());
    }
}

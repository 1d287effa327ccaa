//! Who is attached: the control file, locked byte by byte, is the judge (PROTOCOLS F1, D9).
//!
//! One byte, the *door*, is held exclusively by whoever creates, attaches, restarts or detaches. Beyond it lie the
//! *seats*: each open environment holds one, taken before its first session joins and named in every session's slot; the
//! kernel drops it when its process is gone. Without the control file there is no environment, so deleting it cannot make
//! a second one.
//!
//! Whoever is at the door says who it is, by the byte of its number ([`Passer`]): it may be stopped there, and is then
//! waited for no longer than that, and named. Nobody waits there for what a stopped process may hold.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp_io::{File, LockMode};
use libtp_process::{Passer, Patience, Seats};
use rio::{failpoint, planted};

use crate::{Error, Result};

/// Far beyond anything the file holds.
const DOOR: u64 = 1 << 32;
/// Where the seats begin.
const SEATS: u64 = 1 << 33;
/// There are as many seats as the process manager can name.
const SEAT_COUNT: u64 = 1 << 36;
/// No seat: a name of the process manager is below [`SEAT_COUNT`].
const NONE: u64 = u64::MAX;
/// Where the numbers of processes begin: who is at the door has locked its own.
const PASSERS: u64 = 1 << 60;

/// How long to wait between looks.
const MOMENT: Duration = Duration::from_millis(1);

/// An open control file through which this environment handle is judged.
pub(crate) struct Judge {
    file: Arc<dyn File>,
    /// The environment's directory, for messages.
    path: PathBuf,
    /// The seat that says that we are attached.
    seat: AtomicU64,
}

/// The door, held. Dropping it lets the next one through.
pub(crate) struct Door<'j> {
    judge: &'j Judge,
    /// What we have said.
    own: Passer,
}

impl Judge {
    pub(crate) fn new(file: Arc<dyn File>, path: PathBuf) -> Judge {
        Judge { file, path, seat: AtomicU64::new(NONE) }
    }

    /// Gives the seat back: the memory it was taken for has been made anew, and we have another.
    pub(crate) fn leave_seat(&self) {
        let seat = self.seat.swap(NONE, Ordering::Relaxed);
        if seat != NONE {
            self.give_back(seat);
        }
    }

    /// Waits until nobody else is at the door.
    ///
    /// # Errors
    /// `Environment` with who is, if it is stopped, or cannot be seen to run for long.
    pub(crate) fn door(&self) -> Result<Door<'_>> {
        if planted("libtp: the door is waited for without a look") {
            self.file.lock(DOOR, LockMode::Exclusive, true)?;
            return Ok(self.come());
        }
        let mut patience = Patience::new();
        loop {
            if let Some(door) = self.try_door()? {
                return Ok(door);
            }
            if patience.is_over(|| self.at_the_door()) {
                return Err(self.waited_for());
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// As [`Judge::door`] for who can do without: none if somebody is there for longer than that.
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

    /// We are at the door, and say so. Who cannot is there without a name.
    fn come(&self) -> Door<'_> {
        let own = Passer::this();
        let _ = self.file.lock(PASSERS + own.raw(), LockMode::Exclusive, false);
        Door { judge: self, own }
    }

    /// Who is at the door, if somebody else is and has said so.
    pub(crate) fn at_the_door(&self) -> Option<Passer> {
        let byte = self.file.locked_by_other(PASSERS, Passer::END).ok().flatten()?;
        Some(Passer::from_raw(byte - PASSERS))
    }

    /// Who is at the door, in words.
    pub(crate) fn describe_at_the_door(&self) -> String {
        let unknown = || "another process, which does not say which it is,".into();
        self.at_the_door().map_or_else(unknown, Passer::describe)
    }

    fn waited_for(&self) -> Error {
        let who = self.describe_at_the_door();
        let what = format!(
            "{who} is at its door, to open it, leave it, or make its memory anew, and others are waiting for that. \
             Continue that process or end it, and try again (`tp sessions` shows who is at work)"
        );
        Error::Environment { environment: self.path.clone(), what }
    }

    /// Whether somebody else is attached. `ghost` says of a seat that whoever took it has died for certain: a child of it
    /// that fork did not tell us of may still have the lock.
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
            // Relaxed, here and below: the number alone is told, behind the door.
            self.seat.store(seat, Ordering::Relaxed);
        }
        Ok(taken)
    }

    fn give_back(&self, seat: u64) {
        // The kernel drops it at the latest when the file is closed; there is nobody to tell.
        let _ = self.file.unlock(SEATS + seat);
    }

    fn is_free(&self, seat: u64) -> bool {
        // What the kernel does not say is no proof of a death.
        matches!(self.file.locked_by_other(SEATS + seat, 1), Ok(None))
    }
}

impl Door<'_> {
    /// As [`Judge::others`], for as long as the door is held.
    pub(crate) fn others(&self, ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        self.judge.others(ghost)
    }

    /// Gives the seat back: from now on one is not attached. Behind the door, because who comes through it next must not
    /// take us for attached when we have taken the shared memory away.
    pub(crate) fn rise(&self) -> Result<()> {
        failpoint("leave: about to rise");
        match self.judge.seat.swap(NONE, Ordering::Relaxed) {
            NONE => Ok(()),
            seat => Ok(self.judge.file.unlock(SEATS + seat)?),
        }
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // As with a seat.
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
        let number = Passer::this().raw() - u64::from(std::process::id()) + u64::from(parent.id());
        parent.wait().unwrap();
        // As a copy of it has them, that it made behind the library's back.
        let (child, other) = (judge(), judge());
        assert!(child.file.lock(DOOR, LockMode::Exclusive, false).unwrap());
        assert!(child.file.lock(PASSERS + number, LockMode::Exclusive, false).unwrap());
        let refused = other.door().err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains(&format!("a child of process {}, which itself has ended", parent.id())), "{refused}");
        drop(child);
        assert!(other.door().is_ok());
    }
}

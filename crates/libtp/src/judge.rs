//! Who is attached: the control file, locked byte by byte, is the judge (PROTOCOLS F1, D9).
//!
//! One byte, the *door*, is held exclusively by whoever creates, attaches, restarts or detaches. Beyond it lie the
//! *seats*: each open environment holds one, taken before its first session joins and named in every session's slot; the
//! kernel drops it when its process is gone. Without the control file there is no environment, so deleting it cannot make
//! a second one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use libtp_io::{File, LockMode};
use libtp_process::Seats;
use rio::failpoint;

use crate::Result;

/// Far beyond anything the file holds.
const DOOR: u64 = 1 << 32;
/// Where the seats begin.
const SEATS: u64 = 1 << 33;
/// There are as many seats as the process manager can name.
const SEAT_COUNT: u64 = 1 << 36;
/// No seat: a name of the process manager is below [`SEAT_COUNT`].
const NONE: u64 = u64::MAX;

/// An open control file through which this environment handle is judged.
pub(crate) struct Judge {
    file: Arc<dyn File>,
    /// The seat that says that we are attached.
    seat: AtomicU64,
}

/// The door, held. Dropping it lets the next one through.
pub(crate) struct Door<'j> {
    judge: &'j Judge,
}

impl Judge {
    pub(crate) fn new(file: Arc<dyn File>) -> Judge {
        Judge { file, seat: AtomicU64::new(NONE) }
    }

    /// Gives the seat back: the memory it was taken for has been made anew, and we have another.
    pub(crate) fn leave_seat(&self) {
        let seat = self.seat.swap(NONE, Ordering::Relaxed);
        if seat != NONE {
            self.give_back(seat);
        }
    }

    /// Waits until nobody else is at the door.
    pub(crate) fn door(&self) -> Result<Door<'_>> {
        self.file.lock(DOOR, LockMode::Exclusive, true)?;
        Ok(Door { judge: self })
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
    /// Whether somebody else is attached. `ghost` says of a seat that whoever took it has died for certain: a child of it
    /// that fork did not tell us of may still have the lock.
    pub(crate) fn others(&self, mut ghost: impl FnMut(u64) -> bool) -> Result<bool> {
        let end = SEATS + SEAT_COUNT;
        let mut from = SEATS;
        while let Some(taken) = self.judge.file.locked_by_other(from, end - from)? {
            if !ghost(taken - SEATS) {
                return Ok(true);
            }
            from = taken + 1;
        }
        Ok(false)
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
        let _ = self.judge.file.unlock(DOOR);
    }
}

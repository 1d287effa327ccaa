//! Who is attached: the control file, locked byte by byte, is the judge (PROTOCOLS F1).
//!
//! One byte, the *door*, is held exclusively by whoever creates, attaches, restarts or detaches. Beyond it each open
//! environment holds a byte of its own; the kernel drops it when its process is gone. Without the control file there is
//! no environment, so deleting it cannot make a second one.

use std::sync::{Arc, OnceLock};

use libtp_io::{File, LockMode};

use crate::{Error, Result};

/// Far beyond anything the file holds.
const DOOR: u64 = 1 << 32;
const SEATS: u64 = DOOR + 1;
const SEAT_COUNT: u64 = 1 << 16;

/// An open control file through which this environment handle is judged.
pub(crate) struct Judge {
    file: Arc<dyn File>,
    /// The byte that says that we are attached.
    seat: OnceLock<u64>,
}

/// The door, held. Dropping it lets the next one through.
pub(crate) struct Door<'j> {
    judge: &'j Judge,
}

impl Judge {
    pub(crate) fn new(file: Arc<dyn File>) -> Judge {
        Judge { file, seat: OnceLock::new() }
    }

    /// Waits until nobody else is at the door.
    pub(crate) fn door(&self) -> Result<Door<'_>> {
        self.file.lock(DOOR, LockMode::Exclusive, true).map_err(io)?;
        Ok(Door { judge: self })
    }
}

impl Door<'_> {
    /// Whether somebody else is attached.
    pub(crate) fn others(&self) -> Result<bool> {
        Ok(self.judge.file.locked_by_other(SEATS, SEAT_COUNT).map_err(io)?.is_some())
    }

    /// Takes a byte of one's own: from now on one is attached, until the process ends or the file is closed.
    pub(crate) fn sit(&self) -> Result<()> {
        for seat in SEATS..SEATS + SEAT_COUNT {
            if self.judge.file.lock(seat, LockMode::Exclusive, false).map_err(io)? {
                let first = self.judge.seat.set(seat);
                assert!(first.is_ok(), "an environment's handle attaches once");
                return Ok(());
            }
        }
        Err(Error::Io(format!("all {SEAT_COUNT} places for open environments are taken").into()))
    }

    /// Gives the byte back: from now on one is not attached. Behind the door, because who comes through it next must not
    /// take us for attached when we have taken the shared memory away.
    pub(crate) fn rise(&self) -> Result<()> {
        match self.judge.seat.get() {
            Some(&seat) => Ok(self.judge.file.unlock(seat).map_err(io)?),
            None => Ok(()),
        }
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        // The kernel drops it at the latest when the file is closed; there is nobody to tell.
        let _ = self.judge.file.unlock(DOOR);
    }
}

fn io(error: libtp_io::Error) -> Error {
    error.into()
}

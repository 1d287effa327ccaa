//! A lock that no child of this process has. A mapping, and not a descriptor, keeps the lock's file open.
//!
//! The file is opened a second time for the lock, because every child has a copy of the descriptor that is used for
//! writing.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rio::{planted, Anchor};

use super::PosixFile;
use crate::contract::{File, LockMode};
use crate::error::Result;

/// The longest time for which the lock is retried: its holder may be a child that soon runs another program.
const SOON: Duration = Duration::from_millis(250);
const MOMENT: Duration = Duration::from_millis(1);

impl PosixFile {
    pub(super) fn anchor_lock(&self) -> Result<bool> {
        if self.alone.get().is_some() {
            return Ok(true);
        }
        let again = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()))
            .and_then(rio::above_standard);
        let again = match again {
            Ok(again) if Anchor::holds_locks_of(&again) && !planted("io: a cloned child keeps its parent's lock") => {
                again
            }
            // Without an anchor, a child has the lock too, until the child gives up the descriptor.
            _ => return self.lock(0, LockMode::Exclusive, false),
        };
        let again = PosixFile::new(again.into(), self.path.clone(), true);
        // A child made between here and the close of `again` has the lock too, until the child runs another program. A
        // child that an earlier holder made in this way may hold the lock now, so the lock is retried.
        let begun = Instant::now();
        while !again.lock(0, LockMode::Exclusive, false)? {
            if begun.elapsed() >= SOON {
                return Ok(false);
            }
            std::thread::sleep(MOMENT);
        }
        match Anchor::new(&again.descriptor) {
            Ok(anchor) => self.alone.set(anchor).map(|()| true).or(Ok(true)),
            Err(_) => {
                drop(again);
                self.lock(0, LockMode::Exclusive, false)
            }
        }
    }
}

//! A lock that no child of this process has: of an open file that a mapping keeps, and no descriptor.
//!
//! The file is opened a second time for it, since the descriptor that is written to goes into every child.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use rio::{planted, Anchor};

use super::PosixFile;
use crate::contract::{File, LockMode};
use crate::error::Result;

/// So long a lock is asked for again that a child may have which will soon be another program.
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
            Ok(again) if Anchor::holds_locks_of(&again) && !planted("io: a clone keeps its parent's lock") => again,
            // Where it cannot be had, a child keeps it until it gives up the descriptor.
            _ => return self.lock(0, LockMode::Exclusive, false),
        };
        let again = PosixFile::new(again.into(), self.path.clone(), true);
        // A child that is made between here and the end of `again` has the lock, too, until it is another program: one that
        // was made so of who had it before.
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

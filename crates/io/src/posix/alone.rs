//! A lock that no child of this process has: of an open file that a mapping keeps, and no descriptor.
//!
//! The file is opened a second time for it, since the descriptor that is written to goes into every child.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use rio::{planted, Anchor};

use super::PosixFile;
use crate::contract::{File, LockMode};
use crate::error::Result;

impl PosixFile {
    pub(super) fn anchor_lock(&self) -> Result<bool> {
        if self.alone.get().is_some() {
            return Ok(true);
        }
        let again =
            OpenOptions::new().read(true).write(true).open(format!("/proc/self/fd/{}", self.descriptor.as_raw_fd()));
        let again = match again {
            Ok(again) if Anchor::holds_locks_of(&again) && !planted("io: a clone keeps its parent's lock") => again,
            // Where it cannot be had, a child keeps it until it gives up the descriptor.
            _ => return self.lock(0, LockMode::Exclusive, false),
        };
        let again = PosixFile::new(again.into(), self.path.clone(), true);
        if !again.lock(0, LockMode::Exclusive, false)? {
            return Ok(false);
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

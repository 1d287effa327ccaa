//! What is done with a region's file: room that has no blocks yet, kept for something to grow into; and reading it.

use std::os::unix::fs::FileExt;

use super::{extend, system};
use crate::{Region, Result};

impl Region {
    /// Leaves a hole of `bytes` behind what is handed out. Only while nobody else knows the region: in a new one.
    ///
    /// # Errors
    /// `Reserve` if the address range is used up; `System` if the file cannot be so long.
    pub fn leave_hole(&self, bytes: u64) -> Result<()> {
        let end = self.used().checked_add(bytes).filter(|end| *end <= self.reserved());
        let end = end.ok_or_else(|| self.reserve_error())?;
        if end > self.size() {
            let made = self.file().set_len(end);
            made.map_err(|source| system(self.path(), "leaving room in the file", source))?;
            self.header().size.publish(end);
        }
        self.header().used.publish(end);
        Ok(())
    }

    /// Reads from the file, which shows what is stored into the mapping.
    ///
    /// # Errors
    /// `System` if it cannot be read, or ends before.
    pub fn read_file(&self, from: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file().read_exact_at(buffer, from);
        read.map_err(|source| system(self.path(), "reading", source))
    }

    /// Gives what lies from `from` on blocks, where it has none. What is there stays.
    ///
    /// # Errors
    /// `Full` when the filesystem is full.
    pub fn fill_hole(&self, from: u64, bytes: u64) -> Result<()> {
        extend(self.file(), self.path(), from, from + bytes)
    }
}

//! Room in a region that has no blocks yet: places that are kept for something to grow into.

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

    /// Gives what lies from `from` on blocks, where it has none. What is there stays.
    ///
    /// # Errors
    /// `Full` when the filesystem is full.
    pub fn fill_hole(&self, from: u64, bytes: u64) -> Result<()> {
        extend(self.file(), self.path(), from, from + bytes)
    }
}

//! Holes in a region's file, and reads of the file. A hole is room to grow into that has no blocks yet.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{seek, SeekFrom};

use crate::error::system;
use crate::{Region, Result};

impl Region {
    /// Leaves a hole of `bytes` after the memory handed out. Only for a new region that no other process knows.
    ///
    /// # Errors
    /// `Reserve` if the address range is used up; `System` if the file cannot be made that long.
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

    /// Reads from the file. The file also shows the stores into the mapping.
    ///
    /// # Errors
    /// `System` if the file cannot be read, or is too short.
    pub fn read_file(&self, from: u64, buffer: &mut [u8]) -> Result<()> {
        let read = self.file().read_exact_at(buffer, from);
        read.map_err(|source| system(self.path(), "reading", source))
    }

    /// Gives a part of a hole its blocks. Its bytes stay zeros.
    ///
    /// # Errors
    /// `Full` if the filesystem is full.
    pub fn fill_hole(&self, from: u64, bytes: u64) -> Result<()> {
        let _alone = self.0.safe.alone();
        self.make_blocks(from, from + bytes)
    }

    /// Returns the parts of the region's file that are no holes, in order. The bytes between them are zeros.
    ///
    /// # Errors
    /// `System` if the search for holes fails.
    pub(crate) fn parts(&self) -> Result<Vec<Range<u64>>> {
        let (mut parts, mut at, end) = (Vec::new(), 0, self.size());
        while at < end {
            let from = match seek(self.file(), SeekFrom::Data(at)) {
                Ok(from) => from.min(end),
                // The rest is a hole.
                Err(rustix::io::Errno::NXIO) => break,
                // The filesystem knows no holes: all of the file counts as data.
                Err(rustix::io::Errno::INVAL) => at,
                Err(errno) => return Err(system(self.path(), "looking for holes", errno.into())),
            };
            at = seek(self.file(), SeekFrom::Hole(from)).map_or(end, |hole| hole.min(end));
            if from < at {
                parts.push(from..at);
            }
        }
        Ok(parts)
    }
}

//! What is done with a region's file: room that has no blocks yet, kept for something to grow into; and reading it.

use std::ops::Range;
use std::os::unix::fs::FileExt;

use rustix::fs::{seek, SeekFrom};

use super::system;
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

    /// Gives a part of what was left as a hole blocks: zeros, as it was.
    ///
    /// # Errors
    /// `Full` when the filesystem is full.
    pub fn fill_hole(&self, from: u64, bytes: u64) -> Result<()> {
        let _alone = self.0.safe.alone();
        self.make_blocks(from, from + bytes)
    }

    /// The parts of the region's file that are no holes, in order: what lies between them is zeros.
    ///
    /// # Errors
    /// `System` if the file cannot be asked.
    pub(crate) fn parts(&self) -> Result<Vec<Range<u64>>> {
        let (mut parts, mut at, end) = (Vec::new(), 0, self.size());
        while at < end {
            let from = match seek(self.file(), SeekFrom::Data(at)) {
                Ok(from) => from.min(end),
                // Nothing but a hole is left.
                Err(rustix::io::Errno::NXIO) => break,
                // A filesystem that does not know: all of it may be data.
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

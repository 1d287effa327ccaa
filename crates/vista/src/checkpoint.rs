//! Checkpoints: a consistent copy of a segment on ordinary storage, for when the machine goes down under memory that does not
//! survive it.

use std::path::Path;

use crate::{Error, Options, Result, Segment};

impl Segment {
    /// Copies the segment to the file at `path`, in the place of an earlier checkpoint, and makes it safe on its disk. It has
    /// what every transaction so far has stored. Quick where the filesystem can share blocks.
    ///
    /// # Errors
    /// `Memory` if the disk refuses: the earlier checkpoint is there.
    pub fn checkpoint(&mut self, path: impl AsRef<Path>) -> Result<()> {
        // A transaction that somebody forgot is not to be found there.
        self.begin().abort();
        Ok(self.kept.copy_to(path.as_ref(), &self.metadata())?)
    }
}

impl Options {
    /// As [`Options::open`]; a segment that may be torn goes back to its checkpoint first, and is itself there afterwards under
    /// its name with `.torn` behind it. [`Segment::is_restored`](crate::Segment::is_restored) says so.
    ///
    /// # Errors
    /// As [`Options::open`]; `Memory` if there is no such checkpoint.
    pub fn open_or_restore(&self, path: &Path, checkpoint: &Path) -> Result<Segment> {
        match self.open(path) {
            Err(Error::Memory(rio::Error::Torn { .. })) => {
                self.keeping().restore(path, checkpoint)?;
                let mut segment = self.open(path)?;
                segment.is_restored = true;
                Ok(segment)
            }
            opened => opened,
        }
    }
}

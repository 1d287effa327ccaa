//! Checkpoints: a consistent copy of a segment on ordinary storage, for when the machine goes down under memory that does not
//! survive it.

use std::ops::Range;
use std::path::Path;

use rio::{Region, RootSlot};

use crate::segment::{SegmentHeader, UNIT};
use crate::{Error, Options, Result, Segment};

impl Segment {
    /// Copies the segment to the file at `path`, in the place of an earlier checkpoint, and makes it safe on its disk. It has
    /// what every transaction so far has stored, and its own blocks, as many as the segment.
    ///
    /// # Errors
    /// `Memory` if the disk refuses or has no room: the earlier checkpoint is there.
    pub fn checkpoint(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.check_process()?;
        // A transaction that somebody forgot is not to be found there.
        self.begin().abort();
        Ok(self.kept.copy_to(path.as_ref(), &self.metadata(), hole_of(self.region()))?)
    }
}

/// The room that the flat part has to grow into: places from, to.
fn hole_of(region: &Region) -> Range<u64> {
    let header = region.root::<SegmentHeader>(RootSlot::Environment).and_then(|header| region.try_at(header));
    header.map_or(0..0, |header| {
        let from = header.from.get();
        let behind = |bytes: u64| from.saturating_add(bytes);
        // What the flat part has in its last unit has blocks already.
        behind(header.bytes.get()).checked_next_multiple_of(UNIT).unwrap_or(u64::MAX)..behind(header.bytes_max.get())
    })
}

impl Options {
    /// As [`Options::open`]; a segment that may be torn goes back to its checkpoint first, and is itself there afterwards under
    /// its name with `.torn` behind it, in the place of an earlier one. One that is not there is made of its checkpoint: what lies
    /// in `/dev/shm` is gone with the system. [`Segment::is_restored`](crate::Segment::is_restored) says so. Who wants to begin
    /// anew removes the checkpoint as well.
    ///
    /// # Errors
    /// As [`Options::open`]; `Memory` if the segment may be torn and there is no such checkpoint.
    pub fn open_or_restore(&self, path: &Path, checkpoint: &Path) -> Result<Segment> {
        let restored = |is_restored: bool| {
            let mut segment = self.open(path)?;
            segment.is_restored = is_restored;
            Ok(segment)
        };
        let is_missing = |path: &Path| matches!(path.try_exists(), Ok(false));
        if is_missing(path) && !is_missing(checkpoint) {
            return restored(self.keeping().put_checkpoint(path, checkpoint, hole_of)?);
        }
        match self.open(path) {
            Err(Error::Memory(rio::Error::Torn { .. })) => {
                self.keeping().restore(path, checkpoint, hole_of)?;
                restored(true)
            }
            opened => opened,
        }
    }
}

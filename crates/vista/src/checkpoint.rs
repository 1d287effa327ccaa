//! Checkpoints: a consistent copy of a segment on ordinary storage. The copy replaces the segment if the segment's
//! memory does not survive a crash of the machine.

use std::ops::Range;
use std::path::Path;

use rio::{Region, RootSlot};

use crate::heap::UNIT;
use crate::segment::SegmentHeader;
use crate::{Error, Options, Result, Segment};

impl Segment {
    /// Copies the segment to the file at `path`, replaces an earlier checkpoint there, and makes the copy safe on its
    /// disk. The copy has the stores of every transaction so far. The copy has its own disk blocks, one for each block
    /// of the segment.
    ///
    /// # Errors
    /// `Memory` if the disk refuses or has no room. The earlier checkpoint then stays.
    pub fn checkpoint(&mut self, path: impl AsRef<Path>) -> Result<()> {
        self.check_process()?;
        // The stores of a transaction that a caller has forgotten must not be in the copy.
        self.begin().abort();
        Ok(self.kept.copy_to(path.as_ref(), &self.metadata(), hole_of(self.region()))?)
    }
}

/// Returns the room into which the flat part can grow, as a range of places.
fn hole_of(region: &Region) -> Range<u64> {
    let header = region.root::<SegmentHeader>(RootSlot::Environment).and_then(|header| region.try_at(header));
    header.map_or(0..0, |header| {
        let from = header.from.get();
        let after = |bytes: u64| from.saturating_add(bytes);
        // The rest of the flat part's last unit has blocks already.
        after(header.bytes.get()).checked_next_multiple_of(UNIT).unwrap_or(u64::MAX)..after(header.bytes_max.get())
    })
}

impl Options {
    /// As [`Options::open`]. A segment that may be torn is first restored from its checkpoint. The torn file gets its
    /// name with `.torn` appended, and replaces an earlier file of that name. A missing segment is made from its
    /// checkpoint, because a file in `/dev/shm` is gone after a crash of the system.
    /// [`Segment::is_restored`](crate::Segment::is_restored) reports both cases. To begin with an empty segment, remove
    /// the checkpoint, too.
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

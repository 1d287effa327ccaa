//! A segment's flat part grows, into room that was kept for it in the file when the segment was made.
//!
//! Paper: a departure. Positions stay what they are, and so do addresses. The room is a hole in the file until then: it costs
//! no blocks, and in the heap's table 576 bytes for each 64 KiB.

use crate::segment::UNIT;
use crate::{Error, Result, Segment};

impl Segment {
    /// How long the flat part can become.
    pub fn bytes_max(&self) -> u64 {
        self.header.bytes_max.get()
    }

    /// Makes the flat part `bytes` bytes long; what is new is zeros. It stays so whatever becomes of later transactions.
    ///
    /// If we die here: the file has more blocks, and the flat part is as long as it was.
    ///
    /// # Errors
    /// `NoRoom` if the segment was made to become no longer; `Memory` if the file cannot grow. It is as it was then.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.check_process()?;
        // A transaction that somebody forgot is not to reach beyond what it knew.
        self.begin().abort();
        if bytes <= self.bytes {
            return Ok(());
        }
        if bytes > self.bytes_max() {
            return Err(Error::NoRoom { path: self.path().to_path_buf(), wanted: bytes, most: self.bytes_max() });
        }
        self.open_flat()?;
        // What it has in its last unit has blocks already.
        let end = self.bytes.next_multiple_of(UNIT);
        if bytes > end {
            self.region().fill_hole(self.from + end, bytes.next_multiple_of(UNIT) - end)?;
        }
        // What was to be hidden and could not be is tried again: all that may fail comes before anything says that it is longer.
        self.hide_metadata()?;
        self.header.bytes.publish(bytes);
        self.region().keep_front(self.from);
        self.bytes = bytes;
        // Where what is shown ends it may end now, where nothing is allocated.
        self.view.set_end(self.heap.end().max(self.from + bytes));
        self.show_flat();
        Ok(())
    }
}

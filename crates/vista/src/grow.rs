//! A segment's flat part grows into room that the file has had since the segment was made.
//!
//! Paper: a departure. Positions and addresses stay the same when the flat part grows. Before the growth the room is a
//! hole in the file: it costs no blocks, and 576 bytes in the heap's table for each 64 KiB.

use crate::heap::UNIT;
use crate::{Error, Result, Segment};

impl Segment {
    /// Returns the greatest length of the flat part.
    pub fn bytes_max(&self) -> u64 {
        self.header.bytes_max.get()
    }

    /// Makes the flat part `bytes` bytes long. The new bytes are zeros. A later abort does not shorten the flat part.
    ///
    /// If we die here: the file has more blocks, and the flat part still has its old length.
    ///
    /// # Errors
    /// `NoRoom` if the segment was made for a shorter flat part; `Memory` if the file cannot grow. The segment is
    /// unchanged then.
    pub fn grow(&mut self, bytes: u64) -> Result<()> {
        self.check_process()?;
        // A transaction that a caller has forgotten must not reach beyond the end that it knew.
        self.begin().abort();
        if bytes <= self.bytes {
            return Ok(());
        }
        if bytes > self.bytes_max() {
            return Err(Error::NoRoom { path: self.path().to_path_buf(), wanted: bytes, most: self.bytes_max() });
        }
        self.open_flat()?;
        // The rest of the flat part's last unit has blocks already.
        let end = self.bytes.next_multiple_of(UNIT);
        if bytes > end {
            self.region().fill_hole(self.from + end, bytes.next_multiple_of(UNIT) - end)?;
        }
        // Hides metadata that could not be hidden before. Every step that may fail comes before the new length is
        // recorded.
        self.hide_metadata()?;
        self.header.bytes.publish(bytes);
        self.region().write_back_front(self.from);
        self.bytes = bytes;
        // If no block is allocated after the flat part, the view ends where the flat part ends.
        self.view.set_end(self.heap.end().max(self.from + bytes));
        self.show_flat();
        Ok(())
    }
}

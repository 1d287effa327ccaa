//! A segment: a file of surviving memory with its undo log, mapped for the program.
//!
//! Paper: Rio Vista, section 4, figures 3 and 4. The file is one [`rio::Region`]. Its front holds vista's own data.
//! After the front comes the flat part, as long as the caller asked for. After the flat part come the heap's blocks,
//! with more of vista's metadata in between. The library works through one mapping. The program has a second mapping,
//! in which the metadata are hidden. The second mapping has the same address in every process that opens the segment.
//!
//! Positions in a segment count from the beginning of the flat part; *places* count from the beginning of the file.

use std::collections::BTreeMap;

pub(crate) mod owner;

use crate::guard::Guarded;
use crate::heap::{own_units, Heap, HeapHeader, Unit, UNIT};
use crate::Result;
use rio::{Held, Kept, LayoutHash, Link, Region, Undo, UndoLog, View, Word};

/// The version and the layout of everything in a segment.
pub(crate) const LAYOUT: u64 =
    LayoutHash::new().text("vista 1").number(rio::LAYOUT).number(rio::layout![SegmentHeader, HeapHeader, Unit]).get();
rio::shared! {
    /// The header in a segment's front.
    pub struct SegmentHeader {
        /// The address of place zero in the program's mapping.
        pub address: Word<u64>,
        /// The place where the flat part begins.
        pub from: Word<u64>,
        /// The length of the flat part in bytes.
        pub bytes: Word<u64>,
        /// The undo log.
        pub undo: Link<UndoLog>,
        /// The heap.
        pub heap: Link<HeapHeader>,
        /// The greatest length of the flat part.
        pub bytes_max: Word<u64>,
        /// Zero, kept for later.
        pub spare: [Word<u64>; 10],
    } size 128
}

/// A segment that this process, and no other process, has mapped.
pub struct Segment {
    /// Set if stores to undeclared bytes are stopped.
    pub(crate) guarded: Option<Box<Guarded>>,
    pub(crate) view: View,
    pub(crate) undo: Undo,
    pub(crate) heap: Heap,
    pub(crate) owner: owner::Owner,
    /// The blocks that the transaction has freed, each with the number of blocks freed before it. The blocks return to
    /// the heap when the transaction ends; an abort before that may need their bytes.
    pub(crate) freed: BTreeMap<u64, usize>,
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    pub(crate) rolled_back: usize,
    pub(crate) is_restored: bool,
    /// Whether several threads change the segment.
    pub(crate) is_shared: bool,
    pub(crate) header: Held<SegmentHeader>,
    /// Dropped last: the drop releases the file.
    pub(crate) kept: Kept,
}

impl Segment {
    /// Returns the flat part.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let bytes = usize::try_from(self.bytes).expect("the segment is mapped");
        self.get(0, bytes).expect("a segment shows its flat part")
    }

    /// Returns `bytes` bytes from `at` on, of the flat part or of an allocated block.
    ///
    /// # Errors
    /// `OutOfRange`.
    #[inline]
    pub fn get(&self, at: u64, bytes: usize) -> Result<&[u8]> {
        let shown = self.view.look(at, bytes);
        shown.map(|shown| shown.bytes(&self.owner)).ok_or_else(|| self.out_of_range(at, bytes))
    }

    /// Closes the segment and makes all its contents durable on the file's disk, if the file is on a disk.
    ///
    /// # Errors
    /// `Memory` if the contents could not be written: the stores then stay until the machine goes down.
    pub fn close(self) -> Result<()> {
        Ok(self.kept.leave(|| self.metadata())?)
    }

    /// Shows the program the flat part, but not the room into which the flat part can grow.
    pub(crate) fn show_flat(&mut self) {
        let most = self.bytes.max(self.header.bytes_max.get());
        self.view.set_shown(self.bytes, (self.from + most).next_multiple_of(UNIT));
    }

    pub(crate) fn region(&self) -> &Region {
        self.kept.region()
    }

    /// Makes room in the undo log for the `bytes` bytes at `at`, if the segment has them, and makes them writable.
    #[cold]
    pub(crate) fn prepare_range(&mut self, at: u64, bytes: usize) -> Result<()> {
        self.get(at, bytes)?;
        self.reserve_undo(bytes)?;
        self.open_range(at, bytes)
    }

    /// Makes room in the undo log for `bytes` of old bytes.
    pub(crate) fn reserve_undo(&mut self, bytes: usize) -> Result<()> {
        if self.undo.has_room(bytes) {
            return Ok(());
        }
        // Room is also needed for a header for each part of a long range, for the zero word, and for a partly filled
        // word.
        self.lengthen_undo(self.undo.capacity() + bytes as u64 + (bytes as u64 >> 18) + 64)
    }

    /// Makes the undo log `total` bytes long, if it is shorter.
    pub(crate) fn lengthen_undo(&mut self, total: u64) -> Result<()> {
        if total <= self.undo.capacity() {
            return Ok(());
        }
        let (region, view) = (self.region().clone(), &mut self.view);
        own_units(&region, || Ok(self.undo.ensure_ready(total, UNIT, |at, bytes| view.hide(at, bytes))?))?;
        region.write_back_front(self.from);
        self.hide_metadata()
    }

    /// Returns the ranges (from, to) of vista's own data: the segment's front, and units after the front.
    pub(crate) fn metadata(&self) -> Vec<(u64, u64)> {
        let grown = self.undo.areas().into_iter().chain(self.heap.table.parts());
        let units = grown.map(|(at, bytes)| (at & !(UNIT - 1), (at + bytes).next_multiple_of(UNIT)));
        // The range of the front covers the parts in the front.
        std::iter::once((0, self.from)).chain(units.filter(|(from, _)| *from >= self.from)).collect()
    }

    /// Hides vista's own data from the program.
    pub(crate) fn hide_metadata(&mut self) -> Result<()> {
        for (from, to) in self.metadata() {
            self.view.hide(from, to - from)?;
        }
        self.view.set_end(self.heap.end().max(self.from + self.bytes));
        Ok(())
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // An error is ignored: a caller that wants to see errors calls `close`.
        let _ = self.kept.leave(|| self.metadata());
    }
}

//! A segment: a file of surviving memory with its undo log, mapped for the program.
//!
//! Paper: Rio Vista, section 4, figures 3 and 4. The file is one [`rio::Region`]. Its front holds vista's own data.
//! Behind it lies the flat part, as long as the caller asked for, and behind that the heap's blocks, with more of
//! vista's metadata in between. The library works through one mapping; the program has a second, at the same address
//! in every process that opens the segment, in which the metadata are hidden.
//!
//! Positions in a segment count from the beginning of the flat part; *places* count from the beginning of the file.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use crate::address;
use crate::guard::Guarded;
pub(crate) use crate::heap::UNIT;
use crate::heap::{Heap, HeapHeader};
use crate::owner::Owner;
use crate::release::UNDO_BYTES;
use crate::{Error, Options, Result};
use rio::{Bytes, Held, Kept, LayoutHash, Link, Offset, Region, RootSlot, Undo, UndoLog, View, Word};

/// The version and the layout of everything in a segment.
pub(crate) const LAYOUT: u64 = LayoutHash::new()
    .text("vista 1")
    .number(rio::LAYOUT)
    .number(rio::layout![SegmentHeader, crate::heap::HeapHeader, crate::heap::Unit])
    .get();
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

impl Options {
    /// Opens the segment in the file at `path`, makes it if it is missing, and rolls back an unfinished transaction.
    ///
    /// # Errors
    /// `OtherSize`, `AddressTaken`, `Damaged`, `Belongs`; `Memory` if another handle has it, if it may be torn, or if
    /// the file cannot be made, is not a segment, or has no room.
    pub fn open(&self, path: &Path) -> Result<Segment> {
        let made = Cell::new(false);
        let kept = self.keep(path, |region| {
            made.set(true);
            build(region, self.bytes, self.grows_to.max(self.bytes))
        })?;
        let region = kept.region().clone();
        let path = path.to_path_buf();
        let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.into() };
        let header = region.root::<SegmentHeader>(RootSlot::Environment).ok_or_else(|| damaged("it has no header"))?;
        region.try_at(header).ok_or_else(|| damaged("its header lies outside"))?;
        let header = region.hold(header);
        let (from, bytes) = (header.from.get(), header.bytes.get());
        let most = bytes.max(header.bytes_max.get());
        if from % UNIT != 0 || from.checked_add(most).is_none_or(|end| end > region.size()) {
            return Err(damaged("its flat part lies outside"));
        }
        if self.bytes != 0 && self.bytes != bytes {
            return Err(Error::OtherSize { path, found: bytes, wanted: self.bytes });
        }
        let view = loop {
            let address = usize::try_from(header.address.get()).map_err(|_| damaged("its address is none"))?;
            match region.view((!self.anywhere).then_some(address), from) {
                Ok(view) => break view,
                // Since the draw another thread has mapped an older segment there. No process knows this address yet:
                // draw again.
                Err(rio::Error::System { .. }) if made.take() => header.address.publish(address::draw(&region)?),
                Err(source @ rio::Error::System { .. }) if !self.anywhere => {
                    return Err(Error::AddressTaken { path: path.clone(), address: address as u64, source });
                }
                Err(source) => return Err(source.into()),
            }
        };
        let undo = header.undo.load().and_then(|undo| Undo::try_open(&region, undo));
        let undo = undo.ok_or_else(|| damaged("its undo log lies outside"))?;
        let heap =
            header.heap.load().and_then(|heap| Heap::open(&region, heap)).ok_or_else(|| damaged("it has no heap"))?;
        let mut segment = Segment {
            guarded: None,
            view,
            undo,
            heap,
            rolled_back: 0,
            is_restored: false,
            is_shared: false,
            owner: Owner::new(),
            freed: BTreeMap::new(),
            from,
            bytes,
            header,
            region,
            kept,
        };
        segment.show_flat();
        segment.rolled_back = segment.recover()?;
        segment.keep_room();
        segment.guarded = self.guard.begin(&segment.region, &mut segment.view)?;
        segment.close_ranges();
        Ok(segment)
    }
}

/// A segment that this process, and no other process, has mapped.
pub struct Segment {
    /// Set if stores to undeclared bytes are stopped.
    pub(crate) guarded: Option<Box<Guarded>>,
    pub(crate) view: View,
    pub(crate) undo: Undo,
    pub(crate) heap: Heap,
    pub(crate) owner: Owner,
    /// The blocks that the transaction has freed, each with the number of blocks freed before it. They go back to the
    /// heap when the transaction ends; an abort before that may need the bytes.
    pub(crate) freed: BTreeMap<u64, usize>,
    pub(crate) from: u64,
    pub(crate) bytes: u64,
    pub(crate) rolled_back: usize,
    pub(crate) is_restored: bool,
    /// Whether several threads change the segment.
    pub(crate) is_shared: bool,
    pub(crate) header: Held<SegmentHeader>,
    region: Region,
    /// Dropped last, which gives the file back.
    pub(crate) kept: Kept,
}

impl Segment {
    /// Opens the segment at `path` with a flat part of `bytes` bytes, zeros at first (the paper's `vista_map`).
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>, bytes: u64) -> Result<Segment> {
        Options::new(bytes).open(path.as_ref())
    }

    /// Returns the flat part.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let bytes = usize::try_from(self.bytes).expect("it is mapped");
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

    /// Closes the segment: everything is safe on the disk behind the file, if there is one.
    ///
    /// # Errors
    /// `Memory` if it could not be written: the stores are there until the machine goes down.
    pub fn close(self) -> Result<()> {
        Ok(self.kept.leave(|| self.metadata())?)
    }

    /// Shows the program the flat part, without the room into which it can grow.
    pub(crate) fn show_flat(&mut self) {
        let most = self.bytes.max(self.header.bytes_max.get());
        self.view.set_shown(self.bytes, (self.from + most).next_multiple_of(UNIT));
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    #[inline]
    pub(crate) fn place_at(&self, at: u64) -> Option<u64> {
        at.checked_add(self.from)
    }

    pub(crate) fn at_of(&self, place: u64) -> u64 {
        place - self.from
    }

    /// Makes room in the undo log for the `bytes` bytes at `at`, if the segment has them, and lets them be stored to.
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
        // A header for each part of a long range, the zero word, and a partly filled word.
        self.lengthen_undo(self.undo.capacity() + bytes as u64 + (bytes as u64 >> 18) + 64)
    }

    /// Makes the undo log `total` bytes long, if it is shorter.
    pub(crate) fn lengthen_undo(&mut self, total: u64) -> Result<()> {
        if total <= self.undo.capacity() {
            return Ok(());
        }
        let (region, view) = (self.region.clone(), &mut self.view);
        own_units(&region, || Ok(self.undo.ensure_ready(total, UNIT, |at, bytes| view.hide(at, bytes))?))?;
        region.write_back_front(self.from);
        self.hide_metadata()
    }

    /// Returns where vista's own data lies: from, to. The segment's front, and units behind it.
    pub(crate) fn metadata(&self) -> Vec<(u64, u64)> {
        let grown = self.undo.areas().into_iter().chain(self.heap.tables());
        let units = grown.map(|(at, bytes)| (at & !(UNIT - 1), (at + bytes).next_multiple_of(UNIT)));
        // Parts in the front are covered by the front.
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

/// Lets `take` allocate, so that its memory shares no unit with anything else.
pub(crate) fn own_units<T>(region: &Region, take: impl FnOnce() -> Result<T>) -> Result<T> {
    region.allocate_bytes(0, UNIT)?;
    let taken = take()?;
    region.allocate_bytes(0, UNIT)?;
    Ok(taken)
}

fn build(region: &Region, bytes: u64, bytes_max: u64) -> Result<()> {
    let header = region.allocate::<SegmentHeader>(1)?;
    let undo = Undo::create(region, UNDO_BYTES)?;
    let heap = Heap::create(region)?;
    let flat: Offset<Bytes> = region.allocate_bytes(bytes, UNIT)?;
    region.leave_hole(bytes_max - bytes)?;
    region.allocate_bytes(0, UNIT)?;
    let made = region.at(header);
    made.address.init(address::draw(region)?);
    made.from.init(flat.raw());
    made.bytes.init(bytes);
    made.bytes_max.init(bytes_max);
    made.undo.init(Some(undo));
    made.heap.init(Some(heap));
    region.set_root(RootSlot::Environment, header);
    Ok(())
}

impl Drop for Segment {
    fn drop(&mut self) {
        // A caller that wants to see errors calls `close`.
        let _ = self.kept.leave(|| self.metadata());
    }
}

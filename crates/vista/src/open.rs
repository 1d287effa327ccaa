//! Opening a segment: the file is made or mapped, checked, recovered and guarded, in this order.
//!
//! Paper: Rio Vista, section 4, `vista_map`.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use crate::heap::{Heap, UNIT};
use crate::release::UNDO_BYTES;
use crate::segment::{owner::Owner, Segment, SegmentHeader};
use crate::{address, Error, Options, Result};
use rio::{Bytes, Offset, Region, RootSlot, Undo};

impl Options {
    /// Opens the segment in the file at `path`, makes it if it is missing, and rolls back an unfinished transaction.
    ///
    /// # Errors
    /// `OtherSize`, `AddressTaken`, `Damaged`, `Belongs`; `Memory` if another handle has the segment, if the segment
    /// may be torn, if its file is no segment, or if the file cannot be made or has no room.
    pub fn open(&self, path: &Path) -> Result<Segment> {
        let made = Cell::new(false);
        let kept = self.keep(path, |region| {
            made.set(true);
            build(region, self.bytes, self.grows_to.max(self.bytes))
        })?;
        let (region, path) = (kept.region().clone(), path.to_path_buf());
        let damaged = |what: &str| Error::Damaged { path: path.clone(), what: what.into() };
        let header = region.root::<SegmentHeader>(RootSlot::Environment).ok_or_else(|| damaged("it has no header"))?;
        region.try_at(header).ok_or_else(|| damaged("its header is outside the file"))?;
        let header = region.hold(header);
        let (from, bytes) = (header.from.get(), header.bytes.get());
        let most = bytes.max(header.bytes_max.get());
        if from % UNIT != 0 || from.checked_add(most).is_none_or(|end| end > region.size()) {
            return Err(damaged("its flat part is outside the file"));
        }
        if self.bytes != 0 && self.bytes != bytes {
            return Err(Error::OtherSize { path, found: bytes, wanted: self.bytes });
        }
        let view = loop {
            let address = usize::try_from(header.address.get()).map_err(|_| damaged("its address is impossible"))?;
            match region.view((!self.anywhere).then_some(address), from) {
                Ok(view) => break view,
                // Since the draw another thread has mapped an older segment there. No process knows the new segment's
                // address yet, so another address can be drawn.
                Err(rio::Error::System { .. }) if made.take() => header.address.publish(address::draw(&region)?),
                Err(source @ rio::Error::System { .. }) if !self.anywhere => {
                    return Err(Error::AddressTaken { path: path.clone(), address: address as u64, source });
                }
                Err(source) => return Err(source.into()),
            }
        };
        let undo = header.undo.load().and_then(|undo| Undo::try_open(&region, undo));
        let undo = undo.ok_or_else(|| damaged("its undo log is outside the file"))?;
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
            kept,
        };
        segment.show_flat();
        segment.rolled_back = segment.recover()?;
        segment.keep_room();
        segment.guarded = self.guard.begin(&region, &mut segment.view)?;
        segment.close_ranges();
        Ok(segment)
    }
}

impl Segment {
    /// Opens the segment at `path` with a flat part of `bytes` bytes, zeros at first (the paper's `vista_map`).
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open(path: impl AsRef<Path>, bytes: u64) -> Result<Segment> {
        Options::new(bytes).open(path.as_ref())
    }
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

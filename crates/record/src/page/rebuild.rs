//! Writes a B-tree page as a whole: a new page, or a page that is compacted, split, or gets other fences.
//!
//! A page is rebuilt from a copy of itself. Slack, ghosts, flags and record LSNs are copied, unless the caller changes
//! them (PROTOCOLS T4, S3). Free bytes become zeros, so that doing and redoing give the same image. If a leaf keeps all
//! its cells and gets another high key, the cells stay in their places ([`close`]).

use crate::page::node::{LeafCell, Node, Record, INNER_CELL_HEAD, LEAF_CELL_HEAD};
use crate::page::slotted::{
    common_prefix, head_of, slots_at, worth_skipping, Slot, SlottedHeader, SplitKey, FENCES_AT, HEADER_AT, SLOT_BYTES,
};
use crate::page::PageKind;
use crate::page_header;
use libtp_buffer::PageMut;
use libtp_txn::Damage;
use zerocopy::{FromBytes, IntoBytes};

/// The stored low fence has at most as many bytes as the page size divided by this number: it is needed only for the
/// common prefix.
const LOW_PART: usize = 16;

/// Everything about a B-tree page except its cells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The left neighbour, zero for none.
    pub left: u32,
    /// The right neighbour, zero for none.
    pub right: u32,
    /// [`Flags`](crate::page::slotted::Flags).
    pub flags: u16,
    /// An unlinked page, not yet free, that this page names; zero for none.
    pub unlinked: u32,
    /// The inclusive lower bound of the keys; it may be truncated.
    pub low: Vec<u8>,
    /// The exclusive upper bound of the keys; empty if there is no upper bound.
    pub high: Vec<u8>,
}

impl Frame {
    /// Returns the frame of a page.
    pub fn of(node: &Node<'_>) -> Frame {
        let header = node.header();
        Frame {
            left: header.left.get(),
            right: header.right.get(),
            flags: header.flags.get(),
            unlinked: header.unlinked.get(),
            low: node.low().to_vec(),
            high: node.high().unwrap_or_default().to_vec(),
        }
    }

    /// Returns the part of the low fence that a page of this size stores.
    pub fn low_stored(low: &[u8], page_bytes: usize) -> &[u8] {
        &low[..low.len().min(page_bytes / LOW_PART)]
    }

    /// Returns whether a fence is above a page's low fence, of which `low` is the stored part.
    pub fn is_above_low(fence: &[u8], low: &[u8], page_bytes: usize) -> bool {
        fence > low && !(Frame::may_be_cut(low, page_bytes) && fence.starts_with(low))
    }

    /// Returns whether a stored low fence may be truncated.
    pub fn may_be_cut(low: &[u8], page_bytes: usize) -> bool {
        low.len() == page_bytes / LOW_PART
    }

    /// Returns the length of the common prefix of all keys between these fences.
    pub fn prefix_bytes(low: &[u8], high: &[u8], page_bytes: usize) -> usize {
        common_prefix(Frame::low_stored(low, page_bytes), high)
    }

    /// Returns the number of bytes of a page for slots and cells.
    pub fn room(low: &[u8], high: &[u8], page_bytes: usize) -> usize {
        page_bytes.saturating_sub(slots_at(high.len(), Frame::low_stored(low, page_bytes).len()))
    }
}

/// A cell that will be put on a page.
#[derive(Clone, Copy)]
pub enum Cell<'c> {
    /// A record.
    Record {
        /// The record's key.
        key: SplitKey<'c>,
        /// The beginning of the record's cell.
        head: LeafCell,
        /// The stored value.
        stored: &'c [u8],
    },
    /// A downlink.
    Child {
        /// The lower bound of the child's range; ignored for the first child of a page.
        key: SplitKey<'c>,
        /// The child's page number.
        child: u32,
    },
}

impl<'c> Cell<'c> {
    /// Returns the cell of a record, unchanged.
    pub fn of_record(key: SplitKey<'c>, record: &Record<'c>) -> Cell<'c> {
        let head = LeafCell {
            lsn_and_flags: crate::page::record_lsn::pack_lsn(record.lsn, record.flags).into(),
            stored_bytes: u16::try_from(record.stored.len()).expect("a stored value is shorter than a page").into(),
            room: u16::try_from(record.room).expect("a cell is shorter than a page").into(),
        };
        Cell::Record { key, head, stored: record.stored }
    }

    /// Returns the cell at a slot of a page; `None` if the cell does not fit the page.
    pub fn at(node: &Node<'c>, slot: usize) -> Option<Cell<'c>> {
        let key = node.key(slot);
        if node.is_leaf() {
            return Some(Cell::of_record(key, &node.record(slot)?));
        }
        Some(Cell::Child { key, child: node.child(slot)? })
    }

    fn key(&self) -> SplitKey<'c> {
        match self {
            Cell::Record { key, .. } | Cell::Child { key, .. } => *key,
        }
    }

    /// Returns the bytes of the cell if `key_bytes` of its key are stored.
    fn bytes(&self, key_bytes: usize) -> usize {
        match self {
            Cell::Record { head, .. } => LEAF_CELL_HEAD + key_bytes + usize::from(head.room.get()),
            Cell::Child { .. } => INNER_CELL_HEAD + key_bytes,
        }
    }
}

/// Writes the slots and cells of one page, in key order.
pub struct PageWriter<'b> {
    bytes: &'b mut [u8],
    header: SlottedHeader,
    heap_start: usize,
    count: usize,
    /// Whether the free bytes are zeros already.
    is_blank: bool,
}

fn too_small() -> Damage {
    Damage("its cells do not fit the page".into())
}

#[inline]
fn number(value: usize) -> Result<u16, Damage> {
    u16::try_from(value).map_err(|_| too_small())
}

impl<'b> PageWriter<'b> {
    /// Begins to write a page with these fences and links. The page already has its common header.
    ///
    /// # Errors
    /// The fences do not fit on the page.
    pub fn begin(bytes: &'b mut [u8], frame: &Frame) -> Result<PageWriter<'b>, Damage> {
        let page_bytes = bytes.len();
        let low = Frame::low_stored(&frame.low, page_bytes);
        let prefix = common_prefix(low, &frame.high);
        if slots_at(frame.high.len(), low.len()) > page_bytes {
            return Err(too_small());
        }
        store_fences(bytes, &frame.high, low);
        let header = SlottedHeader {
            left: frame.left.into(),
            right: frame.right.into(),
            flags: frame.flags.into(),
            unlinked: frame.unlinked.into(),
            prefix_bytes: number(prefix)?.into(),
            low_bytes: number(low.len())?.into(),
            high_bytes: number(frame.high.len())?.into(),
            ..SlottedHeader::default()
        };
        Ok(PageWriter { bytes, header, heap_start: page_bytes, count: 0, is_blank: false })
    }

    /// Appends a cell.
    ///
    /// # Errors
    /// The page is full.
    pub fn push(&mut self, cell: Cell<'_>) -> Result<(), Damage> {
        if let Cell::Record { head, stored, .. } = &cell {
            if stored.len() != usize::from(head.stored_bytes.get()) || head.stored_bytes > head.room {
                return Err(Damage("a record has more bytes than its cell has room for".into()));
            }
        }
        let first_child = self.count == 0 && matches!(cell, Cell::Child { .. });
        let key = if first_child { SplitKey::whole(&[]) } else { cell.key() };
        let suffix = key.after(usize::from(self.header.prefix_bytes.get()));
        let bytes = cell.bytes(suffix.bytes());
        let slot_at = self.header.slots_at() + SLOT_BYTES * self.count;
        let at = self.heap_start.checked_sub(bytes).filter(|&at| at >= slot_at + SLOT_BYTES).ok_or_else(too_small)?;
        let mut place = at;
        let mut write = |piece: &[u8]| {
            self.bytes[place..place + piece.len()].copy_from_slice(piece);
            place += piece.len();
        };
        match &cell {
            Cell::Record { head, .. } => write(head.as_bytes()),
            Cell::Child { child, .. } => write(&child.to_le_bytes()),
        }
        let key_at = at + if matches!(cell, Cell::Record { .. }) { LEAF_CELL_HEAD } else { INNER_CELL_HEAD };
        write(suffix.prefix);
        write(suffix.suffix);
        if let Cell::Record { stored, .. } = cell {
            write(stored);
        }
        // The slack is zeros, so that an image depends only on the records.
        self.bytes[place..at + bytes].fill(0);
        let head = head_of(&self.bytes[key_at..key_at + suffix.bytes()]);
        let slot = Slot { offset: number(at)?.into(), key_bytes: number(suffix.bytes())?.into(), head: head.into() };
        self.bytes[slot_at..slot_at + SLOT_BYTES].copy_from_slice(slot.as_bytes());
        self.heap_start = at;
        self.count += 1;
        Ok(())
    }

    /// Stores the header, and lets heads skip the bytes that all keys share. The page is complete then.
    ///
    /// # Errors
    /// Does not fail if the cells fitted on the page.
    pub fn finish(mut self) -> Result<(), Damage> {
        if !self.is_blank {
            let slots_end = self.header.slots_at() + SLOT_BYTES * self.count;
            self.bytes[slots_end..self.heap_start].fill(0);
        }
        self.header.slot_count = number(self.count)?.into();
        self.header.heap_start = u32::try_from(self.heap_start).map_err(|_| too_small())?.into();
        self.bytes[HEADER_AT..FENCES_AT].copy_from_slice(self.header.as_bytes());
        let Some(node) = Node::over_records(self.bytes) else { return Err(too_small()) };
        let (first, last) = (node.first_key(), node.count().saturating_sub(1));
        let shared = if first > last { 0 } else { common_prefix(node.key(first).suffix, node.key(last).suffix) };
        let skip = if node.count() == 0 { 0 } else { worth_skipping(shared) };
        if skip != 0 {
            let slots = node.with_heads_after(skip);
            self.header.skip_bytes = number(skip)?.into();
            let at = self.header.slots_at();
            self.bytes[at..at + SLOT_BYTES * slots.len()].copy_from_slice(slots.as_bytes());
            self.bytes[HEADER_AT..FENCES_AT].copy_from_slice(self.header.as_bytes());
        }
        Ok(())
    }
}

/// Makes a new, empty B-tree page with this frame.
///
/// # Errors
/// The fences do not fit the page.
pub fn make_new<'b>(
    page: &'b mut PageMut<'_, '_>,
    (file, number): (u32, u32),
    level: u8,
    frame: &Frame,
) -> Result<PageWriter<'b>, Damage> {
    let is_blank = page_header::is_blank(page);
    let bytes = page.fresh();
    page_header::make_new(&mut bytes[..HEADER_AT], file, number, PageKind::Btree as u8, level);
    Ok(PageWriter { is_blank, ..PageWriter::begin(bytes, frame)? })
}

/// Rewrites a page with another frame. `edit` passes the wanted form of each cell to the writer.
///
/// # Errors
/// The page is no B-tree page, or the result does not fit.
pub fn rebuild(
    page: &mut PageMut<'_, '_>,
    frame: &Frame,
    mut edit: impl FnMut(usize, Cell<'_>, &mut PageWriter<'_>) -> Result<(), Damage>,
) -> Result<(), Damage> {
    let old = page.bytes().to_vec();
    let node = Node::over_records(&old).ok_or_else(|| Damage("it holds no records in key order".into()))?;
    let length = old.len();
    let mut writer = PageWriter::begin(page.range(0..length), frame)?;
    for slot in 0..node.count() {
        let cell = Cell::at(&node, slot)
            .ok_or_else(|| Damage(format!("the cell at slot {slot} is outside the page's heap")))?;
        edit(slot, cell, &mut writer)?;
    }
    writer.finish()
}

/// Gives a page another frame with the same low fence. All cells stay in their places. If the new fences share more
/// bytes than the old fences, the keys lose these bytes, and the bytes become garbage. If the slots have no room after
/// the new fences, or if the page is no leaf, [`rebuild`] writes the page instead. The page has the same number of free
/// bytes after both ways.
///
/// # Errors
/// The page is no B-tree page, its cells contradict its header, or the result does not fit.
pub fn close(page: &mut PageMut<'_, '_>, frame: &Frame) -> Result<(), Damage> {
    let damaged = || Damage("its slots lead outside the heap".into());
    let node = Node::over_records(page.bytes()).ok_or_else(|| Damage("it holds no records in key order".into()))?;
    let (mut header, count) = (*node.header(), node.count());
    let prefix = common_prefix(&frame.low, &frame.high);
    let (old_at, new_at) = (header.slots_at(), slots_at(frame.high.len(), frame.low.len()));
    let heap_start = header.heap_start.get() as usize;
    let cut = prefix.checked_sub(usize::from(header.prefix_bytes.get()));
    let (Some(cut), true, true) = (cut, node.is_leaf(), old_at <= new_at && new_at + SLOT_BYTES * count <= heap_start)
    else {
        return rebuild(page, frame, |_, cell, writer| writer.push(cell));
    };
    let shared = match count.checked_sub(1) {
        None => 0,
        Some(last) => common_prefix(node.key(0).suffix, node.key(last).suffix).saturating_sub(cut),
    };
    let skip = worth_skipping(shared);
    let garbage = header.garbage_bytes.get();
    garbage.checked_add(u32::try_from(cut * count).map_err(|_| too_small())?).ok_or_else(damaged)?;
    header.left = frame.left.into();
    header.right = frame.right.into();
    header.flags = frame.flags.into();
    header.unlinked = frame.unlinked.into();
    header.prefix_bytes = number(prefix)?.into();
    header.high_bytes = number(frame.high.len())?.into();
    header.skip_bytes = number(skip)?.into();
    let length = page.bytes().len();
    let bytes = page.range(0..length);
    let mut cut_bytes = 0;
    // The loop begins with the last slot, because each slot moves up, to bytes whose old slot was already read.
    for index in (0..count).rev() {
        let slot = Slot::read_from_bytes(&bytes[old_at + SLOT_BYTES * index..][..SLOT_BYTES]);
        let mut slot = slot.map_err(|_| damaged())?;
        let (at, key_bytes) = (usize::from(slot.offset.get()), usize::from(slot.key_bytes.get()));
        let cell = bytes.get_mut(at..at + LEAF_CELL_HEAD + key_bytes).ok_or_else(damaged)?;
        // A key has fewer than `cut` bytes only if a wild store has shortened it.
        let cut = cut.min(key_bytes);
        cut_bytes += cut;
        let head = *cell.first_chunk::<LEAF_CELL_HEAD>().ok_or_else(damaged)?;
        cell[cut..cut + LEAF_CELL_HEAD].copy_from_slice(&head);
        let suffix = &cell[LEAF_CELL_HEAD + cut..];
        slot.head = head_of(suffix.get(skip..).unwrap_or_default()).into();
        slot.offset = number(at + cut)?.into();
        slot.key_bytes = number(key_bytes - cut)?.into();
        bytes[new_at + SLOT_BYTES * index..][..SLOT_BYTES].copy_from_slice(slot.as_bytes());
    }
    header.garbage_bytes = (garbage + u32::try_from(cut_bytes).map_err(|_| too_small())?).into();
    store_fences(bytes, &frame.high, &frame.low);
    bytes[HEADER_AT..FENCES_AT].copy_from_slice(header.as_bytes());
    Ok(())
}

/// Stores the fences, and zeros up to the slots.
fn store_fences(bytes: &mut [u8], high: &[u8], low: &[u8]) {
    let (high_end, low_end) = (FENCES_AT + high.len(), FENCES_AT + high.len() + low.len());
    bytes[FENCES_AT..high_end].copy_from_slice(high);
    bytes[high_end..low_end].copy_from_slice(low);
    bytes[low_end..slots_at(high.len(), low.len())].fill(0);
}

/// Writes a page again without its garbage.
///
/// # Errors
/// The page is no B-tree page.
pub fn compact(page: &mut PageMut<'_, '_>) -> Result<(), Damage> {
    let node = Node::over_records(page.bytes()).ok_or_else(|| Damage("it holds no records in key order".into()))?;
    let frame = Frame::of(&node);
    rebuild(page, &frame, |_, cell, writer| writer.push(cell))
}

/// Makes the root of an empty tree: a leaf without fences.
///
/// # Errors
/// Does not fail: every page is large enough.
pub fn make_root(page: &mut PageMut<'_, '_>, file: u32, number: u32) -> Result<(), Damage> {
    make_new(page, (file, number), 0, &Frame::default())?.finish()
}

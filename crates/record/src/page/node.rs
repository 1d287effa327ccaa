//! A page of the B-tree, for reading: records on leaves (level 0), downlinks on inner pages.
//!
//! Paper: LIBTP 3.1.2 (Lehman and Yao's tree: right links and high keys). The common header has the kind byte for a
//! B-tree, and the level above the leaves.
//!
//! Leaf cell: `[LSN and flags 8][stored bytes 2][room 2][key after the prefix][stored value][slack]`. Room is the
//! length to which the value may grow in place. Room never shrinks while the undo of a change that made the value
//! shorter may need it (PROTOCOLS T4). Inner cell: `[child page 4][key after the prefix]`. A child holds the keys from
//! its own key up to the next child's key. The first child of a page has no key: it holds all keys below the second
//! child's key.

use std::cmp::Ordering;

use libtp_log::Lsn;
use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::page::record_lsn::{unpack_lsn, RecordFlags};
use crate::page::slotted::{Flags, Slot, Slotted, SplitKey, SLOT_BYTES};
use crate::page::PageKind;
use crate::page_header;

/// Bytes before the key in a leaf cell.
pub const LEAF_CELL_HEAD: usize = 12;
/// Bytes before the key in an inner cell.
pub const INNER_CELL_HEAD: usize = 4;

/// The beginning of a leaf cell.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug)]
#[repr(C)]
pub struct LeafCell {
    /// 0: the LSN of the log record that last changed the record, with the flags in the top byte.
    pub lsn_and_flags: U64,
    /// 8: bytes of the stored value.
    pub stored_bytes: U16,
    /// 10: bytes to which the stored value may grow without moving.
    pub room: U16,
}

const _: () = assert!(size_of::<LeafCell>() == LEAF_CELL_HEAD);

/// A record on a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Record<'p> {
    /// The LSN of the record's last change; `Lsn::NONE` if its insertion was undone.
    pub lsn: Lsn,
    /// The record's flags.
    pub flags: RecordFlags,
    /// The stored value, including references.
    pub stored: &'p [u8],
    /// The number of bytes to which the stored value may grow in place.
    pub room: usize,
    /// The offset of the cell on the page.
    pub cell_at: usize,
    /// The offset of the stored value on the page.
    pub stored_at: usize,
}

impl Record<'_> {
    /// Returns whether this is a ghost: a key without a record.
    #[inline]
    pub fn is_ghost(&self) -> bool {
        self.flags.has(RecordFlags::GHOST)
    }

    /// Returns the bytes of the whole cell.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.stored_at - self.cell_at + self.room
    }
}

/// A page of a B-tree.
#[derive(Clone, Copy)]
pub struct Node<'p> {
    page: Slotted<'p>,
    level: u8,
}

impl<'p> std::ops::Deref for Node<'p> {
    type Target = Slotted<'p>;

    #[inline]
    fn deref(&self) -> &Slotted<'p> {
        &self.page
    }
}

impl<'p> Node<'p> {
    /// Reads a page; `None` if the page is no B-tree page or contradicts itself.
    #[inline]
    pub fn over(page: &'p [u8]) -> Option<Node<'p>> {
        if page_header::kind(page) != PageKind::Btree as u8 {
            return None;
        }
        let level = page_header::level(page);
        Some(Node { page: Slotted::over(page)?, level })
    }

    /// Reads a page that holds records in key order: a page of a B-tree, or a page of a hash file's bucket, which has
    /// the same fields and cells. Returns `None` for a page of another kind.
    #[inline]
    pub fn over_records(page: &'p [u8]) -> Option<Node<'p>> {
        if page_header::kind(page) == PageKind::Hash as u8 {
            return Some(Node { page: Slotted::over(page)?, level: page_header::level(page) });
        }
        Node::over(page)
    }

    /// Returns the highest LSN of the ghosts and replaced values that were removed from the page for good (PROTOCOLS
    /// S3).
    pub fn deleter_lsn(&self) -> Lsn {
        page_header::deleter_lsn(self.page.bytes())
    }

    /// Returns the level above the leaves; zero for a leaf.
    #[inline]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns whether the page is a leaf, which has records.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Returns whether the page's right neighbour is not yet posted in the parent.
    #[inline]
    pub fn is_incomplete(&self) -> bool {
        self.header().flags.get() & Flags::INCOMPLETE != 0
    }

    /// Returns whether the page was emptied and unlinked.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.header().flags.get() & Flags::DELETED != 0
    }

    /// Returns the right link, if there is a right neighbour.
    #[inline]
    pub fn right(&self) -> Option<u32> {
        Some(self.header().right.get()).filter(|&page| page != 0)
    }

    /// Returns the left link, if there is a left neighbour.
    #[inline]
    pub fn left(&self) -> Option<u32> {
        Some(self.header().left.get()).filter(|&page| page != 0)
    }

    /// Returns the bytes before the key in the page's cells.
    #[inline]
    pub fn cell_head(&self) -> usize {
        if self.is_leaf() {
            LEAF_CELL_HEAD
        } else {
            INNER_CELL_HEAD
        }
    }

    /// Returns the first slot whose key is not below `key`, and whether both keys are equal. `key` must be in the
    /// page's range.
    #[inline]
    pub fn find(&self, key: &[u8]) -> (usize, bool) {
        self.find_inlined(key)
    }

    /// As [`Node::find`], inlined for the descent of the tree.
    #[inline(always)]
    pub(crate) fn find_inlined(&self, key: &[u8]) -> (usize, bool) {
        self.page.lower_bound::<false>(key, self.cell_head(), self.first_key(), 0)
    }

    /// Returns the slot that [`Node::find`] returns. The caller knows that the keys of all slots before `near` are
    /// below `key`. The search is fast if the slot is `near` or one of the next few slots.
    #[inline]
    pub fn find_near(&self, key: &[u8], near: usize) -> usize {
        self.page.lower_bound::<true>(key, self.cell_head(), self.first_key(), near).0
    }

    /// Returns the first slot with a key: the first child of a page has no key.
    #[inline]
    pub fn first_key(&self) -> usize {
        usize::from(!self.is_leaf())
    }

    /// Returns the slot of the child that holds `key`, which must be in the page's range.
    #[inline]
    pub fn child_slot(&self, key: &[u8]) -> usize {
        Node::child_slot_at(self.find(key))
    }

    /// Returns the slot of the child that holds a key, from the result of [`Node::find`].
    #[inline]
    pub(crate) fn child_slot_at((slot, found): (usize, bool)) -> usize {
        if found {
            slot
        } else {
            slot.saturating_sub(1)
        }
    }

    /// Returns the number of bytes after the prefix that heads may skip when a key with this suffix is added to the
    /// page.
    pub fn skip_with(&self, suffix: &[u8]) -> usize {
        self.page.skip_with(suffix, self.cell_head(), self.first_key())
    }

    /// Returns the slots with heads that begin `skip` bytes after the prefix.
    pub fn with_heads_after(&self, skip: usize) -> Vec<Slot> {
        self.page.with_heads_after(skip, self.cell_head(), self.first_key())
    }

    /// Returns the child at a slot; `None` if there is no such slot or its cell is damaged.
    #[inline]
    pub fn child(&self, slot: usize) -> Option<u32> {
        let cell = usize::from(self.slots().get(slot)?.offset.get());
        let bytes = self.heap_bytes(cell, INNER_CELL_HEAD)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?)).filter(|&page| page != 0)
    }

    /// Returns the key at a slot; empty if there is no such slot.
    #[inline]
    pub fn key(&self, slot: usize) -> SplitKey<'p> {
        let Some(entry) = self.slots().get(slot) else { return SplitKey::whole(&[]) };
        let at = usize::from(entry.offset.get()) + self.cell_head();
        let suffix = self.heap_bytes(at, usize::from(entry.key_bytes.get())).unwrap_or_default();
        if !self.is_leaf() && slot == 0 {
            return SplitKey::whole(&[]);
        }
        SplitKey { prefix: self.prefix(), suffix }
    }

    /// Returns the offset of the cell of a slot; zero if there is no such slot.
    #[inline]
    pub fn cell_at(&self, slot: usize) -> usize {
        self.slots().get(slot).map_or(0, |entry| usize::from(entry.offset.get()))
    }

    /// Returns the record at a slot; `None` if there is no such slot or its cell does not fit the page.
    #[inline]
    pub fn record(&self, slot: usize) -> Option<Record<'p>> {
        let entry = self.slots().get(slot)?;
        let cell_at = usize::from(entry.offset.get());
        let cell = LeafCell::ref_from_bytes(self.heap_bytes(cell_at, LEAF_CELL_HEAD)?).ok()?;
        let stored_at = cell_at + LEAF_CELL_HEAD + usize::from(entry.key_bytes.get());
        let (stored_bytes, room) = (usize::from(cell.stored_bytes.get()), usize::from(cell.room.get()));
        let stored = self.heap_bytes(stored_at, room)?.get(..stored_bytes)?;
        let (lsn, flags) = unpack_lsn(cell.lsn_and_flags.get());
        Some(Record { lsn, flags, stored, room, cell_at, stored_at })
    }

    /// Returns the bytes of the cell at a slot; zero if there is no such slot.
    pub fn cell_bytes(&self, slot: usize) -> usize {
        match self.slots().get(slot) {
            None => 0,
            Some(_) if self.is_leaf() => self.record(slot).map_or(0, |record| record.cell_bytes()),
            Some(entry) => INNER_CELL_HEAD + usize::from(entry.key_bytes.get()),
        }
    }

    /// Returns the number of bytes that a new record needs, with its slot.
    #[inline]
    pub fn record_need(&self, key_bytes: usize, stored_bytes: usize) -> usize {
        let prefix = usize::from(self.header().prefix_bytes.get());
        SLOT_BYTES + LEAF_CELL_HEAD + key_bytes.saturating_sub(prefix) + stored_bytes
    }

    /// Returns the number of bytes that a new downlink needs, with its slot.
    pub fn child_need(&self, key_bytes: usize) -> usize {
        let prefix = usize::from(self.header().prefix_bytes.get());
        SLOT_BYTES + INNER_CELL_HEAD + key_bytes.saturating_sub(prefix)
    }

    /// Returns whether this page has room to change the stored value at `slot` to `stored_bytes` bytes.
    #[inline]
    pub fn fits_change(&self, slot: usize, stored_bytes: usize) -> bool {
        let Some(record) = self.record(slot) else { return false };
        if stored_bytes <= record.room {
            return true;
        }
        record.cell_bytes() - record.room + stored_bytes <= self.free_bytes() + record.cell_bytes()
    }

    /// Returns whether a key is below this page's range, as far as the stored low fence shows. A correct search never
    /// comes to such a page.
    pub fn is_below(&self, key: &[u8]) -> bool {
        let low = self.low();
        key.get(..low.len().min(key.len())).unwrap_or_default().cmp(low) == Ordering::Less
    }
}

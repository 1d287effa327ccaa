//! A page of the B-tree, to be read: records on leaves (level 0), downlinks on inner pages.
//!
//! Paper: LIBTP 3.1.2 (Lehman and Yao's tree: right links and high keys). The common header's kind byte says
//! B-tree, its level byte how far above the leaves.
//!
//! Leaf cell: `[LSN and flags 8][stored bytes 2][room 2][key behind the prefix][stored value][slack]`. Room is what the
//! value may grow to in place; it never shrinks while the transaction that gave it up may still want it back (PROTOCOLS
//! T4). Inner cell: `[child page 4][key behind the prefix]`; a child holds the keys from its own key up to the next one's,
//! and the first child of a page has no key: it holds whatever is below the second.

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
    /// 0: the LSN of the log record that last changed this one, its flags in the top byte.
    pub lsn_and_flags: U64,
    /// 8: bytes of the stored value.
    pub stored_bytes: U16,
    /// 10: bytes the stored value may have without moving.
    pub room: U16,
}

const _: () = assert!(size_of::<LeafCell>() == LEAF_CELL_HEAD);

/// A record on a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Record<'p> {
    /// The log record that last changed it; none if it never was committed.
    pub lsn: Lsn,
    /// Ghost, overflow, replaced.
    pub flags: RecordFlags,
    /// The stored value, references and all.
    pub stored: &'p [u8],
    /// Bytes it may grow to in place.
    pub room: usize,
    /// Where the cell begins on the page.
    pub cell_at: usize,
    /// Where the stored value begins on the page.
    pub stored_at: usize,
}

impl Record<'_> {
    /// Whether the key is there but no record.
    #[inline]
    pub fn is_ghost(&self) -> bool {
        self.flags.has(RecordFlags::GHOST)
    }

    /// Bytes of the whole cell.
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
    /// Looks at a page; none if it is no B-tree page or contradicts itself.
    #[inline]
    pub fn over(page: &'p [u8]) -> Option<Node<'p>> {
        if page_header::kind(page) != PageKind::Btree as u8 {
            return None;
        }
        let level = page_header::level(page);
        Some(Node { page: Slotted::over(page)?, level })
    }

    /// Looks at a page that holds records in key order, of a B-tree or of a bucket of a hash file, which has no other fields
    /// and no other cells; none if it is neither.
    pub fn over_records(page: &'p [u8]) -> Option<Node<'p>> {
        if page_header::kind(page) == PageKind::Hash as u8 {
            return Some(Node { page: Slotted::over(page)?, level: page_header::level(page) });
        }
        Node::over(page)
    }

    /// The highest LSN of what was removed from the page for good: ghosts, and values that were replaced (PROTOCOLS S3).
    pub fn deleter_lsn(&self) -> Lsn {
        page_header::deleter_lsn(self.page.bytes())
    }

    /// How far above the leaves; zero is a leaf.
    #[inline]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether it holds records.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Whether its right neighbour is not yet posted in the parent.
    #[inline]
    pub fn is_incomplete(&self) -> bool {
        self.header().flags.get() & Flags::INCOMPLETE != 0
    }

    /// Whether it was emptied and unlinked.
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.header().flags.get() & Flags::DELETED != 0
    }

    /// The right link, if there is a right neighbour.
    #[inline]
    pub fn right(&self) -> Option<u32> {
        Some(self.header().right.get()).filter(|&page| page != 0)
    }

    /// The left link, if there is a left neighbour.
    #[inline]
    pub fn left(&self) -> Option<u32> {
        Some(self.header().left.get()).filter(|&page| page != 0)
    }

    /// Bytes before the key in its cells.
    #[inline]
    pub fn cell_head(&self) -> usize {
        if self.is_leaf() {
            LEAF_CELL_HEAD
        } else {
            INNER_CELL_HEAD
        }
    }

    /// The first slot whose key is not below `key`, and whether it is equal. The key lies in the page's range.
    #[inline]
    pub fn find(&self, key: &[u8]) -> (usize, bool) {
        let suffix = key.get(usize::from(self.header().prefix_bytes.get())..).unwrap_or_default();
        self.page.lower_bound(suffix, self.cell_head(), self.first_key())
    }

    /// As [`Node::find`] without the flag, where all slots before `near` are known to be below the key, and it is perhaps not far behind.
    #[inline]
    pub fn find_near(&self, key: &[u8], near: usize) -> usize {
        let suffix = key.get(usize::from(self.header().prefix_bytes.get())..).unwrap_or_default();
        self.page.lower_bound_near(suffix, self.cell_head(), self.first_key(), Some(near)).0
    }

    /// The first slot with a key: the first child of a page has none.
    #[inline]
    pub fn first_key(&self) -> usize {
        usize::from(!self.is_leaf())
    }

    /// The slot of the child that holds `key`, which lies in the page's range.
    #[inline]
    pub fn child_slot(&self, key: &[u8]) -> usize {
        let (slot, found) = self.find(key);
        if found {
            slot
        } else {
            slot.saturating_sub(1)
        }
    }

    /// How many bytes behind the prefix the heads may skip once a key with this suffix is on the page as well.
    pub fn skip_with(&self, suffix: &[u8]) -> usize {
        self.page.skip_with(suffix, self.cell_head(), self.first_key())
    }

    /// The slots with heads that begin `skip` bytes behind the prefix.
    pub fn with_heads_behind(&self, skip: usize) -> Vec<Slot> {
        self.page.with_heads_behind(skip, self.cell_head(), self.first_key())
    }

    /// The child at a slot; none if the slot or its cell is not there.
    #[inline]
    pub fn child(&self, slot: usize) -> Option<u32> {
        let cell = usize::from(self.slots().get(slot)?.offset.get());
        let bytes = self.heap_bytes(cell, INNER_CELL_HEAD)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?)).filter(|&page| page != 0)
    }

    /// The key at a slot; empty pieces if it is not there.
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

    /// Where the cell of a slot begins; zero if there is no such slot.
    #[inline]
    pub fn cell_at(&self, slot: usize) -> usize {
        self.slots().get(slot).map_or(0, |entry| usize::from(entry.offset.get()))
    }

    /// The record at a slot; none if the slot is not there or its cell does not fit the page.
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

    /// Bytes of the cell at a slot; zero if it is not there.
    pub fn cell_bytes(&self, slot: usize) -> usize {
        match self.slots().get(slot) {
            None => 0,
            Some(_) if self.is_leaf() => self.record(slot).map_or(0, |record| record.cell_bytes()),
            Some(entry) => INNER_CELL_HEAD + usize::from(entry.key_bytes.get()),
        }
    }

    /// Bytes a new record takes, slot included.
    #[inline]
    pub fn record_need(&self, key_bytes: usize, stored_bytes: usize) -> usize {
        let prefix = usize::from(self.header().prefix_bytes.get());
        SLOT_BYTES + LEAF_CELL_HEAD + key_bytes.saturating_sub(prefix) + stored_bytes
    }

    /// Bytes a new downlink takes, slot included.
    pub fn child_need(&self, key_bytes: usize) -> usize {
        let prefix = usize::from(self.header().prefix_bytes.get());
        SLOT_BYTES + INNER_CELL_HEAD + key_bytes.saturating_sub(prefix)
    }

    /// Whether the record at `slot` may get a stored value of `stored_bytes` on this page.
    #[inline]
    pub fn fits_change(&self, slot: usize, stored_bytes: usize) -> bool {
        let Some(record) = self.record(slot) else { return false };
        if stored_bytes <= record.room {
            return true;
        }
        record.cell_bytes() - record.room + stored_bytes <= self.free_bytes() + record.cell_bytes()
    }

    /// Whether a key lies below this page's range, as far as the low fence tells: then a search went wrong.
    pub fn is_below(&self, key: &[u8]) -> bool {
        let low = self.low();
        key.get(..low.len().min(key.len())).unwrap_or_default().cmp(low) == Ordering::Less
    }
}

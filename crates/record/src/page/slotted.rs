//! Slotted pages: a header, two fence keys, an array of slots that grows up, a heap of cells that grows down.
//!
//! Paper: LIBTP 4.4 keeps db(3)'s pages; this layout is our own (docs/formats/btree.md has the byte table).
//!
//! ```text
//! 0        32       64           slots at        slots at + 8n   heap start             page end
//! | common | header | high | low | slot 0..n-1 -> |     free     | <- cells and garbage |
//! ```
//!
//! Every key on the page is in `[low, high)`, so all keys share the common prefix of low and high. The page stores it
//! once, as the beginning of the high key. A slot holds the first four bytes after that prefix, the key's *head*,
//! big-endian. Heads have the order of the bytes, so a search seldom leaves the slot array. The fences are next
//! to the header because every search compares its key with the high key: this saves a cache line.
//!
//! A page at the edge of the tree has one fence or no fence, and so no prefix, even if its keys have the same
//! beginning. So heads begin after the bytes that the page's keys share at present. When a key with another beginning
//! is inserted, all heads are rebuilt and begin earlier.
//!
//! Invariants
//! 1. slots end at or below the heap start; cells are between the heap start and the end of the page.
//! 2. garbage bytes = heap bytes that belong to no cell.
//! 3. prefix bytes <= high bytes, and <= low bytes.
//! 4. every key (of an inner page: except the first) has at least prefix + skip bytes, which are equal in all these
//!    keys.
//!
//! Reading never panics, whatever the bytes are. A damaged part that would be outside the page reads as empty, and
//! `verify` reports it.

use std::cmp::Ordering;

use libtp_buffer::PageMut;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The offset of the slotted header: after the common header.
pub const HEADER_AT: usize = 32;
/// The offset of the fences: the high key, then the low fence, padded to a multiple of eight. The slots follow.
pub const FENCES_AT: usize = 64;
/// Bytes of one slot.
pub const SLOT_BYTES: usize = 8;

/// Bytes 32 to 63 of a B-tree page. See docs/formats/btree.md.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct SlottedHeader {
    /// 32: the left neighbour's page number, zero for none.
    pub left: U32,
    /// 36: the right neighbour's page number (the right link), zero for none.
    pub right: U32,
    /// 40: slots in the array.
    pub slot_count: U16,
    /// 42: see [`Flags`].
    pub flags: U16,
    /// 44: the offset of the lowest cell.
    pub heap_start: U32,
    /// 48: bytes of the heap that belong to no cell.
    pub garbage_bytes: U32,
    /// 52: bytes of the common prefix, which every key begins with and no cell repeats.
    pub prefix_bytes: U16,
    /// 54: bytes of the low fence, which may be truncated; it is after the high key.
    pub low_bytes: U16,
    /// 56: bytes of the high key, at 64; zero for none (the page takes every key above low).
    pub high_bytes: U16,
    /// 58: number of bytes after the prefix that all present keys share. Heads begin after these bytes.
    pub skip_bytes: U16,
    /// 60: an emptied right neighbour that was unlinked and is not yet free, zero for none.
    pub unlinked: U32,
}

const _: () = {
    assert!(size_of::<SlottedHeader>() == FENCES_AT - HEADER_AT);
    assert!(std::mem::offset_of!(SlottedHeader, heap_start) == 12);
    assert!(std::mem::offset_of!(SlottedHeader, unlinked) == 28);
    assert!(size_of::<Slot>() == SLOT_BYTES);
};

impl SlottedHeader {
    /// Returns the offset of the slot array.
    #[inline]
    pub fn slots_at(&self) -> usize {
        slots_at(usize::from(self.high_bytes.get()), usize::from(self.low_bytes.get()))
    }
}

/// Returns the offset of the slot array of a page whose fences have these lengths.
#[inline]
pub fn slots_at(high_bytes: usize, low_bytes: usize) -> usize {
    FENCES_AT + ((high_bytes + low_bytes + 7) & !7)
}

/// Bits of [`SlottedHeader::flags`].
pub struct Flags;

impl Flags {
    /// The right neighbour has no entry in the parent yet. A session that sees this flag posts the neighbour (PROTOCOLS
    /// T1).
    pub const INCOMPLETE: u16 = 1;
    /// The page was emptied and unlinked. Its right link stays valid (PROTOCOLS T2).
    pub const DELETED: u16 = 2;
    /// All flags of a B-tree page.
    pub const ALL: u16 = Flags::INCOMPLETE | Flags::DELETED;
}

/// One entry of the slot array.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Slot {
    /// The offset of the cell on the page.
    pub offset: U16,
    /// The number of bytes of the key after the common prefix.
    pub key_bytes: U16,
    /// The key's head: four bytes of the key after the bytes that heads skip, big-endian, padded with zeros.
    pub head: U32,
}

/// Returns the first four bytes of a suffix of a key, as a number that has the order of the bytes.
#[inline]
pub fn head_of(suffix: &[u8]) -> u32 {
    let four = match *suffix {
        [a, b, c, d, ..] => [a, b, c, d],
        [a, b, c] => [a, b, c, 0],
        [a, b] => [a, b, 0, 0],
        [a] => [a, 0, 0, 0],
        [] => [0; 4],
    };
    u32::from_be_bytes(four)
}

/// As [`head_of`], for the bytes of a key from `at` on. `at` is at most a few kilobytes.
#[inline]
#[allow(clippy::cast_possible_truncation)] // of `at`, and of a number whose high half is zero
pub(crate) fn head_at(key: &[u8], at: usize) -> u32 {
    // The four bytes are in the eight bytes from `at` on, or in the key's last eight bytes.
    let Some(last) = key.len().checked_sub(8) else { return head_of_short(key, at) };
    let start = at.min(last);
    let eight = key.get(start..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |eight| u64::from_be_bytes(*eight));
    (eight.checked_shl(8 * (at - start) as u32).unwrap_or(0) >> 32) as u32
}

/// As [`head_at`], for a key of less than eight bytes.
#[inline]
#[allow(clippy::cast_possible_truncation)] // of `at`
fn head_of_short(key: &[u8], at: usize) -> u32 {
    // If the key has at most four bytes from `at` on, they are in its last four bytes.
    let last = key.len().wrapping_sub(4);
    match key.last_chunk::<4>() {
        Some(four) if at >= last => u32::from_be_bytes(*four).checked_shl(8 * (at - last) as u32).unwrap_or(0),
        _ => head_of(key.get(at..).unwrap_or_default()),
    }
}

/// Returns whether `key >= bound`. Most keys differ within their first four or eight bytes, which are compared inline.
#[inline]
pub fn is_not_below(key: &[u8], bound: &[u8]) -> bool {
    if let (Some(a), Some(b)) = (key.first_chunk::<8>(), bound.first_chunk::<8>()) {
        if a != b {
            return u64::from_be_bytes(*a) > u64::from_be_bytes(*b);
        }
    }
    if let (Some(a), Some(b)) = (key.first_chunk::<4>(), bound.first_chunk::<4>()) {
        if a != b {
            return u32::from_be_bytes(*a) > u32::from_be_bytes(*b);
        }
    }
    key >= bound
}

/// The number of slots that are compared one by one before a search of all slots.
const NEAR_SLOTS: usize = 8;

/// Compares two byte strings. Equal strings of two to sixteen bytes are compared inline.
#[inline]
fn compare_short(a: &[u8], b: &[u8]) -> Ordering {
    let is_equal = match a.len() {
        9..=16 => a.first_chunk::<8>() == b.first_chunk() && a.last_chunk::<8>() == b.last_chunk(),
        4..=8 => a.first_chunk::<4>() == b.first_chunk() && a.last_chunk::<4>() == b.last_chunk(),
        2..=3 => a.first_chunk::<2>() == b.first_chunk() && a.last() == b.last(),
        _ => false,
    };
    match is_equal && a.len() == b.len() {
        true => Ordering::Equal,
        false => a.cmp(b),
    }
}

/// Returns the number of bytes that two strings share at their beginning.
#[inline]
pub fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let (mut x, mut y) = (a, b);
    while let (Some((x_first, x_rest)), Some((y_first, y_rest))) = (x.split_first_chunk(), y.split_first_chunk()) {
        let unequal = u64::from_le_bytes(*x_first) ^ u64::from_le_bytes(*y_first);
        if unequal != 0 {
            return a.len() - x.len() + (unequal.trailing_zeros() / 8) as usize;
        }
        (x, y) = (x_rest, y_rest);
    }
    a.len() - x.len() + x.iter().zip(y).take_while(|(x, y)| x == y).count()
}

/// A key in two pieces. The page stores the first piece once for all keys, and the cell stores the second piece.
#[derive(Clone, Copy, Debug)]
pub struct SplitKey<'k> {
    /// The common prefix.
    pub prefix: &'k [u8],
    /// The rest.
    pub suffix: &'k [u8],
}

impl<'k> SplitKey<'k> {
    /// Returns a key in one piece.
    pub fn whole(key: &'k [u8]) -> SplitKey<'k> {
        SplitKey { prefix: &[], suffix: key }
    }

    /// Returns the bytes of the whole key.
    pub fn bytes(&self) -> usize {
        self.prefix.len() + self.suffix.len()
    }

    /// Returns the key without its first `count` bytes.
    pub fn after(self, count: usize) -> SplitKey<'k> {
        let from_prefix = count.min(self.prefix.len());
        let from_suffix = (count - from_prefix).min(self.suffix.len());
        SplitKey { prefix: &self.prefix[from_prefix..], suffix: &self.suffix[from_suffix..] }
    }

    /// Copies the key to the end of `to`.
    #[inline]
    pub fn append_to(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.prefix);
        to.extend_from_slice(self.suffix);
    }

    /// Returns the key as a vector.
    pub fn to_vec(self) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.bytes());
        self.append_to(&mut key);
        key
    }

    /// Compares the key with a key in one piece.
    pub fn compare(&self, key: &[u8]) -> Ordering {
        self.prefix.iter().chain(self.suffix).cmp(key)
    }
}

/// A slotted page, for reading.
#[derive(Clone, Copy)]
pub struct Slotted<'p> {
    page: &'p [u8],
    header: &'p SlottedHeader,
    slots: &'p [Slot],
}

impl<'p> Slotted<'p> {
    /// Reads a page's header and slots; `None` if the header contradicts itself.
    #[inline]
    pub fn over(page: &'p [u8]) -> Option<Slotted<'p>> {
        let header = SlottedHeader::ref_from_bytes(page.get(HEADER_AT..FENCES_AT)?).ok()?;
        let slots_at = header.slots_at();
        let slots_end = slots_at + SLOT_BYTES * usize::from(header.slot_count.get());
        let heap_start = header.heap_start.get() as usize;
        if slots_end > heap_start || heap_start > page.len() || header.prefix_bytes.get() > header.high_bytes.get() {
            return None;
        }
        let slots = <[Slot]>::ref_from_bytes(&page[slots_at..slots_end]).ok()?;
        Some(Slotted { page, header, slots })
    }

    /// Returns the whole page.
    #[inline]
    pub fn bytes(&self) -> &'p [u8] {
        self.page
    }

    /// Returns the header.
    #[inline]
    pub fn header(&self) -> &'p SlottedHeader {
        self.header
    }

    /// Returns the slots, in key order.
    #[inline]
    pub fn slots(&self) -> &'p [Slot] {
        self.slots
    }

    /// Returns the number of slots.
    #[inline]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Returns the bytes of the whole page.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.page.len()
    }

    /// Returns the free bytes between the slots and the heap. The next cell and its slot can use them without a
    /// compaction.
    #[inline]
    pub fn contiguous_bytes(&self) -> usize {
        self.header.heap_start.get() as usize - (self.header.slots_at() + SLOT_BYTES * self.slots.len())
    }

    /// Returns the free bytes after a compaction.
    #[inline]
    pub fn free_bytes(&self) -> usize {
        self.contiguous_bytes() + self.header.garbage_bytes.get() as usize
    }

    /// Returns the high key: every key of the page is below it. `None` on the last page of a level.
    #[inline]
    pub fn high(&self) -> Option<&'p [u8]> {
        let bytes = usize::from(self.header.high_bytes.get());
        (bytes != 0).then(|| &self.page[FENCES_AT..FENCES_AT + bytes])
    }

    /// Returns the low fence: every key of the page is at or above it. Empty on the first page of a level.
    #[inline]
    pub fn low(&self) -> &'p [u8] {
        let at = FENCES_AT + usize::from(self.header.high_bytes.get());
        &self.page[at..at + usize::from(self.header.low_bytes.get())]
    }

    /// Returns the bytes that every key begins with.
    #[inline]
    pub fn prefix(&self) -> &'p [u8] {
        &self.page[FENCES_AT..FENCES_AT + usize::from(self.header.prefix_bytes.get())]
    }

    /// Returns `count` bytes of the page from `at` on; `None` if the page has fewer bytes.
    #[inline]
    pub fn heap_bytes(&self, at: usize, count: usize) -> Option<&'p [u8]> {
        self.page.get(at..at.checked_add(count)?)
    }

    /// Returns whether a key is not below the high key, and so belongs to a page further right.
    #[inline]
    pub fn belongs_right(&self, key: &[u8]) -> bool {
        match self.high() {
            Some(high) => is_not_below(key, high),
            None => false,
        }
    }

    /// Returns the key at a slot without the prefix. A cell has `cell_head` bytes before its key.
    #[inline]
    fn suffix(&self, slot: &Slot, cell_head: usize) -> &'p [u8] {
        let at = usize::from(slot.offset.get()) + cell_head;
        self.heap_bytes(at, usize::from(slot.key_bytes.get())).unwrap_or_default()
    }

    /// Returns the first slot from `first` on whose key is not below the search key, and whether the two are equal. The
    /// search key begins with the common prefix. A cell has `cell_head` bytes before its key.
    ///
    /// With `NEAR`, the caller knows that all slots before `near` are below the search key. The search first compares a
    /// few slots from `near` on.
    // Always inlined: the descent of the tree calls this function at one place, for each page.
    #[inline(always)]
    pub fn lower_bound<const NEAR: bool>(
        &self,
        key: &[u8],
        cell_head: usize,
        first: usize,
        near: usize,
    ) -> (usize, bool) {
        let slots = self.slots.get(first..).unwrap_or_default();
        if slots.is_empty() {
            return (first, false);
        }
        let (prefix, skip) = (usize::from(self.header.prefix_bytes.get()), usize::from(self.header.skip_bytes.get()));
        // Heads skip bytes that all keys of the page share. The search assumes that `key` has these bytes, too.
        // Afterwards it compares these bytes of `key` with the found cell, which the caller probably needs anyway.
        let head = head_at(key, prefix + skip);
        let is_below = |slot: &Slot| slot.head.get() < head;
        let nearest = NEAR.then(|| near.saturating_sub(first)).and_then(|near| {
            let after = slots.get(near..)?.iter().take(NEAR_SLOTS);
            after.enumerate().find(|(_, slot)| !is_below(slot)).map(|(nth, _)| near + nth)
        });
        // This search has no branches: the processor could not predict them.
        let base = nearest.unwrap_or_else(|| slots.partition_point(is_below));
        let has_head = slots.get(base).is_some_and(|slot| slot.head.get() == head);
        if skip != 0 {
            let wanted = &slots[if has_head { base } else { base.saturating_sub(1) }];
            match self.compare_skipped(key, (prefix, skip), wanted, cell_head) {
                Ordering::Less => return (first, false),
                Ordering::Greater => return (self.slots.len(), false),
                Ordering::Equal => {}
            }
        }
        if !has_head {
            return (first + base, false);
        }
        let rest = key.get(prefix + skip..).unwrap_or_default();
        self.lower_bound_among_equals(first + base, head, rest, cell_head)
    }

    /// Returns true if a search key is certainly above all keys of the page. If the result is false, the search key may
    /// still be above them. The search key begins with the common prefix.
    #[inline]
    pub fn is_above_all(&self, key: &[u8], cell_head: usize) -> bool {
        let Some(last) = self.slots.last() else { return true };
        let (prefix, skip) = (usize::from(self.header.prefix_bytes.get()), usize::from(self.header.skip_bytes.get()));
        last.head.get() < head_at(key, prefix + skip)
            && (skip == 0 || self.compare_skipped(key, (prefix, skip), last, cell_head) == Ordering::Equal)
    }

    /// Compares a search key and a slot's key in the bytes that heads skip. All keys of the page share these bytes. Up
    /// to eight skipped bytes of a long key, or up to four of a short key, are compared at once.
    #[inline]
    fn compare_skipped(&self, key: &[u8], (prefix, skip): (usize, usize), slot: &Slot, cell_head: usize) -> Ordering {
        let suffix = key.get(prefix..).unwrap_or_default();
        let at = usize::from(slot.offset.get()) + cell_head;
        let eight = self.page.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
        if let (Some(ours), Some(theirs), 1..=8) = (suffix.first_chunk::<8>(), eight, skip) {
            let differ = u64::from_le_bytes(*ours) ^ u64::from_le_bytes(*theirs);
            if differ << (64 - 8 * skip) == 0 {
                return Ordering::Equal;
            }
        }
        let four = self.page.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
        if let (Some(ours), Some(theirs), 1..=4) = (suffix.first_chunk::<4>(), four, skip) {
            let differ = u32::from_le_bytes(*ours) ^ u32::from_le_bytes(*theirs);
            if differ << (32 - 8 * skip) == 0 {
                return Ordering::Equal;
            }
        }
        self.compare_skipped_slowly(suffix, slot, skip, cell_head)
    }

    #[inline(never)]
    fn compare_skipped_slowly(&self, suffix: &[u8], slot: &Slot, skip: usize, cell_head: usize) -> Ordering {
        let common = self.suffix(slot, cell_head);
        let common = common.get(..skip).unwrap_or(common);
        compare_short(suffix.get(..skip).unwrap_or(suffix), common)
    }

    /// Searches among the slots with the head `head`, which begin at `base`, by the bytes after the head.
    #[inline]
    fn lower_bound_among_equals(&self, base: usize, head: u32, rest: &[u8], cell_head: usize) -> (usize, bool) {
        // The run of equal heads is nearly always one slot long.
        match self.compare_after_head(&self.slots[base], rest, cell_head) {
            Ordering::Less => self.lower_bound_after_head(base, head, rest, cell_head),
            Ordering::Equal => (base, true),
            Ordering::Greater => (base, false),
        }
    }

    /// Compares a slot's key with a search key that has the same head.
    #[inline]
    fn compare_after_head(&self, slot: &Slot, rest: &[u8], cell_head: usize) -> Ordering {
        let skip = usize::from(self.header.skip_bytes.get());
        let bytes = usize::from(slot.key_bytes.get()).saturating_sub(skip);
        if bytes <= 4 || rest.len() <= 4 {
            // The heads are equal, and one of the keys ends within its head. So the other key has the same length, or
            // continues with zeros.
            return bytes.cmp(&rest.len());
        }
        self.suffix(slot, cell_head).get(skip + 4..).unwrap_or_default().cmp(&rest[4..])
    }

    /// Searches after the slot at `base`, whose key is below the search key and has the same head.
    #[cold]
    #[inline(never)]
    fn lower_bound_after_head(&self, base: usize, head: u32, rest: &[u8], cell_head: usize) -> (usize, bool) {
        let compare =
            |slot: &Slot| slot.head.get().cmp(&head).then_with(|| self.compare_after_head(slot, rest, cell_head));
        let (mut low, mut high) = (base + 1, self.slots.len());
        let mut step = 1;
        while low + step < high && self.slots[low + step].head.get() == head {
            step *= 2;
        }
        high = high.min(low + step + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match compare(&self.slots[middle]) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// Returns the number of bytes after the prefix that heads may skip when a key with this suffix is added to the
    /// page.
    pub fn skip_with(&self, suffix: &[u8], cell_head: usize, first: usize) -> usize {
        let skip = usize::from(self.header.skip_bytes.get());
        match self.slots.get(first) {
            None => worth_skipping(suffix.len()),
            // Zero is the minimum. So the first cell, which is probably in no cache, is not read.
            Some(_) if skip == 0 => 0,
            Some(slot) => {
                let shared = common_prefix(suffix, self.suffix(slot, cell_head));
                if shared >= skip {
                    skip
                } else {
                    worth_skipping(shared)
                }
            }
        }
    }

    /// Returns all slots. The slots from `first` on get heads that begin `skip` bytes after the prefix.
    pub fn with_heads_after(&self, skip: usize, cell_head: usize, first: usize) -> Vec<Slot> {
        let head = |slot: &Slot| head_of(self.suffix(slot, cell_head).get(skip..).unwrap_or_default());
        let again = |(index, slot): (usize, &Slot)| {
            if index < first {
                *slot
            } else {
                Slot { head: head(slot).into(), ..*slot }
            }
        };
        self.slots.iter().enumerate().map(again).collect()
    }
}

/// Returns the number of bytes that heads skip if all keys share `shared` bytes. If heads skip bytes, a search must
/// compare these bytes in a cell. That is worth it only for several bytes, so a few bytes are not skipped.
pub fn worth_skipping(shared: usize) -> usize {
    const SKIP_MIN: usize = 3;
    if shared < SKIP_MIN {
        0
    } else {
        shared
    }
}

/// Stores the header.
#[inline]
pub fn store_header(page: &mut PageMut<'_, '_>, header: SlottedHeader) {
    page.range(HEADER_AT..FENCES_AT).copy_from_slice(header.as_bytes());
}

/// Makes room for a slot at `index`, which is at most the header's slot count, and stores the slot. The caller raises
/// the header's count.
#[inline]
pub fn open_slot(page: &mut PageMut<'_, '_>, header: &SlottedHeader, index: usize, slot: Slot) {
    let at = header.slots_at() + SLOT_BYTES * index;
    let end = header.slots_at() + SLOT_BYTES * usize::from(header.slot_count.get());
    let bytes = page.range(at..end + SLOT_BYTES);
    bytes.copy_within(0..end - at, SLOT_BYTES);
    bytes[..SLOT_BYTES].copy_from_slice(slot.as_bytes());
}

/// Removes the slot at `index`, which is below the header's slot count, from the array.
#[inline]
pub fn close_slot(page: &mut PageMut<'_, '_>, header: &SlottedHeader, index: usize) {
    let at = header.slots_at() + SLOT_BYTES * index;
    let end = header.slots_at() + SLOT_BYTES * usize::from(header.slot_count.get());
    let bytes = page.range(at..end);
    bytes.copy_within(SLOT_BYTES.., 0);
    let last = bytes.len() - SLOT_BYTES;
    bytes[last..].fill(0);
}

/// Stores one slot.
#[inline]
pub fn store_slot(page: &mut PageMut<'_, '_>, header: &SlottedHeader, index: usize, slot: Slot) {
    let at = header.slots_at() + SLOT_BYTES * index;
    page.range(at..at + SLOT_BYTES).copy_from_slice(slot.as_bytes());
}

/// Stores all slots of an array.
pub fn store_slots(page: &mut PageMut<'_, '_>, header: &SlottedHeader, slots: &[Slot]) {
    let at = header.slots_at();
    page.range(at..at + SLOT_BYTES * slots.len()).copy_from_slice(slots.as_bytes());
}

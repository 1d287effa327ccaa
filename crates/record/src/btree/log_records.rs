//! The B-tree's log records. The body of each is a little-endian struct, then the bytes whose lengths the struct
//! states. Insertions, updates and deletions have shorter bodies (../changed.rs).
//!
//! Paper: LIBTP 3.2.6. A change of a leaf names page and slot, for redo, and the key, for undo. A split, or any other
//! record that only moves cells, names only pages and has no undo (LIBTP 3.1.2). Byte tables: docs/formats/log.md.
//!
//! `page` is always a packed [`PageId`](libtp_buffer::PageId), with the file in the high half. The record names other
//! pages of the same file by number only; zero is no page.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::IntoBytes;

use crate::log_body::{body, read, take};
use crate::page::node::{LeafCell, Node, LEAF_CELL_HEAD};
use crate::page::rebuild::Cell;
use crate::page::slotted::SplitKey;
use libtp_txn::Damage;

/// A record enters a leaf. Undo: the record becomes a ghost with LSN 0.
pub const INSERT: u16 = 32;
/// A record's value changes, or a ghost becomes a record. Undo: the old bytes, flags and LSN.
pub const UPDATE: u16 = 33;
/// A record becomes a ghost. Undo: as for an update.
pub const DELETE: u16 = 34;
/// The compensation of [`INSERT`], [`UPDATE`] and [`DELETE`]: bytes, flags and LSN as they were.
pub const RESTORE: u16 = 35;
/// The upper part of a page moves to a new right neighbour.
pub const SPLIT: u16 = 36;
/// All cells of the root move to two new pages.
pub const ROOT_SPLIT: u16 = 37;
/// A parent gets the downlink of a page's new right neighbour.
pub const POST: u16 = 38;
/// Ghosts and slack are removed from a page.
pub const RECLAIM: u16 = 39;
/// An empty page is unlinked from the tree; its left neighbour takes over its key range.
pub const UNLINK: u16 = 40;
/// An unlinked page enters the free list.
pub const FREE_UNLINKED: u16 = 41;
/// A replaced chain of overflow pages enters the free list.
pub const DROP_CHAIN: u16 = 42;
/// A page above the leaves that has one child is unlinked; its left neighbour takes over its key range and the child.
pub const ABSORB: u16 = 43;
/// A new page gets a part of the loaded records. Undo: the page is freed.
pub const LOAD: u16 = 44;
/// The root of an empty tree gets the loaded pages as children. Logged as a compensation, so that undo skips the load.
pub const LOAD_ROOT: u16 = 45;
/// A leaf merges into its left neighbour, which takes over the leaf's records and key range.
pub const MERGE: u16 = 46;

body! {
    /// Body of [`RESTORE`]; the inserted bytes follow.
    Restore, 24 {
        /// 00: the leaf.
        page: U64,
        /// 08: the record's slot.
        slot: U16,
        /// 10: the offset in the stored value at which the change begins.
        offset: U16,
        /// 12: number of bytes removed there.
        cut_bytes: U16,
        /// 14: number of bytes inserted there.
        put_bytes: U16,
        /// 16: the record's LSN before the undone change, with its flags in the top byte.
        lsn_and_flags: U64,
    }
}

body! {
    /// Body of [`SPLIT`]; the separator, the old high key and the cells that move follow. Roles: the page, the new
    /// page, the meta page, the old right neighbour.
    Split, 48 {
        /// 00: the page that is split.
        page: U64,
        /// 08: the new page, its right neighbour.
        right: U32,
        /// 12: the right neighbour before the split.
        neighbour: U32,
        /// 16: the head of the free list afterwards.
        free_head: U32,
        /// 20: the page count afterwards.
        page_count: U32,
        /// 24: the first slot that moves.
        at: U16,
        /// 26: number of slots that move.
        count: U16,
        /// 28: bytes of the separator.
        separator_bytes: U16,
        /// 30: bytes of the old high key.
        high_bytes: U16,
        /// 32: length of the prefix that the old high key shares with every key that moves.
        prefix_bytes: U16,
        /// 34: the level of both pages.
        level: u8,
        /// 35: the flags that the page had, which the new page inherits.
        flags: u8,
        /// 36: zero.
        unused: U32,
        /// 40: the highest LSN of a ghost removed from the page, which the new page inherits.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`ROOT_SPLIT`]; the separator and all cells follow. Roles: the root, the two new pages, the meta page.
    RootSplit, 40 {
        /// 00: the root.
        page: U64,
        /// 08: the new left page.
        left: U32,
        /// 12: the new right page.
        right: U32,
        /// 16: the head of the free list afterwards.
        free_head: U32,
        /// 20: the page count afterwards.
        page_count: U32,
        /// 24: number of cells that go left.
        at: U16,
        /// 26: number of cells in all.
        count: U16,
        /// 28: bytes of the separator.
        separator_bytes: U16,
        /// 30: the level of the new pages.
        level: u8,
        /// 31: zero.
        unused: u8,
        /// 32: the highest LSN of a ghost removed from the root, which the new pages inherit.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`POST`]; the separator follows. Roles: the page whose neighbour is posted, the parent.
    Post, 24 {
        /// 00: the page with the incomplete split.
        page: U64,
        /// 08: its parent.
        parent: U32,
        /// 12: the right neighbour.
        child: U32,
        /// 16: the slot of the new entry in the parent.
        slot: U16,
        /// 18: bytes of the separator.
        separator_bytes: U16,
        /// 20: zero.
        unused: U32,
    }
}

body! {
    /// Body of [`RECLAIM`]; one [`ReclaimEntry`] for each slot follows, in slot order.
    Reclaim, 24 {
        /// 00: the leaf.
        page: U64,
        /// 08: the highest LSN of a ghost removed from the page, now or earlier.
        deleter_lsn: U64,
        /// 16: number of entries that follow.
        count: U16,
        /// 18: zero.
        unused: U16,
        /// 20: zero.
        unused_2: U32,
    }
}

body! {
    /// The action on one slot in a [`RECLAIM`].
    ReclaimEntry, 4 {
        /// 00: the slot's number before the removal.
        slot: U16,
        /// 02: 1 to remove the ghost, 2 to remove the record's slack.
        action: U16,
    }
}

/// [`ReclaimEntry::action`]: the ghost is removed from the page.
pub const RECLAIM_REMOVE: u16 = 1;
/// [`ReclaimEntry::action`]: the record's slack is removed.
pub const RECLAIM_TRIM: u16 = 2;

body! {
    /// Body of [`UNLINK`]; the high key of the unlinked page follows. Roles: the left neighbour, the unlinked page, the
    /// parent, the right neighbour.
    Unlink, 32 {
        /// 00: the left neighbour, which takes over the key range.
        page: U64,
        /// 08: the unlinked page.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the slot of the unlinked page in the parent.
        slot: U16,
        /// 22: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 24: the highest LSN of a ghost removed from either page: the left neighbour now has both key ranges.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`FREE_UNLINKED`]. Roles: the page that names the unlinked page, the unlinked page, the meta page.
    FreeUnlinked, 16 {
        /// 00: the page that names the unlinked page.
        page: U64,
        /// 08: the page that becomes free and the new head of the free list.
        gone: U32,
        /// 12: the head of the free list before.
        next: U32,
    }
}

body! {
    /// Body of [`DROP_CHAIN`]. Roles: the leaf, the last page of the chain, the meta page, the first page of the chain
    /// that holds the record's value.
    DropChain, 48 {
        /// 00: the leaf.
        page: U64,
        /// 08: the record's slot.
        slot: U16,
        /// 10: zero.
        unused: U16,
        /// 12: the chain's first page, the new head of the free list.
        first: U32,
        /// 16: the chain's last page.
        last: U32,
        /// 20: the head of the free list before.
        next: U32,
        /// 24: the first page of the chain that holds the record's value, zero if the leaf holds the value.
        live: U32,
        /// 28: zero.
        unused_2: U32,
        /// 32: bytes of the chain that is dropped next.
        older_bytes: U64,
        /// 40: that chain's first page, zero if no chain is left.
        older_first: U32,
        /// 44: that chain's last page.
        older_last: U32,
    }
}

body! {
    /// Body of [`ABSORB`]; the high key of the absorbed page follows. Roles: the left neighbour, the absorbed page, the
    /// parent, the right neighbour.
    Absorb, 32 {
        /// 00: the left neighbour, which takes over the key range and the child.
        page: U64,
        /// 08: the absorbed page.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the only child of the absorbed page.
        child: U32,
        /// 24: the slot of the absorbed page in the parent.
        slot: U16,
        /// 26: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 28: zero.
        unused: U32,
    }
}

body! {
    /// Body of [`LOAD`]; the low fence, the high key and the cells follow. Roles: the new page, the meta page, the left
    /// neighbour.
    Load, 40 {
        /// 00: the new page.
        page: U64,
        /// 08: its left neighbour, zero for the first page of its level.
        left: U32,
        /// 12: the head of the free list afterwards.
        free_head: U32,
        /// 16: the page count afterwards.
        page_count: U32,
        /// 20: number of cells.
        count: U16,
        /// 22: bytes of the stored part of the low fence.
        low_bytes: U16,
        /// 24: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 26: length of the prefix that the high key shares with every key.
        prefix_bytes: U16,
        /// 28: the level.
        level: u8,
        /// 29: zero.
        unused: u8,
        /// 30: zero.
        unused_2: U16,
        /// 32: the highest LSN of a ghost removed from the tree when it was one leaf.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`LOAD_ROOT`]; the cells follow. Role: the root.
    LoadRoot, 16 {
        /// 00: the root.
        page: U64,
        /// 08: number of cells.
        count: U16,
        /// 10: the level of the root.
        level: u8,
        /// 11: zero.
        unused: u8,
        /// 12: zero.
        unused_2: U32,
    }
}

body! {
    /// Body of [`MERGE`]; the high key and the cells of the merged leaf follow. Roles: the left neighbour, the merged
    /// leaf, the parent, the right neighbour.
    Merge, 40 {
        /// 00: the left neighbour, which takes over the cells and the key range.
        page: U64,
        /// 08: the merged leaf.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the slot of the merged leaf in the parent.
        slot: U16,
        /// 22: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 24: number of cells.
        count: U16,
        /// 26: length of the prefix that the high key shares with every key of these cells.
        prefix_bytes: U16,
        /// 28: zero.
        unused: U32,
        /// 32: the highest LSN of a ghost removed from either leaf.
        deleter_lsn: U64,
    }
}

/// Appends a cell to a body: the key length, the cell's beginning, the key after the page's prefix, the stored value.
pub fn append_cell(node: &Node<'_>, slot: usize, body: &mut Vec<u8>) -> Option<()> {
    let suffix = node.key(slot).suffix;
    body.extend_from_slice(&u16::try_from(suffix.len()).ok()?.to_le_bytes());
    match Cell::at(node, slot)? {
        Cell::Record { head, stored, .. } => {
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(suffix);
            body.extend_from_slice(stored);
        }
        Cell::Child { child, .. } => {
            body.extend_from_slice(&child.to_le_bytes());
            body.extend_from_slice(suffix);
        }
    }
    Some(())
}

/// Takes a cell off the front of `bytes`, as [`append_cell`] wrote it.
///
/// # Errors
/// The bytes end too soon.
pub fn take_cell<'b>(bytes: &mut &'b [u8], level: u8, prefix: &'b [u8]) -> Result<Cell<'b>, Damage> {
    let (key_bytes, _) = read::<U16>(take(bytes, 2)?)?;
    let key_bytes = usize::from(key_bytes.get());
    if level == 0 {
        let (head, _) = read::<LeafCell>(take(bytes, LEAF_CELL_HEAD)?)?;
        let key = SplitKey { prefix, suffix: take(bytes, key_bytes)? };
        let stored = take(bytes, usize::from(head.stored_bytes.get()))?;
        return Ok(Cell::Record { key, head: *head, stored });
    }
    let (child, _) = read::<U32>(take(bytes, 4)?)?;
    Ok(Cell::Child { key: SplitKey { prefix, suffix: take(bytes, key_bytes)? }, child: child.get() })
}

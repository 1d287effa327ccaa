//! The B-tree's log records: one little-endian struct each, in front of the bytes it counts. Insertions, updates and
//! deletions have shorter bodies (../changed.rs).
//!
//! Paper: LIBTP 3.2.6. A change of a leaf names page and slot, for redo, and the key, for undo. A split, or any other
//! record that only moves cells, names only pages and has no undo (LIBTP 3.1.2). Byte tables: docs/formats/log.md.
//!
//! `page` is always a packed [`PageId`](libtp_buffer::PageId), with the file in the high half. Other pages of the same
//! record are of the same file and named by number, zero for none.

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
/// A page gives its upper part to a new right neighbour.
pub const SPLIT: u16 = 36;
/// The root gives all its cells to two new pages.
pub const ROOT_SPLIT: u16 = 37;
/// A parent gets the entry of a page's new right neighbour.
pub const POST: u16 = 38;
/// Ghosts leave a page and slack is given up.
pub const RECLAIM: u16 = 39;
/// An empty page leaves the tree; its left neighbour takes over its range.
pub const UNLINK: u16 = 40;
/// An unlinked page enters the free list.
pub const FREE_UNLINKED: u16 = 41;
/// A replaced chain of overflow pages enters the free list.
pub const DROP_CHAIN: u16 = 42;
/// A page above the leaves that has one child leaves the tree; its left neighbour takes over its range and the child.
pub const ABSORB: u16 = 43;
/// A new page takes a part of the load. Undo: the page is free again.
pub const LOAD: u16 = 44;
/// The root of an empty tree leads to the loaded pages. Logged as a compensation that passes over the load.
pub const LOAD_ROOT: u16 = 45;
/// A leaf merges into its left neighbour, with its records and its range.
pub const MERGE: u16 = 46;

body! {
    /// Body of [`RESTORE`]; the bytes put in follow.
    Restore, 24 {
        /// 00: the leaf.
        page: U64,
        /// 08: the record's slot.
        slot: U16,
        /// 10: where in the stored value the change begins.
        offset: U16,
        /// 12: bytes taken out there.
        cut_bytes: U16,
        /// 14: bytes put in there.
        put_bytes: U16,
        /// 16: the LSN the record gets back, its flags in the top byte.
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
        /// 12: the right neighbour before.
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
        /// 32: bytes of the old high key that begin every key that moves.
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
        /// 16: the slot its entry gets in the parent.
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
        /// 00: the slot, as numbered before.
        slot: U16,
        /// 02: 1 to remove it, 2 to give up its slack.
        action: U16,
    }
}

/// [`ReclaimEntry::action`]: the ghost leaves the page.
pub const RECLAIM_REMOVE: u16 = 1;
/// [`ReclaimEntry::action`]: the record keeps no more room than it fills.
pub const RECLAIM_TRIM: u16 = 2;

body! {
    /// Body of [`UNLINK`]; the high key of the page that goes follows. Roles: the left neighbour, the page, the parent,
    /// the right neighbour.
    Unlink, 32 {
        /// 00: the left neighbour, which takes over the range.
        page: U64,
        /// 08: the page that goes.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the slot of the page that goes, in the parent.
        slot: U16,
        /// 22: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 24: the highest LSN of a ghost removed from either page: both ranges belong to the left neighbour from now
        /// on.
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
    /// Body of [`ABSORB`]; the high key of the page that goes follows. Roles: the left neighbour, the page, the parent,
    /// the right neighbour.
    Absorb, 32 {
        /// 00: the left neighbour, which takes over range and child.
        page: U64,
        /// 08: the page that goes.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the only child of the page that goes.
        child: U32,
        /// 24: the slot of the page that goes, in the parent.
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
        /// 08: its left neighbour, zero for the first of its level.
        left: U32,
        /// 12: the head of the free list afterwards.
        free_head: U32,
        /// 16: the page count afterwards.
        page_count: U32,
        /// 20: number of cells.
        count: U16,
        /// 22: bytes of the low fence, as far as it is stored.
        low_bytes: U16,
        /// 24: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 26: bytes of the high key that begin every key.
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
    /// Body of [`MERGE`]; the high key and the cells of the leaf that goes follow. Roles: the left neighbour, the leaf,
    /// the parent, the right neighbour.
    Merge, 40 {
        /// 00: the left neighbour, which takes over cells and range.
        page: U64,
        /// 08: the leaf that goes.
        gone: U32,
        /// 12: the parent of both.
        parent: U32,
        /// 16: the right neighbour.
        neighbour: U32,
        /// 20: the slot of the leaf that goes, in the parent.
        slot: U16,
        /// 22: bytes of the high key, zero for none.
        high_bytes: U16,
        /// 24: number of cells.
        count: U16,
        /// 26: bytes of the high key that begin every key of these cells.
        prefix_bytes: U16,
        /// 28: zero.
        unused: U32,
        /// 32: the highest LSN of a ghost removed from either leaf.
        deleter_lsn: U64,
    }
}

/// Appends a cell to a body: key length, the cell's beginning, the key behind the page's prefix, the stored value.
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

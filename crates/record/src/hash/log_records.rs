//! The hash file's log records.
//!
//! Paper: LIBTP 3.2.6. Log records that change one record, remove ghosts or free a replaced long value have the same
//! format as for a B-tree (../btree/log_records.rs). Their codes differ, because undo searches for the key in another
//! way. Byte tables: docs/formats/log.md.
//!
//! `page` is always a packed page identifier. Other fields name a page of the same file by its page number alone; zero
//! means no page.

use zerocopy::little_endian::{U16, U32, U64};

use crate::log_body::body;

/// A record enters a bucket. Undo: the record becomes a ghost with LSN 0.
pub const INSERT: u16 = 96;
/// A record's value changes, or a ghost becomes a record. Undo: the old bytes, flags and LSN.
pub const UPDATE: u16 = 97;
/// A record becomes a ghost. Undo: as for an update.
pub const DELETE: u16 = 98;
/// The compensation of [`INSERT`], [`UPDATE`] and [`DELETE`].
pub const RESTORE: u16 = 99;
/// A new file gets its header and its first bucket. Roles: the meta page, the header, the bucket's page. No undo.
pub const CREATE: u16 = 100;
/// A new bucket. No undo.
pub const SPLIT: u16 = 101;
/// Records move from one page to another. No undo.
pub const MOVE: u16 = 102;
/// A new bucket has all its records. No undo.
pub const FINISH: u16 = 103;
/// A chain gets one more page. No undo.
pub const EXTEND: u16 = 104;
/// An empty page is removed from its chain and freed. No undo.
pub const SHRINK: u16 = 105;
/// Ghosts and slack are removed from a page. No undo.
pub const RECLAIM: u16 = 106;
/// A replaced chain of overflow pages enters the free list. No undo.
pub const DROP_CHAIN: u16 = 107;

body! {
    /// Body of [`CREATE`].
    Create, 16 {
        /// 00: the meta page.
        page: U64,
        /// 08: the header.
        header: U32,
        /// 12: the page of the first bucket, which is the last page of the new file.
        bucket: U32,
    }
}

body! {
    /// Body of [`SPLIT`], followed by the cells that move. Roles: the first page of the giving bucket, the first page
    /// of the new bucket, the header, the meta page if an extent begins.
    Split, 40 {
        /// 00: the first page of the giving bucket.
        page: U64,
        /// 08: the first page of the new bucket.
        new: U32,
        /// 12: the header.
        header: U32,
        /// 16: the new bucket's number.
        bucket: U32,
        /// 20: the page count afterwards if an extent begins with the new page, otherwise zero.
        page_count: U32,
        /// 24: the head of the free list, which does not change.
        free_head: U32,
        /// 28: number of cells that move.
        count: U16,
        /// 30: 1 if both buckets get their marks, because further pages may have records that belong to the new bucket.
        is_marked: u8,
        /// 31: zero.
        unused: u8,
        /// 32: the highest LSN of a record removed for good from the giving bucket's first page.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`MOVE`], followed by the slots that move and their cells. Roles: the source page, the target page.
    Move, 24 {
        /// 00: the source page.
        page: U64,
        /// 08: the target page.
        to: U32,
        /// 12: number of slots.
        count: U16,
        /// 14: zero.
        unused: U16,
        /// 16: the highest LSN of a record removed for good from the source page.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`FINISH`]. Roles: the first page of the giving bucket, the first page of the new bucket.
    Finish, 24 {
        /// 00: the first page of the giving bucket.
        page: U64,
        /// 08: the first page of the new bucket.
        new: U32,
        /// 12: zero.
        unused: U32,
        /// 16: the highest LSN of a record removed for good from any page of the giving bucket.
        deleter_lsn: U64,
    }
}

body! {
    /// Body of [`EXTEND`]. Roles: the last page, the new page, the meta page.
    Extend, 24 {
        /// 00: the last page of the chain.
        page: U64,
        /// 08: the new page.
        new: U32,
        /// 12: the bucket.
        bucket: U32,
        /// 16: the head of the free list afterwards.
        free_head: U32,
        /// 20: the page count afterwards.
        page_count: U32,
    }
}

body! {
    /// Body of [`SHRINK`]. Roles: the page before the removed page, the removed page, the meta page.
    Shrink, 32 {
        /// 00: the page before the removed page.
        page: U64,
        /// 08: the removed page, the new head of the free list.
        gone: U32,
        /// 12: the page after the removed page, zero for none.
        after: U32,
        /// 16: the head of the free list before the removal.
        next: U32,
        /// 20: zero.
        unused: U32,
        /// 24: the highest LSN of a record removed for good from the removed page.
        deleter_lsn: U64,
    }
}

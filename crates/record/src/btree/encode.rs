//! Builds the B-tree's log records from the pages that they change.
//!
//! There is one function for each record type. Each returns a [`Changed`] or appends to the session's scratch buffer,
//! so that logging a change allocates nothing.

use rio::planted;
use zerocopy::IntoBytes;

use crate::btree::difference::{unequal_range, Difference};
use crate::btree::log_records::{append_cell, Post, Restore, RootSplit, Split};
use crate::btree::split_plan::SplitPlan;
use crate::changed::Changed;
use crate::log_body::short;
use crate::page::node::{Node, Record};
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use libtp_log::Lsn;

/// Returns the log record of an insertion.
#[inline]
pub fn insert<'b>(page: u64, slot: usize, flags: RecordFlags, key: &'b [u8], stored: &'b [u8]) -> Changed<'b, 'b> {
    let (flags_before, lsn_before) = (RecordFlags::NONE, Lsn::NONE);
    Changed { page, slot, key, offset: 0, cut: &[], put: stored, flags_before, flags_after: flags, lsn_before }
}

/// The record before a change.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// Its stored value.
    pub stored: &'a [u8],
    /// Its flags.
    pub flags: RecordFlags,
    /// Its LSN.
    pub lsn: Lsn,
}

impl<'a> From<&Record<'a>> for Before<'a> {
    #[inline]
    fn from(record: &Record<'a>) -> Before<'a> {
        Before { stored: record.stored, flags: record.flags, lsn: record.lsn }
    }
}

/// The record after a change.
#[derive(Clone, Copy, Debug)]
pub struct After<'a> {
    /// Its stored value.
    pub stored: &'a [u8],
    /// Its flags.
    pub flags: RecordFlags,
}

/// Returns the log record of an update or, if the record becomes a ghost, of a deletion. A deletion logs the whole
/// value, because the page no longer has it.
#[inline]
pub fn update<'c, 'b>(page: u64, slot: usize, before: &Before<'c>, key: &'b [u8], after: After<'b>) -> Changed<'c, 'b> {
    let middle = if after.flags.has(RecordFlags::GHOST) {
        Difference { offset: 0, cut: before.stored.len(), put: after.stored.len() }
    } else {
        Difference::between(before.stored, after.stored)
    };
    Changed {
        page,
        slot,
        key,
        offset: middle.offset,
        cut: &before.stored[middle.offset..middle.offset + middle.cut],
        put: &after.stored[middle.offset..middle.offset + middle.put],
        flags_before: before.flags,
        flags_after: after.flags,
        lsn_before: before.lsn,
    }
}

/// Returns the log record of an update of a part of a record without flags. The part begins at `offset`. `before` has
/// the old part, and `new` has the same length.
#[inline(always)]
pub fn part<'c, 'b>(
    page: u64,
    slot: usize,
    before: &Before<'c>,
    key: &'b [u8],
    offset: usize,
    new: &'b [u8],
) -> Changed<'c, 'b> {
    let middle = unequal_range(before.stored, new);
    Changed {
        page,
        slot,
        key,
        offset: offset + middle.start,
        cut: &before.stored[middle.clone()],
        put: &new[middle],
        flags_before: before.flags,
        flags_after: RecordFlags::NONE,
        lsn_before: before.lsn,
    }
}

/// Appends the body of the compensation of an update: the old middle.
pub fn restore_update(body: &mut Vec<u8>, page: u64, slot: usize, undone: &Changed<'_, '_>) {
    let record = Restore {
        page: page.into(),
        slot: short(slot),
        offset: short(undone.offset),
        cut_bytes: short(undone.put.len()),
        put_bytes: short(undone.cut.len()),
        lsn_and_flags: pack_lsn(undone.lsn_before, undone.flags_before).into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(undone.cut);
}

/// Appends the body of the compensation of an insertion: a ghost with LSN 0.
pub fn restore_insert(body: &mut Vec<u8>, page: u64, slot: usize, undone: &Changed<'_, '_>) {
    let flags =
        if planted("record: an undone insertion leaves a record") { RecordFlags::NONE } else { RecordFlags::GHOST };
    let record = Restore {
        page: page.into(),
        slot: short(slot),
        offset: 0.into(),
        cut_bytes: short(undone.put.len()),
        put_bytes: 0.into(),
        lsn_and_flags: pack_lsn(Lsn::NONE, flags).into(),
    };
    body.extend_from_slice(record.as_bytes());
}

/// The pages of an allocation, and the meta page's contents afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Taken<const N: usize> {
    /// The new pages' numbers.
    pub pages: [u32; N],
    /// The head of the free list afterwards.
    pub free_head: u32,
    /// The page count afterwards.
    pub page_count: u32,
}

/// Appends the body of a split. Returns `None` if a cell cannot be read.
pub fn split(body: &mut Vec<u8>, page: u64, node: &Node<'_>, plan: &SplitPlan, taken: Taken<1>) -> Option<()> {
    let high = node.high().unwrap_or_default();
    let flags = u8::try_from(node.header().flags.get()).ok()?;
    let record = Split {
        page: page.into(),
        right: taken.pages[0].into(),
        neighbour: node.header().right,
        free_head: taken.free_head.into(),
        page_count: taken.page_count.into(),
        at: short(plan.at),
        count: short(node.count() - plan.at),
        separator_bytes: short(plan.separator.len()),
        high_bytes: short(high.len()),
        prefix_bytes: node.header().prefix_bytes,
        level: node.level(),
        flags,
        unused: 0.into(),
        deleter_lsn: node.deleter_lsn().raw().into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(&plan.separator);
    body.extend_from_slice(high);
    (plan.at..node.count()).try_for_each(|slot| append_cell(node, slot, body))
}

/// Appends the body of a split of the root. Returns `None` if a cell cannot be read.
pub fn root_split(body: &mut Vec<u8>, page: u64, node: &Node<'_>, plan: &SplitPlan, taken: Taken<2>) -> Option<()> {
    let record = RootSplit {
        page: page.into(),
        left: taken.pages[0].into(),
        right: taken.pages[1].into(),
        free_head: taken.free_head.into(),
        page_count: taken.page_count.into(),
        at: short(plan.at),
        count: short(node.count()),
        separator_bytes: short(plan.separator.len()),
        level: node.level(),
        unused: 0,
        deleter_lsn: node.deleter_lsn().raw().into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(&plan.separator);
    (0..node.count()).try_for_each(|slot| append_cell(node, slot, body))
}

/// Appends the body of a post.
pub fn post(body: &mut Vec<u8>, page: u64, parent: u32, child: u32, slot: usize, separator: &[u8]) {
    let record = Post {
        page: page.into(),
        parent: parent.into(),
        child: child.into(),
        slot: short(slot),
        separator_bytes: short(separator.len()),
        unused: 0.into(),
    };
    body.extend_from_slice(record.as_bytes());
    body.extend_from_slice(separator);
}

//! Makes room on a leaf: removes ghosts, releases the slack of records, frees replaced chains.
//!
//! PROTOCOLS K1, S3, T4. Until a ghost is removed, it counts as a key. It is removed only when no transaction locks the
//! record or the gap below it. If there is no such lock, the deleting transaction has ended, no undo searches for the
//! ghost, and no scan relies on its gap. Slack is room that a record does not fill. If no transaction locks the record,
//! the transaction that made the record shorter has ended, so no undo needs the slack. One redo-only record removes
//! ghosts and slack. The page keeps the highest LSN of a removed ghost, for snapshots.
//!
//! If the session's own transaction has locked the whole database or whole pages, no lock on a record shows which
//! ghosts the transaction made. So the session recognises them by their LSN. With page locks, nothing is removed from a
//! leaf that another transaction has locked.
//!
//! A ghost or a replaced chain is also kept while a snapshot may need the version before it: until every present and
//! future snapshot sees the change that made the ghost or replaced the chain (`Managers::reclaim_horizon`).

use std::ops::Range;

use libtp_buffer::ExclusivePage;
use libtp_lock::Mode;
use libtp_log::Lsn;
use rio::{failpoint, planted};
use zerocopy::IntoBytes;

use crate::btree::change::drop_replaced;
use crate::btree::descent::node_of;
use crate::btree::horizon::{first_own_lsn, is_seen_by_all, Horizon};
use crate::btree::log_records::{Reclaim, ReclaimEntry, RECLAIM, RECLAIM_REMOVE, RECLAIM_TRIM};
use crate::btree::split_plan::Incoming;
use crate::btree::unlink;
use crate::btree::unlinked::free_unlinked;
use crate::database::Granularity;
use crate::key_hash::hash_of;
use crate::lock_names;
use crate::locking::Access;
use crate::log_body::short;
use crate::page::node::{Node, Record};
use crate::page::record_lsn::RecordFlags;
use crate::page_header;
use crate::Result;

/// Returns whether no rollback can need an earlier state of the record.
fn is_settled(access: &Access<'_>, record: &Record<'_>, hash: u64, own: Lsn) -> bool {
    let is_locked = !access.is_free(lock_names::record(access.database.id(), hash));
    (record.lsn < own && !is_locked) || planted("record: locked ghosts are removed")
}

/// Returns an action for each slot of a leaf that has a removable ghost or removable slack, and the highest LSN of a
/// removed ghost. `may_leave` tells whether the gap of a ghost's key is free; its argument is the key's hash.
pub(crate) fn plan(
    access: &Access<'_>,
    number: u32,
    node: &Node<'_>,
    own: Lsn,
    may_leave: impl Fn(u64) -> bool,
) -> Result<(Vec<ReclaimEntry>, Lsn)> {
    let mut entries = Vec::new();
    let mut deleter = Lsn::NONE;
    let horizon = Horizon::default();
    for slot in 0..node.count() {
        let record = access.record_at(number, node, slot)?;
        let has_slack = record.room > record.stored.len();
        if !record.is_ghost() && !has_slack {
            continue;
        }
        let hash = hash_of(node.key(slot));
        if !is_settled(access, &record, hash, own) {
            continue;
        }
        let leaves = record.is_ghost()
            && !record.flags.has(RecordFlags::REPLACED)
            && horizon.has_passed(access, record.lsn)
            && may_leave(hash);
        if leaves {
            deleter = deleter.max(record.lsn);
        } else if !has_slack {
            continue;
        }
        let action = if leaves { RECLAIM_REMOVE } else { RECLAIM_TRIM };
        entries.push(ReclaimEntry { slot: short(slot), action: action.into() });
    }
    Ok((entries, deleter))
}

/// Whether a record is a ghost, or has more room than it fills.
fn has_something(record: &Record<'_>) -> bool {
    record.is_ghost() || record.room > record.stored.len()
}

/// Frees the replaced chains of records that no other transaction locks. Returns whether the leaf may have ghosts or
/// slack.
fn free_chains<'a>(access: &Access<'a>, number: u32, own: Lsn, incoming: Option<&[u8]>) -> Result<bool> {
    let (horizon, mut may_give) = (Horizon::default(), false);
    let keys: Vec<(Vec<u8>, u64)> = {
        let leaf = access.pages.shared(number, 0)?;
        let node = node_of(&access.pages, number, &leaf)?;
        if !node.is_leaf() {
            return Ok(true);
        }
        let replaced = (0..node.count()).filter(|&slot| {
            let record = node.record(slot);
            record.is_some_and(|record| {
                may_give |= has_something(&record);
                record.replaced().is_some() && record.lsn < own && horizon.has_passed(access, record.lsn)
            })
        });
        replaced.map(|slot| (node.key(slot).to_vec(), hash_of(node.key(slot)))).collect()
    };
    // When a chain is freed, the record's reference to the chain becomes slack.
    may_give |= !keys.is_empty();
    // The chain that an incoming value replaces stays until the record names the new chain.
    for (key, hash) in keys.into_iter().filter(|(key, _)| incoming != Some(key)) {
        let record = lock_names::record(access.database.id(), hash);
        let still_free = |leaf| access.is_free(record) && !is_page_of_others(access, leaf);
        drop_replaced::<ExclusivePage<'a>>(access, &key, still_free)?;
    }
    Ok(may_give)
}

/// Removes all removable ghosts and slack from a latched leaf, unless another transaction has locked the leaf. Returns
/// whether anything was removed.
fn reclaim(access: &Access<'_>, leaf: &mut ExclusivePage<'_>, own: Lsn) -> Result<bool> {
    let pages = &access.pages;
    let number = leaf.id().page().raw();
    if is_page_of_others(access, number) {
        return Ok(false);
    }
    let node = node_of(pages, number, leaf)?;
    let gap_is_free = |hash| access.is_free(lock_names::gap(access.database.id(), hash));
    let (entries, deleter) = plan(access, number, &node, own, gap_is_free)?;
    if entries.is_empty() {
        return Ok(false);
    }
    let head = Reclaim {
        page: pages.id(number).raw().into(),
        deleter_lsn: deleter.max(page_header::deleter_lsn(leaf)).raw().into(),
        count: short(entries.len()),
        ..Reclaim::default()
    };
    let mut body = pages.change.txn.scratch();
    body.writer().extend_from_slice(head.as_bytes());
    body.writer().extend_from_slice(entries.as_bytes());
    failpoint("ghosts: about to be removed");
    pages.apply_checked(RECLAIM, body.body(), &mut [leaf])?;
    failpoint("ghosts: removed");
    Ok(true)
}

/// Tries to make room on a leaf without a split. Returns whether the search should begin again.
pub(crate) fn make_room(access: &Access<'_>, number: u32, incoming: Incoming<'_>) -> Result<bool> {
    let pages = &access.pages;
    let own = first_own_lsn(access);
    let may_give = free_chains(access, number, own, Some(incoming.key))?;
    free_unlinked(access, None)?;
    if !may_give {
        return Ok(false);
    }
    pages.reserve_common(access.database.page_bytes(), access.database.page_bytes())?;
    let mut leaf = pages.exclusive(number, 0)?;
    let node = node_of(pages, number, &leaf)?;
    if !node.is_leaf() || node.is_deleted() || node.belongs_right(incoming.key) {
        return Ok(true);
    }
    failpoint("ghosts: leaf latched to make room");
    if !reclaim(access, &mut leaf, own)? {
        return Ok(false);
    }
    let node = node_of(pages, number, &leaf)?;
    let (slot, found) = node.find(incoming.key);
    Ok(if found { node.fits_change(slot, incoming.bytes) } else { incoming.bytes <= node.free_bytes() })
}

/// Removes all ghosts and slack from a leaf, except those that a rollback may need.
pub(crate) fn tidy(access: &Access<'_>, number: u32) -> Result<()> {
    let pages = &access.pages;
    let own = first_own_lsn(access);
    free_chains(access, number, own, None)?;
    let has_something = |node: &Node<'_>| {
        let mut records = (0..node.count()).filter_map(|slot| node.record(slot));
        node.is_leaf() && !node.is_deleted() && records.any(|record| has_something(&record))
    };
    if !has_something(&node_of(pages, number, &pages.shared(number, 0)?)?) {
        return Ok(());
    }
    pages.reserve_common(access.database.page_bytes(), access.database.page_bytes())?;
    let mut leaf = pages.exclusive(number, 0)?;
    if has_something(&node_of(pages, number, &leaf)?) {
        reclaim(access, &mut leaf, own)?;
    }
    Ok(())
}

/// Returns whether a leaf has only ghosts, or is empty because it could not be unlinked when it was emptied. A session
/// that passes such a leaf tries to clean it.
#[inline]
pub(crate) fn is_to_be_cleaned(access: &Access<'_>, number: u32, lsn: Lsn, node: &Node<'_>) -> bool {
    if node.count() == 0 {
        return node.left().is_some() && !access.database.is_staying(number, lsn);
    }
    is_dead(node)
}

/// Returns whether a leaf is empty or has only ghosts.
pub(crate) fn is_dead(node: &Node<'_>) -> bool {
    let is_ghost = |slot| node.record(slot).is_some_and(|record| record.is_ghost());
    // Check the last slot first: if keys are deleted from the low end, the remaining records are at the high end.
    node.count().checked_sub(1).is_none_or(is_ghost) && (0..node.count()).all(is_ghost)
}

/// If at least this number of consecutive ghosts is ahead of a walk, the walk first removes the removable ghosts.
/// Otherwise it would lock each of them. In a queue whose first record is taken again and again, each walk would then
/// lock more ghosts than the walk before.
const RUN: usize = 16;

/// Returns whether the slots begin with a run of ghosts, and no snapshot needs the first ghost.
#[inline]
pub(crate) fn is_run(access: &Access<'_>, node: &Node<'_>, slots: Range<usize>) -> bool {
    let ghost = |slot| node.record(slot).filter(Record::is_ghost);
    let Some(first) = ghost(slots.start) else { return false };
    slots.len() >= RUN && slots.take(RUN).all(|slot| ghost(slot).is_some()) && is_seen_by_all(access, first.lsn)
}

/// Returns whether a deletion has left only ghosts on a leaf that can be unlinked. A session then has to clean the leaf
/// after the commit.
#[inline]
pub(crate) fn is_to_leave(node: &Node<'_>) -> bool {
    node.left().is_some() && is_dead(node) && !planted("record: an empty leaf is not unlinked")
}

/// Cleans a leaf that is empty or has only ghosts, and unlinks the leaf if it is empty then. Returns whether it was
/// unlinked. Does not wait for locks that protect ghosts.
pub(crate) fn clean(access: &Access<'_>, number: u32, left: Option<u32>) -> Result<bool> {
    let pages = &access.pages;
    debug_assert!(pages.session().is_in_tree(), "outside of a tree operation, pages may be reused");
    let own = first_own_lsn(access);
    free_chains(access, number, own, None)?;
    free_unlinked(access, left)?;
    pages.reserve_common(access.database.page_bytes(), access.database.page_bytes())?;
    let is_empty = {
        let mut leaf = pages.exclusive(number, 0)?;
        let node = node_of(pages, number, &leaf)?;
        if !is_dead(&node) || node.is_deleted() || is_page_locked(access, number) {
            return Ok(false);
        }
        node.count() == 0 || (reclaim(access, &mut leaf, own)? && node_of(pages, number, &leaf)?.count() == 0)
    };
    Ok(is_empty && unlink::unlink(access, number)?)
}

/// Returns whether pages are locked instead of records, and a transaction has locked page `number`.
fn is_page_locked(access: &Access<'_>, number: u32) -> bool {
    access.database.granularity() == Granularity::Page
        && !access.is_free(lock_names::page(access.database.id(), number))
}

/// Like [`is_page_locked`], but returns false if our own lock excludes all other transactions.
fn is_page_of_others(access: &Access<'_>, number: u32) -> bool {
    let name = lock_names::page(access.database.id(), number);
    is_page_locked(access, number) && !access.holds(name).is_some_and(|mode| mode.covers(Mode::X))
}

//! Merges neighbouring leaves with few records, while other sessions read and write.
//!
//! Not in the paper. In one log record, the *left* leaf takes over its right neighbour's records and key range, as in
//! the unlinking of an emptied leaf. So the lower bound of a page never changes while the page is in the tree. The
//! right leaf keeps its right link, gets a *deleted* mark, and is freed when no session can be on the way to it
//! (PROTOCOLS T2). A session that was on the way begins again from the root, and finds its keys in the left leaf.
//!
//! Records move unchanged, with their LSN, flags, and the room that undo may need (PROTOCOLS T4). Locks on records stay
//! valid, because their names contain no page. With page locks, a leaf merges only if no transaction has locked it.
//!
//! The first child of a parent is not merged, because the leaf to its left has another parent.
//!
//! If we die here: a merge is one redo-only record, complete in itself.

use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::descent::node_of;
use crate::btree::ghosts;
use crate::btree::log_records::{append_cell, Merge, MERGE};
use crate::btree::search::{self, number_of};
use crate::btree::unlinked::{free_unlinked, remember};
use crate::database::Granularity;
use crate::lock_names;
use crate::locking::Access;
use crate::log_body::short;
use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::page::slotted::SLOT_BYTES;
use crate::pages::rank;
use crate::{Error, Result};
use libtp_lock::Mode;
use libtp_txn::State;

/// The result of a compaction of several leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Leaves that were examined.
    pub leaves: u64,
    /// Leaves that merged into their left neighbours, or were empty and unlinked.
    pub merged: u64,
    /// The key from which to continue; `None` at the end.
    pub next: Option<Vec<u8>>,
}

/// Returns whether a leaf has records and no unfinished action.
pub(crate) fn is_settled(node: &Node<'_>) -> bool {
    node.is_leaf()
        && node.count() != 0
        && !node.is_deleted()
        && !node.is_incomplete()
        && node.header().unlinked.get() == 0
}

/// Returns the bytes that the page's slots and cells would need if only the first `prefix` bytes of its keys were
/// stored once.
pub(crate) fn bytes_with(node: &Node<'_>, prefix: usize) -> usize {
    let longer = usize::from(node.header().prefix_bytes.get()).saturating_sub(prefix) * node.count();
    (0..node.count()).map(|slot| node.cell_bytes(slot) + SLOT_BYTES).sum::<usize>() + longer
}

/// Returns whether the records of both leaves fit on one page that is filled to at most `fill_percent`.
fn fits(left: &Node<'_>, right: &Node<'_>, fill_percent: u8) -> bool {
    let (high, page_bytes) = (right.high().unwrap_or_default(), left.page_bytes());
    let prefix = Frame::prefix_bytes(left.low(), high, page_bytes);
    let room = Frame::room(left.low(), high, page_bytes);
    100 * (bytes_with(left, prefix) + bytes_with(right, prefix)) <= usize::from(fill_percent) * room
}

impl Access<'_> {
    /// Compacts up to `leaves` leaves from the key `from` on. Removes all ghosts and slack that no rollback can need,
    /// and merges neighbours that fit on one page filled to `fill_percent`. The calling session has no transaction;
    /// other sessions can work at the same time.
    ///
    /// # Errors
    /// `Unsuitable` for an impossible fill, and errors of pages and the log. Merges before the error are not undone.
    ///
    /// # Panics
    /// If the session runs a transaction.
    pub fn compact(&self, from: &[u8], leaves: u64, fill_percent: u8) -> Result<Compacted> {
        let change = &self.pages.change;
        assert_eq!(change.txn.state(), State::Idle, "a merge would release the locks of the running transaction");
        self.check_btree()?;
        if !super::load::FILL_PERCENT.contains(&fill_percent) {
            let what = format!("pages are filled to between 10 and 100 percent, and {fill_percent} was given");
            return Err(Error::Unsuitable { name: self.database.name().into(), what });
        }
        // Every cleaning session takes this lock. It excludes a transaction that has locked the whole database: such a
        // transaction holds no locks on records that would protect its ghosts.
        self.lock(lock_names::database(self.database.id()), Mode::IX)?;
        let done = self.compact_locked(from, leaves, fill_percent);
        change.managers.locks.unlock_all(self.pages.session(), change.txn.locker());
        done
    }

    fn compact_locked(&self, from: &[u8], leaves: u64, fill_percent: u8) -> Result<Compacted> {
        let mut done = Compacted { next: Some(from.to_vec()), ..Compacted::default() };
        while let Some(key) = done.next.take() {
            if done.leaves == leaves {
                done.next = Some(key);
                break;
            }
            let step = self.compact_leaf(&key, fill_percent)?;
            // The visit of the tree has ended before this call. Otherwise the visit would also delay the reuse of the
            // pages that we unlinked.
            free_unlinked(self, Some(step.leaf))?;
            done.merged += u64::from(step.has_merged);
            done.leaves += u64::from(!step.has_merged);
            // After a merge the same leaf may take the next neighbour, too.
            done.next = if step.has_merged { Some(key) } else { step.next };
        }
        free_unlinked(self, None)?;
        Ok(done)
    }

    /// Tries once to merge a neighbour into the leaf of `key`, or to unlink that leaf if it is empty.
    fn compact_leaf(&self, key: &[u8], fill_percent: u8) -> Result<Step> {
        let _visit = self.pages.visit();
        let (number, left, next) = {
            let leaf = search::shared(&self.pages, key, 0)?;
            let number = leaf.id().page().raw();
            let node = node_of(&self.pages, number, &leaf)?;
            (number, node.left(), node.high().map(<[u8]>::to_vec))
        };
        ghosts::tidy(self, number)?;
        let is_empty = {
            let page = self.pages.shared(number, 0)?;
            ghosts::is_to_be_cleaned(self, number, page.lsn(), &node_of(&self.pages, number, &page)?)
        };
        // If the empty leaf is unlinked, its left neighbour takes over its key range, so the caller continues with the
        // same key.
        let has_merged = if is_empty { ghosts::clean(self, number, left)? } else { merge(self, number, fill_percent)? };
        Ok(Step { leaf: number, has_merged, next })
    }
}

/// The result for one leaf.
struct Step {
    leaf: u32,
    has_merged: bool,
    /// The lower bound of the next leaf.
    next: Option<Vec<u8>>,
}

/// A leaf as it was when it was read.
struct Seen {
    right: Option<u32>,
    high: Vec<u8>,
    /// The used bytes of the leaf.
    bytes: usize,
}

/// Reads a leaf; `None` if the page is not a leaf, is empty or deleted, or has an unfinished action.
fn look(access: &Access<'_>, number: u32) -> Result<Option<Seen>> {
    let page = access.pages.shared(number, 0)?;
    let Some(node) = Node::over(&page).filter(is_settled) else { return Ok(None) };
    let bytes = bytes_with(&node, node.header().prefix_bytes.get().into());
    Ok(Some(Seen { right: node.right(), high: node.high().unwrap_or_default().to_vec(), bytes }))
}

/// Merges the right neighbour of a leaf into the leaf, if both fit on one page and no concurrent action prevents the
/// merge. Returns whether they were merged.
pub(crate) fn merge(access: &Access<'_>, left: u32, fill_percent: u8) -> Result<bool> {
    let (pages, page_bytes) = (&access.pages, access.database.page_bytes());
    let Some(Seen { right: Some(gone), high: separator, bytes }) = look(access, left)? else { return Ok(false) };
    ghosts::tidy(access, gone)?;
    let Some(Seen { right, bytes: more, .. }) = look(access, gone)? else { return Ok(false) };
    // Most neighbours do not fit on one page. This test needs no exclusive latch.
    if 100 * (bytes + more) > usize::from(fill_percent) * page_bytes {
        return Ok(false);
    }
    pages.reserve_common(2 * page_bytes, 2 * page_bytes)?;
    let parent_number = number_of(pages, &separator, 1)?;
    pages.check_apart(&[left, gone, parent_number, right.unwrap_or_default()])?;
    let (left_pin, gone_pin, parent_pin) = (pages.pin(left)?, pages.pin(gone)?, pages.pin(parent_number)?);
    let right_pin = right.map(|right| pages.pin(right)).transpose()?;
    failpoint("merge: pages pinned");
    let mut left_page = left_pin.exclusive(rank(0));
    let mut gone_page = gone_pin.exclusive(rank(0));
    let mut right_page = right_pin.as_ref().map(|pin| pin.exclusive(rank(0)));
    let mut parent_page = parent_pin.exclusive(rank(1));
    let (left_node, gone_node) = (node_of(pages, left, &left_page)?, node_of(pages, gone, &gone_page)?);
    let parent = node_of(pages, parent_number, &parent_page)?;
    let (slot, known) = parent.find(&separator);
    let all_as_seen = is_settled(&left_node)
        && left_node.right() == Some(gone)
        && left_node.high() == Some(&separator[..])
        && is_settled(&gone_node)
        && (gone_node.left(), gone_node.right()) == (Some(left), right)
        && parent.level() == 1
        && !parent.is_deleted()
        && known
        && slot != 0
        && (parent.child(slot - 1), parent.child(slot)) == (Some(left), Some(gone));
    let is_locked = access.database.granularity() == Granularity::Page
        && !access.is_free(lock_names::page(access.database.id(), gone));
    if !all_as_seen || is_locked || !fits(&left_node, &gone_node, fill_percent) {
        return Ok(false);
    }
    let high = gone_node.high().unwrap_or_default();
    let record = Merge {
        page: pages.id(left).raw().into(),
        gone: gone.into(),
        parent: parent_number.into(),
        neighbour: right.unwrap_or_default().into(),
        slot: short(slot),
        high_bytes: short(high.len()),
        count: short(gone_node.count()),
        prefix_bytes: gone_node.header().prefix_bytes,
        unused: 0.into(),
        deleter_lsn: left_node.deleter_lsn().max(gone_node.deleter_lsn()).raw().into(),
    };
    let mut body = pages.change.txn.scratch();
    body.writer().extend_from_slice(record.as_bytes());
    body.writer().extend_from_slice(high);
    for slot in 0..gone_node.count() {
        append_cell(&gone_node, slot, body.writer())
            .ok_or_else(|| pages.corrupt(gone, "one of its cells is outside the page's heap"))?;
    }
    let (left_page, gone_page) = (&mut left_page, &mut gone_page);
    failpoint("merge: all latched");
    let lsn = match &mut right_page {
        Some(right) => pages.apply_checked(MERGE, body.body(), &mut [left_page, gone_page, &mut parent_page, right]),
        None => pages.apply_checked(MERGE, body.body(), &mut [left_page, gone_page, &mut parent_page]),
    }?;
    failpoint("merge: merged, not remembered");
    remember(access, left, gone, lsn);
    Ok(true)
}

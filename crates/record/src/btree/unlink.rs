//! Unlinks emptied leaves. `unlinked.rs` frees their pages later.
//!
//! PROTOCOLS T2. One log record unlinks an empty leaf, which has no slots, from its parent and from both neighbours.
//! The *left* neighbour takes over the leaf's key range, so that the lower bound of a page never changes while the page
//! is in the tree. The unlinked page keeps its right link and gets a *deleted* mark. A session that is on the way to
//! this page starts again from the root. The page becomes free only when every tree operation that ran at the time of
//! the unlinking has ended. Until then the header of the left neighbour names the page, so a crash loses no page.
//!
//! A leaf that is the first child of its parent has no left neighbour under that parent. It stays in the tree, empty,
//! while the parent has other children. If it is the only child, the parent's left neighbour absorbs the parent: in one
//! log record it takes over the parent's key range and child (`absorb.rs`). Then the leaf is no first child any more.
//! So after a range of keys is deleted, a parent that keeps other children may keep one empty leaf, its first child.
//! The root and the first page of each level are never unlinked.
//!
//! Any session that passes an empty leaf tries to unlink it, and does not wait. An obstacle, such as a neighbour whose
//! header still names an earlier unlinked page, is often gone when the next session passes the leaf.

use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::absorb::{absorb, fits_with_high};
use crate::btree::descent::node_of;
use crate::btree::log_records::{Unlink, UNLINK};
use crate::btree::search::{self, number_of};
use crate::btree::unlinked::remember;
use crate::database::Granularity;
use crate::lock_names;
use crate::locking::Access;
use crate::log_body::short;
use crate::page::node::Node;
use crate::pages::rank;
use crate::Result;

/// Unlinks a leaf if it is empty and no concurrent action prevents it. Returns whether the leaf was unlinked.
pub(crate) fn unlink(access: &Access<'_>, gone: u32) -> Result<bool> {
    let pages = &access.pages;
    let (left, right, lsn) = {
        let page = pages.shared(gone, 0)?;
        let Some(node) = Node::over(&page).filter(is_removable) else { return Ok(false) };
        let Some(left) = node.left() else { return Ok(false) };
        (left, node.right(), page.lsn())
    };
    let separator = {
        let page = pages.shared(left, 0)?;
        let Some(node) = Node::over(&page).filter(|node| can_take_over(node, gone)) else { return Ok(false) };
        node.high().unwrap_or_default().to_vec()
    };
    while is_first_child(access, gone, &separator)? {
        if !absorb(access, &separator, 1)? {
            // A leaf that is the only child stays briefly, for example until the page that the parent's neighbour
            // absorbed earlier has been freed.
            if has_siblings(access, &separator)? {
                access.database.note_staying(gone, lsn);
            }
            return Ok(false);
        }
        // Under its new parent the leaf is not the first child, whether or not the unlinking then succeeds.
        access.database.forget_staying(gone);
    }
    pages.reserve_common(2 * access.database.page_bytes(), access.database.page_bytes())?;
    let parent_number = number_of(pages, &separator, 1)?;
    pages.check_apart(&[left, gone, parent_number, right.unwrap_or_default()])?;
    let (left_pin, gone_pin, parent_pin) = (pages.pin(left)?, pages.pin(gone)?, pages.pin(parent_number)?);
    let right_pin = right.map(|right| pages.pin(right)).transpose()?;
    failpoint("unlink: pages pinned");
    let mut left_page = left_pin.exclusive(rank(0));
    let mut gone_page = gone_pin.exclusive(rank(0));
    let mut right_page = right_pin.as_ref().map(|pin| pin.exclusive(rank(0)));
    let mut parent_page = parent_pin.exclusive(rank(1));
    let (left_node, gone_node) = (node_of(pages, left, &left_page)?, node_of(pages, gone, &gone_page)?);
    let parent = node_of(pages, parent_number, &parent_page)?;
    let (slot, known) = parent.find(&separator);
    let all_as_seen = can_take_over(&left_node, gone)
        && left_node.high() == Some(&separator[..])
        && is_removable(&gone_node)
        && gone_node.left() == Some(left)
        && gone_node.right() == right
        && parent.level() == 1
        && !parent.is_deleted()
        && known
        && slot != 0
        && (parent.child(slot - 1), parent.child(slot)) == (Some(left), Some(gone));
    let high = gone_node.high().unwrap_or_default();
    let is_locked = access.database.granularity() == Granularity::Page
        && !access.is_free(lock_names::page(access.database.id(), gone));
    if !all_as_seen || is_locked || !fits_with_high(&left_node, high, 0) {
        return Ok(false);
    }
    let record = Unlink {
        page: pages.id(left).raw().into(),
        gone: gone.into(),
        parent: parent_number.into(),
        neighbour: right.unwrap_or_default().into(),
        slot: short(slot),
        high_bytes: short(high.len()),
        deleter_lsn: left_node.deleter_lsn().max(gone_node.deleter_lsn()).raw().into(),
    };
    let mut body = pages.change.txn.scratch();
    body.writer().extend_from_slice(record.as_bytes());
    body.writer().extend_from_slice(high);
    let (left_page, gone_page) = (&mut left_page, &mut gone_page);
    failpoint("unlink: all latched");
    let lsn = match &mut right_page {
        Some(right) => pages.apply_checked(UNLINK, body.body(), &mut [left_page, gone_page, &mut parent_page, right]),
        None => pages.apply_checked(UNLINK, body.body(), &mut [left_page, gone_page, &mut parent_page]),
    }?;
    failpoint("unlink: unlinked, not remembered");
    remember(access, left, gone, lsn);
    Ok(true)
}

/// Returns whether a leaf is the first child of its parent. Such a leaf remains the first child, because splits of its
/// left neighbour are posted in another parent.
fn is_first_child(access: &Access<'_>, leaf: u32, separator: &[u8]) -> Result<bool> {
    let parent = search::shared(&access.pages, separator, 1)?;
    let node = node_of(&access.pages, parent.id().page().raw(), &parent)?;
    Ok(node.level() == 1 && node.child_slot(separator) == 0 && node.child(0) == Some(leaf))
}

/// Returns whether the parent of the leaf that begins at `separator` has other children.
fn has_siblings(access: &Access<'_>, separator: &[u8]) -> Result<bool> {
    let parent = search::shared(&access.pages, separator, 1)?;
    Ok(node_of(&access.pages, parent.id().page().raw(), &parent)?.count() > 1)
}

/// Returns whether a leaf is empty and has no unfinished action.
fn is_removable(node: &Node<'_>) -> bool {
    node.is_leaf()
        && node.count() == 0
        && !node.is_deleted()
        && !node.is_incomplete()
        && node.header().unlinked.get() == 0
}

/// Returns whether a leaf can take over the key range of its right neighbour `gone`.
fn can_take_over(node: &Node<'_>, gone: u32) -> bool {
    node.is_leaf()
        && node.right() == Some(gone)
        && !node.is_deleted()
        && !node.is_incomplete()
        && node.header().unlinked.get() == 0
}

//! A page above the leaves that has one child left is absorbed by its left neighbour.
//!
//! Not in the paper. If keys are inserted at one end and deleted at the other, each page above the leaves would finally
//! have one empty leaf, and the file would grow without end. As in an unlinking, the *left* neighbour takes over the
//! key range. The absorbed page keeps its right link, gets a *deleted* mark, and is freed when no session can be on the
//! way to the page (PROTOCOLS T2).
//!
//! If we die here: an absorption is one redo-only record, complete in itself.

use rio::failpoint;
use zerocopy::IntoBytes;

use crate::btree::descent::{node_of, ROOT};
use crate::btree::log_records::{Absorb, ABSORB};
use crate::btree::search::{self, number_of};
use crate::btree::unlinked::{free_unlinked, remember};
use crate::locking::Access;
use crate::log_body::short;
use crate::page::node::{Node, INNER_CELL_HEAD};
use crate::page::rebuild::Frame;
use crate::page::slotted::SLOT_BYTES;
use crate::pages::rank;
use crate::Result;

/// Returns whether a page has one child and no unfinished action.
fn is_absorbable(node: &Node<'_>, level: u8) -> bool {
    node.level() == level
        && node.count() == 1
        && !node.is_deleted()
        && !node.is_incomplete()
        && node.header().unlinked.get() == 0
}

/// Returns whether a page can absorb its right neighbour `gone`.
fn can_absorb(node: &Node<'_>, gone: u32, level: u8) -> bool {
    node.level() == level
        && node.count() != 0
        && node.right() == Some(gone)
        && !node.is_deleted()
        && !node.is_incomplete()
        && node.header().unlinked.get() == 0
}

/// Returns whether a page's cells and `more` bytes fit with the new upper bound `high`, which may shorten the page's
/// prefix.
pub(crate) fn fits_with_high(node: &Node<'_>, high: &[u8], more: usize) -> bool {
    let page_bytes = node.page_bytes();
    let prefix = usize::from(node.header().prefix_bytes.get());
    let longer = prefix.saturating_sub(Frame::prefix_bytes(node.low(), high, page_bytes)) * node.count();
    let used: usize = (0..node.count()).map(|slot| node.cell_bytes(slot) + SLOT_BYTES).sum();
    used + longer + more <= Frame::room(node.low(), high, page_bytes)
}

/// Lets the left neighbour absorb the page on `level` that begins with `separator`, if the page has one child and no
/// concurrent action prevents it. Returns whether the page was absorbed. Otherwise a later session that passes the page
/// tries again.
pub(crate) fn absorb(access: &Access<'_>, separator: &[u8], level: u8) -> Result<bool> {
    let pages = &access.pages;
    let gone = number_of(pages, separator, level)?;
    if gone == ROOT {
        return Ok(false);
    }
    let (left, right) = {
        let page = pages.shared(gone, level)?;
        let node = node_of(pages, gone, &page)?;
        match node.left().filter(|_| is_absorbable(&node, level)) {
            Some(left) => (left, node.right()),
            None => return Ok(false),
        }
    };
    free_unlinked(access, Some(left))?;
    while is_first_child(access, gone, separator, level)? {
        if !absorb(access, separator, level + 1)? {
            return Ok(false);
        }
    }
    pages.reserve_common(2 * access.database.page_bytes(), access.database.page_bytes())?;
    let parent_number = number_of(pages, separator, level + 1)?;
    pages.check_apart(&[left, gone, parent_number, right.unwrap_or_default()])?;
    let (left_pin, gone_pin, parent_pin) = (pages.pin(left)?, pages.pin(gone)?, pages.pin(parent_number)?);
    let right_pin = right.map(|right| pages.pin(right)).transpose()?;
    failpoint("absorb: pages pinned");
    let mut left_page = left_pin.exclusive(rank(level));
    let mut gone_page = gone_pin.exclusive(rank(level));
    let mut right_page = right_pin.as_ref().map(|pin| pin.exclusive(rank(level)));
    let mut parent_page = parent_pin.exclusive(rank(level + 1));
    let (left_node, gone_node) = (node_of(pages, left, &left_page)?, node_of(pages, gone, &gone_page)?);
    let parent = node_of(pages, parent_number, &parent_page)?;
    let (slot, known) = parent.find(separator);
    let all_as_seen = can_absorb(&left_node, gone, level)
        && left_node.high() == Some(separator)
        && is_absorbable(&gone_node, level)
        && (gone_node.left(), gone_node.right()) == (Some(left), right)
        && parent.level() == level + 1
        && !parent.is_deleted()
        && known
        && slot != 0
        && (parent.child(slot - 1), parent.child(slot)) == (Some(left), Some(gone));
    let (high, more) = (gone_node.high().unwrap_or_default(), SLOT_BYTES + INNER_CELL_HEAD + separator.len());
    let Some(child) = gone_node.child(0).filter(|_| all_as_seen && fits_with_high(&left_node, high, more)) else {
        return Ok(false);
    };
    let record = Absorb {
        page: pages.id(left).raw().into(),
        gone: gone.into(),
        parent: parent_number.into(),
        neighbour: right.unwrap_or_default().into(),
        child: child.into(),
        slot: short(slot),
        high_bytes: short(high.len()),
        unused: 0.into(),
    };
    let mut body = pages.change.txn.scratch();
    body.writer().extend_from_slice(record.as_bytes());
    body.writer().extend_from_slice(high);
    let (left_page, gone_page) = (&mut left_page, &mut gone_page);
    failpoint("absorb: all latched");
    let lsn = match &mut right_page {
        Some(right) => pages.apply_checked(ABSORB, body.body(), &mut [left_page, gone_page, &mut parent_page, right]),
        None => pages.apply_checked(ABSORB, body.body(), &mut [left_page, gone_page, &mut parent_page]),
    }?;
    failpoint("absorb: absorbed, not remembered");
    remember(access, left, gone, lsn);
    Ok(true)
}

/// Returns whether a page is the first child of its parent.
fn is_first_child(access: &Access<'_>, page: u32, separator: &[u8], level: u8) -> Result<bool> {
    let parent = search::shared(&access.pages, separator, level + 1)?;
    let node = node_of(&access.pages, parent.id().page().raw(), &parent)?;
    Ok(node.child_slot(separator) == 0 && node.child(0) == Some(page))
}

//! A full leaf shares with its left neighbour before it splits, and when both are full they become three.
//!
//! Not in the paper: Bayer and McCreight's overflow technique, in Knuth 6.2.4 as the B*-tree. Leaves that split in halves are 0.69
//! full on the average where keys come in any order, those that share 0.81: a file that is 15 % smaller, for inserts that are a quarter
//! slower, since each record moves about three times as often (docs/performance.md). So it is for who asks for it.
//!
//! What a page's keys are not below never changes while it lives, so nothing goes to a neighbour directly. A leaf gives its lower part away by a
//! split, after which a page of its own has the upper part, and by its own merge into its left neighbour: three actions that
//! there are anyway, each complete in itself.
//!
//! If we die here: between two of them leaves hold less than they could.

use rio::failpoint;

use crate::access::Access;
use crate::btree::merge::{bytes_with, is_settled, merge};
use crate::btree::node::Node;
use crate::btree::search::{self, node_of, ROOT};
use crate::btree::split::split_off;
use crate::btree::unlink::free_unlinked;
use crate::database::Granularity;
use crate::page::slotted::SLOT_BYTES;
use crate::Result;

/// With less room than this part of a page the left neighbour counts as full. Smaller parts are given more often for little.
const ROOM_MIN: usize = 10;

/// A leaf and its left neighbour as they were seen, in bytes of slots and cells.
struct Pair {
    left: u32,
    /// What the left one holds ..
    left_used: usize,
    /// .. and could.
    left_room: usize,
    /// What the full one holds ..
    used: usize,
    /// .. and its first record of that.
    first: usize,
}

/// Looks at a leaf; none if something about it is unfinished. What it holds, could hold, and what else is asked of it.
fn look<T>(access: &Access<'_>, number: u32, more: impl FnOnce(&Node<'_>) -> T) -> Result<Option<(usize, usize, T)>> {
    let page = access.pages.shared(number, 0)?;
    let node = node_of(&access.pages, number, &page)?;
    if !is_settled(&node) {
        let leads_to_unlinked = node.header().unlinked.get() != 0;
        drop(page);
        if leads_to_unlinked {
            // Perhaps of another process, or one that has ended: then nobody but who comes past frees it.
            free_unlinked(access, Some(number))?;
        }
        return Ok(None);
    }
    let used = bytes_with(&node, node.header().prefix_bytes.get().into());
    Ok(Some((used, used + node.free_bytes(), more(&node))))
}

/// The left neighbour of a leaf that has one on both sides, under the same parent. The last leaf of all is left alone: keys that
/// come in order leave full leaves behind without this.
fn pair_of(access: &Access<'_>, leaf: u32) -> Result<Option<Pair>> {
    let neighbours = |node: &Node<'_>| {
        let first = node.cell_bytes(0) + SLOT_BYTES;
        node.right().and(node.left()).map(|left| (left, node.low().to_vec(), first))
    };
    let Some((used, _, Some((left, low, first)))) = look(access, leaf, neighbours)? else { return Ok(None) };
    let is_one_parents = {
        let parent = search::shared(&access.pages, &low, 1)?;
        let node = node_of(&access.pages, parent.id().page().raw(), &parent)?;
        let (slot, is_known) = node.find(&low);
        is_known && slot != 0 && (node.child(slot - 1), node.child(slot)) == (Some(left), Some(leaf))
    };
    if !is_one_parents {
        return Ok(None);
    }
    let Some((left_used, left_room, ())) = look(access, left, |_| ())? else { return Ok(None) };
    Ok(Some(Pair { left, left_used, left_room, used, first }))
}

/// Lets a full leaf share what it has with its left neighbour, in a database that wants it: room is made where there is some, and
/// where there is none the caller splits as ever. What stands in the way for a moment is not waited for.
pub(crate) fn share(access: &Access<'_>, leaf: u32) -> Result<()> {
    let database = access.database;
    // Who locks pages would have to lock those that others' records come to.
    if !database.is_dense() || leaf == ROOT || database.granularity() == Granularity::Page {
        return Ok(());
    }
    free_unlinked(access, None)?;
    let Some(pair) = pair_of(access, leaf)? else { return Ok(()) };
    let free = pair.left_room.saturating_sub(pair.left_used);
    // One record goes at least: where that does not fit, the neighbour is full. What comes there is counted with the fences it has
    // then, so a little is left.
    let into = if free * ROOM_MIN >= pair.left_room && pair.first <= free * 9 / 10 {
        // A little less than would make them equal.
        split_off(&access.pages, leaf, free * 45 / 100)?;
        pair.left
    } else {
        split_off(&access.pages, pair.left, pair.left_used * 2 / 3)?;
        failpoint("dense: neighbour split");
        split_off(&access.pages, leaf, pair.used / 3)?;
        let Some((.., Some(middle))) = look(access, pair.left, |node| node.right())? else { return Ok(()) };
        middle
    };
    failpoint("dense: split, not merged");
    merge(access, into, 100)?;
    Ok(())
}

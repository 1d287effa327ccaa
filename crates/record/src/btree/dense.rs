//! A full leaf moves records to its left neighbour before it splits. If both are full, the two leaves become three.
//!
//! Not in the paper: this is Bayer and McCreight's overflow technique, called the B*-tree in Knuth 6.2.4. With keys in
//! random order, leaves that split in halves are 0.69 full on average, and leaves that share are 0.81 full. The file is
//! 15 % smaller. Inserts are a quarter slower, because each record moves about three times as often
//! (docs/performance.md). So sharing is an option.
//!
//! The lower bound of a page never changes while the page is in the tree, so records cannot move to a neighbour
//! directly. Instead the leaf is split, which moves its upper part to a new page. Then the leaf, with its lower part,
//! merges into its left neighbour. A split, a post and a merge are existing actions, each complete in itself.
//!
//! If we die here: between two of the actions leaves hold fewer records than they could.

use rio::failpoint;

use crate::btree::descent::{node_of, ROOT};
use crate::btree::merge::{bytes_with, is_settled, merge};
use crate::btree::search;
use crate::btree::split::split_off;
use crate::btree::unlinked::free_unlinked;
use crate::database::Granularity;
use crate::locking::Access;
use crate::page::node::Node;
use crate::page::slotted::SLOT_BYTES;
use crate::Result;

/// A left neighbour is full if less than one part in `ROOM_MIN` of it is free. Smaller moves would be more frequent and
/// gain little.
const ROOM_MIN: usize = 10;

/// A leaf and its left neighbour at one moment, in bytes of slots and cells.
struct Pair {
    left: u32,
    /// Bytes that the left leaf holds.
    left_used: usize,
    /// Bytes that the left leaf can hold.
    left_room: usize,
    /// Bytes that the full leaf holds.
    used: usize,
    /// Bytes of the full leaf's first record.
    first: usize,
}

/// Returns the used bytes and the capacity of a leaf, and the result of `more`. Returns `None` if an action on the leaf
/// is unfinished.
fn look<T>(access: &Access<'_>, number: u32, more: impl FnOnce(&Node<'_>) -> T) -> Result<Option<(usize, usize, T)>> {
    let page = access.pages.shared(number, 0)?;
    let node = node_of(&access.pages, number, &page)?;
    if !is_settled(&node) {
        let leads_to_unlinked = node.header().unlinked.get() != 0;
        drop(page);
        if leads_to_unlinked {
            // A concurrent or dead process may have unlinked the neighbour. Then a session that passes the page frees
            // it.
            free_unlinked(access, Some(number))?;
        }
        return Ok(None);
    }
    let used = bytes_with(&node, node.header().prefix_bytes.get().into());
    Ok(Some((used, used + node.free_bytes(), more(&node))))
}

/// Returns a leaf and its left neighbour, if the leaf has neighbours on both sides and the two leaves have the same
/// parent. The last leaf never shares: if keys are inserted in order, the leaves become full without sharing.
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

/// Lets a full leaf share with its left neighbour, in a database with dense leaves. If sharing makes no room, the
/// caller splits the leaf as usual. Never waits for a concurrent action to finish.
pub(crate) fn share(access: &Access<'_>, leaf: u32) -> Result<()> {
    let database = access.database;
    // With page locks the session would have to lock the pages to which records of other transactions move.
    if !database.is_dense() || leaf == ROOT || database.granularity() == Granularity::Page {
        return Ok(());
    }
    free_unlinked(access, None)?;
    let Some(pair) = pair_of(access, leaf)? else { return Ok(()) };
    let free = pair.left_room.saturating_sub(pair.left_used);
    // At least one record must fit; otherwise the neighbour is full. The sizes are those with the present fences, and
    // the moved records are stored with the fences after the merge. So a tenth of the room remains as a reserve.
    let into = if free * ROOM_MIN >= pair.left_room && pair.first <= free * 9 / 10 {
        // If records of half the free bytes moved, both leaves would be equally full. A little less is moved.
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

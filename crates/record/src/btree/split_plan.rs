//! Chooses where to split a full page, and by which key.
//!
//! Paper: LIBTP section 5, footnote 5: "in-order insertion is pessimal for B-tree indices". Here, if a key is inserted
//! at the very end of its level, the full page stays full, and the key begins the next page. The same applies to the
//! very beginning, for keys in falling order. Otherwise the halves are balanced, including the new key.
//!
//! Between leaves the separator is the shortest key that distinguishes them. Between inner pages it is the key that
//! moves up.

use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::page::slotted::{common_prefix, SLOT_BYTES};

/// The slot at which a page is split, and the separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPlan {
    /// The first slot that moves to the right page.
    pub at: usize,
    /// Exclusive upper bound of the left page's keys, and inclusive lower bound of the right page's.
    pub separator: Vec<u8>,
}

/// The cell for which the page had no room.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'k> {
    /// The key that is inserted, or whose record grows.
    pub key: &'k [u8],
    /// The key's slot, or the slot that the new key gets.
    pub slot: usize,
    /// The number of bytes that the cell needs.
    pub bytes: usize,
    /// Whether the key is new on the page.
    pub is_new: bool,
}

/// Chooses where to split a page. Returns `None` if no slot divides the page into two parts that both fit on a page.
/// This cannot happen to a page that this library wrote.
pub fn plan(node: &Node<'_>, incoming: Incoming<'_>) -> Option<SplitPlan> {
    let count = node.count();
    let at_end = node.right().is_none() && incoming.is_new && incoming.slot == count;
    if at_end && node.is_leaf() && count != 0 {
        // The page stays as it is, and the next page begins with the key.
        let used = (node.page_bytes() - node.header().slots_at()).saturating_sub(node.free_bytes());
        let separator = separator(node, count, incoming.key);
        if fits(node, count, used, 0, &separator) {
            return Some(SplitPlan { at: count, separator });
        }
    }
    let last =
        if node.is_leaf() && incoming.is_new && incoming.slot == count { count } else { count.checked_sub(1)? };
    let sizes: Vec<usize> = (0..count).map(|slot| node.cell_bytes(slot) + SLOT_BYTES).collect();
    let total: usize = sizes.iter().sum();
    let at_start = node.left().is_none() && incoming.is_new && incoming.slot == 0;
    let mut left = 0;
    let cut = |at: usize| {
        left += sizes[at - 1];
        let with_new = |bytes: usize, mine: bool| bytes + if mine { incoming.bytes } else { 0 };
        let goes_left = incoming.slot < at;
        let (here, there) = (with_new(left, goes_left), with_new(total - left, !goes_left));
        let cost = match (at_end, at_start) {
            (true, _) => count - at,
            (_, true) => at,
            _ => here.abs_diff(there),
        };
        Cut { cost, at, left }
    };
    best(node, (1..=last).map(cut).collect(), total, incoming.key)
}

/// Like [`plan`], for a leaf on which about `bytes` bytes of slots and cells stay. Also returns `None` if the leaf has
/// one record.
pub fn plan_share(node: &Node<'_>, bytes: usize) -> Option<SplitPlan> {
    let last = node.count().checked_sub(1)?;
    let size = |slot: usize| node.cell_bytes(slot) + SLOT_BYTES;
    let total: usize = (0..node.count()).map(size).sum();
    let mut left = 0;
    let cut = |at: usize| {
        left += size(at - 1);
        Cut { cost: left.abs_diff(bytes), at, left }
    };
    best(node, (1..=last).map(cut).collect(), total, &[])
}

/// Returns the cheapest cut for which both parts fit on a page. This is nearly always the first candidate, so the
/// separators of the other candidates are not computed.
fn best(node: &Node<'_>, mut cuts: Vec<Cut>, total: usize, arriving: &[u8]) -> Option<SplitPlan> {
    cuts.sort_by_key(|cut| (cut.cost, cut.at));
    cuts.into_iter().find_map(|Cut { at, left, .. }| {
        let separator = separator(node, at, arriving);
        fits(node, at, left, total - left, &separator).then_some(SplitPlan { at, separator })
    })
}

/// A possible cut: its distance from the optimum, and the number of bytes that stay on the left page.
struct Cut {
    cost: usize,
    at: usize,
    left: usize,
}

/// Returns a separator of slots `at - 1` and `at`. If there is no slot `at`, the new key is the right neighbour.
fn separator(node: &Node<'_>, at: usize, arriving: &[u8]) -> Vec<u8> {
    if !node.is_leaf() {
        return node.key(at).to_vec();
    }
    let left = node.key(at - 1);
    if at == node.count() {
        let shared = left.prefix.iter().chain(left.suffix).zip(arriving).take_while(|(a, b)| a == b).count();
        return arriving[..(shared + 1).min(arriving.len())].to_vec();
    }
    let right = node.key(at);
    let shared = common_prefix(left.suffix, right.suffix);
    let mut key = right.prefix.to_vec();
    key.extend_from_slice(&right.suffix[..(shared + 1).min(right.suffix.len())]);
    key
}

/// Returns whether the cells of both halves fit with their new fences.
fn fits(node: &Node<'_>, at: usize, left: usize, right: usize, separator: &[u8]) -> bool {
    let page_bytes = node.page_bytes();
    let prefix = usize::from(node.header().prefix_bytes.get());
    let high = node.high().unwrap_or_default();
    let half = |low: &[u8], high: &[u8], cells: usize, bytes: usize| {
        let saved = Frame::prefix_bytes(low, high, page_bytes).saturating_sub(prefix);
        // The first child of an inner page stores no key, so the prefix saves no bytes there. The estimate includes
        // this child's whole old key, so the estimate is never too small.
        let keys = if node.is_leaf() { cells } else { cells.saturating_sub(1) };
        bytes.saturating_sub(saved * keys) <= Frame::room(low, high, page_bytes)
    };
    half(node.low(), separator, at, left) && half(separator, high, node.count() - at, right)
}

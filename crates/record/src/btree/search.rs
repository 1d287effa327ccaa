//! Finds the leaf or page of a key. The usual way down reads inner pages without their latches (`glance`), and latches a
//! page where that fails. Where that fails, too, `descent` takes over.
//!
//! If a session follows a right link to a page for which the parent has no downlink yet, the session posts that page:
//! it inserts the downlink (PROTOCOLS T1). The post helps other sessions. If it fails, for example because the log is
//! full, the search continues.

use libtp_buffer::{ExclusivePage, SharedPage};
use rio::planted;

use crate::btree::descent::{self, node_of, ROOT};
use crate::btree::glance;
use crate::btree::split::post_passed;
use crate::database::Database;
use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::page::slotted::is_not_below;
use crate::pages::Pages;
use crate::Result;

/// The largest number of levels of a tree.
const LEVELS_MAX: u32 = 20;

/// Calls `look` with the leaf whose range holds `key`, latched shared, with its contents, and with the place of the key
/// as [`Node::find`] returns it. The fast path is tried first. It succeeds only if all pages are in memory and not
/// latched by others, no page is split or unlinked, and there is no damage.
// Always inlined: the latched page and its header stay in registers.
#[inline(always)]
pub(crate) fn at_leaf<'a, R>(
    pages: &Pages<'a>,
    database: &Database,
    key: &[u8],
    look: impl FnOnce(&SharedPage<'a>, &Node<'_>, (usize, bool)) -> Result<R>,
) -> Result<R> {
    let (mut number, mut level) = (ROOT, 0);
    for _ in 0..LEVELS_MAX {
        let is_root = number == ROOT;
        // A tree of one page is latched once.
        let is_inner = if is_root { !database.root_is_leaf() } else { level != 0 };
        if is_inner {
            if let Some(next) = glance::child(pages, number, key) {
                (number, level) = next;
                continue;
            }
        }
        // Inner pages are few, and stay in the processor's cache.
        let Some(page) = pages.shared_now(number, level, level == 0 && !is_root) else { break };
        let Some(node) = Node::over(&page) else { break };
        if !is_on_way(&node, key) {
            break;
        }
        let place = node.find_inlined(key);
        if is_root {
            database.note_root_is_leaf(node.is_leaf());
        }
        if node.is_leaf() {
            return look(&page, &node, place);
        }
        let Some(child) = node.child(Node::child_slot_at(place)) else { break };
        (number, level) = (child, node.level() - 1);
    }
    at_leaf_slowly(pages, key, look)
}

/// Like [`at_leaf`], but takes the number of the leaf, which the caller has found for the key earlier in the same visit
/// of the tree (PROTOCOLS T2). Returns `None` if a split has moved the key to another leaf, if the leaf was unlinked,
/// or if the leaf cannot be latched without a wait or a read from the disk.
#[inline(always)]
pub(crate) fn at_known_leaf<'a, R>(
    pages: &Pages<'a>,
    number: u32,
    key: &[u8],
    look: impl FnOnce(&SharedPage<'a>, &Node<'_>, (usize, bool)) -> Result<R>,
) -> Result<Option<R>> {
    let Some(page) = pages.shared_now(number, 0, false) else { return Ok(None) };
    match Node::over(&page) {
        Some(node) if node.is_leaf() && is_on_way(&node, key) => look(&page, &node, node.find_inlined(key)).map(Some),
        _ => Ok(None),
    }
}

#[cold]
#[inline(never)]
fn at_leaf_slowly<'a, R>(
    pages: &Pages<'a>,
    key: &[u8],
    look: impl FnOnce(&SharedPage<'a>, &Node<'_>, (usize, bool)) -> Result<R>,
) -> Result<R> {
    let page = shared(pages, key, 0)?;
    let node = node_of(pages, page.id().page().raw(), &page)?;
    look(&page, &node, node.find(key))
}

/// Returns the page on `level` whose range holds `key`, latched shared.
#[inline]
pub(crate) fn shared<'a>(pages: &Pages<'a>, key: &[u8], level: u8) -> Result<SharedPage<'a>> {
    descent::shared(pages, key, level, post_passed)
}

/// Returns the leaf whose range holds `key`, latched exclusively. Tries the fast path first, as [`at_leaf`] does.
#[inline]
pub(crate) fn leaf_exclusive<'a>(pages: &Pages<'a>, key: &[u8]) -> Result<ExclusivePage<'a>> {
    // A root that is a leaf is latched again, exclusively. The tree may have grown in between.
    let leaf = leaf_number_now(pages, key).and_then(|number| pages.exclusive_now(number, 0));
    let is_on_leaf =
        |page: &ExclusivePage<'_>| Node::over(page).is_some_and(|node| node.is_leaf() && is_on_way(&node, key));
    match leaf.filter(is_on_leaf) {
        Some(leaf) => Ok(leaf),
        None => descent::leaf_exclusive(pages, key, post_passed),
    }
}

/// Like [`leaf_exclusive`], but if keys are added at the end of the tree, looks at the last leaf first.
#[inline]
pub(crate) fn leaf_exclusive_to_change<'a>(
    pages: &Pages<'a>,
    database: &Database,
    key: &[u8],
) -> Result<ExclusivePage<'a>> {
    if let Some(number) = database.last_leaf_for(key) {
        match pages.exclusive_now(number, 0) {
            Some(leaf) if is_last_leaf_for(&leaf, key) => return Ok(leaf),
            _ => database.forget_last_leaf(),
        }
    }
    leaf_exclusive(pages, key)
}

/// Returns whether a latched page is the last leaf of its tree and the key belongs on it. The page may be any page of
/// the file. The last leaf takes each key that is not below its low fence.
#[inline]
fn is_last_leaf_for(page: &[u8], key: &[u8]) -> bool {
    Node::over(page).is_some_and(|node| {
        let is_last = node.is_leaf() && !node.is_deleted() && node.right().is_none();
        let is_last = is_last || planted("record: any page counts as the last leaf");
        is_last && !Frame::may_be_cut(node.low(), node.page_bytes()) && is_not_below(key, node.low())
    })
}

/// Calls `look` with the number and the contents of the leaf whose range holds `key`, and with the place of the key as
/// [`Node::find`] returns it. Returns the leaf, latched exclusively, and the result of `look`. Takes only the fast path
/// of [`at_leaf`] down to the leaf, but waits for the leaf's latch. Returns `None` if the fast path does not lead to
/// the key, or if `look` returns `None`.
#[inline(always)]
pub(crate) fn at_leaf_exclusive_now<'a, R>(
    pages: &Pages<'a>,
    database: &Database,
    key: &[u8],
    look: impl FnOnce(u32, &Node<'_>, (usize, bool)) -> Option<R>,
) -> Option<(ExclusivePage<'a>, R)> {
    // A tree of one page is latched once.
    let number = match database.root_is_leaf() {
        true => ROOT,
        false => leaf_number_now(pages, key)?,
    };
    let leaf = match pages.exclusive_now(number, 0) {
        Some(leaf) => leaf,
        // After an error the caller searches again, and that search returns the error.
        None => pages.exclusive(number, 0).ok()?,
    };
    let node = Node::over(&leaf).filter(|node| node.is_leaf() && is_on_way(node, key));
    database.note_root_is_leaf(number == ROOT && node.is_some());
    let node = node?;
    let looked = look(number, &node, node.find_inlined(key))?;
    Some((leaf, looked))
}

/// Returns the number of the leaf that the pages above name for `key`. Takes only the fast path of [`at_leaf`]: reads
/// no page from the disk, and waits for no latch.
// Never inlined: otherwise its callers become so long that the compiler does not inline their other parts.
#[inline(never)]
pub(crate) fn leaf_number_now(pages: &Pages<'_>, key: &[u8]) -> Option<u32> {
    let (mut number, mut level) = (ROOT, 0);
    for _ in 0..LEVELS_MAX {
        (number, level) = glance::child(pages, number, key).or_else(|| child_now(pages, number, level, key))?;
        if level == 0 {
            return Some(number);
        }
    }
    None
}

/// For a page that must be latched, returns its child on the way to `key`, and the child's level. For a leaf, returns
/// the leaf itself and level 0.
#[inline(never)]
fn child_now(pages: &Pages<'_>, number: u32, level: u8, key: &[u8]) -> Option<(u32, u8)> {
    let page = pages.shared_now(number, level, false)?;
    let node = Node::over(&page).filter(|node| is_on_way(node, key))?;
    match node.level() {
        0 => Some((number, 0)),
        at => Some((node.child(node.child_slot(key))?, at - 1)),
    }
}

#[inline(always)]
fn is_on_way(node: &Node<'_>, key: &[u8]) -> bool {
    !node.is_deleted() && (!node.belongs_right(key) || planted("record: a search ignores high keys"))
}

/// Returns the number of the page on `level` whose range holds `key`.
pub(crate) fn number_of(pages: &Pages<'_>, key: &[u8], level: u8) -> Result<u32> {
    Ok(shared(pages, key, level)?.id().page().raw())
}

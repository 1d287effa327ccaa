//! Splits a full page, and posts the new page in the parent: two actions, each redo-only and complete in itself
//! (PROTOCOLS T1).
//!
//! Paper: LIBTP 3.1.2: a split stays even if the transaction that needed it aborts. The first action allocates the
//! right sibling, links it between the page and its old right neighbour, and marks the page as incompletely split. From
//! then on searches find every key, by the right link. The second action gives the parent an entry for the new page.
//! The root is split in one action: its cells move to two new pages, and it becomes their parent.
//!
//! Paper: LIBTP 3.1.2, "locks are coupled during ascent". PROTOCOLS T1: the posting session holds the left page's
//! latch while it latches the parent. It checks the page's incomplete flag again, and clears the flag in the log record
//! of the post.

use libtp_buffer::ExclusivePage;
use libtp_lock::{Mode, Wait};
use rio::failpoint;

use crate::btree::descent::{self, node_of, ROOT};
use crate::btree::encode::{self, Taken};
use crate::btree::log_records::{POST, ROOT_SPLIT, SPLIT};
use crate::btree::split_plan::{plan, plan_share, Incoming, SplitPlan};
use crate::lock_names;
use crate::locking::{tried, Tried};
use crate::page::node::Node;
use crate::pages::{loose_rank, rank, wait_for_new, Pages, ROUNDS_MAX};
use crate::{Error, Result};

/// Returns whether the page has room now, or the key no longer belongs to it. Then the session only searches again.
fn is_settled(node: &Node<'_>, level: u8, incoming: Incoming<'_>) -> bool {
    if node.is_deleted() || node.level() != level || node.belongs_right(incoming.key) {
        return true;
    }
    let (slot, found) = node.find(incoming.key);
    match (found, incoming.is_new) {
        (true, true) | (false, false) => true,
        (false, true) => incoming.bytes <= node.free_bytes(),
        (true, false) => node.fits_change(slot, incoming.bytes),
    }
}

/// The reason for a split, which determines where the page is split.
#[derive(Clone, Copy)]
enum SplitReason<'k> {
    /// A cell has no room: both halves get the same share.
    Full(Incoming<'k>),
    /// This number of bytes stays, and the other bytes move.
    Shared(usize),
}

impl SplitReason<'_> {
    fn is_settled(self, node: &Node<'_>, level: u8) -> bool {
        match self {
            SplitReason::Full(incoming) => is_settled(node, level, incoming),
            SplitReason::Shared(_) => node.is_deleted() || node.level() != level || node.count() < 2,
        }
    }

    fn plan(self, pages: &Pages<'_>, number: u32, node: &Node<'_>) -> Result<SplitPlan> {
        let plan = match self {
            SplitReason::Full(incoming) => plan(node, Incoming { slot: node.find(incoming.key).0, ..incoming }),
            SplitReason::Shared(bytes) => plan_share(node, bytes),
        };
        plan.ok_or_else(|| pages.corrupt(number, "it is full, and there is no way to cut it in two"))
    }
}

/// Splits page `number` on `level` because `incoming` finds no room there, and posts the new page. Afterwards the page
/// may have room, or the key may belong to another page: the caller searches again.
pub(crate) fn split(pages: &Pages<'_>, number: u32, level: u8, incoming: Incoming<'_>) -> Result<()> {
    if number == ROOT {
        return split_root(pages, level, incoming);
    }
    split_for(pages, number, level, SplitReason::Full(incoming))
}

/// Splits leaf `number`, which is not the root, so that about `bytes` of its slots and cells stay, and posts the new
/// page. Does nothing if the leaf has one record, or if the page is no leaf any more.
pub(crate) fn split_off(pages: &Pages<'_>, number: u32, bytes: usize) -> Result<()> {
    split_for(pages, number, 0, SplitReason::Shared(bytes))
}

fn split_for(pages: &Pages<'_>, number: u32, level: u8, occasion: SplitReason<'_>) -> Result<()> {
    let page_bytes = pages.page_bytes()?;
    for round in 0..ROUNDS_MAX {
        pages.reserve_common(page_bytes, 2 * page_bytes)?;
        reserve_page_lock(pages, number)?;
        let right = {
            let page = pages.shared(number, level)?;
            let node = node_of(pages, number, &page)?;
            if occasion.is_settled(&node, level) {
                return Ok(());
            }
            if node.is_incomplete() {
                drop(page);
                post(pages, number, level)?;
                continue;
            }
            node.right()
        };
        pages.check_apart(&[number, right.unwrap_or_default()])?;
        let candidate = pages.candidate(round > 2)?;
        let (pin, right_pin) = (pages.pin(number)?, right.map(|right| pages.pin(right)).transpose()?);
        let mut page = pin.exclusive(rank(level));
        let node = node_of(pages, number, &page)?;
        if occasion.is_settled(&node, level) {
            return Ok(());
        }
        if node.is_incomplete() || node.right() != right {
            continue;
        }
        let plan = occasion.plan(pages, number, &node)?;
        let mut neighbour = right_pin.as_ref().map(|pin| pin.exclusive(rank(level)));
        let Some(mut new) = pages.allocate(&candidate)? else {
            drop((neighbour, page));
            candidate.wait();
            continue;
        };
        if level == 0 && !takes_page_lock(pages, number, new.number)? {
            continue;
        }
        let mut body = pages.change.txn.scratch();
        let taken = Taken { pages: [new.number], free_head: new.free_head, page_count: new.page_count };
        encode::split(body.writer(), pages.id(number).raw(), &node, &plan, taken)
            .ok_or_else(|| pages.corrupt(number, "one of its cells is outside the page's heap"))?;
        failpoint("split: all latched");
        // Only writers split leaves. A reader that posts an unposted page may split a page above the leaves.
        let apply = |changed: &mut [&mut ExclusivePage<'_>]| match level {
            0 => Ok(pages.change.apply_redo_only(SPLIT, body.body(), changed)),
            _ => pages.apply_checked(SPLIT, body.body(), changed),
        };
        match &mut neighbour {
            Some(neighbour) => apply(&mut [&mut page, &mut new.page, &mut new.meta, neighbour]),
            None => apply(&mut [&mut page, &mut new.page, &mut new.meta]),
        }?;
        failpoint("split: done, pages latched");
        drop((body, page, new, neighbour));
        failpoint("split: done, not posted");
        return post(pages, number, level);
    }
    Err(pages.corrupt(number, "it could not be split"))
}

/// Returns the mode in which the transaction has locked the leaf that it splits, under page locks.
fn page_lock(pages: &Pages<'_>, number: u32) -> Option<Mode> {
    let (locks, locker) = (&pages.change.managers.locks, pages.change.txn.locker());
    let held = locks.holds(pages.session(), locker, lock_names::page(pages.file, number));
    held.filter(|mode| mode.covers(Mode::S))
}

/// Reserves room for [`takes_page_lock`], with no latch held (PROTOCOLS D11). The reservation covers one lock. A split
/// of the root needs two locks. If there is no room for the second lock, the split fails before it is logged.
fn reserve_page_lock(pages: &Pages<'_>, number: u32) -> Result<()> {
    if page_lock(pages, number).is_some() {
        pages.change.managers.locks.reserve(pages.session(), pages.change.txn.locker())?;
    }
    Ok(())
}

/// Locks the new page, too, if the transaction holds a page lock on the page that it splits. No other transaction can
/// have locked the new page. Returns whether it was locked.
fn takes_page_lock(pages: &Pages<'_>, number: u32, new: u32) -> Result<bool> {
    let Some(mode) = page_lock(pages, number) else { return Ok(true) };
    failpoint("split: page lock held on one half");
    let (locks, locker) = (&pages.change.managers.locks, pages.change.txn.locker());
    let lock = locks.lock(pages.session(), locker, lock_names::page(pages.file, new), mode, Wait::No);
    Ok(tried(lock)? == Tried::Granted)
}

/// Pins the two pages after the file's last page, for the halves of the root.
fn two_pages<'a>(pages: &Pages<'a>, count: u32) -> Result<[libtp_buffer::Pin<'a>; 2]> {
    if count >= u32::MAX - 2 {
        return Err(Error::TooManyPages { database: pages.name() });
    }
    let buffers = &pages.change.managers.buffers;
    let pin = |number| buffers.pin_new(pages.session(), pages.id(number));
    Ok([pin(count)?, pin(count + 1)?])
}

/// Splits the root: one action that needs no posting.
fn split_root(pages: &Pages<'_>, level: u8, incoming: Incoming<'_>) -> Result<()> {
    let page_bytes = pages.page_bytes()?;
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(page_bytes, 2 * page_bytes)?;
        reserve_page_lock(pages, ROOT)?;
        let meta_now = pages.meta()?;
        let count = meta_now.page_count.get();
        let [left_pin, right_pin] = two_pages(pages, count)?;
        let (root_pin, meta_pin) = (pages.pin(ROOT)?, pages.pin(crate::page::free_pages::META_PAGE)?);
        let mut root = root_pin.exclusive(rank(level));
        let node = node_of(pages, ROOT, &root)?;
        if is_settled(&node, level, incoming) {
            return Ok(());
        }
        let plan = SplitReason::Full(incoming).plan(pages, ROOT, &node)?;
        // The latches are only tried, as in `Pages::allocate`.
        let new = (left_pin.try_exclusive(loose_rank()), right_pin.try_exclusive(loose_rank()));
        let (Some(mut left), Some(mut right)) = new else {
            drop((new, root));
            wait_for_new(&left_pin);
            wait_for_new(&right_pin);
            continue;
        };
        let mut meta = meta_pin.exclusive(libtp_process::Rank::META);
        let meta_then = pages.meta_of(&meta)?;
        if meta_then.page_count.get() != count {
            continue;
        }
        if level == 0 && !(takes_page_lock(pages, ROOT, count)? && takes_page_lock(pages, ROOT, count + 1)?) {
            continue;
        }
        let taken = Taken { pages: [count, count + 1], free_head: meta_then.free_head.get(), page_count: count + 2 };
        let mut body = pages.change.txn.scratch();
        encode::root_split(body.writer(), pages.id(ROOT).raw(), &node, &plan, taken)
            .ok_or_else(|| pages.corrupt(ROOT, "one of its cells is outside the page's heap"))?;
        failpoint("split: root and halves latched");
        pages.change.apply_redo_only(ROOT_SPLIT, body.body(), &mut [&mut root, &mut left, &mut right, &mut meta]);
        failpoint("split: root split");
        return Ok(());
    }
    Err(pages.corrupt(ROOT, "it could not be split"))
}

/// The entry to post.
struct Unposted {
    separator: Vec<u8>,
    right: u32,
}

/// Returns the page's unposted neighbour, if there is one.
fn unposted(pages: &Pages<'_>, number: u32, page: &[u8], level: u8) -> Result<Option<Unposted>> {
    let node = node_of(pages, number, page)?;
    if !node.is_incomplete() || node.is_deleted() || node.level() != level {
        return Ok(None);
    }
    match (node.high(), node.right()) {
        (Some(high), Some(right)) => Ok(Some(Unposted { separator: high.to_vec(), right })),
        _ => Err(pages.corrupt(number, "its flag says that it was split, but it has no right neighbour")),
    }
}

/// Posts the right neighbour of page `number` in the parent, if the neighbour is not posted yet. Both pages are on
/// `level`.
///
/// If we die here: the flag stays, and the next session that follows the link posts the page.
fn post(pages: &Pages<'_>, number: u32, level: u8) -> Result<()> {
    let page_bytes = pages.page_bytes()?;
    for _ in 0..ROUNDS_MAX {
        let found = unposted(pages, number, &pages.shared(number, level)?, level)?;
        let Some(found) = found else { return Ok(()) };
        pages.reserve_common(page_bytes, page_bytes)?;
        let parent_number = descent::shared(pages, &found.separator, level + 1, post_passed)?.id().page().raw();
        pages.check_apart(&[number, parent_number])?;
        let (child_pin, parent_pin) = (pages.pin(number)?, pages.pin(parent_number)?);
        failpoint("post: pages pinned");
        let mut child = child_pin.exclusive(rank(level));
        match unposted(pages, number, &child, level)? {
            None => return Ok(()),
            Some(now) if now.separator != found.separator || now.right != found.right => continue,
            Some(_) => {}
        }
        let mut parent = parent_pin.exclusive(rank(level + 1));
        let node = node_of(pages, parent_number, &parent)?;
        let is_below = *node.low() > *found.separator;
        if node.is_deleted() || node.level() != level + 1 || is_below || node.belongs_right(&found.separator) {
            continue;
        }
        let (slot, present) = node.find(&found.separator);
        if present {
            return Err(pages.corrupt(
                parent_number,
                format!("it already has an entry for page {}, but that page is not posted", found.right),
            ));
        }
        let bytes = node.child_need(found.separator.len());
        if bytes > node.free_bytes() {
            drop((child, parent));
            let incoming = Incoming { key: &found.separator, slot, bytes, is_new: true };
            failpoint("post: parent full");
            split(pages, parent_number, level + 1, incoming)?;
            continue;
        }
        let mut body = pages.change.txn.scratch();
        encode::post(body.writer(), pages.id(number).raw(), parent_number, found.right, slot, &found.separator);
        failpoint("post: child and parent latched");
        pages.apply_checked(POST, body.body(), &mut [&mut child, &mut parent])?;
        failpoint("post: posted");
        return Ok(());
    }
    Err(pages.corrupt(number, "its right neighbour could not be posted"))
}

/// Posts a page that a search has passed. The search does not need the post, so an error of the post is not returned. A
/// session that needs the post gets the error again.
pub(crate) fn post_passed(pages: &Pages<'_>, number: u32, level: u8) {
    let _ = post(pages, number, level);
}

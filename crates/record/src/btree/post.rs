//! Posting: the parent gets an entry for the new page of a split. The second action of a split.
//!
//! Paper: LIBTP 3.1.2, "locks are coupled during ascent". PROTOCOLS T1: the posting session holds the left page's
//! latch while it latches the parent. It checks the page's incomplete flag again, and clears the flag in the log record
//! of the post.

use crate::btree::encode;
use crate::btree::log_records::POST;
use crate::btree::search::{node_of, number_of};
use crate::btree::split;
use crate::btree::split_plan::Incoming;
use crate::pages::{rank, Pages, ROUNDS_MAX};
use crate::Result;
use rio::failpoint;

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
pub(crate) fn post(pages: &Pages<'_>, number: u32, level: u8) -> Result<()> {
    let page_bytes = pages.page_bytes()?;
    for _ in 0..ROUNDS_MAX {
        let found = unposted(pages, number, &pages.shared(number, level)?, level)?;
        let Some(found) = found else { return Ok(()) };
        pages.reserve_common(page_bytes, page_bytes)?;
        let parent_number = number_of(pages, &found.separator, level + 1)?;
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
            split::split(pages, parent_number, level + 1, incoming)?;
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

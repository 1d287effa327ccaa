//! Goes down the tree: holds one latch at a time, and follows the right link of a page that was split meanwhile.
//!
//! Paper: LIBTP 3.1.2, after Lehman and Yao. The session unlatches a page before it latches the child. If the child was
//! split in between, its high key shows that, and the session follows its right link. A page that was emptied and
//! unlinked meanwhile has a mark, and the search begins again (PROTOCOLS T2).

use libtp_buffer::{ExclusivePage, SharedPage};
use rio::planted;

use crate::page::free_pages::FIRST_PAGE;
use crate::page::node::Node;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// The root's page number. It never changes: a split of the root moves its cells to two new pages.
pub(crate) const ROOT: u32 = FIRST_PAGE;

/// A function that a search calls for a page whose right neighbour has no downlink in the parent yet, with the page's
/// number and level. The session holds no latch.
type Pass = fn(&Pages<'_>, u32, u8);

/// The next step of the search.
enum Step {
    /// No step: the search has reached its page.
    Here,
    /// The search continues at this right neighbour. The flag states whether the neighbour is unposted.
    Right(u32, bool),
    /// The search continues at this child.
    Down(u32),
    /// The page is unlinked, so the search begins again at the root.
    Again,
}

/// Reads a page as a B-tree page.
#[inline]
pub(crate) fn node_of<'p>(pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<Node<'p>> {
    match Node::over(page) {
        Some(node) => Ok(node),
        None => Err(no_node(pages, number)),
    }
}

#[cold]
pub(crate) fn no_node(pages: &Pages<'_>, number: u32) -> crate::Error {
    pages.corrupt(number, "other pages link to it as a B-tree page, but it is not a B-tree page")
}

/// Returns the step at a page on the way to `key` on `level`.
#[inline]
fn step(pages: &Pages<'_>, number: u32, node: &Node<'_>, key: &[u8], level: u8) -> Result<Step> {
    if node.is_deleted() {
        return Ok(Step::Again);
    }
    if node.belongs_right(key) && !planted("record: a search ignores high keys") {
        let right = node.right().ok_or_else(|| pages.corrupt(number, "it has a high key and no right link"))?;
        return Ok(Step::Right(right, node.is_incomplete()));
    }
    if node.level() == level {
        return Ok(Step::Here);
    }
    if node.level() < level {
        return Err(
            pages.corrupt(number, format!("it is on level {}, but a search expected level {level}", node.level()))
        );
    }
    let slot = node.child_slot(key);
    node.child(slot).map(Step::Down).ok_or_else(|| pages.corrupt(number, format!("slot {slot} leads to no child")))
}

/// The state of a search: the page, and its level if the parent states it.
#[derive(Clone, Copy)]
struct Place {
    page: u32,
    level: Option<u8>,
}

const TOP: Place = Place { page: ROOT, level: None };

impl Place {
    /// Returns the level for the latch's rank.
    fn rank_level(self) -> u8 {
        self.level.unwrap_or(0)
    }

    /// Follows a step from a page on `level`; `None` if the search has arrived. The session holds no latch.
    #[inline]
    fn follow(self, pages: &Pages<'_>, step: Step, level: u8, pass: Pass) -> Option<Place> {
        match step {
            Step::Here => None,
            Step::Down(child) => Some(Place { page: child, level: Some(level - 1) }),
            Step::Again => Some(TOP),
            Step::Right(right, unposted) => {
                if unposted {
                    pass(pages, self.page, level);
                }
                Some(Place { page: right, level: Some(level) })
            }
        }
    }
}

#[cold]
fn lost(pages: &Pages<'_>) -> crate::Error {
    pages.corrupt(ROOT, "its links lead in a circle")
}

/// Returns the page on `level` whose range holds `key`, latched shared.
#[inline]
pub(crate) fn shared<'a>(pages: &Pages<'a>, key: &[u8], level: u8, pass: Pass) -> Result<SharedPage<'a>> {
    let mut place = TOP;
    for _ in 0..ROUNDS_MAX {
        let page = pages.shared(place.page, place.rank_level())?;
        let node = node_of(pages, place.page, &page)?;
        let (step, at) = (step(pages, place.page, &node, key, level)?, node.level());
        if matches!(step, Step::Here) {
            return Ok(page);
        }
        drop(page);
        place = place.follow(pages, step, at, pass).unwrap_or(TOP);
    }
    Err(lost(pages))
}

/// Returns the leaf whose range holds `key`, latched exclusively.
#[cold]
#[inline(never)]
pub(crate) fn leaf_exclusive<'a>(pages: &Pages<'a>, key: &[u8], pass: Pass) -> Result<ExclusivePage<'a>> {
    let mut place = TOP;
    for _ in 0..ROUNDS_MAX {
        if place.level == Some(0) {
            let page = pages.exclusive(place.page, 0)?;
            let node = node_of(pages, place.page, &page)?;
            let (step, at) = (step(pages, place.page, &node, key, 0)?, node.level());
            if matches!(step, Step::Here) {
                return Ok(page);
            }
            drop(page);
            place = place.follow(pages, step, at, pass).unwrap_or(TOP);
        } else {
            let page = pages.shared(place.page, place.rank_level())?;
            let node = node_of(pages, place.page, &page)?;
            let (step, at) = (step(pages, place.page, &node, key, 0)?, node.level());
            drop(page);
            // A root that is a leaf is latched again, exclusively. The tree may have grown in between.
            place = place.follow(pages, step, at, pass).unwrap_or(Place { level: Some(0), ..place });
        }
    }
    Err(lost(pages))
}

/// Returns the last page of `level`, latched shared.
pub(crate) fn last<'a>(pages: &Pages<'a>, level: u8) -> Result<SharedPage<'a>> {
    let mut number = ROOT;
    for _ in 0..ROUNDS_MAX {
        let page = pages.shared(number, level)?;
        let node = node_of(pages, number, &page)?;
        number = match (node.is_deleted(), node.right()) {
            (true, _) => ROOT,
            (false, Some(right)) => right,
            (false, None) if node.level() == level => return Ok(page),
            (false, None) => {
                let slot = node.count().saturating_sub(1);
                node.child(slot).ok_or_else(|| pages.corrupt(number, format!("slot {slot} leads to no child")))?
            }
        };
    }
    Err(lost(pages))
}

//! From one leaf to the next, in either direction (PROTOCOLS T3).
//!
//! A session latches only one leaf at a time, so it keeps the [`Stretch`] of the leaf that it left. An outdated page, a
//! valid image from an earlier time, passes all its own checks: checksum, number, order of keys. Only a comparison with
//! its neighbours shows the damage, and tells a way that leads in a circle from a long one.

use std::cmp::Ordering;

use libtp_buffer::SharedPage;

use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// The range of a leaf at an earlier moment. The lower bound never changes while the leaf lives. The upper bound falls
/// by a split, and rises only when the right neighbour is unlinked or merged.
pub(crate) struct Stretch {
    number: u32,
    low: Vec<u8>,
    /// The first key, if the low fence may be cut short.
    first: Option<Vec<u8>>,
    /// `None` for no limit.
    high: Option<Vec<u8>>,
}

impl Stretch {
    /// Returns the stretch of the page of that number.
    pub fn of(number: u32, node: &Node<'_>) -> Stretch {
        let has_first = node.count() > 0 && Frame::may_be_cut(node.low(), node.page_bytes());
        Stretch {
            number,
            low: node.low().to_vec(),
            first: has_first.then(|| node.key(0).to_vec()),
            high: node.high().map(<[u8]>::to_vec),
        }
    }

    /// Refuses the page that this leaf's right link leads to if the page leads back: then the way would never end.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names the page.
    pub fn check_leads_on(&self, pages: &Pages<'_>, right: u32, node: &Node<'_>) -> Result<()> {
        match self.is_before(node) {
            true => Ok(()),
            false => Err(leads_back(pages, right)),
        }
    }

    /// Finds the page whose right link leads here, from page `from` to the right. Returns `None` if the way is lost.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if a page's right link leads back.
    pub fn left_neighbour<'a>(&self, pages: &Pages<'a>, from: u32) -> Result<Option<SharedPage<'a>>> {
        let (mut number, mut reached) = (from, Vec::new());
        for _ in 0..ROUNDS_MAX {
            let page = pages.shared(number, 0)?;
            let Some(node) = Node::over(&page) else { return Ok(None) };
            match self.leftwards(&node) {
                Leftwards::Here => return Ok(Some(page)),
                Leftwards::Lost => return Ok(None),
                Leftwards::Back => {
                    let what =
                        "it leads to a page that does not begin where this page ends, so one of the two pages is older than the other";
                    return Err(pages.corrupt(number, what));
                }
                Leftwards::Right(_, end) if end <= &reached[..] => return Err(leads_back(pages, number)),
                Leftwards::Right(right, end) => {
                    reached.clear();
                    reached.extend_from_slice(end);
                    number = right;
                }
            }
        }
        Ok(None)
    }

    /// Whether this leaf ends where `node` begins, as far as the low fence tells, and before `node` ends.
    fn is_before(&self, node: &Node<'_>) -> bool {
        let Some(high) = &self.high else { return false };
        !Frame::is_above_low(high, node.low(), node.page_bytes())
            && node.high().is_none_or(|end| end > &high[..])
            && (node.count() == 0 || node.key(0).compare(high) != Ordering::Less)
    }

    /// Whether a page that ends at `end` lies before this leaf.
    fn is_behind(&self, end: &[u8], page_bytes: usize) -> bool {
        !Frame::is_above_low(end, &self.low, page_bytes)
            && self.high.as_ref().is_none_or(|high| end < &high[..])
            && self.first.as_ref().is_none_or(|first| end <= &first[..])
    }

    /// Returns where a page leads, relative to this leaf. The lower bound of a page never changes while the page lives.
    /// So if that page reaches further and does not lead here, this leaf was merged or unlinked, and no page to the
    /// right leads here.
    fn leftwards<'n>(&self, node: &Node<'n>) -> Leftwards<'n> {
        if !node.is_leaf() || node.is_deleted() {
            return Leftwards::Lost;
        }
        match (node.right(), node.high()) {
            (Some(right), Some(end)) if right == self.number => match self.is_behind(end, node.page_bytes()) {
                true => Leftwards::Here,
                false => Leftwards::Back,
            },
            (Some(right), Some(end)) if !Frame::is_above_low(end, &self.low, node.page_bytes()) => {
                Leftwards::Right(right, end)
            }
            _ => Leftwards::Lost,
        }
    }
}

/// Returns the error for a right link that does not lead to the right.
#[cold]
pub(crate) fn leads_back(pages: &Pages<'_>, right: u32) -> crate::Error {
    pages.corrupt(
        right,
        "it does not begin where the page that leads to it ends, so one of the two pages is older than the other",
    )
}

/// The direction of this leaf's left neighbour, from a page to its left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftwards<'n> {
    Here,
    /// To the right: the page's right link, and the upper bound of the page.
    Right(u32, &'n [u8]),
    Lost,
    Back,
}

#[cfg(test)]
mod tests {
    use libtp_buffer::PageMut;

    use super::*;
    use crate::page::rebuild::make_new;

    const PAGE: usize = 4096;

    fn page(low: &[u8], right: u32, high: &[u8]) -> Vec<u8> {
        let mut page = vec![0; PAGE];
        let frame = Frame { left: 3, right, low: low.to_vec(), high: high.to_vec(), ..Frame::default() };
        make_new(&mut PageMut::detached(&mut page), (7, 4), 0, &frame).unwrap().finish().unwrap();
        page
    }

    fn stretch(low: &[u8], high: &[u8]) -> Stretch {
        Stretch::of(9, &Node::over(&page(low, 11, high)).unwrap())
    }

    /// Returns where a page that ends at `high` and leads to page `right` sends the search for the left neighbour of
    /// page 9, which begins at `low`.
    fn way(high: &[u8], right: u32, low: &[u8]) -> Leftwards<'static> {
        let page = page(b"a", right, high).leak();
        stretch(low, b"zz").leftwards(&Node::over(page).unwrap())
    }

    /// Returns a key with a long common beginning, so that a stored low fence holds only this beginning.
    fn long(end: &[u8]) -> Vec<u8> {
        [&[b'x'; 300][..], end].concat()
    }

    #[test]
    fn the_way_to_a_page_that_went_into_another_ends_there() {
        assert_eq!(way(b"m", 9, b"m"), Leftwards::Here);
        assert_eq!(way(b"g", 5, b"m"), Leftwards::Right(5, b"g"), "the page was split meanwhile");
        assert_eq!(way(b"t", 5, b"m"), Leftwards::Lost, "the left page has taken the page over");
        assert_eq!(way(b"", 0, b"m"), Leftwards::Lost);
        // A long low fence is stored cut short.
        assert_eq!(way(&long(b"3"), 5, &long(b"7")), Leftwards::Right(5, &long(b"3")));
        assert_eq!(way(b"y", 5, &long(b"7")), Leftwards::Lost);
    }

    #[test]
    fn who_leads_here_from_further_right_leads_back() {
        assert_eq!(way(b"t", 9, b"m"), Leftwards::Back);
        let leftwards = |here: &Stretch, end: &[u8]| here.leftwards(&Node::over(page(b"a", 9, end).leak()).unwrap());
        let here = stretch(&long(b"3"), &long(b"5"));
        assert_eq!(leftwards(&here, &long(b"3")), Leftwards::Here);
        assert_eq!(leftwards(&here, &long(b"5")), Leftwards::Back, "the low fences say nothing of it");
        let with_first = Stretch { first: Some(long(b"4")), ..stretch(&long(b"3"), b"") };
        assert_eq!(leftwards(&with_first, &long(b"4")), Leftwards::Here);
        assert_eq!(leftwards(&with_first, &long(b"5")), Leftwards::Back);
    }

    #[test]
    fn a_right_link_that_leads_back_is_seen_where_low_fences_are_cut_short() {
        let is_before =
            |here: &Stretch, low: &[u8], high: &[u8]| here.is_before(&Node::over(&page(low, 5, high)).unwrap());
        let here = stretch(b"g", b"m");
        assert!(is_before(&here, b"m", b"t") && is_before(&here, b"m", b""));
        assert!(!is_before(&here, b"c", b"g"), "the other page begins before the end");
        let here = stretch(&long(b"3"), &long(b"5"));
        assert!(is_before(&here, &long(b"5"), &long(b"7")));
        assert!(!is_before(&here, &long(b"3"), &long(b"5")), "both pages end at the same key");
        assert!(!is_before(&here, &long(b"1"), &long(b"3")));
        assert!(!is_before(&stretch(b"g", b""), b"m", b""), "no page follows the last page");
    }
}

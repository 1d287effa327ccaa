//! Goes from one leaf to the next, in either direction (PROTOCOLS T3).
//!
//! A session latches only one leaf at a time, so it keeps the [`Stretch`] of the leaf that it left. An outdated page,
//! which is a valid image from an earlier time, passes all checks of a single page: checksum, number, order of keys.
//! Only a comparison with the page's neighbours shows the damage. It also distinguishes a circle of links from a long
//! path.

use std::cmp::Ordering;

use libtp_buffer::SharedPage;

use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// The key range of a leaf at an earlier moment. The lower bound never changes while the leaf is in the tree. A split
/// lowers the upper bound. Only the unlinking or merging of the right neighbour raises the upper bound.
pub(crate) struct Stretch {
    number: u32,
    low: Vec<u8>,
    /// The first key, if the stored low fence may be truncated.
    first: Option<Vec<u8>>,
    /// The upper bound; `None` if there is no upper bound.
    high: Option<Vec<u8>>,
}

impl Stretch {
    /// Returns the stretch of the page with this number.
    pub fn of(number: u32, node: &Node<'_>) -> Stretch {
        let has_first = node.count() > 0 && Frame::may_be_cut(node.low(), node.page_bytes());
        Stretch {
            number,
            low: node.low().to_vec(),
            first: has_first.then(|| node.key(0).to_vec()),
            high: node.high().map(<[u8]>::to_vec),
        }
    }

    /// Checks that the page `right`, to which this leaf's right link leads, is to the right of this leaf. Otherwise the
    /// walk could be endless.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names the page.
    pub fn check_leads_on(&self, pages: &Pages<'_>, right: u32, node: &Node<'_>) -> Result<()> {
        match self.is_before(node) {
            true => Ok(()),
            false => Err(leads_back(pages, right)),
        }
    }

    /// Finds the page whose right link leads to this leaf, from page `from` to the right. Returns `None` if no page to
    /// the right of `from` leads to this leaf any more.
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

    /// Returns whether `node` begins where this leaf ends, as far as the low fence of `node` shows, and ends after this
    /// leaf.
    fn is_before(&self, node: &Node<'_>) -> bool {
        let Some(high) = &self.high else { return false };
        !Frame::is_above_low(high, node.low(), node.page_bytes())
            && node.high().is_none_or(|end| end > &high[..])
            && (node.count() == 0 || node.key(0).compare(high) != Ordering::Less)
    }

    /// Returns whether a page that ends at `end` is to the left of this leaf.
    fn is_after(&self, end: &[u8], page_bytes: usize) -> bool {
        !Frame::is_above_low(end, &self.low, page_bytes)
            && self.high.as_ref().is_none_or(|high| end < &high[..])
            && self.first.as_ref().is_none_or(|first| end <= &first[..])
    }

    /// Returns where the right link of `node` leads, relative to this leaf. The lower bound of a page never changes
    /// while the page is in the tree. So if `node` ends above this leaf's lower bound and does not lead to this leaf,
    /// this leaf was merged or unlinked, and no page further right leads to it.
    fn leftwards<'n>(&self, node: &Node<'n>) -> Leftwards<'n> {
        if !node.is_leaf() || node.is_deleted() {
            return Leftwards::Lost;
        }
        match (node.right(), node.high()) {
            (Some(right), Some(end)) if right == self.number => match self.is_after(end, node.page_bytes()) {
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

/// The direction of this leaf's left neighbour, seen from another page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftwards<'n> {
    Here,
    /// The left neighbour is further right. The values are the other page's right link and upper bound.
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

    /// Returns the next step of the search for the left neighbour of page 9, which begins at `low`. The search is at a
    /// page that ends at `high` and leads to page `right`.
    fn way(high: &[u8], right: u32, low: &[u8]) -> Leftwards<'static> {
        let page = page(b"a", right, high).leak();
        stretch(low, b"zz").leftwards(&Node::over(page).unwrap())
    }

    /// Returns a key with a long common beginning, so that a page stores only this beginning as its low fence.
    fn long(end: &[u8]) -> Vec<u8> {
        [&[b'x'; 300][..], end].concat()
    }

    #[test]
    fn the_search_for_the_left_neighbour_of_a_merged_page_ends() {
        assert_eq!(way(b"m", 9, b"m"), Leftwards::Here);
        assert_eq!(way(b"g", 5, b"m"), Leftwards::Right(5, b"g"), "the page was split meanwhile");
        assert_eq!(way(b"t", 5, b"m"), Leftwards::Lost, "the left page has taken the page over");
        assert_eq!(way(b"", 0, b"m"), Leftwards::Lost);
        // A long low fence is stored truncated.
        assert_eq!(way(&long(b"3"), 5, &long(b"7")), Leftwards::Right(5, &long(b"3")));
        assert_eq!(way(b"y", 5, &long(b"7")), Leftwards::Lost);
    }

    #[test]
    fn a_page_further_right_that_leads_to_this_leaf_is_damage() {
        assert_eq!(way(b"t", 9, b"m"), Leftwards::Back);
        let leftwards = |here: &Stretch, end: &[u8]| here.leftwards(&Node::over(page(b"a", 9, end).leak()).unwrap());
        let here = stretch(&long(b"3"), &long(b"5"));
        assert_eq!(leftwards(&here, &long(b"3")), Leftwards::Here);
        assert_eq!(leftwards(&here, &long(b"5")), Leftwards::Back, "the low fences do not show the damage");
        let with_first = Stretch { first: Some(long(b"4")), ..stretch(&long(b"3"), b"") };
        assert_eq!(leftwards(&with_first, &long(b"4")), Leftwards::Here);
        assert_eq!(leftwards(&with_first, &long(b"5")), Leftwards::Back);
    }

    #[test]
    fn a_right_link_that_leads_back_is_noticed_despite_truncated_low_fences() {
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

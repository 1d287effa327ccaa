//! The walk along the further pages of a bucket.
//!
//! An outdated page, which is a valid image from an earlier time, may lead back to a page of the walk: the outdated
//! page was removed from the chain and later added at its end. The bucket is latched during the walk, so an endless
//! walk would stop all sessions. A chain with a circle is an error that names the page. Brent's method finds a circle
//! of any length after at most three times as many pages as the chain has: the walk remembers the page whose place in
//! the walk was the last power of two.

use crate::hash::page::{bucket_page, BucketPage};
use crate::pages::Pages;
use crate::{Error, Result};

/// The state of a walk along a bucket's pages.
pub(crate) struct Chain {
    bucket: u32,
    first: u32,
    next: Option<u32>,
    passed: u32,
    remembered: u32,
}

impl Chain {
    /// Begins after the bucket's first page, which has the number `first`.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if the page leads to itself.
    #[inline]
    pub fn after(pages: &Pages<'_>, first: u32, node: &BucketPage<'_>) -> Result<Chain> {
        let next = node.next();
        match next == Some(first) {
            true => Err(leads_back(pages, first)),
            false => Ok(Chain { bucket: node.bucket(), first, next, passed: 0, remembered: first }),
        }
    }

    /// Returns the next page's number. It differs from the number of the page passed last, so both pages may be latched
    /// together.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Reads the next page, which is latched now, and goes to the page after it.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names a page that belongs to another bucket, or that leads back.
    pub fn pass<'p>(&mut self, pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<BucketPage<'p>> {
        let node = bucket_page(pages, number, page)?;
        if !node.is_further() || node.bucket() != self.bucket {
            let bucket = self.bucket;
            return Err(pages.corrupt(
                number,
                format!("the pages of bucket {bucket} lead to it, and it is not a page of that bucket"),
            ));
        }
        match self.go_on(number, node.next()) {
            true => Ok(node),
            false => Err(leads_back(pages, number)),
        }
    }

    /// Passes a page. Returns false if the page leads back.
    fn go_on(&mut self, number: u32, next: Option<u32>) -> bool {
        self.passed = self.passed.wrapping_add(1);
        if self.passed.is_power_of_two() {
            self.remembered = number;
        }
        self.next = next;
        next.is_none_or(|next| ![number, self.first, self.remembered].contains(&next))
    }
}

#[cold]
fn leads_back(pages: &Pages<'_>, number: u32) -> Error {
    pages.corrupt(number, "the pages of its bucket lead in a circle, so one of them is older than the others")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of pages passed until the circle is found; `None` if the chain ends.
    fn passed(way: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut chain = Chain { bucket: 0, first: 1000, next: Some(0), passed: 0, remembered: 1000 };
        while let Some(number) = chain.next() {
            if !chain.go_on(number, way(number)) {
                return Some(chain.passed);
            }
        }
        None
    }

    #[test]
    fn a_chain_that_ends_has_no_circle() {
        for length in [1, 2, 7, 999] {
            assert_eq!(passed(|page| (page + 1 < length).then_some(page + 1)), None, "{length} pages");
        }
    }

    #[test]
    fn a_circle_of_any_length_anywhere_is_found() {
        for (ahead, circle) in (0..20).flat_map(|ahead| (1..20).map(move |circle| (ahead, circle))) {
            let found = passed(|page| Some(if page + 1 < ahead + circle { page + 1 } else { ahead }));
            assert!(found.is_some_and(|found| found <= 3 * (ahead + circle)), "{ahead} and {circle} pages: {found:?}");
        }
    }

    #[test]
    fn a_page_that_leads_to_itself_or_to_the_first_is_found_at_once() {
        assert_eq!(passed(|page| Some(if page < 5 { page + 1 } else { page })), Some(6));
        assert_eq!(passed(|page| Some(if page < 5 { page + 1 } else { 1000 })), Some(6));
    }
}

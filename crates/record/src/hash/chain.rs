//! The way along the pages behind the first of a bucket.
//!
//! A page of an earlier time is right in itself and may lead back: it left the chain then, and came in again at its end. The
//! bucket is latched while its pages are gone through, so a way without an end would stop everybody; it is an error that names
//! the page. A circle of any length is found within three times its pages, by Brent's method: of the pages passed, the one at
//! the last power of two is remembered.

use crate::hash::bucket::bucket_page;
use crate::hash::page::BucketPage;
use crate::pages::Pages;
use crate::{Error, Result};

/// Where a walk along a bucket's pages is.
pub(crate) struct Chain {
    bucket: u32,
    first: u32,
    next: Option<u32>,
    passed: u32,
    remembered: u32,
}

impl Chain {
    /// Behind the bucket's first page, which has that number.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) if it leads to itself.
    #[inline]
    pub fn behind(pages: &Pages<'_>, first: u32, node: &BucketPage<'_>) -> Result<Chain> {
        let next = node.next();
        match next == Some(first) {
            true => Err(leads_back(pages, first)),
            false => Ok(Chain { bucket: node.bucket(), first, next, passed: 0, remembered: first }),
        }
    }

    /// The page that comes next. None of those that were passed just now: it may be latched beside them.
    #[inline]
    pub fn next(&self) -> Option<u32> {
        self.next
    }

    /// Looks at that page, latched now, and goes on behind it.
    ///
    /// # Errors
    /// [`Error::Corrupt`](crate::Error::Corrupt) names the page that is none of this bucket, or that leads back.
    pub fn pass<'p>(&mut self, pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<BucketPage<'p>> {
        let node = bucket_page(pages, number, page)?;
        if !node.is_further() || node.bucket() != self.bucket {
            let bucket = self.bucket;
            return Err(
                pages.corrupt(number, format!("it is no further page of bucket {bucket}, whose pages lead to it"))
            );
        }
        match self.go_on(number, node.next()) {
            true => Ok(node),
            false => Err(leads_back(pages, number)),
        }
    }

    /// Passes a page; whether it leads on.
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
    pages.corrupt(number, "the pages of its bucket lead in a circle: one of them is of an earlier time")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pages are passed until the way is found to lead back; none if it ends.
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
    fn a_way_that_ends_is_no_circle() {
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

//! A latched bucket, and a walk through its pages.
//!
//! The latch on a bucket's first page is the latch of the bucket. Only its exclusive holder changes any page of the
//! bucket; for a shared holder the bucket is constant. Further pages are latched after the first page, one at a time.
//! Pages of two buckets are latched together only in a split. The giving bucket has the lower number and is latched
//! first.
//!
//! While records still move from one bucket to another, a search for a key of the new bucket latches both buckets, and
//! also searches the old bucket's pages.
//!
//! No session waits for the disk with a latch held: a further page that is not in memory is returned
//! ([`SearchResult::Read`]), and the search begins again.

use std::ops::Deref;

use libtp_buffer::{ExclusivePage, Pin, SharedPage};

use crate::database::geometry::{bucket_of, parent_of, Geometry};
use crate::hash::chain::Chain;
use crate::hash::page::{bucket_page, BucketPage, HashHeader, HEADER_PAGE};
use crate::locking::Access;
use crate::pages::{rank, Pages, ROUNDS_MAX};
use crate::Result;
use libtp_log::Lsn;

/// The rank level of a bucket's further pages: they are latched after all first pages.
pub(crate) const FURTHER_LEVEL: u8 = 1;
/// The rank level of the file's header: it is latched after all pages of buckets.
pub(crate) const HEADER_LEVEL: u8 = 2;
/// The number of pages of a chain that a walk keeps pinned. Further pages probably stay in memory, but this is not
/// guaranteed.
const KEPT_MAX: usize = 24;

/// A page latched shared or exclusively.
pub(crate) trait Latched<'a>: Deref<Target = [u8]> + Sized {
    /// Latches the first page of a bucket. May wait for the disk.
    fn first(pages: &Pages<'a>, page: u32) -> Result<Self>;
    /// Latches a page if that needs no read from disk and no wait for another session.
    fn now(pages: &Pages<'a>, page: u32) -> Option<Self>;
    /// Latches a pinned further page.
    fn kept(pin: &Pin<'a>) -> Self;
    /// Latches a pinned first page of a bucket.
    fn first_kept(pin: &Pin<'a>) -> Self;
}

impl<'a> Latched<'a> for SharedPage<'a> {
    #[inline]
    fn first(pages: &Pages<'a>, page: u32) -> Result<Self> {
        match pages.shared_now(page, 0, true) {
            Some(page) => Ok(page),
            None => pages.shared(page, 0),
        }
    }

    #[inline]
    fn now(pages: &Pages<'a>, page: u32) -> Option<Self> {
        pages.shared_now(page, FURTHER_LEVEL, true)
    }

    fn kept(pin: &Pin<'a>) -> Self {
        pin.shared(rank(FURTHER_LEVEL))
    }

    fn first_kept(pin: &Pin<'a>) -> Self {
        pin.shared(rank(0))
    }
}

impl<'a> Latched<'a> for ExclusivePage<'a> {
    #[inline]
    fn first(pages: &Pages<'a>, page: u32) -> Result<Self> {
        match pages.exclusive_now(page, 0) {
            Some(page) => Ok(page),
            None => pages.exclusive(page, 0),
        }
    }

    #[inline]
    fn now(pages: &Pages<'a>, page: u32) -> Option<Self> {
        pages.exclusive_now(page, FURTHER_LEVEL)
    }

    fn kept(pin: &Pin<'a>) -> Self {
        pin.exclusive(rank(FURTHER_LEVEL))
    }

    fn first_kept(pin: &Pin<'a>) -> Self {
        pin.exclusive(rank(0))
    }
}

/// The bucket of a hash, latched.
pub(crate) struct Bucket<'a, L> {
    /// The number of the bucket's first page, and that page.
    pub(crate) own: (u32, L),
    /// The first page of the giving bucket, which may still have records of this bucket.
    pub(crate) giving: Option<(u32, L)>,
    _of: std::marker::PhantomData<&'a ()>,
}

/// A bucket whose record changes.
pub(crate) type ChangedBucket<'a> = Bucket<'a, ExclusivePage<'a>>;

/// One of the latched pages.
pub(crate) enum HeldPage<L> {
    /// The bucket's own first page.
    Own,
    /// The first page of the giving bucket.
    Giving,
    /// A further page.
    Further(u32, L),
}

/// The result of a search in a bucket.
pub(crate) enum SearchResult<L, T> {
    /// The result of the search, and its page.
    Found(HeldPage<L>, T),
    /// The bucket does not have the record.
    Missing,
    /// A further page is not in memory, or is latched. The caller pins the page and begins again.
    Read(u32),
}

/// Pinned pages of a walk through a bucket.
#[derive(Default)]
pub(crate) struct PinnedPages<'a> {
    pins: Vec<Pin<'a>>,
}

impl<'a> PinnedPages<'a> {
    /// Pins a page, and unpins old pages if there are too many. The session holds no latch.
    pub(crate) fn keep(&mut self, pages: &Pages<'a>, page: u32) -> Result<()> {
        if self.pins.len() >= KEPT_MAX {
            self.pins.drain(..KEPT_MAX / 2);
        }
        self.pins.push(pages.pin(page)?);
        Ok(())
    }

    pub(crate) fn latch<L: Latched<'a>>(&self, pages: &Pages<'a>, page: u32) -> Option<L> {
        match self.pins.iter().find(|pin| pin.id().page().raw() == page) {
            Some(pin) => Some(L::kept(pin)),
            None => L::now(pages, page),
        }
    }
}

/// Returns a copy of the file's header. The session holds no latch before or after.
pub(crate) fn read_header(pages: &Pages<'_>) -> Result<HashHeader> {
    let page = pages.shared(HEADER_PAGE, HEADER_LEVEL)?;
    HashHeader::of(&page).copied().ok_or_else(|| pages.corrupt(HEADER_PAGE, "it is not the header of a hash file"))
}

/// A hash file's pages, and the places of its buckets as this process last saw them.
#[derive(Clone, Copy)]
pub(crate) struct Buckets<'a> {
    pub(crate) pages: Pages<'a>,
    /// `None` if only the file's number is known, as in undo. Then each call reads the header.
    geometry: Option<&'a Geometry>,
}

impl<'a> Buckets<'a> {
    pub(crate) fn new(pages: Pages<'a>, geometry: Option<&'a Geometry>) -> Buckets<'a> {
        Buckets { pages, geometry }
    }

    /// Reads the header, and remembers its contents for this process.
    fn ask(&self) -> Result<HashHeader> {
        let header = read_header(&self.pages)?;
        if let Some(geometry) = self.geometry {
            geometry.set(header.buckets.get(), header.extents.iter().map(|first| first.get()));
        }
        Ok(header)
    }

    /// Returns the number of buckets, as far as this process knows.
    #[inline]
    pub(crate) fn count(&self) -> Result<u32> {
        match self.geometry.map_or(0, Geometry::buckets) {
            0 => Ok(self.ask()?.buckets.get()),
            known => Ok(known),
        }
    }

    /// Returns the first page of a bucket; `None` if there is no such bucket.
    #[inline]
    pub(crate) fn page_of(&self, bucket: u32) -> Result<Option<u32>> {
        if let Some(page) = self.geometry.and_then(|geometry| geometry.page(bucket)) {
            return Ok(Some(page));
        }
        let header = self.ask()?;
        let (index, at, _) = crate::database::geometry::extent_of(bucket);
        let first = header.extents.get(index).map_or(0, |first| first.get());
        Ok((bucket < header.buckets.get() && first != 0).then(|| first.saturating_add(at)))
    }

    /// Latches the bucket of a hash, together with the bucket that may still have some of its records.
    pub(crate) fn latch<L: Latched<'a>>(&self, hash: u64) -> Result<Bucket<'a, L>> {
        let mut count = self.count()?;
        for _ in 0..ROUNDS_MAX {
            let bucket = bucket_of(hash, count);
            let page = self.page_of(bucket)?;
            let number =
                page.ok_or_else(|| self.pages.corrupt(HEADER_PAGE, format!("it has no page for bucket {bucket}")))?;
            let own = L::first(&self.pages, number)?;
            let is_taking = match BucketPage::over(&own) {
                Some(first) if first.is_first_of(hash) && first.bucket() == bucket => first.is_taking(),
                _ => {
                    // The bucket was split in between, or this process knows a state of the file from before a
                    // recovery.
                    drop(own);
                    let now = self.ask()?.buckets.get();
                    if now == count {
                        return Err(self.pages.corrupt(number, format!("it is not the first page of bucket {bucket}")));
                    }
                    count = now;
                    continue;
                }
            };
            if !is_taking {
                return Ok(Bucket { own: (number, own), giving: None, _of: std::marker::PhantomData });
            }
            drop(own);
            if bucket == 0 {
                return Err(self
                    .pages
                    .corrupt(number, "it takes records from another bucket, but is the first bucket"));
            }
            if let Some(both) = self.latch_both(bucket, number)? {
                return Ok(both);
            }
        }
        Err(self.pages.corrupt(HEADER_PAGE, "a bucket could not be found"))
    }

    /// Latches the bucket from which `bucket` takes records, and then `bucket`. Returns `None` if `bucket` takes no
    /// more records, or the other bucket has been split again.
    fn latch_both<L: Latched<'a>>(&self, bucket: u32, number: u32) -> Result<Option<Bucket<'a, L>>> {
        let (parent, bits) = parent_of(bucket);
        let page = self.page_of(parent)?;
        let giving =
            page.ok_or_else(|| self.pages.corrupt(HEADER_PAGE, format!("it has no page for bucket {parent}")))?;
        // A pin keeps the second page in memory while the first is latched.
        let pin = self.pages.pin(number)?;
        let old = L::first(&self.pages, giving)?;
        let own = L::first_kept(&pin);
        let is_taking = bucket_page(&self.pages, number, &own)?.is_taking();
        let is_giving = bucket_page(&self.pages, giving, &old)?;
        if !is_taking || !is_giving.is_giving() || is_giving.bits() != bits {
            return Ok(None);
        }
        Ok(Some(Bucket { own: (number, own), giving: Some((giving, old)), _of: std::marker::PhantomData }))
    }
}

impl<'a, L: Latched<'a>> Bucket<'a, L> {
    /// Calls `look` for every page that may have records of the bucket, until `look` returns `Some`. `look` gets the
    /// page's number, and whether the page belongs to the bucket itself.
    pub(crate) fn look<T>(
        &self,
        pages: &Pages<'a>,
        kept: &PinnedPages<'a>,
        mut look: impl FnMut(u32, &BucketPage<'_>, bool) -> Result<Option<T>>,
    ) -> Result<SearchResult<L, T>> {
        // The giving bucket is searched first. The order does not matter: a session that moves a record latches both
        // buckets.
        for (first, is_own) in [(self.giving.as_ref(), false), (Some(&self.own), true)] {
            let Some((number, page)) = first else { continue };
            let node = bucket_page(pages, *number, page)?;
            if let Some(found) = look(*number, &node, is_own)? {
                return Ok(SearchResult::Found(if is_own { HeldPage::Own } else { HeldPage::Giving }, found));
            }
            let mut chain = Chain::after(pages, *number, &node)?;
            while let Some(number) = chain.next() {
                let Some(page) = kept.latch::<L>(pages, number) else { return Ok(SearchResult::Read(number)) };
                let node = chain.pass(pages, number, &page)?;
                if let Some(found) = look(number, &node, is_own)? {
                    return Ok(SearchResult::Found(HeldPage::Further(number, page), found));
                }
            }
        }
        Ok(SearchResult::Missing)
    }

    /// Finds the record of a key, or its ghost. The result is the page and the slot.
    #[inline]
    pub(crate) fn find(&self, pages: &Pages<'a>, kept: &PinnedPages<'a>, key: &[u8]) -> Result<SearchResult<L, usize>> {
        self.look(pages, kept, |_, node, _| {
            let (slot, found) = node.find(key);
            Ok(found.then_some(slot))
        })
    }

    /// Returns the found page.
    pub(crate) fn page<'b>(&'b self, which: &'b HeldPage<L>) -> (u32, &'b L) {
        match which {
            HeldPage::Own => (self.own.0, &self.own.1),
            HeldPage::Giving => {
                self.giving.as_ref().map_or((self.own.0, &self.own.1), |(number, page)| (*number, page))
            }
            HeldPage::Further(number, page) => (*number, page),
        }
    }

    /// Returns the found page for a change.
    pub(crate) fn page_mut<'b>(&'b mut self, which: &'b mut HeldPage<L>) -> (u32, &'b mut L) {
        match which {
            HeldPage::Further(number, page) => (*number, page),
            HeldPage::Giving if self.giving.is_some() => {
                let (number, page) = self.giving.as_mut().expect("the search found its result in the giving bucket");
                (*number, page)
            }
            HeldPage::Own | HeldPage::Giving => (self.own.0, &mut self.own.1),
        }
    }

    /// Returns the highest LSN of the records and values that were removed for good from the pages that may have had
    /// records of the bucket. Returns `Err` with a page that must be read first.
    pub(crate) fn deleter(&self, pages: &Pages<'a>, kept: &PinnedPages<'a>) -> Result<std::result::Result<Lsn, u32>> {
        let mut deleter = Lsn::NONE;
        let sought = self.look(pages, kept, |_, node, _| {
            deleter = deleter.max(node.deleter_lsn());
            Ok(None::<()>)
        })?;
        Ok(match sought {
            SearchResult::Read(page) => Err(page),
            _ => Ok(deleter),
        })
    }
}

impl<'a> Access<'a> {
    /// Returns the file's buckets.
    #[inline]
    pub(crate) fn buckets(&self) -> Buckets<'a> {
        Buckets::new(self.pages, self.database.geometry())
    }
}

//! The hash file's part of a put (../btree/change.rs): how the loop of a put latches, searches and changes a bucket.
//!
//! An insertion also locks the gap that it enters. A hash file has no neighbouring keys, so a gap is a part of the
//! space of hashes (`scan`). A transaction that has scanned a gap has locked it. An insertion locks the gap in `IX` for
//! an instant (PROTOCOLS K1).

use libtp_buffer::ExclusivePage;
use libtp_lock::Mode;
use rio::{failpoint, planted};

use crate::btree::change::{Attempt, Codes, Leaf, Moment, RecordChange, Sought, Tryout};
use crate::hash::bucket::{Bucket, ChangedBucket, HeldPage, PinnedPages, SearchResult};
use crate::hash::log_records::{DELETE, DROP_CHAIN, INSERT, UPDATE};
use crate::hash::page::bucket_page;
use crate::hash::room::{self, Incoming};
use crate::hash::scan::gap_of;
use crate::hash::split;
use crate::locking::{Access, Tried};
use crate::page::node::Node;
use crate::pages::Pages;
use crate::Result;

impl<'a> Leaf<'a> for ChangedBucket<'a> {
    const CODES: Codes = Codes { insert: INSERT, update: UPDATE, delete: DELETE, drop_chain: DROP_CHAIN };
    const IS_FOUND_BY_HASH: bool = true;
    type Kept = PinnedPages<'a>;
    type At = HeldPage<ExclusivePage<'a>>;
    type Visit = ();

    fn visit(_pages: &Pages<'a>) {}

    #[inline]
    fn latch(access: &Access<'a>, _key: &[u8], hash: u64) -> Result<Self> {
        access.buckets().latch(hash)
    }

    #[inline]
    fn find(&self, access: &Access<'a>, key: &[u8], kept: &PinnedPages<'a>) -> Tryout<Sought<Self::At>> {
        Ok(match Bucket::find(self, &access.pages, kept, key)? {
            SearchResult::Found(which, slot) => Ok(Sought::Record(which, slot)),
            SearchResult::Missing => Ok(Sought::Gap(0)),
            SearchResult::Read(page) => Err(Attempt::Read(page)),
        })
    }

    #[inline]
    fn page<'p>(&'p self, at: &'p Self::At) -> (u32, &'p ExclusivePage<'a>) {
        Bucket::page(self, at)
    }

    #[inline]
    fn page_mut<'p>(&'p mut self, at: &'p mut Self::At) -> (u32, &'p mut ExclusivePage<'a>) {
        Bucket::page_mut(self, at)
    }

    #[inline]
    fn node<'p>(pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<Node<'p>> {
        bucket_page(pages, number, page).map(|page| *page)
    }

    /// Finds the bucket's first page with room for the record.
    fn way_in(
        &self,
        wanted: &RecordChange<'_, 'a, Self>,
        _slot: usize,
        stored_bytes: usize,
    ) -> Tryout<(Self::At, usize)> {
        let pages = &wanted.access.pages;
        if let Some((number, page)) = &self.giving {
            return Ok(Err(Attempt::Finish(bucket_page(pages, *number, page)?.bucket())));
        }
        if wanted.granularity.is_some() {
            let gap = gap_of(wanted.access.database.id(), wanted.hash);
            if !planted("record: an insertion into a hash file does not lock the gap")
                && wanted.access.try_instant(gap, Mode::IX)? == Tried::Busy
            {
                return Ok(Err(Attempt::WaitForGap(gap)));
            }
        }
        let mut bytes = 0;
        let sought = self.look(pages, &wanted.kept, |_, node, _| {
            bytes = node.record_need(wanted.key.len(), stored_bytes);
            Ok((bytes <= node.free_bytes()).then(|| node.find(wanted.key).0))
        })?;
        Ok(match sought {
            SearchResult::Found(which, slot) => Ok((which, slot)),
            SearchResult::Read(page) => Err(Attempt::Read(page)),
            SearchResult::Missing => Err(Attempt::NoRoom { page: self.own.0, slot: 0, bytes, is_new: true }),
        })
    }

    fn no_room(&self, pages: &Pages<'a>, number: u32, slot: usize, bytes: usize) -> Result<Attempt> {
        Ok(match &self.giving {
            Some((giving, page)) => Attempt::Finish(bucket_page(pages, *giving, page)?.bucket()),
            None => Attempt::NoRoom { page: number, slot, bytes, is_new: false },
        })
    }

    fn make_room(wanted: &RecordChange<'_, 'a, Self>, missing: &Attempt) -> Result<()> {
        match *missing {
            Attempt::Finish(bucket) => split::finish(&wanted.access.buckets(), bucket),
            Attempt::NoRoom { bytes, is_new, .. } => {
                room::make_room(&wanted.access, Incoming { key: wanted.key, hash: wanted.hash, bytes, is_new })
            }
            _ => Ok(()),
        }
    }

    fn keep(wanted: &mut RecordChange<'_, 'a, Self>, page: u32) -> Result<()> {
        wanted.kept.keep(&wanted.access.pages, page)
    }

    #[inline]
    fn failpoint(moment: Moment) {
        match moment {
            Moment::ToUpdate => failpoint("hash: bucket latched to update"),
            Moment::Updated => failpoint("hash: updated"),
            Moment::ToInsert => failpoint("hash: bucket latched to insert"),
            Moment::Inserted => failpoint("hash: inserted"),
            Moment::ChainFound => failpoint("hash: chain to be dropped, bucket latched"),
            Moment::ToDropChain => failpoint("hash: about to drop a chain"),
        }
    }
}

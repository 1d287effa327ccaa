//! A hash file as a snapshot shows it: one record by its key, and a cursor in the order of `hash/scan.rs`.
//!
//! If a key is absent, its record may have been on any page of the bucket. So the snapshot must be newer than every
//! removal from every page of the bucket. Each page stores the highest LSN of the records and values that were removed
//! from it for good. When records move to another page, this LSN is copied there, too.

use libtp_buffer::SharedPage;
use libtp_log::Lsn;

use super::batch::{Batch, Stored};
use super::history::Version;
use super::SnapshotAccess;
use crate::btree::long_value;
use crate::btree::value::Value;
use crate::cursor::{Cursor, Walk};
use crate::hash::bucket::{Bucket, PinnedPages, SearchResult};
use crate::hash::page::{bucket_page, HEADER_PAGE};
use crate::hash::scan::{is_after, place_of, range_from};
use crate::key_hash::hash_of;
use crate::key_hash::key_hash;
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::SplitKey;
use crate::pages::ROUNDS_MAX;
use crate::shortcuts::Name;
use crate::Result;

/// The outcome of an attempt to read a bucket.
enum Seen<T> {
    Done(T),
    Read(u32),
}

impl<'a> SnapshotAccess<'a> {
    /// Latches the bucket of a hash, and calls `look` with the bucket and the highest LSN of its removals. If a needed
    /// page is not in memory, releases the latch, reads the page, and starts over.
    fn in_bucket<T>(
        &self,
        hash: u64,
        mut look: impl FnMut(&Bucket<'a, SharedPage<'a>>, &PinnedPages<'a>, Lsn) -> Result<Seen<T>>,
    ) -> Result<T> {
        let (pages, mut kept) = (&self.access.pages, PinnedPages::default());
        for _ in 0..ROUNDS_MAX {
            let bucket = self.access.buckets().latch::<SharedPage<'a>>(hash)?;
            let seen = match bucket.deleter(pages, &kept)? {
                Ok(removal_lsn) => look(&bucket, &kept, removal_lsn)?,
                Err(page) => Seen::Read(page),
            };
            drop(bucket);
            match seen {
                Seen::Done(done) => return Ok(done),
                Seen::Read(page) => kept.keep(pages, page)?,
            }
        }
        Err(pages.corrupt(HEADER_PAGE, "a bucket could not be read to its end"))
    }

    /// As [`SnapshotAccess::get`], for a hash file.
    pub(crate) fn hash_get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.access.check_key(key)?;
        let pages = &self.access.pages;
        let found = self.in_bucket(key_hash(key), |bucket, kept, removal_lsn| {
            let (which, slot) = match bucket.find(pages, kept, key)? {
                SearchResult::Read(page) => return Ok(Seen::Read(page)),
                SearchResult::Missing => return self.check_removed(removal_lsn).map(|()| Seen::Done(None)),
                SearchResult::Found(which, slot) => (which, slot),
            };
            let (number, page) = bucket.page(&which);
            let record = self.access.record_at(number, &*bucket_page(pages, number, page)?, slot)?;
            Ok(Seen::Done(Some((Version::of(&record), removal_lsn))))
        })?;
        let Some((newest, removal_lsn)) = found else { return Ok(None) };
        let Some(version) = self.resolve(Name::Key(key), newest, removal_lsn)? else { return Ok(None) };
        match self.value_of(key, &version)? {
            Value::Here(value) => Ok(Some(read(value))),
            Value::Chain(chain) => Ok(Some(read(&self.hash_chain(key, chain)?))),
        }
    }

    /// As [`SnapshotAccess::read_chain`], for a hash file.
    pub(super) fn hash_chain(&self, key: &[u8], chain: ChainRef) -> Result<Vec<u8>> {
        let value = long_value::read(&self.access.pages, chain);
        self.in_bucket(key_hash(key), |_, _, removal_lsn| self.check_removed(removal_lsn).map(Seen::Done))?;
        value
    }

    /// Returns the records of one bucket that the snapshot shows, from the place `from` on. Also returns the place
    /// after them, or `None` at the end.
    fn hash_batch(&self, from: u64) -> Result<(Batch, Option<u64>)> {
        let pages = &self.access.pages;
        let (places, next, removal_lsn) = self.in_bucket(from.reverse_bits(), |bucket, kept, removal_lsn| {
            self.check_removed(removal_lsn)?;
            let range = range_from(pages, bucket, from)?;
            let mut found = Vec::new();
            let sought = bucket.look(pages, kept, |number, node, _| {
                for slot in 0..node.count() {
                    let place = hash_of(node.key(slot)).reverse_bits();
                    let record = self.access.record_at(number, node, slot)?;
                    let is_gone = record.is_ghost() && self.sees(record.lsn);
                    if (range.first..=range.last).contains(&place) && !is_gone {
                        found.push((place, node.key(slot).to_vec(), Version::of(&record)));
                    }
                }
                Ok(None::<()>)
            })?;
            if let SearchResult::Read(page) = sought {
                return Ok(Seen::Read(page));
            }
            Ok(Seen::Done((found, range.last.checked_add(1), removal_lsn)))
        })?;
        let mut places = places;
        places.sort_unstable_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let mut batch = Batch::default();
        for (_, key, version) in places {
            let is_plain = self.sees(version.lsn) && version.flags == RecordFlags::NONE;
            batch.push(SplitKey::whole(&key), (version.lsn, version.flags), &version.stored, is_plain);
        }
        self.settle(&mut batch, removal_lsn)?;
        Ok((batch, next))
    }
}

/// A cursor over the records of a hash file that a snapshot shows.
pub type SnapshotHashCursor<'a> = Cursor<SnapshotHashWalk<'a>>;

/// A walk through the records of a hash file that a snapshot shows.
pub struct SnapshotHashWalk<'a> {
    at: SnapshotAccess<'a>,
    /// The entry of the walk's record; `None` before the first.
    index: Option<usize>,
    /// The first place that was not copied yet; `None` at the end.
    from: Option<u64>,
    batch: Batch,
    /// The value of the walk's record, if it is long.
    long: Vec<u8>,
}

impl<'a> Cursor<SnapshotHashWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(at: SnapshotAccess<'a>) -> SnapshotHashCursor<'a> {
        Cursor::over(SnapshotHashWalk { at, index: None, from: Some(0), batch: Batch::default(), long: Vec::new() })
    }

    /// Returns the database's name.
    pub fn database_name(&self) -> &str {
        self.walk.at.database().name()
    }
}

impl SnapshotHashWalk<'_> {
    /// Searches from the place `from` on. If the search fails or finds nothing, the walk stays on its record.
    fn go_or_stay(&mut self, from: u64, look: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        let before = (self.index.take(), self.from.replace(from), std::mem::take(&mut self.batch), self.long.clone());
        let found = look(self);
        if !matches!(found, Ok(true)) {
            (self.index, self.from, self.batch, self.long) = before;
        }
        found
    }
}

impl Walk for SnapshotHashWalk<'_> {
    type Key<'k> = &'k [u8];
    type OwnedKey = Vec<u8>;

    fn go_first(&mut self) -> Result<bool> {
        self.go_or_stay(0, Walk::go_next)
    }

    fn go_next(&mut self) -> Result<bool> {
        self.at.access.check_hash()?;
        let mut index = self.index.map_or(0, |index| index + 1);
        // The walk stays on its record if the next record cannot be read.
        let (mut later, mut from) = (None::<Batch>, self.from);
        while index >= later.as_ref().unwrap_or(&self.batch).entries.len() {
            let Some(place) = from else { return Ok(false) };
            let (batch, next) = self.at.hash_batch(place)?;
            (later, from, index) = (Some(batch), next, 0);
        }
        let batch = later.as_ref().unwrap_or(&self.batch);
        let (key, stored) = &batch.entries[index];
        if let Stored::Chain(chain) = stored {
            self.long = self.at.hash_chain(&batch.bytes[key.clone()], *chain)?;
        }
        if let Some(batch) = later {
            (self.batch, self.from) = (batch, from);
        }
        self.index = Some(index);
        Ok(true)
    }

    fn move_after(&mut self, key: &[u8]) -> Result<bool> {
        self.go_or_stay(place_of(key), |walk| {
            walk.at.access.check_hash()?;
            let (batch, next) = walk.at.hash_batch(place_of(key))?;
            // The values of the entries before `key` are not read.
            let passed = batch.entries.iter().filter(|(other, _)| !is_after(&batch.bytes[other.clone()], key)).count();
            (walk.index, walk.batch, walk.from) = (passed.checked_sub(1), batch, next);
            walk.go_next()
        })
    }

    fn record(&self) -> (&[u8], &[u8]) {
        let Some((key, stored)) = self.index.and_then(|index| self.batch.entries.get(index)) else {
            return (&[], &[]);
        };
        (&self.batch.bytes[key.clone()], self.batch.value(stored).unwrap_or(&self.long))
    }

    fn owned(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

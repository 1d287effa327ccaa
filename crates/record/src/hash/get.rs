//! Reads one record by its key, from one bucket. Usually this is one page.
//!
//! The lock has the key's name, as in a B-tree, and also protects the absence of the key. The session tries the lock
//! while the bucket is latched. If another session holds the lock, the session releases the bucket, waits for the lock,
//! and searches again.

use libtp_buffer::SharedPage;
use libtp_lock::LockName;

use crate::btree::long_value;
use crate::btree::value::Value;
use crate::database::geometry::bucket_of;
use crate::database::Granularity;
use crate::hash::bucket::{PinnedPages, SearchResult};
use crate::hash::page::{bucket_page, HEADER_PAGE};
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::pages::ROUNDS_MAX;
use crate::Result;

/// Returns the name of the lock of a hash file's record.
#[inline]
pub(crate) fn record_lock(access: &Access<'_>, hash: u64) -> LockName {
    lock_names::record(access.database.id(), hash)
}

impl Access<'_> {
    /// Returns the page and slot of a key's record.
    pub(crate) fn hash_place(&self, key: &[u8]) -> Result<Option<(u32, usize)>> {
        let mut kept = PinnedPages::default();
        for _ in 0..ROUNDS_MAX {
            let bucket = self.buckets().latch::<SharedPage<'_>>(key_hash(key))?;
            let read = match bucket.find(&self.pages, &kept, key)? {
                SearchResult::Found(which, slot) => return Ok(Some((bucket.page(&which).0, slot))),
                SearchResult::Missing => return Ok(None),
                SearchResult::Read(page) => page,
            };
            drop(bucket);
            kept.keep(&self.pages, read)?;
        }
        Ok(None)
    }

    /// Returns the first page of a key's bucket, by the places of the buckets as this process last saw them.
    pub(crate) fn hash_page_now(&self, key: &[u8]) -> Option<u32> {
        let geometry = self.database.geometry()?;
        match geometry.buckets() {
            0 => None,
            count => geometry.page(bucket_of(key_hash(key), count)),
        }
    }

    /// Reads a record for a caller that has locked the database.
    pub(crate) fn hash_get<R>(
        &self,
        key: &[u8],
        (purpose, granularity): (Purpose, Option<Granularity>),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let hash = key_hash(key);
        let (buckets, mut kept) = (self.buckets(), PinnedPages::default());
        for _ in 0..ROUNDS_MAX {
            // Each round reserves again: a wait for the lock has used up the reservation.
            self.reserve_lock()?;
            let bucket = buckets.latch::<SharedPage<'_>>(hash)?;
            if granularity.is_some() {
                let name = record_lock(self, hash);
                if self.try_record_lock(name, purpose.mode())? == Tried::Busy {
                    drop(bucket);
                    self.lock(name, purpose.mode())?;
                    continue;
                }
            }
            let (which, slot) = match bucket.find(&self.pages, &kept, key)? {
                SearchResult::Found(which, slot) => (which, slot),
                SearchResult::Missing => return Ok(None),
                SearchResult::Read(page) => {
                    drop(bucket);
                    kept.keep(&self.pages, page)?;
                    continue;
                }
            };
            let (number, page) = bucket.page(&which);
            let record = self.record_at(number, &*bucket_page(&self.pages, number, page)?, slot)?;
            if record.is_ghost() {
                return Ok(None);
            }
            let chain = match self.value_of(number, slot, &record)? {
                Value::Here(value) => return Ok(Some(read(value))),
                Value::Chain(chain) => chain,
            };
            drop((which, bucket));
            return Ok(Some(read(&long_value::read(&self.pages, chain)?)));
        }
        Err(self.pages.corrupt(HEADER_PAGE, "a record could not be read"))
    }
}

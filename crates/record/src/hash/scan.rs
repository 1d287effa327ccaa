//! Walks through all records, in an order that has no meaning for the program.
//!
//! The order is the order of the bit-reversed hashes. In this order a bucket has one range, and a split divides the
//! range in two. So a place in this order stays valid when buckets are split, and the cursor returns each record
//! exactly once if the record exists during the whole walk.
//!
//! The cursor copies the keys of a range, and then reads the record of each key. Each range is in one *gap*, which is a
//! sixteenth of all hashes. The cursor locks the gap first, so that no other transaction inserts a key into a part that
//! was copied. The cursor also copies the keys of ghosts, so that it waits for a running transaction that has deleted a
//! record.

use libtp_buffer::{FileId, SharedPage};
use libtp_lock::{LockName, Mode};
use rio::planted;

use crate::cursor::{Cursor, Walk};
use crate::database::geometry::low_bits;
use crate::hash::bucket::{Bucket, PinnedPages, SearchResult};
use crate::hash::page::{bucket_page, HEADER_PAGE};
use crate::key_hash::hash_of;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose};
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// The number of low bits of a hash that give the number of the hash's gap.
const GAP_BITS: u32 = 4;

/// Returns the gap that a new key with this hash enters.
pub(crate) fn gap_of(file: FileId, hash: u64) -> LockName {
    lock_names::gap(file, u64::from(low_bits(hash, GAP_BITS)))
}

/// Returns the last place of the range around `at` in which all hashes share their `bits` low bits.
pub(crate) fn range_end(at: u64, bits: u32) -> u64 {
    at | u64::MAX.checked_shr(bits).unwrap_or(0)
}

/// Returns the place of a key in the order of cursors.
pub(crate) fn place_of(key: &[u8]) -> u64 {
    key_hash(key).reverse_bits()
}

/// Returns whether a cursor returns `key` after `other`.
pub(crate) fn is_after(key: &[u8], other: &[u8]) -> bool {
    (place_of(key), key) > (place_of(other), other)
}

/// A range of places.
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Returns the range that begins at a place and is in one bucket and one gap. The bucket is latched.
pub(crate) fn range_from(pages: &Pages<'_>, bucket: &Bucket<'_, SharedPage<'_>>, first: u64) -> Result<Range> {
    let node = bucket_page(pages, bucket.own.0, &bucket.own.1)?;
    Ok(Range { first, last: range_end(first, node.bits().max(GAP_BITS)) })
}

/// A cursor over a hash file.
pub type HashCursor<'a> = Cursor<HashWalk<'a>>;

/// A walk through a hash file.
pub struct HashWalk<'a> {
    access: Access<'a>,
    /// The first place that was not copied yet; `None` at the end.
    from: Option<u64>,
    /// Keys that were copied and not read yet. The next key is the last element.
    keys: Vec<Vec<u8>>,
    /// Whether a step from the walk's record has failed or found nothing. `from` and `keys` are then beyond places where
    /// a record may have come meanwhile, so the next step searches after the walk's key.
    has_strayed: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    /// A buffer for the value of the next record.
    read: Vec<u8>,
}

impl<'a> Cursor<HashWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(access: Access<'a>) -> HashCursor<'a> {
        let (keys, key, value, read) = Default::default();
        Cursor::over(HashWalk { access, from: Some(0), keys, has_strayed: false, key, value, read })
    }

    /// Returns the database's name.
    pub fn database_name(&self) -> &str {
        self.walk.access.database.name()
    }
}

impl Walk for HashWalk<'_> {
    type Key<'k> = &'k [u8];
    type OwnedKey = Vec<u8>;

    fn go_first(&mut self) -> Result<bool> {
        self.go_or_stay(0, Self::go_on)
    }

    fn go_next(&mut self) -> Result<bool> {
        if self.has_strayed && !planted("record: a hash cursor at the end finds no later record") {
            let key = self.key.clone();
            return self.move_after(&key);
        }
        let found = self.go_on();
        self.has_strayed = !matches!(found, Ok(true));
        found
    }

    fn move_after(&mut self, key: &[u8]) -> Result<bool> {
        self.go_or_stay(place_of(key), |walk| {
            walk.access.check_hash()?;
            walk.copy_from(place_of(key))?;
            // The values of the keys before `key` are not read.
            walk.keys.retain(|other| is_after(other, key));
            walk.go_on()
        })
    }

    fn record(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.value)
    }

    fn owned(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

impl HashWalk<'_> {
    /// Goes to the next record of the copied keys, and copies further keys when there is no such record.
    fn go_on(&mut self) -> Result<bool> {
        self.access.check_hash()?;
        loop {
            while let Some(key) = self.keys.last() {
                let granularity = self.access.enter(Purpose::Read)?;
                self.read.clear();
                let read = &mut self.read;
                // If the value cannot be read, the walk stays on its record.
                let found =
                    self.access.hash_get(key, (Purpose::Read, granularity), |stored| read.extend_from_slice(stored))?;
                let key = self.keys.pop().unwrap_or_default();
                if found.is_some() {
                    self.key = key;
                    std::mem::swap(&mut self.value, &mut self.read);
                    return Ok(true);
                }
            }
            let Some(from) = self.from else { return Ok(false) };
            self.copy_from(from)?;
        }
    }

    /// Searches from the place `from` on. If the search fails or finds nothing, the walk stays on its record.
    fn go_or_stay(&mut self, from: u64, look: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        let [key, value] = [&mut self.key, &mut self.value].map(std::mem::take);
        let before = (self.from.replace(from), std::mem::take(&mut self.keys));
        let found = look(self);
        if matches!(found, Ok(true)) {
            self.has_strayed = false;
        } else {
            (self.from, self.keys) = before;
            (self.key, self.value) = (key, value);
        }
        found
    }

    /// Locks the gap of the place `from`, and copies the keys from this place to the end of its bucket or gap.
    fn copy_from(&mut self, from: u64) -> Result<()> {
        let access = self.access;
        if access.enter(Purpose::Read)?.is_some() {
            access.lock(gap_of(access.database.id(), from.reverse_bits()), Mode::S)?;
        }
        let (pages, mut kept) = (&access.pages, PinnedPages::default());
        for _ in 0..ROUNDS_MAX {
            let bucket = access.buckets().latch::<SharedPage<'_>>(from.reverse_bits())?;
            let range = range_from(pages, &bucket, from)?;
            let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
            let sought = bucket.look(pages, &kept, |_, node, _| {
                for slot in 0..node.count() {
                    let place = hash_of(node.key(slot)).reverse_bits();
                    if (range.first..=range.last).contains(&place) {
                        found.push((place, node.key(slot).to_vec()));
                    }
                }
                Ok(None::<()>)
            })?;
            drop(bucket);
            if let SearchResult::Read(page) = sought {
                kept.keep(pages, page)?;
                continue;
            }
            found.sort_unstable_by(|one, other| other.cmp(one));
            self.keys = found.into_iter().map(|(_, key)| key).collect();
            self.from = range.last.checked_add(1);
            return Ok(());
        }
        Err(pages.corrupt(HEADER_PAGE, "a cursor could not find the next page"))
    }
}

//! Goes through all records, in an order without meaning to the program.
//!
//! The cursor goes in the order of the bit-reversed hashes. In it a bucket holds a range, and a split divides that
//! range in two. So a place in this order stays valid whatever buckets are split meanwhile, and a record that is there
//! all the time is met once.
//!
//! The cursor copies the keys of a range, and reads each of them in its turn. Each range lies in one *gap*, a sixteenth
//! of all hashes. The cursor locks the gap first, so that no other transaction puts a new key behind it. It also reads
//! keys of ghosts, and so waits for a transaction that deleted one.

use libtp_buffer::{FileId, SharedPage};
use libtp_lock::{LockName, Mode};

use crate::access::{Access, Purpose};
use crate::btree::insert::hash_of;
use crate::btree::scan::Pair;
use crate::hash::bucket::{bucket_page, Bucket, PinnedPages, SearchResult};
use crate::hash::geometry::low_bits;
use crate::hash::page::HEADER_PAGE;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::pages::{Pages, ROUNDS_MAX};
use crate::Result;

/// Number of low hash bits that name a gap.
const GAP_BITS: u32 = 4;

/// Returns the gap that a new key of this hash enters.
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

/// Whether a cursor meets a key behind another.
pub(crate) fn is_behind(key: &[u8], other: &[u8]) -> bool {
    (place_of(key), key) > (place_of(other), other)
}

/// A range of places.
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// Returns the range from a place on that lies in one bucket and one gap. The bucket is latched.
pub(crate) fn range_from(pages: &Pages<'_>, bucket: &Bucket<'_, SharedPage<'_>>, first: u64) -> Result<Range> {
    let node = bucket_page(pages, bucket.own.0, &bucket.own.1)?;
    Ok(Range { first, last: range_end(first, node.bits().max(GAP_BITS)) })
}

/// The place of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CursorPlace {
    Nowhere,
    On,
    Behind,
}

/// A cursor over a hash file.
pub struct HashCursor<'a> {
    access: Access<'a>,
    cursor_place: CursorPlace,
    /// The first place that was not copied yet; `None` at the end.
    from: Option<u64>,
    /// Keys that were copied and not read yet, the next one last.
    keys: Vec<Vec<u8>>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// The value of a record that the cursor may move to.
    read: Vec<u8>,
}

#[allow(clippy::should_implement_trait)] // `next` can fail: the field's word
impl<'a> HashCursor<'a> {
    /// Returns a cursor without a place.
    pub fn new(access: Access<'a>) -> HashCursor<'a> {
        HashCursor {
            access,
            cursor_place: CursorPlace::Nowhere,
            from: Some(0),
            keys: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            read: Vec::new(),
        }
    }

    /// Returns the database's name.
    pub fn database_name(&self) -> &str {
        self.access.database.name()
    }

    /// Returns the key and value of the cursor's record.
    pub fn record(&self) -> Option<(&[u8], &[u8])> {
        (self.cursor_place == CursorPlace::On).then_some((&self.key[..], &self.value[..]))
    }

    /// Goes to the first record of all and returns it.
    ///
    /// # Errors
    /// Locks or pages failed.
    pub fn first(&mut self) -> Result<Option<Pair>> {
        self.go_or_stay(0, HashCursor::next)
    }

    /// Searches from a place on. If the search fails or finds nothing, the cursor keeps its place.
    fn go_or_stay(&mut self, from: u64, look: impl FnOnce(&mut Self) -> Result<Option<Pair>>) -> Result<Option<Pair>> {
        let [key, value] = [&mut self.key, &mut self.value].map(std::mem::take);
        let before = (self.cursor_place, self.from.replace(from), std::mem::take(&mut self.keys));
        let found = look(self);
        if !matches!(found, Ok(Some(_))) {
            (self.cursor_place, self.from, self.keys) = before;
            (self.key, self.value) = (key, value);
        }
        found
    }

    /// Goes to the next record and returns it; to the first, if the cursor has no place yet.
    ///
    /// # Errors
    /// As [`HashCursor::first`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        Ok(self.move_next()?.then(|| (self.key.clone(), self.value.clone())))
    }

    /// Goes to the first record behind the place of a key, whether or not the key exists, and returns the record.
    ///
    /// # Errors
    /// As [`HashCursor::first`].
    pub fn next_behind(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        self.go_or_stay(place_of(key), |at| {
            at.access.check_hash()?;
            at.copy_from(place_of(key))?;
            // The values of passed keys are not read.
            at.keys.retain(|other| is_behind(other, key));
            at.next()
        })
    }

    /// Goes to the next record, for [`HashCursor::record`]. Returns whether there is one.
    ///
    /// # Errors
    /// As [`HashCursor::first`].
    pub fn move_next(&mut self) -> Result<bool> {
        self.access.check_hash()?;
        loop {
            while let Some(key) = self.keys.last() {
                let granularity = self.access.enter(Purpose::Read)?;
                self.read.clear();
                let read = &mut self.read;
                // If the value cannot be read, the cursor keeps its place.
                let found = self
                    .access
                    .hash_get_entered(key, (Purpose::Read, granularity), |stored| read.extend_from_slice(stored))?;
                let key = self.keys.pop().unwrap_or_default();
                if found.is_some() {
                    self.key = key;
                    std::mem::swap(&mut self.value, &mut self.read);
                    self.cursor_place = CursorPlace::On;
                    return Ok(true);
                }
            }
            let Some(from) = self.from else {
                self.cursor_place = CursorPlace::Behind;
                return Ok(false);
            };
            self.copy_from(from)?;
        }
    }

    /// Locks the gap of a place, and copies the keys from there on that lie in the same bucket and gap.
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
        Err(pages.corrupt(HEADER_PAGE, "a cursor found no way on"))
    }
}

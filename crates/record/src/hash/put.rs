//! Puts and deletes: a record enters a bucket, or changes there.
//!
//! The steps are the same as in a B-tree's put: lock the key; reserve everything; latch the bucket. A bucket without
//! room gets some, and all begins again. Then one log record is written and applied by redo.
//!
//! An insertion also enters a gap. A hash file has no neighbours, so its gaps are parts of the space of hashes
//! (`scan`). A transaction that has scanned a gap has locked it, and an insertion asks for it in `IX`, for this instant
//! (PROTOCOLS K1).

use libtp_buffer::ExclusivePage;
use libtp_lock::{LockName, Mode};
use rio::{failpoint, planted};
use zerocopy::IntoBytes;

use crate::btree::encode::{self, After};
use crate::btree::ghosts;
use crate::btree::insert::chain_to_replace;
use crate::btree::log_records::Update;
use crate::btree::long_value;
use crate::database::Granularity;
use crate::hash::bucket::{bucket_page, Bucket, PinnedPages, SearchResult, Which};
use crate::hash::get::record_lock;
use crate::hash::log_records::{DELETE, INSERT, UPDATE};
use crate::hash::page::HEADER_PAGE;
use crate::hash::room::Incoming;
use crate::hash::scan::gap_of;
use crate::hash::{replaced, room, split};
use crate::key_hash::key_hash;
use crate::locking::{Access, Purpose, Tried};
use crate::page::node::Record;
use crate::page::overflow::{ChainRef, CHAIN_REF_BYTES};
use crate::page::record_lsn::RecordFlags;
use crate::pages::ROUNDS_MAX;
use crate::shortcuts::Name;
use crate::Result;

pub(crate) use crate::btree::insert::{Outcome, Policy};

/// Bytes of an old record, at least, for which log space is reserved at first. If the record has more, space is
/// reserved again.
const LIKELY_BYTES: usize = 128;

/// A change of one record, and the state of its attempts.
struct RecordChange<'w, 'a> {
    key: &'w [u8],
    hash: u64,
    outcome: Outcome<'w>,
    policy: Policy,
    granularity: Option<Granularity>,
    /// Bytes of the body for which log space was reserved.
    body_bytes: usize,
    kept: PinnedPages<'a>,
}

/// The outcome of an attempt: done, or a missing resource that must be got without latches.
enum Attempt {
    /// Done; whether there was something to do.
    Done(bool),
    /// Log space: the old record has this number of bytes.
    Reserve(usize),
    /// Room: for a new record, or for one that grows.
    NoRoom { bytes: usize, is_new: bool },
    /// The bucket is still being split.
    Finish(u32),
    /// A gap that others have locked.
    WaitForGap(LockName),
    /// A page that is not in memory.
    Read(u32),
    /// The value is long and must be written first. It replaces this chain.
    WriteFirst(Option<ChainRef>),
    /// Chains that earlier transactions replaced must be freed first.
    DropFirst,
}

impl<'a> Access<'a> {
    /// Changes a record of a hash file. Returns whether there was something to do.
    pub(crate) fn hash_change(&self, key: &[u8], outcome: Outcome<'_>, policy: Policy) -> Result<bool> {
        self.check_key(key)?;
        let granularity = self.enter(Purpose::Write)?;
        let hash = key_hash(key);
        if granularity.is_some() {
            self.lock(record_lock(self, hash), Mode::X)?;
        }
        let mut wanted =
            RecordChange { key, hash, outcome, policy, granularity, body_bytes: 0, kept: PinnedPages::default() };
        self.hash_reserve(&mut wanted, LIKELY_BYTES.max(outcome.bytes()))?;
        for _ in 0..ROUNDS_MAX {
            let mut bucket = self.buckets().latch::<ExclusivePage<'a>>(hash)?;
            let attempt = self.hash_attempt(&mut bucket, &wanted)?;
            if let Attempt::Done(changed) = attempt {
                return Ok(changed);
            }
            drop(bucket);
            self.hash_prepare(&mut wanted, attempt)?;
        }
        Err(self.pages.corrupt(HEADER_PAGE, "a record found no place"))
    }

    /// Gets, without latches, the resource that an attempt found missing.
    #[cold]
    fn hash_prepare(&self, wanted: &mut RecordChange<'_, 'a>, missing: Attempt) -> Result<()> {
        match missing {
            Attempt::Done(_) => Ok(()),
            Attempt::NoRoom { bytes, is_new } => {
                room::make_room(self, Incoming { key: wanted.key, hash: wanted.hash, bytes, is_new })?;
                // The call has used up the reservation.
                self.hash_reserve(wanted, LIKELY_BYTES)
            }
            Attempt::Finish(bucket) => {
                split::finish(&self.buckets(), bucket)?;
                self.hash_reserve(wanted, LIKELY_BYTES)
            }
            Attempt::Reserve(old_bytes) => self.hash_reserve(wanted, old_bytes),
            Attempt::WaitForGap(name) => self.wait_for_gap(name),
            Attempt::Read(page) => wanted.kept.keep(&self.pages, page),
            Attempt::WriteFirst(older) => {
                if let Outcome::Value(value) = wanted.outcome {
                    wanted.outcome = Outcome::Chain(long_value::write(self, value, older)?);
                }
                self.hash_reserve(wanted, LIKELY_BYTES)
            }
            Attempt::DropFirst => {
                replaced::drop_replaced(self, wanted.key, || true)?;
                self.hash_reserve(wanted, LIKELY_BYTES)
            }
        }
    }

    /// Reserves the needs of a change whose old record has `old_bytes` (PROTOCOLS D11).
    fn hash_reserve(&self, wanted: &mut RecordChange<'_, 'a>, old_bytes: usize) -> Result<()> {
        let new_bytes = wanted.outcome.bytes().min(self.database.page_bytes()) + CHAIN_REF_BYTES;
        let body_bytes = size_of::<Update>() + wanted.key.len() + old_bytes.max(LIKELY_BYTES) + new_bytes;
        wanted.body_bytes = wanted.body_bytes.max(body_bytes);
        self.pages.reserve_own(self.database.page_bytes(), wanted.body_bytes)?;
        self.reserve_lock()
    }

    /// Makes the change in the bucket, or returns the missing resource. Never waits.
    fn hash_attempt(
        &self,
        bucket: &mut Bucket<'a, ExclusivePage<'a>>,
        wanted: &RecordChange<'_, 'a>,
    ) -> Result<Attempt> {
        let found = match bucket.find(&self.pages, &wanted.kept, wanted.key)? {
            SearchResult::Read(page) => return Ok(Attempt::Read(page)),
            SearchResult::Missing => None,
            SearchResult::Found(which, slot) => Some((which, slot)),
        };
        let before = match &found {
            None => None,
            Some((which, slot)) => {
                let (number, page) = bucket.page(which);
                Some(self.record_at(number, &*bucket_page(&self.pages, number, page)?, *slot)?)
            }
        };
        let exists = before.is_some_and(|record| !record.is_ghost());
        if (exists && wanted.policy == Policy::New) || (!exists && matches!(wanted.outcome, Outcome::Ghost)) {
            return Ok(Attempt::Done(false));
        }
        let is_settled =
            |record: &Record<'_>| record.lsn < ghosts::first_own_lsn(self) && ghosts::is_seen_by_all(self, record.lsn);
        // Not after the new value is written: the new chain names the chain that it replaces.
        let may_drop = !matches!(wanted.outcome, Outcome::Chain(_));
        if may_drop && before.is_some_and(|record| record.replaced().is_some() && is_settled(&record)) {
            return Ok(Attempt::DropFirst);
        }
        let (stored, flags) = match &wanted.outcome {
            Outcome::Value(value) if self.is_long(wanted.key, value) => {
                return Ok(Attempt::WriteFirst(before.and_then(|record| chain_to_replace(&record))));
            }
            Outcome::Value(value) => (*value, RecordFlags::NONE),
            Outcome::Chain(chain) => (chain.as_bytes(), RecordFlags::OVERFLOW),
            Outcome::Ghost => (&[][..], RecordFlags::GHOST),
        };
        match found {
            Some((which, slot)) => self.hash_replace(bucket, wanted, (which, slot), After { stored, flags }),
            None => self.hash_insert(bucket, wanted, After { stored, flags }),
        }
    }

    /// Changes the record at a slot.
    fn hash_replace(
        &self,
        bucket: &mut Bucket<'a, ExclusivePage<'a>>,
        wanted: &RecordChange<'_, 'a>,
        (mut which, slot): (Which<ExclusivePage<'a>>, usize),
        after: After<'_>,
    ) -> Result<Attempt> {
        let giving = bucket
            .giving
            .as_ref()
            .map(|(number, page)| bucket_page(&self.pages, *number, page).map(|page| page.bucket()));
        let giving = giving.transpose()?;
        let (number, page) = bucket.page_mut(&mut which);
        let node = bucket_page(&self.pages, number, page)?;
        let before = self.record_at(number, &node, slot)?;
        let with_reference;
        let after = match chain_to_replace(&before) {
            None => after,
            Some(chain) => {
                with_reference = [after.stored, chain.as_bytes()].concat();
                After { stored: &with_reference, flags: after.flags.with(RecordFlags::REPLACED) }
            }
        };
        if before.flags == after.flags && before.stored == after.stored {
            return Ok(Attempt::Done(true));
        }
        if !node.fits_change(slot, after.stored.len()) {
            return Ok(match giving {
                Some(giving) => Attempt::Finish(giving),
                None => Attempt::NoRoom { bytes: after.stored.len(), is_new: false },
            });
        }
        let kind = if after.flags.has(RecordFlags::GHOST) { DELETE } else { UPDATE };
        let mut body = self.pages.change.txn.scratch();
        encode::update(body.writer(), self.pages.id(number).raw(), slot, &before, wanted.key, after);
        if body.body().len() > wanted.body_bytes {
            return Ok(Attempt::Reserve(before.stored.len()));
        }
        failpoint("hash: bucket latched to update");
        self.leave_shortcut(Name::Key(wanted.key), before.lsn, before.flags, before.stored);
        self.pages.change.apply(kind, &mut body, &mut [page]);
        failpoint("hash: updated");
        Ok(Attempt::Done(true))
    }

    /// Inserts a record, on the first page of the bucket that has room.
    fn hash_insert(
        &self,
        bucket: &mut Bucket<'a, ExclusivePage<'a>>,
        wanted: &RecordChange<'_, 'a>,
        after: After<'_>,
    ) -> Result<Attempt> {
        if let Some((number, page)) = &bucket.giving {
            return Ok(Attempt::Finish(bucket_page(&self.pages, *number, page)?.bucket()));
        }
        if wanted.granularity.is_some() {
            let gap = gap_of(self.database.id(), wanted.hash);
            if !planted("record: gap of a hash file entered without asking")
                && self.try_instant(gap, Mode::IX)? == Tried::Busy
            {
                return Ok(Attempt::WaitForGap(gap));
            }
        }
        let mut need = 0;
        let sought = bucket.look(&self.pages, &wanted.kept, |_, node, _| {
            need = node.record_need(wanted.key.len(), after.stored.len());
            Ok((need <= node.free_bytes()).then(|| node.find(wanted.key).0))
        })?;
        let (mut which, slot) = match sought {
            SearchResult::Found(which, slot) => (which, slot),
            SearchResult::Read(page) => return Ok(Attempt::Read(page)),
            SearchResult::Missing => return Ok(Attempt::NoRoom { bytes: need, is_new: true }),
        };
        let (number, page) = bucket.page_mut(&mut which);
        let mut body = self.pages.change.txn.scratch();
        encode::insert(body.writer(), self.pages.id(number).raw(), slot, after.flags, wanted.key, after.stored);
        failpoint("hash: bucket latched to insert");
        self.pages.change.apply(INSERT, &mut body, &mut [page]);
        failpoint("hash: inserted");
        Ok(Attempt::Done(true))
    }
}

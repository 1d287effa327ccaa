//! Puts and deletes: a record is inserted or changed. B-trees and hash files share this loop.
//!
//! Paper: LIBTP 3.2.6 logs "insert and delete", and a replacement as both. Here a replacement is one log record with
//! only the bytes that differ. The steps are those of the example in ARCHITECTURE.md: lock the key; reserve all
//! resources; latch the key's place, a [`Leaf`]. If the place has no room, the session makes room and searches again.
//! Then one log record is written and applied by redo.

use libtp_lock::{LockName, Mode};
use libtp_log::Lsn;
use libtp_process::Rank;
use libtp_txn::Mark;
use rio::planted;
use zerocopy::IntoBytes;

use crate::btree::encode::{self, After};
use crate::btree::horizon::{first_own_lsn, is_seen_by_all};
use crate::btree::log_records::DropChain;
use crate::btree::long_value::{self, older_on, replaced_record};
use crate::btree::redo::{self, Seat};
use crate::changed::BODY_HEAD_MAX;
use crate::database::Granularity;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose};
use crate::log_body::short;
use crate::page::free_pages::{FIRST_PAGE, META_PAGE};
use crate::page::node::{Node, Record};
use crate::page::overflow::{ChainRef, CHAIN_REF_BYTES};
use crate::page::record_lsn::{pack_lsn, RecordFlags};
use crate::pages::{loose_rank, Pages, ROUNDS_MAX};
use crate::shortcuts::Name;
use crate::Result;
use libtp_buffer::ExclusivePage;

/// The action of a put for an existing or a missing record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Replaces an existing record or inserts a new one.
    Always,
    /// Inserts only if the key has no record.
    New,
}

/// The wanted state of a key's record.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'v> {
    /// A record with this value.
    Value(&'v [u8]),
    /// A record whose long value is in a chain that has been written.
    Chain(ChainRef),
    /// No record. A ghost remains if the key had a record.
    Ghost,
}

/// Log space is reserved for an old record of at least this number of bytes.
const LIKELY_BYTES: usize = 128;

/// The codes of the log records of one access method.
pub(crate) struct Codes {
    pub(crate) insert: u16,
    pub(crate) update: u16,
    pub(crate) delete: u16,
    pub(crate) drop_chain: u16,
}

/// A moment of a change at which a test may stop the session.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    ToUpdate,
    Updated,
    ToInsert,
    Inserted,
    ChainFound,
    ToDropChain,
}

/// The result of a search for a key in a latched place.
pub(crate) enum Sought<At> {
    /// The record of the key, or its ghost.
    Record(At, usize),
    /// The slot before which the key would be inserted, if the place has one page.
    Gap(usize),
}

/// A record that was found: its page and slot, and the facts from its cell.
#[derive(Clone, Copy)]
pub(crate) struct Spot {
    pub(crate) page: u32,
    pub(crate) seat: Seat,
    pub(crate) lsn: Lsn,
    pub(crate) flags: RecordFlags,
}

impl Spot {
    #[inline]
    pub(crate) fn of(page: u32, slot: usize, record: &Record<'_>) -> Spot {
        Spot { page, seat: Seat::of(slot, record), lsn: record.lsn, flags: record.flags }
    }
}

/// The result of a search for a record at its latched place.
pub(crate) enum Seek<At> {
    /// The record of the key, or its ghost.
    Record(At, Spot),
    /// The key has neither a record nor a ghost.
    Nothing,
}

/// The result of a try. The inner `Err` has the missing resource.
pub(crate) type Tryout<T> = Result<std::result::Result<T, Attempt>>;

/// The place of a key, latched exclusively: a leaf of a B-tree, or a bucket of a hash file.
pub(crate) trait Leaf<'a>: Sized {
    /// The codes of the log records.
    const CODES: Codes;
    /// Whether a search needs the key's hash.
    const IS_FOUND_BY_HASH: bool;
    /// Pages that remain pinned from one attempt to the next.
    type Kept: Default;
    /// Identifies one of the place's pages.
    type At;
    /// A guard that the session holds from the search to the change: no page of the structure is freed meanwhile.
    type Visit;

    fn visit(pages: &Pages<'a>) -> Self::Visit;

    /// Latches the place. May wait for the disk.
    fn latch(access: &Access<'a>, key: &[u8], hash: u64) -> Result<Self>;

    /// Tries to get the lock that the place itself needs. Returns the missing resource, if any.
    #[inline]
    fn try_lock(&self, _access: &Access<'a>, _granularity: Option<Granularity>) -> Result<Option<Attempt>> {
        Ok(None)
    }

    /// Finds the record.
    fn find(&self, access: &Access<'a>, key: &[u8], kept: &Self::Kept) -> Tryout<Sought<Self::At>>;

    /// Latches the place and looks for the record. Returns `None` if a page of the place is damaged or not in memory.
    #[inline(always)]
    fn seek(access: &Access<'a>, key: &[u8], hash: u64) -> Result<Option<(Self, Seek<Self::At>)>> {
        let leaf = Self::latch(access, key, hash)?;
        let sought = match leaf.find(access, key, &Self::Kept::default())? {
            Ok(Sought::Record(at, slot)) => {
                let (number, page) = leaf.page(&at);
                let record = access.record_at(number, &Self::node(&access.pages, number, page)?, slot)?;
                let spot = Spot::of(number, slot, &record);
                Seek::Record(at, spot)
            }
            Ok(Sought::Gap(_)) => Seek::Nothing,
            Err(_) => return Ok(None),
        };
        Ok(Some((leaf, sought)))
    }

    /// Returns a page and its number.
    fn page<'p>(&'p self, at: &'p Self::At) -> (u32, &'p ExclusivePage<'a>);

    /// Returns a page for a change, and its number.
    fn page_mut<'p>(&'p mut self, at: &'p mut Self::At) -> (u32, &'p mut ExclusivePage<'a>);

    /// Reads a page.
    fn node<'p>(pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<Node<'p>>;

    /// Tries to lock the gap that a new record enters, and finds a page with room. Returns the page and the slot.
    fn way_in(
        &self,
        wanted: &RecordChange<'_, 'a, Self>,
        slot: usize,
        stored_bytes: usize,
    ) -> Tryout<(Self::At, usize)>;

    /// Returns the missing resource if the record at `slot` cannot grow to `bytes`.
    fn no_room(&self, _pages: &Pages<'a>, page: u32, slot: usize, bytes: usize) -> Result<Attempt> {
        Ok(Attempt::NoRoom { page, slot, bytes, is_new: false })
    }

    /// Makes room after [`Attempt::NoRoom`] or [`Attempt::Finish`], without latches.
    fn make_room(wanted: &RecordChange<'_, 'a, Self>, missing: &Attempt) -> Result<()>;

    /// Reads a page into memory, without latches.
    fn keep(wanted: &mut RecordChange<'_, 'a, Self>, page: u32) -> Result<()>;

    /// Notes that a record of a page was deleted.
    fn note_deleted(_access: &Access<'a>, _number: u32, _page: &[u8], _key: &[u8]) -> Result<()> {
        Ok(())
    }

    /// The failpoint of a moment.
    fn failpoint(moment: Moment);
}

/// A change of one record, and the state of its attempts.
pub(crate) struct RecordChange<'w, 'a, L: Leaf<'a>> {
    pub(crate) access: Access<'a>,
    pub(crate) key: &'w [u8],
    /// The hash of the key, if the search or the lock needs the hash.
    pub(crate) hash: u64,
    outcome: Outcome<'w>,
    policy: Policy,
    pub(crate) granularity: Option<Granularity>,
    /// Bytes of the body for which log space was reserved.
    body_bytes: usize,
    /// The transaction's last LSN before the change wrote its long value.
    before_chain: Option<Mark>,
    pub(crate) kept: L::Kept,
}

/// The outcome of an attempt at a place: done, or a missing resource that the session must get without latches.
pub(crate) enum Attempt {
    /// The change is done. The value states whether there was anything to change.
    Done(bool),
    /// Log space is missing: the old record has this number of bytes.
    Reserve(usize),
    /// Room is missing for a new record, or for a record that grows.
    NoRoom { page: u32, slot: usize, bytes: usize, is_new: bool },
    /// The bucket is still being split.
    Finish(u32),
    /// A lock that other transactions hold.
    Lock(LockName, Mode),
    /// A gap that other transactions have locked.
    WaitForGap(LockName),
    /// A page that is not in memory.
    Read(u32),
    /// The value is long and must be written first. It replaces this chain.
    WriteFirst(Option<ChainRef>),
    /// Chains that earlier transactions replaced must be freed first.
    DropFirst,
}

impl Attempt {
    /// Returns whether the missing resource is another transaction's lock. The visit of the tree ends before that wait
    /// ([`Pages::visit`]).
    fn waits(&self) -> bool {
        matches!(self, Attempt::Lock(..) | Attempt::WaitForGap(_))
    }
}

impl<'a> Access<'a> {
    /// Changes a record. Returns whether there was something to do.
    pub(crate) fn change<L: Leaf<'a>>(&self, key: &[u8], outcome: Outcome<'_>, policy: Policy) -> Result<bool> {
        let (granularity, hash) = self.lock_to_change::<L>(key)?;
        let mut wanted = RecordChange::<L>::new(self, (key, hash), (outcome, policy), granularity);
        let done = wanted.attempts();
        match wanted.before_chain {
            Some(mark) if !matches!(done, Ok(true)) => {
                self.give_back(mark)?;
                done
            }
            _ => done,
        }
    }

    /// Locks a key's record for writing. Returns the granularity of further locks, and the hash of the key if the
    /// search or the lock needs the hash.
    #[inline(always)]
    pub(crate) fn lock_to_change<L: Leaf<'a>>(&self, key: &[u8]) -> Result<(Option<Granularity>, u64)> {
        let granularity = self.enter(Purpose::Write)?;
        let is_hashed = L::IS_FOUND_BY_HASH || granularity == Some(Granularity::Record);
        let hash = if is_hashed { key_hash(key) } else { 0 };
        if granularity == Some(Granularity::Record) {
            self.lock(lock_names::record(self.database.id(), hash), Mode::X)?;
        }
        Ok((granularity, hash))
    }

    /// Frees the pages of a long value whose record was not changed.
    #[cold]
    fn give_back(&self, mark: Mark) -> Result<()> {
        if planted("record: pages of a long value stay allocated although its record was refused") {
            return Ok(());
        }
        Ok(self.pages.change.txn.undo_since(self.pages.change.managers, mark)?)
    }

    pub(crate) fn is_long(&self, key: &[u8], value: &[u8]) -> bool {
        key.len() + value.len() > self.database.page_bytes() / 4
    }
}

impl<'w, 'a, L: Leaf<'a>> RecordChange<'w, 'a, L> {
    #[inline]
    fn new(
        access: &Access<'a>,
        (key, hash): (&'w [u8], u64),
        (outcome, policy): (Outcome<'w>, Policy),
        granularity: Option<Granularity>,
    ) -> Self {
        RecordChange {
            access: *access,
            key,
            hash,
            outcome,
            policy,
            granularity,
            body_bytes: 0,
            before_chain: None,
            kept: L::Kept::default(),
        }
    }

    /// Makes attempts until the record has changed. Returns whether there was something to do.
    #[inline]
    fn attempts(&mut self) -> Result<bool> {
        let access = self.access;
        self.reserve(self.stored_bytes())?;
        for _ in 0..ROUNDS_MAX {
            let visit = L::visit(&access.pages);
            let mut leaf = L::latch(&access, self.key, self.hash)?;
            let attempt = match leaf.try_lock(&access, self.granularity)? {
                Some(missing) => missing,
                None => match leaf.find(&access, self.key, &self.kept)? {
                    Ok(Sought::Record(at, slot)) => self.replace(&mut leaf, at, slot)?,
                    Ok(Sought::Gap(slot)) => self.insert(&mut leaf, slot)?,
                    Err(missing) => missing,
                },
            };
            if let Attempt::Done(changed) = attempt {
                return Ok(changed);
            }
            drop(leaf);
            let _visit = (!attempt.waits()).then_some(visit);
            self.prepare(&attempt)?;
        }
        Err(access.pages.corrupt(FIRST_PAGE, "there was no room for a record"))
    }

    /// Returns the number of bytes that the record stores for the value. For a long value the record stores the
    /// reference to its chain.
    #[inline]
    fn stored_bytes(&self) -> usize {
        match self.outcome {
            Outcome::Value(value) if self.access.is_long(self.key, value) => CHAIN_REF_BYTES,
            Outcome::Value(value) => value.len(),
            Outcome::Chain(_) => CHAIN_REF_BYTES,
            Outcome::Ghost => 0,
        }
    }

    /// Gets, without latches, the resource that an attempt found missing.
    #[cold]
    fn prepare(&mut self, missing: &Attempt) -> Result<()> {
        match missing {
            Attempt::Done(_) => {}
            Attempt::Lock(name, mode) => return self.access.lock(*name, *mode),
            Attempt::WaitForGap(name) => return self.access.wait_for_gap(*name),
            Attempt::Read(page) => return L::keep(self, *page),
            Attempt::NoRoom { .. } | Attempt::Finish(_) => L::make_room(self, missing)?,
            Attempt::Reserve(old_bytes) => return self.reserve(*old_bytes),
            Attempt::WriteFirst(older) => {
                if let Outcome::Value(value) = self.outcome {
                    self.before_chain = Some(self.access.pages.change.txn.mark());
                    self.outcome = Outcome::Chain(long_value::write(&self.access, value, *older)?);
                }
            }
            Attempt::DropFirst => drop_replaced::<L>(&self.access, self.key, |_| true)?,
        }
        // The work above may have used up the reservation.
        self.reserve(0)
    }

    /// Reserves all that a change needs if the old record has `old_bytes` (PROTOCOLS D11).
    #[inline]
    fn reserve(&mut self, old_bytes: usize) -> Result<()> {
        let page_bytes = self.access.database.page_bytes();
        let new_bytes = self.stored_bytes() + CHAIN_REF_BYTES;
        let body_bytes = BODY_HEAD_MAX + self.key.len() + old_bytes.max(LIKELY_BYTES) + new_bytes;
        self.body_bytes = self.body_bytes.max(body_bytes);
        self.access.pages.reserve_own(page_bytes, self.body_bytes)?;
        self.access.reserve_lock()
    }

    /// Returns the stored value and the flags that the change gives to the record. `before` is the present record, if
    /// there is one.
    #[inline]
    fn after(&self, before: Option<&Record<'_>>) -> Tryout<After<'_>> {
        let exists = before.is_some_and(|record| !record.is_ghost());
        if (exists && self.policy == Policy::New) || (!exists && matches!(self.outcome, Outcome::Ghost)) {
            return Ok(Err(Attempt::Done(false)));
        }
        let is_settled = |record: &Record<'_>| {
            let is_old = record.lsn < first_own_lsn(&self.access) && is_seen_by_all(&self.access, record.lsn);
            is_old || planted("record: a replaced chain is freed at once")
        };
        // Once the new value is written, the older chain cannot be dropped first: the new chain names the chain that it
        // replaces.
        let may_drop = !matches!(self.outcome, Outcome::Chain(_));
        if may_drop && before.is_some_and(|record| record.replaced().is_some() && is_settled(record)) {
            return Ok(Err(Attempt::DropFirst));
        }
        let (stored, flags) = match &self.outcome {
            Outcome::Value(value) if self.access.is_long(self.key, value) => {
                return Ok(Err(Attempt::WriteFirst(before.and_then(chain_to_replace))));
            }
            Outcome::Value(value) => (*value, RecordFlags::NONE),
            Outcome::Chain(chain) => (chain.as_bytes(), RecordFlags::OVERFLOW),
            Outcome::Ghost => (&[][..], RecordFlags::GHOST),
        };
        Ok(Ok(After { stored, flags }))
    }

    /// Changes the record at a slot, or returns the missing resource. Never waits.
    #[inline]
    fn replace(&self, leaf: &mut L, mut at: L::At, slot: usize) -> Result<Attempt> {
        let (access, pages) = (&self.access, &self.access.pages);
        let (number, page) = leaf.page(&at);
        let node = L::node(pages, number, page)?;
        let before = access.record_at(number, &node, slot)?;
        let after = match self.after(Some(&before))? {
            Ok(after) => after,
            Err(missing) => return Ok(missing),
        };
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
            return leaf.no_room(pages, number, slot, after.stored.len());
        }
        let is_deleted = after.flags.has(RecordFlags::GHOST);
        let changed = encode::update(pages.id(number).raw(), slot, &(&before).into(), self.key, after);
        if changed.bytes_max() > self.body_bytes {
            return Ok(Attempt::Reserve(before.stored.len()));
        }
        let mut body = pages.change.txn.scratch();
        changed.write(&mut body);
        let (seat, edit) = (Seat::of(slot, &before), changed.edit());
        L::failpoint(Moment::ToUpdate);
        access.leave_shortcut(Name::Key(self.key), before.lsn, before.flags, before.stored);
        let (number, page) = leaf.page_mut(&mut at);
        let code = if is_deleted { L::CODES.delete } else { L::CODES.update };
        pages
            .change
            .apply_by(code, &mut body, page, |page, lsn| redo::edited(page, seat, edit, pack_lsn(lsn, after.flags)));
        L::failpoint(Moment::Updated);
        if is_deleted {
            L::note_deleted(access, number, page, self.key)?;
        }
        Ok(Attempt::Done(true))
    }

    /// Inserts a record, or returns the missing resource. Never waits. `slot` is the slot before which the record is
    /// inserted, if the page is known.
    fn insert(&self, leaf: &mut L, slot: usize) -> Result<Attempt> {
        let pages = &self.access.pages;
        let After { stored, flags } = match self.after(None)? {
            Ok(after) => after,
            Err(missing) => return Ok(missing),
        };
        let (mut at, slot) = match leaf.way_in(self, slot, stored.len())? {
            Ok(way) => way,
            Err(missing) => return Ok(missing),
        };
        let (number, page) = leaf.page_mut(&mut at);
        let mut body = pages.change.txn.scratch();
        let changed = encode::insert(pages.id(number).raw(), slot, flags, self.key, stored);
        changed.write(&mut body);
        L::failpoint(Moment::ToInsert);
        pages.change.apply_by(L::CODES.insert, &mut body, page, |page, lsn| redo::inserted(page, lsn, &changed));
        L::failpoint(Moment::Inserted);
        Ok(Attempt::Done(true))
    }
}

/// Returns the chain that the record must name as replaced after the next change: the chain with its present value, or,
/// if the value is in no chain, the chain that an earlier change replaced.
fn chain_to_replace(record: &Record<'_>) -> Option<ChainRef> {
    if record.flags.has(RecordFlags::OVERFLOW) {
        return ChainRef::read(record.stored.get(..CHAIN_REF_BYTES)?);
    }
    record.replaced()
}

/// Frees the chains that earlier, ended transactions replaced at the record of `key`. No rollback can restore
/// such a chain: either the caller holds the record's lock and has not changed the record, or no transaction holds the
/// lock. `still_free` checks the second case again, under the latch of the record's page.
pub(crate) fn drop_replaced<'a, L: Leaf<'a>>(
    access: &Access<'a>,
    key: &[u8],
    still_free: impl Fn(u32) -> bool,
) -> Result<()> {
    let (pages, hash) = (&access.pages, key_hash(key));
    let mut kept = RecordChange::<L>::new(access, (key, hash), (Outcome::Ghost, Policy::Always), None);
    for _ in 0..ROUNDS_MAX {
        pages.reserve_common(access.database.page_bytes(), 64)?;
        let find = |leaf: &L, kept: &L::Kept| -> Tryout<Option<_>> {
            let (at, slot) = match leaf.find(access, key, kept)? {
                Ok(Sought::Record(at, slot)) => (at, slot),
                Ok(Sought::Gap(_)) => return Ok(Ok(None)),
                Err(missing) => return Ok(Err(missing)),
            };
            let (number, page) = leaf.page(&at);
            let replaced = replaced_record(access, number, &L::node(pages, number, page)?, slot)?;
            Ok(Ok(replaced.map(|replaced| (at, replaced))))
        };
        let leaf = L::latch(access, key, hash)?;
        let replaced = match find(&leaf, &kept.kept)? {
            Ok(None) => return Ok(()),
            Ok(Some((_, replaced))) => replaced,
            Err(missing) => {
                drop(leaf);
                kept.prepare(&missing)?;
                continue;
            }
        };
        drop(leaf);
        let (first, last, live) =
            (replaced.chain.first.get(), replaced.chain.last.get(), replaced.live.unwrap_or_default());
        let (first_pin, last_pin, meta_pin) = (pages.pin(first)?, pages.pin(last)?, pages.pin(META_PAGE)?);
        let live_pin = replaced.live.map(|live| pages.pin(live)).transpose()?;
        let mut leaf = L::latch(access, key, hash)?;
        let (mut at, slot) = match find(&leaf, &kept.kept)? {
            Ok(Some((at, found))) if found.is_same(&replaced) => (at, found.slot),
            Ok(_) => continue,
            Err(missing) => {
                drop(leaf);
                kept.prepare(&missing)?;
                continue;
            }
        };
        L::failpoint(Moment::ChainFound);
        let (number, page) = leaf.page_mut(&mut at);
        if !still_free(number) {
            return Ok(());
        }
        pages.check_apart(&[number, first, live])?;
        pages.check_apart(&[number, last, live])?;
        let older = if first == last { None } else { Some(older_on(pages, first, &first_pin.shared(loose_rank()))?) };
        let mut last_page = last_pin.exclusive(loose_rank());
        let older = older.map_or_else(|| older_on(pages, last, &last_page), Ok)?;
        let mut live_page = live_pin.as_ref().map(|pin| pin.exclusive(loose_rank()));
        let mut meta = meta_pin.exclusive(Rank::META);
        let record = DropChain {
            page: pages.id(number).raw().into(),
            slot: short(slot),
            first: replaced.chain.first,
            last: replaced.chain.last,
            next: pages.meta_of(&meta)?.free_head,
            live: live.into(),
            older_bytes: older.bytes,
            older_first: older.first,
            older_last: older.last,
            ..DropChain::default()
        };
        L::failpoint(Moment::ToDropChain);
        let mut changed = vec![page, &mut last_page, &mut meta];
        changed.extend(live_page.as_mut());
        pages.apply_checked(L::CODES.drop_chain, record.as_bytes(), &mut changed)?;
    }
    Err(pages.corrupt(FIRST_PAGE, "the long values that a record replaced lead in a circle"))
}

//! Puts and deletes: a record enters a leaf, or changes there.
//!
//! Paper: LIBTP 3.2.6 logs "insert and delete", a replacement as both. Here a replacement is one record with only the
//! bytes that differ. The steps are those of the walk in ARCHITECTURE.md: lock the key; reserve everything; go down to
//! the leaf. A leaf without room is split, and the search begins again. Then one log record is written and applied by
//! redo.
//!
//! An insertion also enters a gap, the one below the next key. It asks for that gap in `IX`, for this instant
//! (PROTOCOLS K1; if it must wait, it keeps the lock), so that no transaction that has scanned over the gap meets a
//! phantom. The next key may stand on another leaf, with empty leaves in between. Other insertions, which enter the
//! same gap, may put nearer keys there after our look. No scan misses our key because of that: a scan that meets such a
//! key locks the gap below it. Before it relies on that lock it looks (again) at our leaf, which is latched until our
//! key is there.

use libtp_buffer::{ExclusivePage, Pin};
use libtp_lock::{LockName, Mode};
use rio::{failpoint, planted};

use crate::btree::dense;
use crate::btree::encode::{self, After};
use crate::btree::ghosts;
use crate::btree::log_records::{Update, DELETE, INSERT, UPDATE};
use crate::btree::long_value;
use crate::btree::neighbour::{self, Stretch};
use crate::btree::search::{self, node_of};
use crate::btree::split;
use crate::btree::split_plan::Incoming;
use crate::btree::unlink;
use crate::database::Granularity;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::node::{Node, Record};
use crate::page::overflow::{ChainRef, CHAIN_REF_BYTES};
use crate::page::record_lsn::RecordFlags;
use crate::page::slotted::SplitKey;
use crate::pages::{rank, ROUNDS_MAX};
use crate::shortcuts::Name;
use crate::Result;
use zerocopy::IntoBytes;

/// What a put does with an existing or a missing record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Replaces or inserts.
    Always,
    /// Inserts only.
    New,
}

/// The wanted state of a key's record.
#[derive(Clone, Copy)]
pub(crate) enum Outcome<'v> {
    /// This value.
    Value(&'v [u8]),
    /// A value in a chain that has been written.
    Chain(ChainRef),
    /// No record: a ghost.
    Ghost,
}

impl Outcome<'_> {
    /// Returns the bytes of the stored value, or of the long value that is still to be written.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Outcome::Value(value) => value.len(),
            Outcome::Chain(_) => CHAIN_REF_BYTES,
            Outcome::Ghost => 0,
        }
    }
}

/// Bytes of an old record, at least, for which log space is reserved at first. If the record has more, space is
/// reserved again.
const LIKELY_BYTES: usize = 128;

/// Number of pages to the right that stay in memory at once in the search for the next key.
const KEPT_MAX: usize = 32;
/// Number of pages after which the search for the next key is given up.
const READS_MAX: usize = 1000;

/// A change of one record, and the state of its attempts.
struct RecordChange<'w, 'a> {
    key: &'w [u8],
    outcome: Outcome<'w>,
    policy: Policy,
    granularity: Option<Granularity>,
    /// Bytes of the body for which log space was reserved.
    body_bytes: usize,
    /// Pinned pages to the right.
    kept: Vec<Pin<'a>>,
    /// Number of pages pinned so far in all.
    reads: usize,
}

/// The outcome of an attempt at a leaf: done, or a missing resource that must be got without latches.
enum Attempt {
    /// Done; whether there was something to do.
    Done(bool),
    /// Log space: the old record has this number of bytes.
    Reserve(usize),
    /// Room on the leaf.
    NoRoom { leaf: u32, slot: usize, bytes: usize, is_new: bool },
    /// A lock that others hold.
    Lock(LockName, Mode),
    /// A gap that others have locked.
    WaitForGap(LockName),
    /// A page that is not in memory.
    Read(u32),
    /// The value is long and must be written first. It replaces this chain.
    WriteFirst(Option<ChainRef>),
    /// Chains that earlier transactions replaced must be freed first.
    DropFirst,
}

impl Attempt {
    /// Whether the missing resource is another transaction's lock. The visit of the tree ends before that wait
    /// ([`Pages::visit`]).
    fn waits(&self) -> bool {
        matches!(self, Attempt::Lock(..) | Attempt::WaitForGap(_))
    }
}

/// The next key above a place.
enum NextKey {
    /// Its hash.
    Hash(u64),
    /// There is no next key.
    End,
    /// The next key may stand on this page, which must be read first.
    Read(u32),
}

impl<'a> Access<'a> {
    /// Changes a record of a B-tree. Returns whether there was something to do.
    pub(crate) fn btree_change(&self, key: &[u8], outcome: Outcome<'_>, policy: Policy) -> Result<bool> {
        self.check_btree()?;
        self.check_key(key)?;
        let granularity = self.enter(Purpose::Write)?;
        if granularity == Some(Granularity::Record) {
            self.lock(lock_names::record(self.database.id(), key_hash(key)), Mode::X)?;
        }
        let mut wanted = RecordChange { key, outcome, policy, granularity, body_bytes: 0, kept: Vec::new(), reads: 0 };
        self.reserve_for(&mut wanted, LIKELY_BYTES.max(outcome.bytes()))?;
        for _ in 0..ROUNDS_MAX {
            let visit = self.pages.visit();
            let mut leaf = search::leaf_exclusive(&self.pages, key)?;
            let attempt = self.attempt(&mut leaf, &wanted)?;
            if let Attempt::Done(changed) = attempt {
                return Ok(changed);
            }
            drop(leaf);
            let _visit = (!attempt.waits()).then_some(visit);
            self.prepare(&mut wanted, attempt)?;
        }
        Err(self.pages.corrupt(search::ROOT, "a record found no place"))
    }

    /// Gets, without latches, the resource that an attempt found missing.
    #[cold]
    fn prepare(&self, wanted: &mut RecordChange<'_, 'a>, missing: Attempt) -> Result<()> {
        match missing {
            Attempt::Done(_) => {}
            Attempt::NoRoom { leaf, slot, bytes, is_new } => {
                let incoming = Incoming { key: wanted.key, slot, bytes, is_new };
                if !ghosts::make_room(self, leaf, incoming)? {
                    dense::share(self, leaf)?;
                    split::split(&self.pages, leaf, 0, incoming)?;
                }
            }
            Attempt::Reserve(old_bytes) => self.reserve_for(wanted, old_bytes)?,
            Attempt::Lock(name, mode) => self.lock(name, mode)?,
            Attempt::WaitForGap(name) => self.wait_for_gap(name)?,
            Attempt::Read(page) => self.keep(wanted, page)?,
            Attempt::WriteFirst(older) => {
                if let Outcome::Value(value) = wanted.outcome {
                    wanted.outcome = Outcome::Chain(long_value::write(self, value, older)?);
                    self.reserve_for(wanted, LIKELY_BYTES)?;
                }
            }
            Attempt::DropFirst => long_value::drop_replaced(self, wanted.key, |_| true)?,
        }
        Ok(())
    }

    /// Pins a page to the right, and those behind it as far as they are empty. If these are very many, tries to unlink
    /// the first of them and unpins them. If the pages still do not end, locks the whole database, so that no gap
    /// matters.
    fn keep(&self, wanted: &mut RecordChange<'_, 'a>, first: u32) -> Result<()> {
        if wanted.reads > READS_MAX {
            wanted.kept.clear();
            self.lock_database(Mode::X)?;
            wanted.granularity = self.enter(Purpose::Write)?;
            return Ok(());
        }
        if wanted.kept.len() >= KEPT_MAX {
            unlink::free_unlinked(self, None)?;
            for empty in wanted.kept.drain(..KEPT_MAX / 2) {
                unlink::unlink(self, empty.id().page().raw())?;
            }
        }
        let mut next = Some(first);
        while let Some(number) = next.filter(|_| wanted.kept.len() < KEPT_MAX) {
            let pin = self.pages.pin(number)?;
            let node = pin.shared(rank(0));
            let node = node_of(&self.pages, number, &node)?;
            next = if node.count() == 0 { node.right() } else { None };
            wanted.kept.push(pin);
            wanted.reads += 1;
        }
        Ok(())
    }

    /// Reserves the needs of a change whose old record has `old_bytes` (PROTOCOLS D11).
    #[inline]
    fn reserve_for(&self, wanted: &mut RecordChange<'_, 'a>, old_bytes: usize) -> Result<()> {
        let new_bytes = wanted.outcome.bytes().min(self.database.page_bytes()) + CHAIN_REF_BYTES;
        wanted.body_bytes = size_of::<Update>() + wanted.key.len() + old_bytes + new_bytes;
        self.pages.reserve_own(self.database.page_bytes(), wanted.body_bytes)?;
        self.reserve_lock()
    }

    pub(crate) fn is_long(&self, key: &[u8], value: &[u8]) -> bool {
        key.len() + value.len() > self.database.page_bytes() / 4
    }

    /// Makes the change on the leaf, or returns the missing resource. Never waits.
    #[inline]
    fn attempt(&self, leaf: &mut ExclusivePage<'a>, wanted: &RecordChange<'_, 'a>) -> Result<Attempt> {
        let number = leaf.id().page().raw();
        if wanted.granularity == Some(Granularity::Page) {
            let name = lock_names::page(self.database.id(), number);
            if self.try_lock(name, Mode::X)? == Tried::Busy {
                return Ok(Attempt::Lock(name, Mode::X));
            }
        }
        let node = node_of(&self.pages, number, leaf)?;
        let (slot, found) = node.find(wanted.key);
        let before = if found { Some(self.record_at(number, &node, slot)?) } else { None };
        let exists = before.is_some_and(|record| !record.is_ghost());
        if (exists && wanted.policy == Policy::New) || (!exists && matches!(wanted.outcome, Outcome::Ghost)) {
            return Ok(Attempt::Done(false));
        }
        let is_settled = |record: &Record<'_>| {
            let is_old = record.lsn < ghosts::first_own_lsn(self) && ghosts::is_seen_by_all(self, record.lsn);
            is_old || planted("record: replaced chain freed at once")
        };
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
        if found {
            return self.replace(leaf, wanted, slot, After { stored, flags });
        }
        self.insert(leaf, wanted, slot, After { stored, flags })
    }

    /// Changes the record at a slot.
    #[inline]
    fn replace(
        &self,
        leaf: &mut ExclusivePage<'a>,
        wanted: &RecordChange<'_, 'a>,
        slot: usize,
        after: After<'_>,
    ) -> Result<Attempt> {
        let number = leaf.id().page().raw();
        let node = node_of(&self.pages, number, leaf)?;
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
            return Ok(Attempt::NoRoom { leaf: number, slot, bytes: after.stored.len(), is_new: false });
        }
        let kind = if after.flags.has(RecordFlags::GHOST) { DELETE } else { UPDATE };
        let mut body = self.pages.change.txn.scratch();
        encode::update(body.writer(), self.pages.id(number).raw(), slot, &before, wanted.key, after);
        if body.body().len() > wanted.body_bytes {
            return Ok(Attempt::Reserve(before.stored.len()));
        }
        failpoint("update: leaf latched");
        self.leave_shortcut(Name::Key(wanted.key), before.lsn, before.flags, before.stored);
        self.pages.change.apply(kind, &mut body, &mut [leaf]);
        failpoint("update: updated");
        if kind == DELETE && ghosts::is_to_leave(&node_of(&self.pages, number, leaf)?) {
            self.pages.change.txn.note_for_later(self.database.id().raw(), wanted.key.to_vec());
        }
        Ok(Attempt::Done(true))
    }

    /// Inserts a record before a slot.
    fn insert(
        &self,
        leaf: &mut ExclusivePage<'a>,
        wanted: &RecordChange<'_, 'a>,
        slot: usize,
        after: After<'_>,
    ) -> Result<Attempt> {
        let number = leaf.id().page().raw();
        let node = node_of(&self.pages, number, leaf)?;
        if wanted.granularity == Some(Granularity::Record) {
            if let Some(missing) = self.enter_gap(number, &node, slot, wanted)? {
                return Ok(missing);
            }
        }
        let bytes = node.record_need(wanted.key.len(), after.stored.len());
        if bytes > node.free_bytes() {
            return Ok(Attempt::NoRoom { leaf: number, slot, bytes, is_new: true });
        }
        let mut body = self.pages.change.txn.scratch();
        encode::insert(body.writer(), self.pages.id(number).raw(), slot, after.flags, wanted.key, after.stored);
        failpoint("insert: leaf latched");
        self.pages.change.apply(INSERT, &mut body, &mut [leaf]);
        failpoint("insert: inserted");
        Ok(Attempt::Done(true))
    }

    /// Asks for the gap that a new key enters. Returns the missing resource, if any.
    fn enter_gap(
        &self,
        leaf: u32,
        node: &Node<'_>,
        slot: usize,
        wanted: &RecordChange<'_, 'a>,
    ) -> Result<Option<Attempt>> {
        let file = self.database.id();
        let gap = match self.next_key(leaf, node, slot, wanted)? {
            NextKey::Hash(hash) => lock_names::gap(file, hash),
            NextKey::End => lock_names::end_gap(file),
            NextKey::Read(page) => return Ok(Some(Attempt::Read(page))),
        };
        if !planted("record: gap entered without asking") && self.try_instant(gap, Mode::IX)? == Tried::Busy {
            return Ok(Some(Attempt::WaitForGap(gap)));
        }
        if self.holds(gap).is_some_and(|mode| mode.covers(Mode::S)) {
            // The new key divides a gap that the transaction has read, so the lower half needs a lock, too.
            let lower = lock_names::gap(file, key_hash(wanted.key));
            if self.try_lock(lower, Mode::S)? == Tried::Busy {
                return Ok(Some(Attempt::Lock(lower, Mode::S)));
            }
        }
        Ok(None)
    }

    /// Returns the key above a new one: at the slot, or the first on the pages to the right, which must be in memory.
    fn next_key(&self, leaf: u32, leaf_node: &Node<'_>, slot: usize, wanted: &RecordChange<'_, 'a>) -> Result<NextKey> {
        if slot < leaf_node.count() {
            return Ok(NextKey::Hash(hash_of(leaf_node.key(slot))));
        }
        let (mut right, mut behind) = (leaf_node.right(), None);
        while let Some(number) = right {
            // The leaf is latched, and a wait for it here would never end.
            if number == leaf {
                return Err(neighbour::leads_back(&self.pages, number));
            }
            let kept = wanted.kept.iter().find(|pin| pin.id().page().raw() == number).map(|pin| pin.shared(rank(0)));
            let page = match kept {
                None if wanted.kept.len() >= KEPT_MAX / 2 => self.pages.shared_now(number, 0),
                kept => kept,
            };
            let Some(page) = page else { return Ok(NextKey::Read(number)) };
            let node = node_of(&self.pages, number, &page)?;
            if node.count() != 0 {
                return Ok(NextKey::Hash(hash_of(node.key(0))));
            }
            let left = behind.get_or_insert_with(|| Stretch::of(leaf, leaf_node));
            left.check_leads_on(&self.pages, number, &node)?;
            (right, behind) = (node.right(), Some(Stretch::of(number, &node)));
        }
        Ok(NextKey::End)
    }
}

/// Returns the chain that a change of this record replaces or continues to replace: its value's own, or the one
/// replaced before.
pub(crate) fn chain_to_replace(record: &Record<'_>) -> Option<ChainRef> {
    if record.flags.has(RecordFlags::OVERFLOW) {
        return ChainRef::read(record.stored.get(..CHAIN_REF_BYTES)?);
    }
    record.replaced()
}

/// Returns the hash of a key in two pieces.
pub(crate) fn hash_of(key: SplitKey<'_>) -> u64 {
    let mut whole = [0; 256];
    let Some(whole) = whole.get_mut(..key.bytes()) else { return key_hash(&key.to_vec()) };
    whole[..key.prefix.len()].copy_from_slice(key.prefix);
    whole[key.prefix.len()..].copy_from_slice(key.suffix);
    key_hash(whole)
}

//! A leaf as the place of a record that changes: the B-tree's part of a put (`change`).
//!
//! An insertion also locks the gap that it enters, which is the gap below the next key. The lock has mode `IX` and
//! instant duration (PROTOCOLS K1); if the insertion must wait, it keeps the lock. So no transaction that has scanned
//! the gap finds a phantom. The next key may be on another leaf, with empty leaves in between. After we have found the
//! next key, other insertions may put nearer keys into the same gap. Even then, no scan misses our key. A scan that
//! finds such a nearer key locks the gap below that key, and reads our leaf (again) before it relies on that lock. Our
//! leaf stays latched until our key is on it.

use libtp_buffer::{ExclusivePage, Pin};
use libtp_lock::Mode;
use rio::{failpoint, planted};

use crate::btree::change::{Attempt, Codes, Leaf, Moment, RecordChange, Seek, Sought, Spot, Tryout};
use crate::btree::dense;
use crate::btree::descent::node_of;
use crate::btree::ghosts;
use crate::btree::log_records::{DELETE, DROP_CHAIN, INSERT, UPDATE};
use crate::btree::neighbour::{self, Stretch};
use crate::btree::search;
use crate::btree::split;
use crate::btree::split_plan::Incoming;
use crate::btree::unlink;
use crate::btree::unlinked::free_unlinked;
use crate::database::Granularity;
use crate::key_hash::hash_of;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::node::Node;
use crate::page::rebuild::Frame;
use crate::pages::{rank, Pages, Visit};
use crate::Result;

/// The largest number of pages to the right that the search for the next key pins at once.
const KEPT_MAX: usize = 32;
/// The number of pages after which the search for the next key ends without a result.
const READS_MAX: usize = 1000;

/// Pages to the right of a leaf.
#[derive(Default)]
pub(crate) struct KeptRight<'a> {
    /// Pinned pages.
    pins: Vec<Pin<'a>>,
    /// The number of pages that were pinned so far.
    reads: usize,
}

type LeafChange<'w, 'a> = RecordChange<'w, 'a, ExclusivePage<'a>>;

/// The next key above a place.
enum NextKey {
    /// The hash of the next key.
    Hash(u64),
    /// There is no next key.
    End,
    /// The next key may be on this page, which must be read first.
    Read(u32),
}

impl<'a> Leaf<'a> for ExclusivePage<'a> {
    const CODES: Codes = Codes { insert: INSERT, update: UPDATE, delete: DELETE, drop_chain: DROP_CHAIN };
    const IS_FOUND_BY_HASH: bool = false;
    type Kept = KeptRight<'a>;
    type At = ();
    type Visit = Visit<'a>;

    #[inline]
    fn visit(pages: &Pages<'a>) -> Visit<'a> {
        pages.visit()
    }

    #[inline]
    fn latch(access: &Access<'a>, key: &[u8], _hash: u64) -> Result<ExclusivePage<'a>> {
        search::leaf_exclusive_to_change(&access.pages, access.database, key)
    }

    #[inline]
    fn try_lock(&self, access: &Access<'a>, granularity: Option<Granularity>) -> Result<Option<Attempt>> {
        if granularity == Some(Granularity::Page) {
            let name = lock_names::page(access.database.id(), self.id().page().raw());
            if access.try_lock(name, Mode::X)? == Tried::Busy {
                return Ok(Some(Attempt::Lock(name, Mode::X)));
            }
        }
        Ok(None)
    }

    #[inline]
    fn find(&self, access: &Access<'a>, key: &[u8], _kept: &KeptRight<'a>) -> Tryout<Sought<()>> {
        let node = node_of(&access.pages, self.id().page().raw(), self)?;
        if node.right().is_none() && node.is_above_all(key, node.cell_head()) {
            return Ok(Ok(Sought::Gap(node.count())));
        }
        let (slot, found) = node.find(key);
        Ok(Ok(if found { Sought::Record((), slot) } else { Sought::Gap(slot) }))
    }

    /// Reads the page only once; [`Leaf::latch`] and [`Leaf::find`] together would read the page twice.
    #[inline(always)]
    fn seek(access: &Access<'a>, key: &[u8], _hash: u64) -> Result<Option<(ExclusivePage<'a>, Seek<()>)>> {
        let found =
            search::at_leaf_exclusive_now(&access.pages, access.database, key, |number, node, (slot, found)| {
                if !found {
                    return Some(Seek::Nothing);
                }
                Some(Seek::Record((), Spot::of(number, slot, &node.record(slot)?)))
            });
        Ok(found)
    }

    #[inline]
    fn page<'p>(&'p self, _at: &'p ()) -> (u32, &'p ExclusivePage<'a>) {
        (self.id().page().raw(), self)
    }

    #[inline]
    fn page_mut<'p>(&'p mut self, _at: &'p mut ()) -> (u32, &'p mut ExclusivePage<'a>) {
        (self.id().page().raw(), self)
    }

    #[inline]
    fn node<'p>(pages: &Pages<'_>, number: u32, page: &'p [u8]) -> Result<Node<'p>> {
        node_of(pages, number, page)
    }

    #[inline]
    fn way_in(&self, wanted: &LeafChange<'_, 'a>, slot: usize, stored_bytes: usize) -> Tryout<((), usize)> {
        let number = self.id().page().raw();
        let node = node_of(&wanted.access.pages, number, self)?;
        if wanted.granularity == Some(Granularity::Record) {
            if let Some(missing) = wanted.access.enter_gap(number, &node, slot, wanted)? {
                return Ok(Err(missing));
            }
        }
        if slot == node.count() && node.right().is_none() && !Frame::may_be_cut(node.low(), node.page_bytes()) {
            wanted.access.database.note_last_leaf(number, node.low());
        }
        let bytes = node.record_need(wanted.key.len(), stored_bytes);
        let fits = bytes <= node.free_bytes();
        Ok(if fits { Ok(((), slot)) } else { Err(Attempt::NoRoom { page: number, slot, bytes, is_new: true }) })
    }

    fn make_room(wanted: &LeafChange<'_, 'a>, missing: &Attempt) -> Result<()> {
        let Attempt::NoRoom { page, slot, bytes, is_new } = *missing else { return Ok(()) };
        let incoming = Incoming { key: wanted.key, slot, bytes, is_new };
        if !ghosts::make_room(&wanted.access, page, incoming)? {
            dense::share(&wanted.access, page)?;
            split::split(&wanted.access.pages, page, 0, incoming)?;
        }
        Ok(())
    }

    /// Pins a page to the right, and the pages after it up to the first page that is not empty. If there are too many,
    /// tries to unlink the first of them and unpins them. If the search still does not end, locks the whole database,
    /// so that no gap matters.
    fn keep(wanted: &mut LeafChange<'_, 'a>, first: u32) -> Result<()> {
        let (access, kept) = (&wanted.access, &mut wanted.kept);
        if kept.reads > READS_MAX {
            kept.pins.clear();
            access.lock_database(Mode::X)?;
            wanted.granularity = access.enter(Purpose::Write)?;
            return Ok(());
        }
        if kept.pins.len() >= KEPT_MAX {
            free_unlinked(access, None)?;
            for empty in kept.pins.drain(..KEPT_MAX / 2) {
                unlink::unlink(access, empty.id().page().raw())?;
            }
        }
        let mut next = Some(first);
        while let Some(number) = next.filter(|_| kept.pins.len() < KEPT_MAX) {
            let pin = access.pages.pin(number)?;
            let node = pin.shared(rank(0));
            let node = node_of(&access.pages, number, &node)?;
            next = if node.count() == 0 { node.right() } else { None };
            kept.pins.push(pin);
            kept.reads += 1;
        }
        Ok(())
    }

    #[inline]
    fn note_deleted(access: &Access<'a>, number: u32, page: &[u8], key: &[u8]) -> Result<()> {
        if ghosts::is_to_leave(&node_of(&access.pages, number, page)?) {
            access.pages.change.txn.note_for_later(access.database.id().raw(), key.to_vec());
        }
        Ok(())
    }

    #[inline]
    fn failpoint(moment: Moment) {
        match moment {
            Moment::ToUpdate => failpoint("update: leaf latched"),
            Moment::Updated => failpoint("update: updated"),
            Moment::ToInsert => failpoint("insert: leaf latched"),
            Moment::Inserted => failpoint("insert: inserted"),
            Moment::ChainFound => failpoint("long value: chain to be dropped, leaf latched"),
            Moment::ToDropChain => failpoint("long value: about to drop a chain"),
        }
    }
}

impl<'a> Access<'a> {
    /// Tries to lock the gap that a new key enters. Returns the missing resource, if any.
    fn enter_gap(
        &self,
        leaf: u32,
        node: &Node<'_>,
        slot: usize,
        wanted: &LeafChange<'_, 'a>,
    ) -> Result<Option<Attempt>> {
        let file = self.database.id();
        let gap = match self.next_key(leaf, node, slot, wanted)? {
            NextKey::Hash(hash) => lock_names::gap(file, hash),
            NextKey::End => lock_names::end_gap(file),
            NextKey::Read(page) => return Ok(Some(Attempt::Read(page))),
        };
        if self.is_free(gap) {
            // Neither this transaction nor another transaction has locked the gap.
            return Ok(None);
        }
        if !planted("record: an insertion does not lock the gap") && self.try_instant(gap, Mode::IX)? == Tried::Busy {
            return Ok(Some(Attempt::WaitForGap(gap)));
        }
        if self.holds(gap).is_some_and(|mode| mode.covers(Mode::S)) {
            // The new key divides a gap that the transaction has read. So the lower part of the gap needs its own lock.
            let lower = lock_names::gap(file, wanted.hash);
            if self.try_lock(lower, Mode::S)? == Tried::Busy {
                return Ok(Some(Attempt::Lock(lower, Mode::S)));
            }
        }
        Ok(None)
    }

    /// Returns the next key above a new key: the key at `slot`, or the first key on the pages to the right, which must
    /// be in memory.
    fn next_key(&self, leaf: u32, leaf_node: &Node<'_>, slot: usize, wanted: &LeafChange<'_, 'a>) -> Result<NextKey> {
        if slot < leaf_node.count() {
            return Ok(NextKey::Hash(hash_of(leaf_node.key(slot))));
        }
        let (mut right, mut after) = (leaf_node.right(), None);
        while let Some(number) = right {
            // We have latched this leaf, so a wait for its latch would never end.
            if number == leaf {
                return Err(neighbour::leads_back(&self.pages, number));
            }
            let kept =
                wanted.kept.pins.iter().find(|pin| pin.id().page().raw() == number).map(|pin| pin.shared(rank(0)));
            let page = match kept {
                None if wanted.kept.pins.len() >= KEPT_MAX / 2 => self.pages.shared_now(number, 0, true),
                kept => kept,
            };
            let Some(page) = page else { return Ok(NextKey::Read(number)) };
            let node = node_of(&self.pages, number, &page)?;
            if node.count() != 0 {
                return Ok(NextKey::Hash(hash_of(node.key(0))));
            }
            let left = after.get_or_insert_with(|| Stretch::of(leaf, leaf_node));
            left.check_leads_on(&self.pages, number, &node)?;
            (right, after) = (node.right(), Some(Stretch::of(number, &node)));
        }
        Ok(NextKey::End)
    }
}

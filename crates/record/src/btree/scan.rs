//! Walks the records in key order, in both directions.
//!
//! PROTOCOLS T3: a cursor holds no latch between steps. It remembers the page, its LSN, the slot and the key. If the
//! page has not changed since, the next record is a slot away; otherwise the cursor searches for the key again.
//! PROTOCOLS K1: a cursor locks each key that it passes, the gap below that key, and at the end the gap above the last
//! key, so that repeated reads agree. A ghost is passed like any key.
//!
//! Within one leaf, the cursor finds the next key and tries its locks under one latch. On the way from one leaf to the
//! next, only one leaf is latched at a time. So the cursor takes the locks and then repeats the step: no key can enter
//! the locked gap any more, and the repeated step finds a key that entered before.
//!
//! A cursor within a range locks the gap below the first key beyond the range's end, but not that key. A backward
//! cursor begins with that gap. At the range's beginning it needs no further lock, because the gap below its first key
//! includes the beginning.

use std::cmp::Ordering;

use libtp_buffer::SharedPage;
use libtp_lock::{LockName, Mode};
use libtp_log::Lsn;
use rio::planted;

use crate::btree::descent::{self, node_of};
use crate::btree::ghosts;
use crate::btree::long_value;
use crate::btree::neighbour::Stretch;
use crate::btree::search;
use crate::btree::value::Value;
use crate::cursor::{BothWays, Cursor, Walk};
use crate::database::Granularity;
use crate::key_hash::hash_of;
use crate::key_hash::key_hash;
use crate::key_range::KeyRange;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::node::Node;
use crate::page::overflow::ChainRef;
use crate::pages::ROUNDS_MAX;
use crate::Result;

/// The number of rounds in which a step repeats its whole path. Later rounds continue from the last passed ghost.
const WHOLE_WAYS: u32 = 16;
/// The largest number of leaves that one step of a cursor tries to clean.
const CLEAN_MAX: usize = 8;

/// The page and slot of the cursor's record.
#[derive(Clone, Copy, Debug)]
struct Position {
    page: u32,
    lsn: Lsn,
    slot: usize,
    /// The first slot of the page that is beyond the range, if the cursor came forwards; zero if not.
    end: usize,
}

/// The target of a step, relative to the cursor's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Towards {
    /// The first key that is not below the cursor's key.
    AtOrAbove,
    /// The first key above the cursor's key.
    Above,
    /// The last key below the cursor's key.
    Below,
    /// The last key of all.
    Last,
}

/// The outcome of an attempt at a step.
enum Attempt {
    /// The cursor is on a record.
    Record,
    /// The value of the found record is in a chain.
    Chain(ChainRef, Arrival),
    /// There is no further record.
    End,
    /// The cursor must wait for a lock.
    Lock(LockName, Mode),
    /// A leaf with only ghosts, which must be cleaned first, and its left neighbour.
    Clean(u32, Option<u32>),
    /// A leaf with a run of ghosts ahead of the cursor, which must be tidied first.
    Tidy(u32),
    /// No outcome yet: the step must be repeated.
    Again,
}

/// The place that the cursor gets when the value has been read.
struct Arrival {
    key: Vec<u8>,
    position: Position,
}

/// The outcome of an attempt to lock a key.
enum Locked {
    Granted,
    Missing(Attempt),
}

/// A cursor over a B-tree.
pub type BtreeCursor<'a> = Cursor<BtreeWalk<'a>>;

/// A walk through a B-tree.
pub struct BtreeWalk<'a> {
    access: Access<'a>,
    purpose: Purpose,
    range: KeyRange,
    /// Whether the walk reads values.
    with_values: bool,
    position: Option<Position>,
    key: Vec<u8>,
    value: Vec<u8>,
    /// During a search, the key of the walk's record before the search; a search that fails or finds nothing restores
    /// it. Between searches, a buffer for the next key.
    before: Vec<u8>,
    /// The result of the last [`Access::enter`]: the granularity of locks inside the database, or `Some(None)` if the
    /// database's lock covers the walk's purpose. `None` before the first call.
    granularity: Option<Option<Granularity>>,
    /// Leaves that this step has tried to clean.
    cleaned: Vec<u32>,
    /// The last ghost that a forward step has passed, if any. The step holds the locks up to this ghost. After
    /// [`WHOLE_WAYS`] rounds, a repeated step continues from this ghost: otherwise a step over very many ghosts could
    /// return to its beginning at each of them. A wait for a lock clears the field, and the step begins again.
    passed: Option<Vec<u8>>,
}

impl<'a> Cursor<BtreeWalk<'a>> {
    /// Returns a cursor without a place. It locks the records that it passes for reading.
    pub fn new(access: Access<'a>) -> BtreeCursor<'a> {
        BtreeCursor::with_purpose(access, Purpose::Read)
    }

    /// Returns a cursor that locks the records that it passes for writing.
    pub fn for_update(access: Access<'a>) -> BtreeCursor<'a> {
        BtreeCursor::with_purpose(access, Purpose::Write)
    }

    fn with_purpose(access: Access<'a>, purpose: Purpose) -> BtreeCursor<'a> {
        Cursor::over(BtreeWalk {
            access,
            purpose,
            range: KeyRange::default(),
            with_values: true,
            position: None,
            key: Vec::new(),
            value: Vec::new(),
            before: Vec::new(),
            granularity: None,
            cleaned: Vec::new(),
            passed: None,
        })
    }

    /// Limits the cursor and its locks to the keys of a range.
    #[must_use]
    pub fn within(mut self, range: KeyRange) -> BtreeCursor<'a> {
        self.walk.range = range;
        self
    }

    /// Returns the range that limits the cursor.
    pub fn range(&self) -> &KeyRange {
        &self.walk.range
    }

    /// Makes the cursor read keys only. All values are empty.
    #[must_use]
    pub fn without_values(mut self) -> BtreeCursor<'a> {
        self.walk.with_values = false;
        self
    }

    /// Returns to the record of a key, or to the gap that its deletion has left, without a check of the record and
    /// without a lock. Does not read the value. Without a key, the cursor loses its place.
    pub fn stand(&mut self, at: Option<&[u8]>) {
        (self.walk.position, self.is_placed) = (None, at.is_some());
        self.walk.value.clear();
        self.walk.key.clear();
        self.walk.key.extend_from_slice(at.unwrap_or_default());
    }
}

impl Walk for BtreeWalk<'_> {
    type Key<'k> = &'k [u8];
    type OwnedKey = Vec<u8>;

    fn go_first(&mut self) -> Result<bool> {
        self.seek_from(&[])
    }

    #[inline]
    fn go_next(&mut self) -> Result<bool> {
        match self.go_on()? {
            true => Ok(true),
            false => self.step(Towards::Above),
        }
    }

    fn move_after(&mut self, key: &[u8]) -> Result<bool> {
        self.access.check_key(key)?;
        self.seek_from(&[key, &[0]].concat())
    }

    #[inline]
    fn record(&self) -> (&[u8], &[u8]) {
        (&self.key, &self.value)
    }

    fn owned(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

impl BothWays for BtreeWalk<'_> {
    fn go_last(&mut self) -> Result<bool> {
        self.leave();
        let found = self.step_to_last();
        self.stay_unless_found(found)
    }

    fn go_previous(&mut self) -> Result<bool> {
        self.step(Towards::Below)
    }

    fn go_to(&mut self, key: &[u8]) -> Result<bool> {
        self.access.check_key(key)?;
        self.seek_from(key)
    }
}

impl<'a> BtreeWalk<'a> {
    fn step_to_last(&mut self) -> Result<bool> {
        let Some(high) = self.range.high().map(<[u8]>::to_vec) else { return self.step(Towards::Last) };
        // The walk first locks the gap that contains the range's end, and then goes down from there.
        self.key.clone_from(&high);
        self.step(Towards::AtOrAbove)?;
        self.position = None;
        self.key = high;
        self.step(Towards::Below)
    }

    /// Goes to the first record of the range from `key` on.
    fn seek_from(&mut self, key: &[u8]) -> Result<bool> {
        self.leave();
        self.key.clear();
        self.key.extend_from_slice(key.max(self.range.low()));
        let found = self.step(Towards::AtOrAbove);
        self.stay_unless_found(found)
    }

    /// Remembers the walk's record before a search.
    #[inline]
    fn leave(&mut self) {
        self.position = None;
        std::mem::swap(&mut self.key, &mut self.before);
    }

    /// Returns to the walk's record after a search that failed or found nothing.
    #[inline]
    fn stay_unless_found(&mut self, found: Result<bool>) -> Result<bool> {
        if !matches!(found, Ok(true)) {
            self.position = None;
            std::mem::swap(&mut self.key, &mut self.before);
        }
        found
    }

    /// Takes the lock on the database, and returns the granularity of locks inside.
    #[inline]
    fn enter(&mut self) -> Result<Option<Granularity>> {
        // A cursor belongs to one transaction, and the transaction keeps its locks on the database until it ends.
        match self.granularity {
            Some(None) => Ok(None),
            _ => Ok(*self.granularity.insert(self.access.enter(self.purpose)?)),
        }
    }

    /// Makes the step in the usual case: the next record is on the walk's page, the page has not changed, the value is
    /// short and the locks are free. Otherwise returns false and does not move.
    #[inline]
    fn go_on(&mut self) -> Result<bool> {
        let Some(here) = self.position else { return Ok(false) };
        let slot = here.slot + 1;
        if slot >= here.end {
            return Ok(false);
        }
        let granularity = self.enter()?;
        if granularity == Some(Granularity::Page) {
            return Ok(false);
        }
        self.access.reserve_lock()?;
        // While the page's LSN is unchanged, the page is a leaf of this tree.
        let Some(leaf) = self.access.pages.shared_now(here.page, 0, false) else { return Ok(false) };
        if leaf.lsn() != here.lsn && !planted("record: a cursor continues on a page that has changed") {
            return Ok(false);
        }
        let Some(node) = Node::over(&leaf) else { return Ok(false) };
        let Some(record) = node.record(slot) else { return Ok(false) };
        if record.is_ghost() {
            return Ok(false);
        }
        let Some(Value::Here(value)) = record.value() else { return Ok(false) };
        self.before.clear();
        node.key(slot).append_to(&mut self.before);
        if granularity.is_some() && self.busy_lock(key_hash(&self.before))?.is_some() {
            return Ok(false);
        }
        std::mem::swap(&mut self.key, &mut self.before);
        self.value.clear();
        if self.with_values {
            self.value.extend_from_slice(value);
        }
        self.position = Some(Position { slot, ..here });
        Ok(true)
    }

    fn step(&mut self, towards: Towards) -> Result<bool> {
        self.access.check_btree()?;
        let granularity = self.enter()?;
        if towards == Towards::Last && granularity == Some(Granularity::Record) {
            self.access.lock(lock_names::end_gap(self.access.database.id()), Mode::S)?;
        }
        self.cleaned.clear();
        self.passed = None;
        for round in 0..ROUNDS_MAX {
            self.access.reserve_lock()?;
            let visit = self.access.pages.visit();
            let attempt = match towards {
                Towards::AtOrAbove | Towards::Above => self.forward(towards, granularity)?,
                Towards::Below | Towards::Last => self.backward(towards, granularity)?,
            };
            match attempt {
                Attempt::Record => {}
                Attempt::Chain(chain, arrival) => {
                    // If the value cannot be read, the cursor keeps its place.
                    self.value = long_value::read(&self.access.pages, chain)?;
                    (self.key, self.position) = (arrival.key, Some(arrival.position));
                }
                Attempt::End => return Ok(false),
                Attempt::Lock(name, mode) => {
                    drop(visit);
                    self.access.lock(name, mode)?;
                    // The lock's holder may have prevented the cleaning of leaves. The step tries these leaves again.
                    self.cleaned.clear();
                    self.passed = None;
                    continue;
                }
                Attempt::Clean(leaf, left) => {
                    self.cleaned.push(leaf);
                    // The cleaning helps later cursors. If it fails, this cursor continues over the ghosts.
                    let _ = ghosts::clean(&self.access, leaf, left);
                    self.go_back(round);
                    continue;
                }
                Attempt::Tidy(leaf) => {
                    self.cleaned.push(leaf);
                    // If the tidying fails, this cursor passes the ghosts.
                    let _ = ghosts::tidy(&self.access, leaf);
                    self.go_back(round);
                    continue;
                }
                Attempt::Again => {
                    self.go_back(round);
                    continue;
                }
            }
            return Ok(true);
        }
        Err(self.access.pages.corrupt(descent::ROOT, "a cursor could not find the next page"))
    }

    /// Prepares to repeat the step: from the cursor's own key in the first [`WHOLE_WAYS`] rounds, and from the last
    /// passed ghost in later rounds.
    fn go_back(&mut self, round: u32) {
        if round < WHOLE_WAYS {
            self.passed = None;
        }
    }

    /// Returns the page and slot of the cursor's record, if the page has not changed since.
    fn remembered(&self) -> Result<Option<(SharedPage<'a>, usize)>> {
        let Some(position) = self.position else { return Ok(None) };
        let page = self.access.pages.shared(position.page, 0)?;
        Ok((page.lsn() == position.lsn).then_some((page, position.slot)))
    }

    fn forward(&mut self, towards: Towards, granularity: Option<Granularity>) -> Result<Attempt> {
        let pages = self.access.pages;
        let remembered = if self.passed.is_some() { None } else { self.remembered()? };
        let (mut leaf, mut slot) = match remembered {
            Some((leaf, slot)) => (leaf, slot + 1),
            None => {
                let (from, is_passed) = match &self.passed {
                    Some(ghost) => (ghost, true),
                    None => (&self.key, towards == Towards::Above),
                };
                let leaf = search::shared(&pages, from, 0)?;
                let (slot, found) = node_of(&pages, leaf.id().page().raw(), &leaf)?.find(from);
                (leaf, slot + usize::from(found && is_passed))
            }
        };
        let (mut crossed, mut after) = (false, None::<Stretch>);
        loop {
            let number = leaf.id().page().raw();
            let node = node_of(&pages, number, &leaf)?;
            if !node.is_leaf() || node.is_deleted() {
                self.position = None;
                return Ok(Attempt::Again);
            }
            if let Some(after) = after {
                after.check_leads_on(&pages, number, &node)?;
            }
            if slot == 0 && self.may_clean(number) && ghosts::is_to_be_cleaned(&self.access, number, leaf.lsn(), &node)
            {
                return Ok(Attempt::Clean(number, node.left()));
            }
            let end = end_within(&node, &self.range);
            // The cleaning comes before the locks on the ghosts, because a locked ghost stays.
            if self.may_clean(number) && ghosts::is_run(&self.access, &node, slot..end) {
                return Ok(Attempt::Tidy(number));
            }
            if let Some(missing) = self.lock_page(number, granularity)? {
                return Ok(missing);
            }
            while slot < end {
                if let Locked::Missing(missing) = self.lock_key(hash_of(node.key(slot)), granularity, crossed)? {
                    return Ok(missing);
                }
                if let Some(arrived) = self.arrive(&leaf, &node, slot, end)? {
                    return Ok(arrived);
                }
                let ghost = self.passed.get_or_insert_default();
                ghost.clear();
                node.key(slot).append_to(ghost);
                slot += 1;
            }
            let file = self.access.database.id();
            if slot < node.count() {
                return self.lock_end(lock_names::gap(file, hash_of(node.key(slot))), granularity, crossed);
            }
            let Some(right) = node.right() else {
                return self.lock_end(lock_names::end_gap(file), granularity, crossed);
            };
            after = Some(Stretch::of(number, &node));
            drop(leaf);
            leaf = pages.shared(right, 0)?;
            (slot, crossed) = (0, true);
        }
    }

    fn backward(&mut self, towards: Towards, granularity: Option<Granularity>) -> Result<Attempt> {
        let pages = self.access.pages;
        let (mut leaf, mut slot) = match (self.remembered()?, towards) {
            (Some(remembered), _) => remembered,
            (None, Towards::Last) => {
                let leaf = descent::last(&pages, 0)?;
                let count = node_of(&pages, leaf.id().page().raw(), &leaf)?.count();
                (leaf, count)
            }
            (None, _) => {
                let leaf = search::shared(&pages, &self.key, 0)?;
                let (slot, _) = node_of(&pages, leaf.id().page().raw(), &leaf)?.find(&self.key);
                (leaf, slot)
            }
        };
        loop {
            let number = leaf.id().page().raw();
            let node = node_of(&pages, number, &leaf)?;
            if let Some(missing) = self.lock_page(number, granularity)? {
                return Ok(missing);
            }
            let begin = begin_within(&node, &self.range);
            while slot > begin {
                slot -= 1;
                // The gap above this key is already locked, so no key can enter between reading the key above and
                // reading this key.
                if let Locked::Missing(missing) = self.lock_key(hash_of(node.key(slot)), granularity, false)? {
                    return Ok(missing);
                }
                if let Some(arrived) = self.arrive(&leaf, &node, slot, 0)? {
                    return Ok(arrived);
                }
            }
            let Some(left) = node.left().filter(|_| begin == 0) else { return Ok(Attempt::End) };
            let here = Stretch::of(number, &node);
            drop(leaf);
            let Some(found) = here.left_neighbour(&pages, left)? else {
                self.position = None;
                return Ok(Attempt::Again);
            };
            slot = node_of(&pages, found.id().page().raw(), &found)?.count();
            leaf = found;
        }
    }

    /// Returns whether this step has not yet tried to clean the leaf, and may clean further leaves.
    fn may_clean(&self, leaf: u32) -> bool {
        self.cleaned.len() < CLEAN_MAX && !self.cleaned.contains(&leaf)
    }

    /// With page locks, takes the lock on a leaf. Returns the missing lock, if any.
    fn lock_page(&self, number: u32, granularity: Option<Granularity>) -> Result<Option<Attempt>> {
        if granularity != Some(Granularity::Page) {
            return Ok(None);
        }
        let name = lock_names::page(self.access.database.id(), number);
        Ok(match self.access.try_lock(name, self.purpose.mode())? {
            Tried::Granted => None,
            Tried::Busy => Some(Attempt::Lock(name, self.purpose.mode())),
        })
    }

    /// Returns whether the transaction holds the gap in a mode that excludes insertions. A transaction that has waited
    /// to insert holds the gap in `IX`, which other transactions may hold, too.
    fn has_locked(&self, gap: LockName) -> bool {
        self.access.holds(gap).is_some_and(|mode| mode.covers(Mode::S))
    }

    /// Takes the locks on a key and the gap below it. If the step crossed pages and the gap was not locked before, the
    /// step must be repeated.
    fn lock_key(&self, hash: u64, granularity: Option<Granularity>, crossed: bool) -> Result<Locked> {
        if granularity != Some(Granularity::Record) {
            return Ok(Locked::Granted);
        }
        let gap = lock_names::gap(self.access.database.id(), hash);
        let new = crossed && !self.has_locked(gap) && !planted("record: a scan does not lock gaps");
        if let Some((name, mode)) = self.busy_lock(hash)? {
            return Ok(Locked::Missing(Attempt::Lock(name, mode)));
        }
        Ok(if new { Locked::Missing(Attempt::Again) } else { Locked::Granted })
    }

    /// Tries the locks on a key and the gap below it. Returns the first lock that another session holds, if any.
    #[inline]
    fn busy_lock(&self, hash: u64) -> Result<Option<(LockName, Mode)>> {
        let file = self.access.database.id();
        let (gap, record) = (lock_names::gap(file, hash), lock_names::record(file, hash));
        for (name, mode) in [(gap, Mode::S), (record, self.purpose.mode())] {
            if name == gap && planted("record: a scan does not lock gaps") {
                continue;
            }
            if self.access.try_lock(name, mode)? == Tried::Busy {
                return Ok(Some((name, mode)));
            }
        }
        Ok(None)
    }

    /// Takes the lock on the gap in which the walk ends: above the last key, or at the range's end.
    fn lock_end(&self, gap: LockName, granularity: Option<Granularity>, crossed: bool) -> Result<Attempt> {
        if granularity != Some(Granularity::Record) {
            return Ok(Attempt::End);
        }
        if self.range.high().is_some() && planted("record: the end of a range is not locked") {
            return Ok(Attempt::End);
        }
        let new = crossed && !self.has_locked(gap);
        if self.access.try_lock(gap, Mode::S)? == Tried::Busy {
            return Ok(Attempt::Lock(gap, Mode::S));
        }
        Ok(if new { Attempt::Again } else { Attempt::End })
    }

    /// Puts the cursor on the record at a slot, unless the record is a ghost. `end` is for [`Position::end`].
    fn arrive(&mut self, leaf: &SharedPage<'a>, node: &Node<'_>, slot: usize, end: usize) -> Result<Option<Attempt>> {
        let number = leaf.id().page().raw();
        let record = self.access.record_at(number, node, slot)?;
        if record.is_ghost() {
            return Ok(None);
        }
        let position = Position { page: number, lsn: leaf.lsn(), slot, end };
        let value = match self.with_values {
            true => self.access.value_of(number, slot, &record)?,
            false => Value::Here(&[]),
        };
        match value {
            Value::Here(value) => {
                self.key.clear();
                node.key(slot).append_to(&mut self.key);
                self.value.clear();
                self.value.extend_from_slice(value);
                self.position = Some(position);
                Ok(Some(Attempt::Record))
            }
            Value::Chain(chain) => {
                let mut key = Vec::new();
                node.key(slot).append_to(&mut key);
                Ok(Some(Attempt::Chain(chain, Arrival { key, position })))
            }
        }
    }
}

/// Returns the first slot of a leaf that is beyond a range; the slot count if there is no such slot.
pub(crate) fn end_within(node: &Node<'_>, range: &KeyRange) -> usize {
    match range.high() {
        None => node.count(),
        Some(high) if node.belongs_right(high) => node.count(),
        Some(high) => lower_bound(node, high),
    }
}

/// Like [`end_within`], but searches from `begin` on. The leaf's range holds `from`, and `begin` is the first slot
/// whose key is not below `from`.
pub(crate) fn end_after(node: &Node<'_>, range: &KeyRange, from: &[u8], begin: usize) -> usize {
    match range.high() {
        // `from` may be after the range. Then all slots from `begin` on are beyond the range.
        Some(high) if high <= from => begin,
        Some(high) if !node.belongs_right(high) => node.find_near(high, begin),
        _ => node.count(),
    }
}

/// Returns the first slot of a leaf that is not below a range; the slot count if there is no such slot.
pub(crate) fn begin_within(node: &Node<'_>, range: &KeyRange) -> usize {
    match range.low() {
        [] => 0,
        low if node.belongs_right(low) => node.count(),
        low => lower_bound(node, low),
    }
}

/// Returns the first slot whose key is not below `key`. `key` may be below the page's range.
fn lower_bound(node: &Node<'_>, key: &[u8]) -> usize {
    if node.count() == 0 || node.key(0).compare(key) != Ordering::Less {
        return 0;
    }
    node.find(key).0
}

//! A B-tree as a snapshot shows it: one record by its key, and a cursor.
//!
//! A cursor copies the shown records of a whole leaf at a time, and holds no latch between two leaves. The copy stays
//! valid when the leaf changes. The cursor finds the right neighbour of a leaf by the neighbour's lower bound, and the
//! left neighbour as PROTOCOLS T3 describes.

use std::ops::Range;

use libtp_buffer::SharedPage;
use libtp_log::Lsn;

use super::batch::{Batch, LentBatch, Stored, Unsettled};
use super::history::Version;
use super::SnapshotAccess;
use crate::btree::descent::{self, node_of};
use crate::btree::long_value;
use crate::btree::neighbour::Stretch;
use crate::btree::scan::{begin_within, end_after};
use crate::btree::search;
use crate::btree::value::Value;
use crate::cursor::{BothWays, Cursor, Walk};
use crate::key_range::KeyRange;
use crate::page::node::Node;
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::pages::ROUNDS_MAX;
use crate::shortcuts::Name;
use crate::Result;

/// The largest number of records that are copied one by one. To copy more records, a copy of the whole page is faster.
const SINGLE_COPIES_MAX: usize = 16;
/// The number of bytes that are reserved for each record's key and value. Longer records allocate more.
const RESERVED_BYTES: usize = 128;

/// A leaf whose records were copied under its latch.
struct Copied {
    /// The leaf's page number.
    number: u32,
    /// The highest LSN of a version that was removed from the leaf.
    deleter: Lsn,
    /// The slots of interest on the copy of the whole leaf; empty if single records were copied.
    on_page: Range<usize>,
}

impl<'a> SnapshotAccess<'a> {
    /// As [`SnapshotAccess::get`], in a B-tree.
    #[inline]
    pub(crate) fn btree_get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.access.check_btree()?;
        self.access.check_key(key)?;
        let pages = &self.access.pages;
        // The closure returns only small values, and the rest is done outside: no large result is moved.
        let (mut read, mut shown, mut unsettled) = (Some(read), None, None);
        let visit = pages.visit();
        search::at_leaf(pages, self.access.database, key, |leaf, node, (slot, found)| {
            if !found {
                return self.check_removed(node.deleter_lsn());
            }
            let number = leaf.id().page().raw();
            let record = self.access.record_at(number, node, slot)?;
            if self.sees(record.lsn) {
                if record.is_ghost() {
                    return Ok(());
                }
                if let Value::Here(value) = self.access.value_of(number, slot, &record)? {
                    shown = read.take().map(|read| read(value));
                    return Ok(());
                }
            }
            unsettled = Some((Version::of(&record), node.deleter_lsn()));
            Ok(())
        })?;
        drop(visit);
        let Some((newest, deleter)) = unsettled else { return Ok(shown) };
        let Some(read) = read else { return Ok(shown) };
        let Some(version) = self.resolve(Name::Key(key), newest, deleter)? else { return Ok(None) };
        match self.value_of(key, &version)? {
            Value::Here(value) => Ok(Some(read(value))),
            Value::Chain(chain) => Ok(Some(read(&self.read_chain(key, chain)?))),
        }
    }

    /// As [`SnapshotAccess::btree_get`], for a leaf that the caller has found for the key in its visit of the tree.
    /// Returns false, and has read nothing, if the shown version is not on the leaf.
    #[inline]
    pub(crate) fn btree_get_on(&self, key: &[u8], leaf: u32, read: impl FnOnce(&[u8])) -> Result<bool> {
        self.access.check_key(key)?;
        let looked = search::at_known_leaf(&self.access.pages, leaf, key, |leaf, node, (slot, found)| {
            if !found {
                return self.check_removed(node.deleter_lsn()).map(|()| true);
            }
            let number = leaf.id().page().raw();
            let record = self.access.record_at(number, node, slot)?;
            if !self.sees(record.lsn) {
                return Ok(false);
            }
            if record.is_ghost() {
                return Ok(true);
            }
            let Value::Here(value) = self.access.value_of(number, slot, &record)? else { return Ok(false) };
            read(value);
            Ok(true)
        })?;
        Ok(looked == Some(true))
    }

    pub(super) fn value_of<'v>(&self, key: &[u8], version: &'v Version) -> Result<Value<'v>> {
        let what = || format!("the record of a key of {} bytes has an unreadable reference to its value", key.len());
        version.as_record().value().ok_or_else(|| self.access.pages.corrupt(descent::ROOT, what()))
    }

    /// Reads the chain to which a version of the record of `key` refers. Chains are kept for snapshots. But if a
    /// snapshot is too old, the chain may have been freed, and the bytes that were read are arbitrary. The leaf's
    /// deleter LSN then makes the call fail.
    fn read_chain(&self, key: &[u8], chain: ChainRef) -> Result<Vec<u8>> {
        let pages = &self.access.pages;
        let value = long_value::read(pages, chain);
        let _visit = pages.visit();
        let leaf = search::shared(pages, key, 0)?;
        self.check_removed(node_of(pages, leaf.id().page().raw(), &leaf)?.deleter_lsn())?;
        value
    }
}

/// A cursor over the records of a B-tree that a snapshot shows.
pub type SnapshotCursor<'a> = Cursor<SnapshotWalk<'a>>;

/// A walk through the records of a B-tree that a snapshot shows.
pub struct SnapshotWalk<'a> {
    at: SnapshotAccess<'a>,
    range: KeyRange,
    /// The entry of the walk's record.
    index: usize,
    batch: LentBatch,
    /// Buffers for the next batch.
    spare: LentBatch,
    /// The value of the walk's record, if it is long.
    long: Vec<u8>,
}

impl<'a> Cursor<SnapshotWalk<'a>> {
    /// Returns a cursor without a place.
    pub fn new(at: SnapshotAccess<'a>) -> SnapshotCursor<'a> {
        let (range, batch, spare) = (KeyRange::default(), LentBatch::default(), LentBatch::default());
        Cursor::over(SnapshotWalk { at, range, index: 0, batch, spare, long: Vec::new() })
    }

    /// Limits the cursor to the keys of a range.
    #[must_use]
    pub fn within(mut self, range: KeyRange) -> SnapshotCursor<'a> {
        self.walk.range = range;
        self
    }

    /// Returns the range that limits the cursor.
    pub fn range(&self) -> &KeyRange {
        &self.walk.range
    }

    /// Goes to the next record if the batch has the whole record, and returns true. Returns false if the batch is the
    /// last and has no next record. Returns `None` if the batch does not tell: the caller then calls
    /// [`Cursor::move_next`]. Cannot fail, and reads no shared memory.
    #[inline]
    pub fn step(&mut self) -> Option<bool> {
        if !self.is_placed {
            return None;
        }
        match self.walk.batch.entries.get(self.walk.index + 1) {
            Some((_, Stored::OnPage(_) | Stored::InBytes(_))) => {
                self.walk.index += 1;
                Some(true)
            }
            None if self.walk.batch.high.is_none() => Some(false),
            _ => None,
        }
    }

    /// Returns to the record of a key that the snapshot shows, or makes the cursor lose its place.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn stand(&mut self, at: Option<&[u8]>) -> Result<()> {
        self.is_placed = match at {
            None => false,
            Some(key) => self.walk.seek_to(Some(key.to_vec()))? || self.is_placed,
        };
        Ok(())
    }
}

impl Walk for SnapshotWalk<'_> {
    type Key<'k> = &'k [u8];
    type OwnedKey = Vec<u8>;

    fn go_first(&mut self) -> Result<bool> {
        self.seek_to(Some(Vec::new()))
    }

    fn go_next(&mut self) -> Result<bool> {
        match self.index + 1 < self.batch.entries.len() {
            true => self.arrive(self.index + 1),
            false => self.seek_to(self.batch.high.clone()),
        }
    }

    fn move_after(&mut self, key: &[u8]) -> Result<bool> {
        self.at.access.check_key(key)?;
        self.seek_to(Some([key, &[0]].concat()))
    }

    #[inline]
    fn record(&self) -> (&[u8], &[u8]) {
        let (key, stored) = &self.batch.entries[self.index];
        (&self.batch.bytes[key.clone()], self.batch.value(stored).unwrap_or(&self.long))
    }

    fn owned(key: &[u8]) -> Vec<u8> {
        key.to_vec()
    }
}

impl BothWays for SnapshotWalk<'_> {
    fn go_last(&mut self) -> Result<bool> {
        self.go_below(None)
    }

    fn go_previous(&mut self) -> Result<bool> {
        match self.index {
            0 if &self.batch.low[..] <= self.range.low() => Ok(false),
            0 => self.go_below(Some(self.batch.low.clone())),
            index => self.arrive(index - 1),
        }
    }

    fn go_to(&mut self, key: &[u8]) -> Result<bool> {
        self.at.access.check_key(key)?;
        self.seek_to(Some(key.to_vec()))
    }
}

impl SnapshotWalk<'_> {
    /// Goes to the first record from `from` on; `None` is the end. Stays if there is no record.
    fn seek_to(&mut self, from: Option<Vec<u8>>) -> Result<bool> {
        self.at.access.check_btree()?;
        let mut from = from;
        while let Some(low) = from {
            let mut batch = self.spare.take();
            self.at.batch_from(low, &self.range, &mut batch)?;
            if !batch.entries.is_empty() {
                return self.arrive_in(batch, 0);
            }
            from = batch.high.take();
            self.spare = batch;
        }
        Ok(false)
    }

    /// Goes to the last record below `high`, or to the last record if `high` is `None`. Stays if there is no such
    /// record.
    fn go_below(&mut self, high: Option<Vec<u8>>) -> Result<bool> {
        self.at.access.check_btree()?;
        let mut high = high.or_else(|| self.range.high().map(<[u8]>::to_vec));
        let mut batch = self.spare.take();
        while self.at.batch_below(high.take(), &self.range, &mut batch)? {
            if !batch.entries.is_empty() {
                let last = batch.entries.len() - 1;
                return self.arrive_in(batch, last);
            }
            high = Some(std::mem::take(&mut batch.low)).filter(|low| &low[..] > self.range.low());
            if high.is_none() {
                break;
            }
        }
        self.spare = batch;
        Ok(false)
    }

    fn arrive(&mut self, index: usize) -> Result<bool> {
        if let Some(long) = self.at.long_of(&self.batch, index)? {
            self.long = long;
        }
        self.index = index;
        Ok(true)
    }

    /// Goes to an entry of another batch. Stays if the value cannot be read.
    fn arrive_in(&mut self, batch: LentBatch, index: usize) -> Result<bool> {
        if let Some(long) = self.at.long_of(&batch, index)? {
            self.long = long;
        }
        self.spare = std::mem::replace(&mut self.batch, batch);
        self.index = index;
        Ok(true)
    }
}

impl<'a> SnapshotAccess<'a> {
    /// Counts the records of a range that the snapshot shows.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn count_range(&self, range: KeyRange) -> Result<u64> {
        let mut cursor = SnapshotCursor::new(*self).within(range);
        let mut count = 0;
        while cursor.move_next()? {
            count += 1;
        }
        Ok(count)
    }

    /// Returns the value of an entry, if the value is long.
    fn long_of(&self, batch: &Batch, index: usize) -> Result<Option<Vec<u8>>> {
        match &batch.entries[index] {
            (key, Stored::Chain(chain)) => self.read_chain(&batch.bytes[key.clone()], *chain).map(Some),
            _ => Ok(None),
        }
    }

    /// Copies the shown records of the leaf that holds `low`, from there to the range's end.
    fn batch_from(&self, low: Vec<u8>, range: &KeyRange, batch: &mut Batch) -> Result<()> {
        let pages = &self.access.pages;
        let from = range.low().max(&low[..]);
        let _visit = pages.visit();
        let copied = search::at_leaf(pages, self.access.database, from, |leaf, node, (slot, _)| {
            let high = node.high().filter(|&high| range.high().is_none_or(|end| high < end)).map(<[u8]>::to_vec);
            let slots = slot..end_after(node, range, from, slot);
            batch.begin(Vec::new(), high);
            self.copy(batch, leaf, node, slots)
        })?;
        batch.low = low;
        self.finish(batch, copied)
    }

    /// Copies the shown records of the last leaf that holds a key below `high` (or any key, if `high` is `None`), from
    /// the range's beginning. Returns whether there is such a leaf.
    fn batch_below(&self, high: Option<Vec<u8>>, range: &KeyRange, batch: &mut Batch) -> Result<bool> {
        let pages = &self.access.pages;
        for _ in 0..ROUNDS_MAX {
            let _visit = pages.visit();
            let mut leaf: SharedPage<'a> = match &high {
                Some(high) => search::shared(pages, high, 0)?,
                None => descent::last(pages, 0)?,
            };
            let mut is_first = true;
            loop {
                let number = leaf.id().page().raw();
                let node = node_of(pages, number, &leaf)?;
                let count = match &high {
                    Some(high) if is_first => node.find(high).0,
                    _ => node.count(),
                };
                if count > 0 {
                    let begin = begin_within(&node, range).min(count);
                    let low = if begin == 0 { node.key(0).to_vec() } else { range.low().to_vec() };
                    batch.begin(low, high);
                    let copied = self.copy(batch, &leaf, &node, begin..count)?;
                    drop(leaf);
                    return self.finish(batch, copied).map(|()| true);
                }
                self.check_removed(node.deleter_lsn())?;
                let Some(left) = node.left() else { return Ok(false) };
                let here = Stretch::of(number, &node);
                drop(leaf);
                is_first = false;
                match here.left_neighbour(pages, left)? {
                    Some(found) => leaf = found,
                    None => break,
                }
            }
        }
        Err(pages.corrupt(descent::ROOT, "a cursor could not find the next page"))
    }

    /// Copies the shown records at some slots of a latched leaf. For many slots, copies the whole leaf, so that the
    /// latch is held only during the copy.
    #[inline]
    fn copy(&self, batch: &mut Batch, leaf: &SharedPage<'_>, node: &Node<'_>, slots: Range<usize>) -> Result<Copied> {
        let deleter = node.deleter_lsn();
        self.check_removed(deleter)?;
        let number = leaf.id().page().raw();
        if slots.len() > SINGLE_COPIES_MAX {
            batch.page.extend_from_slice(leaf);
            return Ok(Copied { number, deleter, on_page: slots });
        }
        batch.entries.reserve(slots.len());
        batch.bytes.reserve(slots.len() * RESERVED_BYTES);
        for slot in slots {
            let record = self.access.record_at(number, node, slot)?;
            let is_seen = self.sees(record.lsn);
            if record.is_ghost() && is_seen {
                continue;
            }
            let is_plain = is_seen && record.flags == RecordFlags::NONE;
            batch.push_from(node, &record, is_plain);
        }
        Ok(Copied { number, deleter, on_page: 0..0 })
    }

    /// Finds the shown records of a copied leaf, without a latch.
    #[inline]
    fn finish(&self, batch: &mut Batch, copied: Copied) -> Result<()> {
        let Copied { number, deleter, on_page } = copied;
        if !on_page.is_empty() {
            let page = std::mem::take(&mut batch.page);
            let node: Node<'_> = node_of(&self.access.pages, number, &page)?;
            batch.entries.reserve(on_page.len());
            for slot in on_page {
                let record = self.access.record_at(number, &node, slot)?;
                let is_seen = self.sees(record.lsn);
                if record.is_ghost() && is_seen {
                    continue;
                }
                batch.push_on_page(&node, &record, is_seen && record.flags == RecordFlags::NONE);
            }
            batch.page = page;
        }
        self.settle(batch, deleter)
    }

    /// Finds, without a latch, the shown versions of the unsettled records.
    #[inline]
    pub(super) fn settle(&self, batch: &mut Batch, deleter: Lsn) -> Result<()> {
        match batch.unsettled.is_empty() {
            true => Ok(()),
            false => self.settle_some(batch, deleter),
        }
    }

    fn settle_some(&self, batch: &mut Batch, deleter: Lsn) -> Result<()> {
        let mut unsettled = std::mem::take(&mut batch.unsettled);
        for Unsettled { entry, lsn, flags } in unsettled.drain(..) {
            let (key, stored) = &batch.entries[entry];
            let (key, stored) = (key.clone(), batch.value(stored).unwrap_or_default().to_vec());
            let newest = Version { lsn, flags, stored };
            let name = Name::Key(&batch.bytes[key.clone()]);
            batch.entries[entry].1 = match self.resolve(name, newest, deleter)? {
                None => Stored::NoRecord,
                Some(version) => match self.value_of(&batch.bytes[key], &version)? {
                    Value::Chain(chain) => Stored::Chain(chain),
                    Value::Here(value) => {
                        let at = batch.bytes.len();
                        batch.bytes.extend_from_slice(value);
                        Stored::InBytes(at..batch.bytes.len())
                    }
                },
            };
        }
        batch.unsettled = unsettled;
        batch.entries.retain(|(_, stored)| !matches!(stored, Stored::NoRecord));
        Ok(())
    }
}

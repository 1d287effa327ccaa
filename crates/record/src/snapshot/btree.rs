//! A B-tree as a snapshot shows it: one record by its key, and a cursor.
//!
//! A cursor copies what is seen of a whole leaf at a time, and holds no latch between; what it has copied stays right,
//! whatever becomes of the leaf. From one leaf to the next it goes by key (to the right), or as PROTOCOLS T3 says (to the left).

use std::ops::Range;

use libtp_buffer::SharedPage;
use libtp_log::Lsn;

use super::history::{Name, Version};
use super::SnapshotAccess;
use crate::btree::get::Value;
use crate::btree::long_value;
use crate::btree::node::Node;
use crate::btree::scan::{begin_within, end_within, left_neighbour, Pair};
use crate::btree::search::{self, node_of};
use crate::key_range::KeyRange;
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::pages::ROUNDS_MAX;
use crate::Result;

impl<'a> SnapshotAccess<'a> {
    /// The value of `key`, passed to `read`; none if there was no such record.
    ///
    /// A page may be latched while `read` runs: it copies, or looks, and calls nothing (PROTOCOLS D12).
    ///
    /// # Errors
    /// `SnapshotTooOld`, `KeyTooLong`, and what pages and the log can fail with.
    pub fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        if self.access.is_hash() {
            return self.hash_get(key, read);
        }
        self.access.check_btree()?;
        self.access.check_key(key)?;
        let pages = &self.access.pages;
        let (newest, deleter) = {
            let _visit = pages.visit();
            let leaf = match search::leaf_now(pages, key) {
                Some(leaf) => leaf,
                None => search::shared(pages, key, 0)?,
            };
            let number = leaf.id().page().raw();
            let node = node_of(pages, number, &leaf)?;
            let (slot, found) = node.find(key);
            if !found {
                return self.check_removed(node.deleter_lsn()).map(|()| None);
            }
            let record = self.access.record_at(number, &node, slot)?;
            if self.sees(record.lsn) {
                if record.is_ghost() {
                    return Ok(None);
                }
                if let Value::Here(value) = self.access.value_of(number, slot, &record)? {
                    return Ok(Some(read(value)));
                }
            }
            (Version::of(&record), node.deleter_lsn())
        };
        let Some(version) = self.resolve(Name::Key(key), newest, deleter)? else { return Ok(None) };
        match self.value_of(key, &version)? {
            Value::Here(value) => Ok(Some(read(value))),
            Value::Chain(chain) => Ok(Some(read(&self.read_chain(key, chain)?))),
        }
    }

    pub(super) fn value_of<'v>(&self, key: &[u8], version: &'v Version) -> Result<Value<'v>> {
        let what = || format!("a version of the record of a key of {} bytes leads nowhere", key.len());
        version.as_record().value().ok_or_else(|| self.access.pages.corrupt(search::ROOT, what()))
    }

    /// Reads a chain that a version of the record of `key` leads to. It is kept for snapshots; if this one is none of those any
    /// more, it may have been freed meanwhile, and what was read be anything: then the leaf says so.
    fn read_chain(&self, key: &[u8], chain: ChainRef) -> Result<Vec<u8>> {
        let pages = &self.access.pages;
        let value = long_value::read(pages, chain);
        let _visit = pages.visit();
        let leaf = search::shared(pages, key, 0)?;
        self.check_removed(node_of(pages, leaf.id().page().raw(), &leaf)?.deleter_lsn())?;
        value
    }
}

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Nowhere,
    /// On the entry of that index.
    On(usize),
    BelowAll,
    AboveAll,
}

/// A value in a batch.
#[derive(Debug)]
pub(super) enum Stored {
    Here(Range<usize>),
    Chain(ChainRef),
}

/// A record as it stands on a leaf, copied.
pub(super) struct Copied {
    pub(super) key: Range<usize>,
    pub(super) stored: Range<usize>,
    pub(super) lsn: Lsn,
    pub(super) flags: RecordFlags,
}

/// What is seen of the keys from `low` up to `high`, in order.
#[derive(Debug, Default)]
pub(super) struct Batch {
    low: Vec<u8>,
    /// None: to the end.
    high: Option<Vec<u8>>,
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<(Range<usize>, Stored)>,
}

/// A cursor over what a snapshot shows of a B-tree.
pub struct SnapshotCursor<'a> {
    at: SnapshotAccess<'a>,
    range: KeyRange,
    standing: Standing,
    batch: Batch,
    /// The value of the record it stands on, if that is long.
    long: Vec<u8>,
}

#[allow(clippy::should_implement_trait)] // `next` can fail and there is a `prev`: the field's words
impl<'a> SnapshotCursor<'a> {
    /// A cursor that stands nowhere yet.
    pub fn new(at: SnapshotAccess<'a>) -> SnapshotCursor<'a> {
        let range = KeyRange::default();
        SnapshotCursor { at, range, standing: Standing::Nowhere, batch: Batch::default(), long: Vec::new() }
    }

    /// The same cursor, for the keys of a range.
    #[must_use]
    pub fn within(mut self, range: KeyRange) -> SnapshotCursor<'a> {
        self.range = range;
        self
    }

    /// The key and value of the record it stands on.
    pub fn record(&self) -> Option<(&[u8], &[u8])> {
        let Standing::On(index) = self.standing else { return None };
        let (key, stored) = &self.batch.entries[index];
        let value = match stored {
            Stored::Here(range) => &self.batch.bytes[range.clone()],
            Stored::Chain(_) => &self.long,
        };
        Some((&self.batch.bytes[key.clone()], value))
    }

    fn found(&self, found: bool) -> Option<Pair> {
        self.record().filter(|_| found).map(|(key, value)| (key.to_vec(), value.to_vec()))
    }

    /// The first record.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn first(&mut self) -> Result<Option<Pair>> {
        self.seek(&[])
    }

    /// The last record.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn last(&mut self) -> Result<Option<Pair>> {
        let found = self.go_below(None)?;
        Ok(self.found(found))
    }

    /// The first record whose key is `key` or above.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn seek(&mut self, key: &[u8]) -> Result<Option<Pair>> {
        self.at.access.check_key(key)?;
        let found = self.go_from(Some(key.to_vec()))?;
        Ok(self.found(found))
    }

    /// The next record; the first, if it stands nowhere yet.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn next(&mut self) -> Result<Option<Pair>> {
        let found = self.move_next()?;
        Ok(self.found(found))
    }

    /// The record before; the last, if it stands nowhere yet.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn prev(&mut self) -> Result<Option<Pair>> {
        let found = match self.standing {
            Standing::Nowhere | Standing::AboveAll => self.go_below(None)?,
            Standing::On(index) if index > 0 => self.arrive(index - 1)?,
            Standing::On(_) if &self.batch.low[..] <= self.range.low() => {
                self.standing = Standing::BelowAll;
                false
            }
            Standing::On(_) => self.go_below(Some(self.batch.low.clone()))?,
            Standing::BelowAll => false,
        };
        Ok(self.found(found))
    }

    /// Goes to the next record, to be looked at with [`SnapshotCursor::record`]; whether there is one.
    ///
    /// # Errors
    /// As [`SnapshotAccess::get`].
    pub fn move_next(&mut self) -> Result<bool> {
        match self.standing {
            Standing::Nowhere | Standing::BelowAll => self.go_from(Some(Vec::new())),
            Standing::On(index) if index + 1 < self.batch.entries.len() => self.arrive(index + 1),
            Standing::On(_) => self.go_from(self.batch.high.clone()),
            Standing::AboveAll => Ok(false),
        }
    }

    /// Goes to the first record from `from` on, none if that is the end.
    fn go_from(&mut self, from: Option<Vec<u8>>) -> Result<bool> {
        self.at.access.check_btree()?;
        let mut from = from;
        while let Some(low) = from {
            let low = low.max(self.range.low().to_vec());
            let batch = self.at.batch_from(low, &self.range)?;
            if !batch.entries.is_empty() {
                self.batch = batch;
                return self.arrive(0);
            }
            from = batch.high;
        }
        self.standing = Standing::AboveAll;
        Ok(false)
    }

    /// Goes to the last record below `high`, or of all.
    fn go_below(&mut self, high: Option<Vec<u8>>) -> Result<bool> {
        self.at.access.check_btree()?;
        let mut high = high.or_else(|| self.range.high().map(<[u8]>::to_vec));
        while let Some(batch) = self.at.batch_below(high.take(), &self.range)? {
            if !batch.entries.is_empty() {
                let last = batch.entries.len() - 1;
                self.batch = batch;
                return self.arrive(last);
            }
            high = Some(batch.low).filter(|low| &low[..] > self.range.low());
            if high.is_none() {
                break;
            }
        }
        self.standing = Standing::BelowAll;
        Ok(false)
    }

    fn arrive(&mut self, index: usize) -> Result<bool> {
        let (key, stored) = &self.batch.entries[index];
        if let Stored::Chain(chain) = stored {
            self.long = self.at.read_chain(&self.batch.bytes[key.clone()], *chain)?;
        }
        self.standing = Standing::On(index);
        Ok(true)
    }
}

impl<'a> SnapshotAccess<'a> {
    /// What is seen of the leaf that holds `low`, from there to the range's end.
    fn batch_from(&self, low: Vec<u8>, range: &KeyRange) -> Result<Batch> {
        let pages = &self.access.pages;
        let _visit = pages.visit();
        let leaf = search::shared(pages, &low, 0)?;
        let node = node_of(pages, leaf.id().page().raw(), &leaf)?;
        let (slot, _) = node.find(&low);
        let high = node.high().filter(|&high| range.high().is_none_or(|end| high < end)).map(<[u8]>::to_vec);
        let batch = Batch { low, high, ..Batch::default() };
        let (batch, copied, deleter) = self.fill(batch, &leaf, slot..end_within(&node, range).max(slot))?;
        drop(leaf);
        self.settle(batch, copied, deleter)
    }

    /// What is seen of the last leaf that holds a key below `high` (or any), from the range's beginning up to there; none if
    /// there is no such leaf.
    fn batch_below(&self, high: Option<Vec<u8>>, range: &KeyRange) -> Result<Option<Batch>> {
        let pages = &self.access.pages;
        for _ in 0..ROUNDS_MAX {
            let _visit = pages.visit();
            let mut leaf: SharedPage<'a> = match &high {
                Some(high) => search::shared(pages, high, 0)?,
                None => search::last(pages, 0)?,
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
                    let batch = Batch { low, high, ..Batch::default() };
                    let (batch, copied, deleter) = self.fill(batch, &leaf, begin..count)?;
                    drop(leaf);
                    return self.settle(batch, copied, deleter).map(Some);
                }
                self.check_removed(node.deleter_lsn())?;
                let Some(left) = node.left() else { return Ok(None) };
                drop(leaf);
                is_first = false;
                match left_neighbour(pages, left, number)? {
                    Some(found) => leaf = found,
                    None => break,
                }
            }
        }
        Err(pages.corrupt(search::ROOT, "a cursor found no way on"))
    }

    /// Copies some slots of a latched leaf.
    fn fill(&self, mut batch: Batch, leaf: &SharedPage<'_>, slots: Range<usize>) -> Result<(Batch, Vec<Copied>, Lsn)> {
        let number = leaf.id().page().raw();
        let node: Node<'_> = node_of(&self.access.pages, number, leaf)?;
        self.check_removed(node.deleter_lsn())?;
        let mut copied = Vec::with_capacity(slots.len());
        for slot in slots {
            let record = self.access.record_at(number, &node, slot)?;
            if record.is_ghost() && self.sees(record.lsn) {
                continue;
            }
            let key_at = batch.bytes.len();
            node.key(slot).append_to(&mut batch.bytes);
            let stored_at = batch.bytes.len();
            batch.bytes.extend_from_slice(record.stored);
            let (key, stored) = (key_at..stored_at, stored_at..batch.bytes.len());
            copied.push(Copied { key, stored, lsn: record.lsn, flags: record.flags });
        }
        Ok((batch, copied, node.deleter_lsn()))
    }

    /// Finds, without a latch, what is seen of the records that were copied.
    pub(super) fn settle(&self, mut batch: Batch, copied: Vec<Copied>, deleter: Lsn) -> Result<Batch> {
        for Copied { key, stored, lsn, flags } in copied {
            if self.sees(lsn) && flags == RecordFlags::NONE {
                batch.entries.push((key, Stored::Here(stored)));
                continue;
            }
            let newest = Version { lsn, flags, stored: batch.bytes[stored].to_vec() };
            let name = Name::Key(&batch.bytes[key.clone()]);
            let Some(version) = self.resolve(name, newest, deleter)? else { continue };
            let value = match self.value_of(&batch.bytes[key.clone()], &version)? {
                Value::Chain(chain) => Stored::Chain(chain),
                Value::Here(value) => {
                    let at = batch.bytes.len();
                    batch.bytes.extend_from_slice(value);
                    Stored::Here(at..batch.bytes.len())
                }
            };
            batch.entries.push((key, value));
        }
        Ok(batch)
    }
}

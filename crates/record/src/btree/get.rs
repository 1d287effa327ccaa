//! Reading one record by its key.
//!
//! Paper: LIBTP 4.4. The record's lock is taken by the key's name before the search; it also protects the *absence* of the
//! key, because an insertion takes the same lock first. So a get that finds nothing needs no lock on the gap, and two
//! transactions that look for a key before inserting it do not deadlock (a departure from PROTOCOLS K1: see README.md).

use libtp_buffer::SharedPage;
use libtp_log::Lsn;

use crate::access::{Access, Purpose, Tried};
use crate::btree::long_value;
use crate::btree::node::{Node, Record};
use crate::btree::search::{self, node_of};
use crate::database::{Granularity, Method};
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::page::overflow::{ChainRef, CHAIN_REF_BYTES};
use crate::page::record_lsn::RecordFlags;
use crate::{Error, Result};

/// Where a record was found. It is there still if the leaf has the same LSN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPlace {
    pub(crate) page: u32,
    pub(crate) lsn: Lsn,
    pub(crate) slot: usize,
}

/// A value as it stands in a leaf.
pub(crate) enum Value<'p> {
    /// The bytes themselves.
    Here(&'p [u8]),
    /// In a chain of overflow pages.
    Chain(ChainRef),
}

impl<'p> Record<'p> {
    /// The stored value without the reference to a replaced chain.
    #[inline]
    pub(crate) fn current(&self) -> Option<&'p [u8]> {
        if !self.flags.has(RecordFlags::REPLACED) {
            return Some(self.stored);
        }
        self.stored.get(..self.stored.len().checked_sub(CHAIN_REF_BYTES)?)
    }

    /// The chain the last change replaced, if it is still to be freed.
    pub(crate) fn replaced(&self) -> Option<ChainRef> {
        if !self.flags.has(RecordFlags::REPLACED) {
            return None;
        }
        ChainRef::read(self.stored.get(self.stored.len().checked_sub(CHAIN_REF_BYTES)?..)?)
    }

    /// The value; none if the stored bytes cannot be one.
    #[inline]
    pub(crate) fn value(&self) -> Option<Value<'p>> {
        let current = self.current()?;
        if self.flags.has(RecordFlags::OVERFLOW) {
            return ChainRef::read(current).map(Value::Chain);
        }
        Some(Value::Here(current))
    }
}

impl<'a> Access<'a> {
    /// The record at a slot of a leaf.
    #[inline]
    pub(crate) fn record_at<'p>(&self, number: u32, node: &Node<'p>, slot: usize) -> Result<Record<'p>> {
        match node.record(slot) {
            Some(record) => Ok(record),
            None => Err(self.pages.corrupt(number, format!("the record at slot {slot} lies outside its heap"))),
        }
    }

    #[inline]
    pub(crate) fn value_of<'p>(&self, number: u32, slot: usize, record: &Record<'p>) -> Result<Value<'p>> {
        match record.value() {
            Some(value) => Ok(value),
            None => Err(self
                .pages
                .corrupt(number, format!("the record at slot {slot} says its value lies elsewhere, and not where"))),
        }
    }

    /// Refuses a call for a B-tree on another file.
    #[inline]
    pub(crate) fn check_btree(&self) -> Result<()> {
        if matches!(self.database.method(), Method::Btree) {
            return Ok(());
        }
        let (found, wanted) = (self.database.method().name(), "btree");
        Err(Error::WrongMethod { database: self.database.name().to_string(), found, wanted })
    }

    /// The leaf for a key, latched shared, the key's record or the leaf locked for the purpose.
    #[inline]
    fn leaf_locked(&self, key: &[u8], purpose: Purpose) -> Result<SharedPage<'a>> {
        match self.enter(purpose)? {
            None => search::shared(&self.pages, key, 0),
            Some(Granularity::Record) => {
                self.lock(lock_names::record(self.database.id(), key_hash(key)), purpose.mode())?;
                search::shared(&self.pages, key, 0)
            }
            Some(Granularity::Page) => loop {
                let leaf = search::shared(&self.pages, key, 0)?;
                let name = lock_names::page(self.database.id(), leaf.id().page().raw());
                if self.try_lock(name, purpose.mode())? == Tried::Granted {
                    return Ok(leaf);
                }
                drop(leaf);
                self.lock(name, purpose.mode())?;
            },
        }
    }

    /// Reads the value of `key` under a shared lock, and passes it to `read`; none if there is no such record.
    ///
    /// The page is latched while `read` runs: it copies, or looks, and calls nothing (PROTOCOLS D12).
    ///
    /// # Errors
    /// [`Error::KeyTooLong`], [`Error::Corrupt`], and what locks and pages can fail with.
    #[inline]
    pub fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_for(key, Purpose::Read, read)
    }

    /// As [`Access::get`], but locks the record for writing at once: for a value that is read to be changed.
    ///
    /// # Errors
    /// As [`Access::get`].
    #[inline]
    pub fn get_for_update<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_for(key, Purpose::Write, read)
    }

    #[inline]
    fn get_for<R>(&self, key: &[u8], purpose: Purpose, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.get_at(key, purpose, &mut None, read)
    }

    /// Reads a record, and says where it was if all of it stood on a leaf.
    #[inline]
    pub(crate) fn get_at<R>(
        &self,
        key: &[u8],
        purpose: Purpose,
        place: &mut Option<LeafPlace>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check_btree()?;
        self.check_key(key)?;
        let _visit = self.pages.visit();
        let leaf = self.leaf_locked(key, purpose)?;
        let number = leaf.id().page().raw();
        let node = node_of(&self.pages, number, &leaf)?;
        let (slot, found) = node.find(key);
        if !found {
            return Ok(None);
        }
        let record = self.record_at(number, &node, slot)?;
        if record.is_ghost() {
            return Ok(None);
        }
        let chain = match self.value_of(number, slot, &record)? {
            Value::Here(value) => {
                *place = Some(LeafPlace { page: number, lsn: leaf.lsn(), slot });
                return Ok(Some(read(value)));
            }
            Value::Chain(chain) => chain,
        };
        drop(leaf);
        Ok(Some(read(&long_value::read(&self.pages, chain)?)))
    }
}

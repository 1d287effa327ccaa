//! Reads one record by its key.
//!
//! Paper: LIBTP 4.4. The record's lock is named by the key and also protects the *absence* of the key, because an
//! insertion takes the same lock first. So a get that finds nothing needs no lock on the gap, and two transactions that
//! search for neighbouring keys and then insert them do not deadlock (PROTOCOLS K1; README.md explains it).
//!
//! A reader tries the lock while the leaf is latched and the prefetch of the record runs. Only if another session
//! holds the lock does the reader release the leaf, wait for the lock, and search again.

use libtp_buffer::SharedPage;
use libtp_lock::LockName;
use libtp_log::Lsn;

use crate::btree::descent::node_of;
use crate::btree::long_value;
use crate::btree::redo::Seat;
use crate::btree::search;
use crate::btree::value::Value;
use crate::database::Granularity;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::page::node::{Node, Record};
use crate::page::overflow::ChainRef;
use crate::page::record_lsn::RecordFlags;
use crate::Result;

/// Bytes of a cell that are prefetched. Most records are shorter.
const CELL_PREFETCH_BYTES: usize = 128;

/// The place where a record without flags was found. If the leaf still has the same LSN, the record is unchanged there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafPlace {
    pub(crate) page: u32,
    pub(crate) page_lsn: Lsn,
    pub(crate) seat: Seat,
    pub(crate) record_lsn: Lsn,
}

/// The result of a get on the leaf of the wanted key.
enum Looked {
    /// The value was read, or the key has no record.
    Read,
    /// The value is in a chain.
    Chain(ChainRef),
    /// Another session holds the record's lock.
    Busy(LockName),
}

impl<'a> Access<'a> {
    /// Like [`Access::btree_get`], for a caller that will change the record. If the record has no flags, the whole
    /// record is on the leaf, and the call stores the record's place in `place`.
    #[inline]
    pub(crate) fn btree_get_to_change<R>(
        &self,
        key: &[u8],
        entered: (Purpose, Option<Granularity>),
        place: &mut Option<LeafPlace>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        let note = |leaf: &SharedPage<'_>, slot: usize, record: &Record<'_>| {
            if record.flags == RecordFlags::NONE {
                let (page, page_lsn) = (leaf.id().page().raw(), leaf.lsn());
                *place = Some(LeafPlace { page, page_lsn, seat: Seat::of(slot, record), record_lsn: record.lsn });
            }
        };
        self.btree_get(key, entered, note, read)
    }

    /// Reads a record for a caller that has locked the database. If `entered` has no granularity, no further lock is
    /// taken. If the value is on the leaf, the call also passes to `note` the latched leaf, the slot and the record.
    #[inline(always)]
    pub(crate) fn btree_get<R>(
        &self,
        key: &[u8],
        entered: (Purpose, Option<Granularity>),
        mut note: impl FnMut(&SharedPage<'a>, usize, &Record<'_>),
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        // These are outside of the closure that reads the leaf, so that no large result is moved.
        let (mut read, mut value) = (Some(read), None);
        loop {
            // Each round reserves again: a wait for the lock has used up the reservation.
            self.reserve_lock()?;
            let visit = self.pages.visit();
            let looked = search::at_leaf(&self.pages, self.database, key, |leaf, node, place| {
                self.look((leaf, node, place), key, entered, &mut note, |found| {
                    value = read.take().map(|read| read(found));
                })
            })?;
            match looked {
                Looked::Read => return Ok(value),
                Looked::Chain(chain) => {
                    let long = long_value::read(&self.pages, chain)?;
                    return Ok(read.take().map(|read| read(&long)));
                }
                Looked::Busy(name) => {
                    drop(visit);
                    self.lock(name, entered.0.mode())?;
                }
            }
        }
    }

    /// Like [`Access::btree_get`], but on a leaf that the caller's visit of the tree has found for the key. Never
    /// waits. Returns false, and has read nothing, if the read needs a wait or another page.
    #[inline]
    pub(crate) fn btree_get_on(
        &self,
        key: &[u8],
        entered: (Purpose, Option<Granularity>),
        leaf: u32,
        read: impl FnOnce(&[u8]),
    ) -> Result<bool> {
        self.check_key(key)?;
        self.reserve_lock()?;
        let looked = search::at_known_leaf(&self.pages, leaf, key, |leaf, node, place| {
            self.look((leaf, node, place), key, entered, &mut |_, _, _| {}, read)
        })?;
        Ok(matches!(looked, Some(Looked::Read)))
    }

    /// Tries the lock on a record whose leaf is latched, and reads the record.
    #[inline(always)]
    fn look(
        &self,
        (leaf, node, (slot, found)): (&SharedPage<'a>, &Node<'_>, (usize, bool)),
        key: &[u8],
        (purpose, granularity): (Purpose, Option<Granularity>),
        note: &mut impl FnMut(&SharedPage<'a>, usize, &Record<'_>),
        read: impl FnOnce(&[u8]),
    ) -> Result<Looked> {
        let number = leaf.id().page().raw();
        if found {
            // The record is loaded into the cache while the session takes the record's lock.
            leaf.prefetch(node.cell_at(slot), CELL_PREFETCH_BYTES);
        }
        let name = granularity.map(|granularity| match granularity {
            Granularity::Record => lock_names::record(self.database.id(), key_hash(key)),
            Granularity::Page => lock_names::page(self.database.id(), number),
        });
        if let Some(name) = name {
            if self.try_record_lock(name, purpose.mode())? == Tried::Busy {
                return Ok(Looked::Busy(name));
            }
        }
        if !found {
            return Ok(Looked::Read);
        }
        let Some(record) = node.record(slot) else { return Err(self.no_record(number, slot)) };
        if record.is_ghost() {
            return Ok(Looked::Read);
        }
        match record.value() {
            Some(Value::Here(found)) => {
                note(leaf, slot, &record);
                read(found);
                Ok(Looked::Read)
            }
            Some(Value::Chain(chain)) => Ok(Looked::Chain(chain)),
            None => Err(self.no_value(number, slot)),
        }
    }

    /// Returns the page and slot of a key's record.
    pub(crate) fn btree_place(&self, key: &[u8]) -> Result<Option<(u32, usize)>> {
        let _visit = self.pages.visit();
        let leaf = search::shared(&self.pages, key, 0)?;
        let number = leaf.id().page().raw();
        let (slot, found) = node_of(&self.pages, number, &leaf)?.find(key);
        Ok(found.then_some((number, slot)))
    }
}

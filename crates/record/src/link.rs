//! Links: find a record again by its earlier page and slot, without a search.
//!
//! OO1 (Cattell and Skeen 1992) follows connections between parts. For records by number, the number is a lasting
//! address of the record. A record of a B-tree or a hash file has no lasting address: splits and changes of length move
//! it. So a link has the record's place and the hash of its key, which is also the name of the record's lock. A record
//! on that page whose key has that hash is taken for the linked record. Otherwise the record has moved or was deleted,
//! and the caller searches for the key (docs/design/0010-links.md).

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::btree::long_value;
use crate::btree::value::Value;
use crate::database::Granularity;
use crate::key_hash::hash_of;
use crate::key_hash::key_hash;
use crate::lock_names;
use crate::locking::{Access, Purpose, Tried};
use crate::log_body::short;
use crate::page::node::Node;
use crate::pages::ROUNDS_MAX;
use crate::Result;

/// A record's place and the hash of its key: sixteen bytes, which a program can store in other records.
#[derive(FromBytes, IntoBytes, Unaligned, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Link {
    /// 00: the page.
    page: U32,
    /// 04: the slot.
    slot: U16,
    /// 06: zero.
    unused: U16,
    /// 08: the hash of the key.
    hash: U64,
}

const _: () = assert!(size_of::<Link>() == 16);

impl Link {
    /// Returns a link to the record of a key at a slot of a page.
    pub(crate) fn new(page: u32, slot: usize, key: &[u8]) -> Link {
        Link { page: page.into(), slot: short(slot), unused: 0.into(), hash: key_hash(key).into() }
    }

    /// Returns the link as bytes, for storage in a record.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(self.as_bytes());
        bytes
    }

    /// Makes a link from stored bytes. Any sixteen bytes are accepted; a link from arbitrary bytes finds no record.
    pub fn from_bytes(bytes: [u8; 16]) -> Link {
        zerocopy::transmute!(bytes)
    }
}

/// Returns the slot of a page whose key has this hash. Slot `was` is tried first, then the slots near it.
fn slot_of(node: &Node<'_>, was: usize, hash: u64) -> Option<usize> {
    let is_it = |slot: &usize| hash_of(node.key(*slot)) == hash;
    let count = node.count();
    let was = was.min(count);
    (was..count).take(1).chain((0..was).rev()).chain(was.saturating_add(1)..count).find(is_it)
}

impl Access<'_> {
    /// Reads the linked record under a shared lock, and passes its key and value to `read`. Returns `None` if the
    /// record was deleted or has moved; the caller can search for its key.
    ///
    /// The page may be latched while `read` runs: `read` may copy or inspect the record, and calls no other function of
    /// the library (PROTOCOLS D12).
    ///
    /// # Errors
    /// Locks or pages failed.
    pub fn get_linked<R>(&self, link: Link, read: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
        self.check_keyed()?;
        let granularity = self.enter(Purpose::Read)?;
        let (number, hash) = (link.page.get(), link.hash.get());
        let file = self.database.id();
        for _ in 0..ROUNDS_MAX {
            // Each round reserves again: a wait for the lock has used up the reservation.
            self.reserve_lock()?;
            let page = match self.pages.shared(number, 0) {
                Ok(page) => page,
                // The file may never have had a page with this number.
                Err(_) if number >= self.pages.meta()?.page_count.get() => return Ok(None),
                Err(error) => return Err(error),
            };
            let Some(node) = Node::over_records(&page).filter(|node| node.is_leaf() && !node.is_deleted()) else {
                return Ok(None);
            };
            let Some(slot) = slot_of(&node, link.slot.get().into(), hash) else { return Ok(None) };
            let name = granularity.map(|granularity| match granularity {
                Granularity::Page => lock_names::page(file, number),
                Granularity::Record => lock_names::record(file, hash),
            });
            if let Some(name) = name {
                if self.try_record_lock(name, Purpose::Read.mode())? == Tried::Busy {
                    drop(page);
                    self.lock(name, Purpose::Read.mode())?;
                    continue;
                }
            }
            let record = self.record_at(number, &node, slot)?;
            if record.is_ghost() {
                return Ok(None);
            }
            let key = node.key(slot).to_vec();
            let chain = match self.value_of(number, slot, &record)? {
                Value::Here(value) => return Ok(Some(read(&key, value))),
                Value::Chain(chain) => chain,
            };
            drop(page);
            return Ok(Some(read(&key, &long_value::read(&self.pages, chain)?)));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_link_reads_back_unchanged() {
        let link = Link::new(4711, 17, b"key");
        assert_eq!(Link::from_bytes(link.to_bytes()), link);
        assert_eq!(&link.to_bytes()[..6], &[0x67, 0x12, 0, 0, 17, 0]);
    }
}

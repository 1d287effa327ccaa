//! A hash map in a segment. Linear hashing splits one bucket at a time, so no insertion moves all pairs.
//!
//! A bucket is a list of nodes. The rows of buckets double in length: row 0 has 8, row `n` has `8 << (n - 1)`, and no
//! row is ever moved. When there are more pairs than buckets, a new bucket is added at the end and the next bucket is
//! split: its nodes whose hashes belong to the new bucket move there. A node (`node.rs`) has a link to the next node.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::chain::Links;
use super::node::{create_node, key_of, links_bytes, ranges_of_new, value_of};
use super::{create_row, write_row};
use crate::{Memory, Persist, Ptr, Result, Stores};

const ROWS: usize = 40;
const FIRST_ROW: u64 = 8;

/// A node's link to the next node of its bucket.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Node {
    next: Ptr<Node>,
}

/// A hash map. Zeros are an empty map. The map is used through a [`Ptr`] to it; a copy of the map itself would be a
/// second owner of the same pairs. Two keys are the same if their bytes are the same.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct HashMap<K, V> {
    header: Header,
    of: PhantomData<fn() -> (K, V)>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    count: u64,
    buckets: u64,
    rows: [Slot; ROWS],
}

impl<K, V> Default for HashMap<K, V> {
    fn default() -> HashMap<K, V> {
        HashMap { header: Header { count: 0, buckets: 0, rows: [Ptr::NONE; ROWS] }, of: PhantomData }
    }
}

/// A pointer to a link.
type Slot = Ptr<Ptr<Node>>;

/// Returns the hash of a key. The hash is the same in every run, because it decides in which bucket a pair is.
fn hash(key: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let words = key.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let sum = words.fold(key.len() as u64, mix);
    let sum = (sum ^ sum >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum ^ sum >> 29
}

/// Returns the bucket of a hash, if the map has `buckets` buckets.
fn bucket_of(hash: u64, buckets: u64) -> u64 {
    let all = buckets.next_power_of_two();
    let bucket = hash & (all - 1);
    if bucket < buckets {
        bucket
    } else {
        bucket & (all / 2 - 1)
    }
}

/// Returns a bucket's row, and its index in the row.
fn row_of(bucket: u64) -> (usize, u64) {
    if bucket < FIRST_ROW {
        return (0, bucket);
    }
    let row = (bucket / FIRST_ROW).ilog2();
    (row as usize + 1, bucket - (FIRST_ROW << row))
}

impl<K: Persist, V: Persist> Ptr<HashMap<K, V>> {
    /// Returns the number of pairs.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn len(self, memory: &impl Memory) -> Result<u64> {
        Ok(self.header().look(memory)?.count)
    }

    /// Returns whether the map has no pairs.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn is_empty(self, memory: &impl Memory) -> Result<bool> {
        Ok(self.len(memory)? == 0)
    }

    fn header(self) -> Ptr<Header> {
        self.after(0)
    }

    /// Returns the limit of links to the map's nodes.
    fn links(self, memory: &impl Memory) -> Result<Links> {
        Links::of(memory, self.len(memory)?, links_bytes::<Node>())
    }

    /// Returns the place of the link to a bucket's first node. The bucket must exist.
    fn bucket(self, memory: &impl Memory, bucket: u64) -> Result<Slot> {
        let (row, nth) = row_of(bucket);
        // A damaged header may have any number here. The pointer is then `NONE`, and a later look at `NONE` returns an
        // error.
        let first = self.header().look(memory)?.rows.get(row).copied().unwrap_or(Ptr::NONE);
        Ok(if first.is_none() { first } else { first.nth(nth) })
    }

    /// Returns the place of the link to the key's node, and the node.
    fn find(self, memory: &impl Memory, key: &K) -> Result<Option<(Slot, Ptr<Node>)>> {
        let buckets = self.header().look(memory)?.buckets;
        if buckets == 0 {
            return Ok(None);
        }
        let mut link = self.bucket(memory, bucket_of(hash(key.as_bytes()), buckets))?;
        let mut links = self.links(memory)?;
        loop {
            let node = *link.look(memory)?;
            if node.is_none() {
                return Ok(None);
            }
            links.follow(memory)?;
            if key_of::<_, K>(node).look(memory)?.as_bytes() == key.as_bytes() {
                return Ok(Some((link, node)));
            }
            link = node.after(0);
        }
    }

    /// Returns a pointer to the value of a key.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn place(self, memory: &impl Memory, key: &K) -> Result<Option<Ptr<V>>> {
        Ok(self.find(memory, key)?.map(|(_, node)| value_of::<_, K, V>(node)))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn get<'m>(self, memory: &'m impl Memory, key: &K) -> Result<Option<&'m V>> {
        self.place(memory, key)?.map(|place| place.look(memory)).transpose()
    }

    /// Calls `each` with the pairs, in an arbitrary order.
    ///
    /// # Errors
    /// As [`Ptr::look`]; `Damaged` if there are more pairs than the map's count.
    pub fn for_each(self, memory: &impl Memory, mut each: impl FnMut(&K, &V)) -> Result<()> {
        let mut links = self.links(memory)?;
        for bucket in 0..self.header().look(memory)?.buckets {
            let mut node = *self.bucket(memory, bucket)?.look(memory)?;
            while !node.is_none() {
                links.follow(memory)?;
                each(key_of::<_, K>(node).look(memory)?, value_of::<_, K, V>(node).look(memory)?);
                node = node.look(memory)?.next;
            }
        }
        Ok(())
    }

    /// Stores a value for a key. Returns whether the key was new.
    ///
    /// # Errors
    /// As [`Stores::malloc`]; the map then has the same pairs as before.
    pub fn insert(self, txn: &mut impl Stores, key: K, value: V) -> Result<bool> {
        if let Some(place) = self.place(txn, &key)? {
            *txn.write(place)? = value;
            return Ok(false);
        }
        let header = self.header().look(txn)?;
        if header.count >= header.buckets {
            self.split(txn)?;
        }
        let buckets = self.header().look(txn)?.buckets;
        let link = self.bucket(txn, bucket_of(hash(key.as_bytes()), buckets))?;
        let (link_at, header_at) = (link.range(txn.segment()), self.header().range(txn.segment()));
        // The room for all ranges is reserved first: a failure between the linking of a pair and its counting would
        // leave the map damaged.
        txn.ensure_ranges(&[&[link_at, header_at], &ranges_of_new::<Node, K, V>()[..]].concat())?;
        let links = Node { next: *link.look(txn)? };
        let node = create_node(txn, links, key, value)?;
        *txn.write(link)? = node;
        txn.write(self.header())?.count += 1;
        Ok(true)
    }

    /// Returns a new row for buckets; its bytes are not cleared. The header points to the row before any further step
    /// that may fail, so a call after a failure finds the row in the header.
    fn row(self, txn: &mut impl Stores, row: usize, length: u64) -> Result<Slot> {
        let known = self.header().look(txn)?.rows.get(row).copied().unwrap_or(Ptr::NONE);
        if !known.is_none() {
            return Ok(known);
        }
        let header = self.header().range(txn.segment());
        txn.ensure_ranges(&[header])?;
        let made = create_row::<Ptr<Node>>(txn, length)?;
        txn.write(self.header())?.rows[row] = made;
        Ok(made)
    }

    /// Adds a bucket, or the first eight buckets of an empty map.
    fn split(self, txn: &mut impl Stores) -> Result<()> {
        let buckets = self.header().look(txn)?.buckets;
        let (row, nth) = row_of(buckets);
        if nth == 0 {
            let length = if row == 0 { FIRST_ROW } else { FIRST_ROW << (row - 1) };
            let made = self.row(txn, row, length)?;
            write_row(txn, made, length)?.fill(0);
        }
        if buckets == 0 {
            txn.write(self.header())?.buckets = FIRST_ROW;
            return Ok(());
        }
        // This bucket's nodes may belong to the new bucket. The whole bucket is read before anything is stored.
        let mut link = self.bucket(txn, bucket_of(buckets, buckets))?;
        let (mut moved, all, mut stores) = (Ptr::NONE, buckets + 1, Vec::new());
        let (mut links, mut node) = (self.links(txn)?, *link.look(txn)?);
        while !node.is_none() {
            links.follow(txn)?;
            let next = node.look(txn)?.next;
            if bucket_of(hash(key_of::<_, K>(node).look(txn)?.as_bytes()), all) == buckets {
                stores.extend([(link, next), (node.after(0), moved)]);
                moved = node;
            } else {
                link = node.after(0);
            }
            node = next;
        }
        stores.push((self.bucket(txn, buckets)?, moved));
        let mut ranges: Vec<_> = stores.iter().map(|store| store.0.range(txn.segment())).collect();
        ranges.push(self.header().range(txn.segment()));
        txn.ensure_ranges(&ranges)?;
        for (link, node) in stores {
            *txn.write(link)? = node;
        }
        txn.write(self.header())?.buckets = all;
        Ok(())
    }

    /// Removes a key and its value. Returns whether the key existed.
    ///
    /// # Errors
    /// As [`Stores::free`]; the map is then unchanged.
    pub fn remove(self, txn: &mut impl Stores, key: &K) -> Result<bool> {
        let Some((link, node)) = self.find(txn, key)? else { return Ok(false) };
        let ranges = [link.range(txn.segment()), self.header().range(txn.segment())];
        txn.ensure_ranges(&ranges)?;
        txn.delete(node)?;
        *txn.write(link)? = node.look(txn)?.next;
        txn.write(self.header())?.count -= 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Place;
    use crate::Error;

    #[test]
    fn a_circle_of_links_is_reported_as_damage() {
        let place = Place::new("circle");
        let mut segment = place.open(4096);
        let map: Ptr<HashMap<u64, u64>> = segment.root();
        let mut txn = segment.begin();
        for key in 0..50 {
            map.insert(&mut txn, key, key).unwrap();
        }
        let (_, node) = map.find(&txn, &7).unwrap().unwrap();
        *txn.write(node).unwrap() = Node { next: node };
        txn.end().unwrap();
        let is_damaged = |found: Result<()>| assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
        is_damaged(map.for_each(&segment, |_, _| {}));
        let others =
            (1000..).filter(|key: &u64| bucket_of(hash(key.as_bytes()), 50) == bucket_of(hash(7_u64.as_bytes()), 50));
        is_damaged(map.get(&segment, &others.into_iter().next().unwrap()).map(|_| ()));
        let mut txn = segment.begin();
        // The insertion fails when the bucket with the circle is split.
        is_damaged((100..200).try_for_each(|key| map.insert(&mut txn, key, key).map(|_| ())));
        txn.write(map.header()).unwrap().count = u64::MAX;
        is_damaged(map.for_each(&txn, |_, _| {}));
        txn.abort();
    }

    #[test]
    fn rows_of_buckets_double_in_length() {
        assert_eq!([0, 7, 8, 15, 16, 31, 32].map(row_of), [(0, 0), (0, 7), (1, 0), (1, 7), (2, 0), (2, 15), (3, 0)]);
    }

    #[test]
    fn a_hash_stays_in_its_bucket_or_moves_to_the_new_bucket_of_a_split() {
        for buckets in 8..200 {
            for hash in (0..1000).map(|nth: u64| nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let (before, after) = (bucket_of(hash, buckets), bucket_of(hash, buckets + 1));
                assert!(before == after || (after == buckets && before == bucket_of(buckets, buckets)));
            }
        }
    }
}

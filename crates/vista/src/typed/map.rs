//! An ordered map in a segment: a skip list.
//!
//! A node (`node.rs`) has a tower of links. The tower's height follows from the key's bytes, so the same keys make the
//! same list in every run.

use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::chain::Links;
use super::node::{create_node, key_of, links_bytes, ranges_of_new, value_of};
use crate::{Memory, Persist, Ptr, Result, Stores};

const LEVELS: usize = 10;

/// The links of a node, the lowest first.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Tower {
    next: [Ptr<Tower>; LEVELS],
}

/// An ordered map. Zeros are an empty map. The map is used through a [`Ptr`] to it; a copy of the map itself would be a
/// second owner of the same pairs.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Map<K, V> {
    header: Header,
    of: PhantomData<fn() -> (K, V)>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Header {
    first: Tower,
    count: u64,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map { header: Header { count: 0, first: Tower { next: [Ptr::NONE; LEVELS] } }, of: PhantomData }
    }
}

/// Returns the height of a key's tower: each level has a quarter as many nodes as the level below it.
fn height(key: &[u8]) -> usize {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3).rotate_left(23)
    });
    let hash = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash.leading_zeros() as usize / 2 + 1).min(LEVELS)
}

impl<K: Persist + Ord, V: Persist> Ptr<Map<K, V>> {
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

    /// Returns the limit of links to the map's nodes on one level.
    fn links(self, memory: &impl Memory) -> Result<Links> {
        Links::of(memory, self.len(memory)?, links_bytes::<Tower>())
    }

    /// Returns the map's own tower.
    fn head(self) -> Ptr<Tower> {
        self.after(std::mem::offset_of!(Header, first) as u64)
    }

    /// Returns the last node before the key on each level.
    fn before(self, memory: &impl Memory, key: &K) -> Result<[Ptr<Tower>; LEVELS]> {
        let (mut before, mut node, mut links) = ([self.head(); LEVELS], self.head(), self.links(memory)?);
        for level in (0..LEVELS).rev() {
            loop {
                let next = node.look(memory)?.next[level];
                if next.is_none() || key_of::<_, K>(next).look(memory)? >= key {
                    break;
                }
                // The keys along a search only become larger, so a search visits no node twice, and the limit suffices.
                links.follow(memory)?;
                node = next;
            }
            before[level] = node;
        }
        Ok(before)
    }

    fn find(self, memory: &impl Memory, key: &K) -> Result<Option<Ptr<Tower>>> {
        let node = self.before(memory, key)?[0].look(memory)?.next[0];
        Ok((!node.is_none() && key_of::<_, K>(node).look(memory)? == key).then_some(node))
    }

    /// Returns a pointer to the value of a key.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn place(self, memory: &impl Memory, key: &K) -> Result<Option<Ptr<V>>> {
        Ok(self.find(memory, key)?.map(value_of::<_, K, V>))
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn get<'m>(self, memory: &'m impl Memory, key: &K) -> Result<Option<&'m V>> {
        self.place(memory, key)?.map(|place| place.look(memory)).transpose()
    }

    /// Returns the first pair whose key is not below `from`; without `from`, the first pair.
    ///
    /// # Errors
    /// As [`Ptr::look`].
    pub fn first<'m>(self, memory: &'m impl Memory, from: Option<&K>) -> Result<Option<(&'m K, &'m V)>> {
        let before = from.map_or(Ok(self.head()), |from| self.before(memory, from).map(|before| before[0]))?;
        let node = before.look(memory)?.next[0];
        if node.is_none() {
            return Ok(None);
        }
        Ok(Some((key_of::<_, K>(node).look(memory)?, value_of::<_, K, V>(node).look(memory)?)))
    }

    /// Calls `each` with the pairs in order.
    ///
    /// # Errors
    /// As [`Ptr::look`]; `Damaged` if there are more pairs than the map's count.
    pub fn for_each(self, memory: &impl Memory, mut each: impl FnMut(&K, &V)) -> Result<()> {
        let (mut node, mut links) = (self.head().look(memory)?.next[0], self.links(memory)?);
        while !node.is_none() {
            links.follow(memory)?;
            each(key_of::<_, K>(node).look(memory)?, value_of::<_, K, V>(node).look(memory)?);
            node = node.look(memory)?.next[0];
        }
        Ok(())
    }

    /// Stores a value for a key. Returns whether the key was new.
    ///
    /// # Errors
    /// As [`Stores::malloc`]; the map is then unchanged.
    pub fn insert(self, txn: &mut impl Stores, key: K, value: V) -> Result<bool> {
        if let Some(place) = self.place(txn, &key)? {
            *txn.write(place)? = value;
            return Ok(false);
        }
        let before = self.before(txn, &key)?;
        let height = height(key.as_bytes());
        // The room for all ranges is reserved first: a failure in the middle would leave a pair that is not counted, or
        // that is linked on some levels only.
        let segment = txn.segment();
        let mut ranges: Vec<_> = before.iter().take(height).map(|before| before.range(segment)).collect();
        ranges.push(self.header().range(segment));
        ranges.extend(ranges_of_new::<Tower, K, V>());
        txn.ensure_ranges(&ranges)?;
        let mut tower = Tower { next: [Ptr::NONE; LEVELS] };
        for (level, before) in before.iter().enumerate().take(height) {
            tower.next[level] = before.look(txn)?.next[level];
        }
        let node = create_node(txn, tower, key, value)?;
        for (level, before) in before.iter().enumerate().take(height) {
            txn.write(*before)?.next[level] = node;
        }
        txn.write(self.header())?.count += 1;
        Ok(true)
    }

    /// Removes a key and its value. Returns whether the key existed.
    ///
    /// # Errors
    /// As [`Stores::free`]; the map is then unchanged.
    pub fn remove(self, txn: &mut impl Stores, key: &K) -> Result<bool> {
        let Some(node) = self.find(txn, key)? else { return Ok(false) };
        let (tower, before) = (*node.look(txn)?, self.before(txn, key)?);
        let segment = txn.segment();
        let mut ranges: Vec<_> = before.iter().map(|before| before.range(segment)).collect();
        ranges.push(self.header().range(segment));
        txn.ensure_ranges(&ranges)?;
        // The freed node stays readable until the transaction ends. If the pointer leads to no block, the call fails
        // before anything is stored.
        txn.delete(node)?;
        for (level, before) in before.into_iter().enumerate() {
            if before.look(txn)?.next[level] == node {
                txn.write(before)?.next[level] = tower.next[level];
            }
        }
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
        let place = Place::new("ring");
        let mut segment = place.open(4096);
        let map: Ptr<Map<u64, u64>> = segment.root();
        let mut txn = segment.begin();
        for key in 0..50 {
            map.insert(&mut txn, key, key).unwrap();
        }
        let (first, last) = (map.find(&txn, &3).unwrap().unwrap(), map.find(&txn, &49).unwrap().unwrap());
        let mut tower = *last.look(&txn).unwrap();
        tower.next[0] = first;
        *txn.write(last).unwrap() = tower;
        txn.end().unwrap();
        let is_damaged = |found: Result<()>| assert!(matches!(found, Err(Error::Damaged { .. })), "{found:?}");
        is_damaged(map.for_each(&segment, |_, _| {}));
        let mut txn = segment.begin();
        let found = (50..60).find_map(|key| map.insert(&mut txn, key, key).err());
        is_damaged(found.map_or(Ok(()), Err));
        txn.abort();
    }
}

//! The nodes of the maps. A node has links to other nodes, then the key, then the value; key and value begin at
//! multiples of 16.

use super::{create_row, NEW};
use crate::{Persist, Ptr, Result, Stores};

/// Returns the distance in bytes from a node's beginning to its key, if its links have the type `N`.
pub(super) const fn links_bytes<N>() -> u64 {
    (size_of::<N>() as u64).next_multiple_of(16)
}

/// Returns the distance in bytes from a node's beginning to its value.
const fn value_at<N, K>() -> u64 {
    links_bytes::<N>() + (size_of::<K>() as u64).next_multiple_of(16)
}

/// Returns a pointer to the key of a node.
pub(super) fn key_of<N: Persist, K: Persist>(node: Ptr<N>) -> Ptr<K> {
    node.after(links_bytes::<N>())
}

/// Returns a pointer to the value of a node.
pub(super) fn value_of<N: Persist, K: Persist, V: Persist>(node: Ptr<N>) -> Ptr<V> {
    node.after(value_at::<N, K>())
}

/// Returns the ranges that [`create_node`] declares.
pub(super) fn ranges_of_new<N, K, V>() -> [(u64, usize); 3] {
    [size_of::<N>(), size_of::<K>(), size_of::<V>()].map(|bytes| (NEW, bytes))
}

/// Makes a node. No other node has a link to it yet.
pub(super) fn create_node<N: Persist, K: Persist, V: Persist>(
    txn: &mut impl Stores,
    links: N,
    key: K,
    value: V,
) -> Result<Ptr<N>> {
    let bytes = value_at::<N, K>() + size_of::<V>() as u64;
    let node: Ptr<N> = create_row::<[u8; 16]>(txn, bytes.div_ceil(16))?.after(0);
    *txn.write(node)? = links;
    *txn.write(key_of(node))? = key;
    *txn.write(value_of::<N, K, V>(node))? = value;
    Ok(node)
}

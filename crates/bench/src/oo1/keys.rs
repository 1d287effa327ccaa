//! The keys of the indices of connections. An index is sorted by the bytes of its keys.

use super::Way;

/// Returns the key of the connection with number `nth` that leaves a part.
pub(crate) fn leaving(id: u32, nth: u8) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [a, b, c, d, nth]
}

/// Returns the key of a connection into part `id`. The connection leaves part `from` and has number `nth` there.
pub(crate) fn arriving(id: u32, from: u32, nth: u8) -> [u8; 9] {
    let mut key = [0; 9];
    key[..4].copy_from_slice(&id.to_be_bytes());
    key[4..].copy_from_slice(&leaving(from, nth));
    key
}

/// Returns the part at the other end of a connection, from its key and value in the index of this direction. Returns 0
/// if the key or the value is too short.
#[inline]
pub(crate) fn neighbour(way: Way, key: &[u8], value: &[u8]) -> u32 {
    match way {
        Way::Forward => value.first_chunk().map_or(0, |to| u32::from_le_bytes(*to)),
        Way::Backward => key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |from| u32::from_be_bytes(*from)),
    }
}

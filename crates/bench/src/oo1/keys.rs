//! Keys of indices over connections, in the order of their bytes.

use super::Way;

/// The nth connection that leaves a part.
pub(super) fn leaving(id: u32, nth: u8) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [a, b, c, d, nth]
}

/// A connection into a part, which is the nth of another.
pub(super) fn arriving(id: u32, from: u32, nth: u8) -> [u8; 9] {
    let mut key = [0; 9];
    key[..4].copy_from_slice(&id.to_be_bytes());
    key[4..].copy_from_slice(&leaving(from, nth));
    key
}

/// The part at the other end of a connection that was found by the index for this way. What is too short leads to no part.
#[inline]
pub(super) fn neighbour(way: Way, key: &[u8], value: &[u8]) -> u32 {
    match way {
        Way::Forward => value.first_chunk().map_or(0, |to| u32::from_le_bytes(*to)),
        Way::Backward => key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |from| u32::from_be_bytes(*from)),
    }
}

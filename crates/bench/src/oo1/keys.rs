//! Keys of indices over connections, in the order of their bytes.

use super::Way;

/// Returns the key of the nth connection that leaves a part.
pub(crate) fn leaving(id: u32, nth: u8) -> [u8; 5] {
    let [a, b, c, d] = id.to_be_bytes();
    [a, b, c, d, nth]
}

/// Returns the key of a connection into part `id`, which is the nth connection of part `from`.
pub(crate) fn arriving(id: u32, from: u32, nth: u8) -> [u8; 9] {
    let mut key = [0; 9];
    key[..4].copy_from_slice(&id.to_be_bytes());
    key[4..].copy_from_slice(&leaving(from, nth));
    key
}

/// Returns the part at the other end of a connection that the index of this direction has found, or 0 if the pair is
/// too short.
#[inline]
pub(crate) fn neighbour(way: Way, key: &[u8], value: &[u8]) -> u32 {
    match way {
        Way::Forward => value.first_chunk().map_or(0, |to| u32::from_le_bytes(*to)),
        Way::Backward => key.get(4..).and_then(<[u8]>::first_chunk).map_or(0, |from| u32::from_be_bytes(*from)),
    }
}

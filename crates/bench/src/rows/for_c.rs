//! Records as the C functions read them: where the first key and value lie, and how far it is to the next.

use std::mem::offset_of;

use super::{Pair, KEY_BYTES, VALUE_BYTES};

/// `struct pairs` of `rows_pairs.h`: good as long as what it was made of.
#[repr(C)]
pub(super) struct PairsForC {
    keys: *const u8,
    values: *const u8,
    key_bytes: usize,
    value_bytes: usize,
    stride: usize,
    count: usize,
}

impl PairsForC {
    pub(super) fn of(pairs: &[Pair]) -> PairsForC {
        let first: *const u8 = pairs.as_ptr().cast();
        PairsForC {
            keys: first.wrapping_add(offset_of!(Pair, 0)),
            values: first.wrapping_add(offset_of!(Pair, 1)),
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            stride: size_of::<Pair>(),
            count: pairs.len(),
        }
    }
}

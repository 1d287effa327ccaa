//! The places of the managers' structures in a region: for tests that damage them.

use std::ops::Range;

use crate::{Held, Shared, Slab};

/// A part of a region with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The name of the structure.
    pub name: &'static str,
    /// The offsets of the part.
    pub range: Range<u64>,
}

impl Extent {
    /// Returns the place of one structure.
    pub fn of<T: Shared>(name: &'static str, thing: &Held<T>) -> Extent {
        let start = thing.region().offset_of(&**thing).raw();
        Extent { name, range: start..start + size_of::<T>() as u64 }
    }

    /// Returns the places of a slab's header and of its slots, chunk by chunk.
    pub fn of_slab<T: Shared>(header: &'static str, slots: &'static str, slab: &Slab<T>) -> Vec<Extent> {
        let names = std::iter::once(header).chain(std::iter::repeat(slots));
        names.zip(slab.extents()).map(|(name, range)| Extent { name, range }).collect()
    }
}

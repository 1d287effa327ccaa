//! A segment's address: drawn when the segment is made, and kept for every later opening.
//!
//! The address is drawn at random, so that segments made by different processes can probably be opened together in one
//! process. A process draws every address once before it draws any address a second time. Otherwise two segments of one
//! process could get the same address: the kernel reports an address as free while no segment is mapped there, both
//! between a draw and its mapping and after a segment is closed.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use rio::Region;

/// The addresses to draw from: between the addresses of programs and the addresses that the kernel chooses. The number
/// of slots in this range is 41 times a power of two.
const ADDRESSES: Range<u64> = 0x0200_0000_0000..0x5400_0000_0000;
/// Twice 41. A step that is one more than a multiple of this number has no factor in common with the number of slots.
/// So the draws visit every slot before they repeat a slot.
const STEP: u64 = 2 * 41;
static DRAWS: AtomicU64 = AtomicU64::new(0);
/// A random number that this process and its children share; zero before the first draw. No lock protects the number,
/// because a child of a fork could inherit a lock that stays held for ever.
static CHANCE: AtomicU64 = AtomicU64::new(0);

/// Draws an address at which the segment can be mapped in this process, and probably in other processes. If no address
/// is free, returns the error for the first address.
pub(crate) fn draw(region: &Region) -> Result<u64> {
    let slot = region.reserved().next_power_of_two().max(1 << 32);
    let slots = ((ADDRESSES.end - ADDRESSES.start) / slot).max(1);
    // A child of a fork begins at another slot than its parent, and takes other steps.
    let mixed = |what: u64| BuildHasherDefault::<DefaultHasher>::new().hash_one((chance(), std::process::id(), what));
    let [begin, step] = [0, 1].map(|what| mixed(what) % slots);
    let turn = DRAWS.fetch_add(1, Ordering::Relaxed) % slots;
    let drawn = begin + turn * (step * STEP + 1) % slots;
    for nth in 0..slots {
        let address = ADDRESSES.start + (drawn + nth) % slots * slot;
        match region.view(usize::try_from(address).ok(), 0) {
            Ok(_) => return Ok(address),
            Err(rio::Error::System { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(region.view(usize::try_from(ADDRESSES.start).ok(), 0).map(|_| ADDRESSES.start)?)
}

fn chance() -> u64 {
    let drawn = RandomState::new().hash_one(0) | 1;
    match CHANCE.compare_exchange(0, drawn, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => drawn,
        Err(earlier) => earlier,
    }
}

//! Where a segment lies: at an address that is drawn when it is made, and kept for whoever opens it.
//!
//! It is drawn, so that segments that were made apart can presumably be opened together, and what one process has drawn of late
//! it does not draw again: between the draw and the mapping that stays, the address is free for another thread.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Result;
use rio::Region;

/// Between what programs and what the kernel's own choices use.
const ADDRESSES: Range<u64> = 0x0200_0000_0000..0x5400_0000_0000;
/// So many draws of one process in a row differ. It divides the number of places of 16 GiB.
const TURNS: u64 = 64;
static DRAWS: AtomicU64 = AtomicU64::new(0);

/// An address at which the segment can lie here, and presumably elsewhere. If there is none, the first's error.
pub(crate) fn draw(region: &Region) -> Result<u64> {
    let slot = region.reserved().next_power_of_two().max(1 << 32);
    let slots = (ADDRESSES.end - ADDRESSES.start) / slot;
    // A child of a fork goes on with another turn than its parent.
    let turn = DRAWS.fetch_add(1, Ordering::Relaxed).wrapping_add(u64::from(std::process::id()));
    let drawn = RandomState::new().hash_one(region.path()) / TURNS * TURNS + turn % TURNS;
    for nth in 0..slots {
        let address = ADDRESSES.start + drawn.wrapping_add(nth) % slots * slot;
        match region.view(usize::try_from(address).ok(), 0) {
            Ok(_) => return Ok(address),
            Err(rio::Error::System { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(region.view(usize::try_from(ADDRESSES.start).ok(), 0).map(|_| ADDRESSES.start)?)
}

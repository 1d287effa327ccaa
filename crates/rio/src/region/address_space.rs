//! The address space of a region: as much as the region may ever need, or under a limit (`RLIMIT_AS`) a part of what
//! the process has left.
//!
//! Not in the papers. Under a limit, the kernel grants a mapping of nearly all the remaining address space, and the
//! process then has none left for its threads and its own memory. So a region takes at most half of the remaining
//! address space. A process that attaches takes as much as the region's maker.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use rustix::process::{getrlimit, Resource};

use crate::{planted, Mapping, RegionHeader};

/// Maps `wanted` bytes of address space. Under a limit that does not allow `wanted` bytes, maps a half of them, a
/// quarter, and so on. The mapping always has all of the file, whose length is `size` bytes.
pub(super) fn reserve(file: &File, wanted: usize, size: u64) -> std::io::Result<Mapping> {
    let most = left().map_or(u64::MAX, |left| left / 2);
    let least = size.max(noted(file));
    let mut bytes = wanted;
    while bytes as u64 > most
        && (bytes / 2) as u64 >= least
        && !planted("rio: a region reserves all remaining address space")
    {
        bytes /= 2;
    }
    loop {
        match Mapping::new(file, bytes) {
            Ok(mapping) => return Ok(mapping),
            Err(error) if (bytes / 2) as u64 <= size => return Err(error),
            Err(_) => bytes /= 2,
        }
    }
}

/// Returns the bytes that the region's maker mapped, or 0 if the header's word for them is not a power of two.
fn noted(file: &File) -> u64 {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, offset_of!(RegionHeader, reserve) as u64);
    Some(u64::from_ne_bytes(word)).filter(|bytes| read.is_ok() && bytes.is_power_of_two()).unwrap_or(0)
}

/// Returns the bytes of address space that the process may still take, if there is a limit.
fn left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let used = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = used.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(pages * rustix::param::page_size() as u64))
}

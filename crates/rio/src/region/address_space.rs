//! How much address space a region takes: as much as it may ever need, and where a limit is set (`RLIMIT_AS`), a part of what is left.
//!
//! Not in the papers. A mapping that takes nearly all of what is left is granted, and then the process has none for its threads and its
//! own memory. So a region takes the half at most. Who comes to a region that others have made takes what they have.

use std::fs::File;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use rustix::process::{getrlimit, Resource};

use crate::{planted, Mapping, RegionHeader};

/// Maps as much address space as asked, or the half, or the quarter of it where a limit is set, but all of the file, which has `size`
/// bytes.
pub(super) fn reserve(file: &File, wanted: usize, size: u64) -> std::io::Result<Mapping> {
    let most = left().map_or(u64::MAX, |left| left / 2);
    let least = size.max(noted(file));
    let mut bytes = wanted;
    while bytes as u64 > most
        && (bytes / 2) as u64 >= least
        && !planted("rio: memory takes all address space that is left")
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

/// How much those map who have made the region: a power of two, or nothing that is to be believed.
fn noted(file: &File) -> u64 {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, offset_of!(RegionHeader, reserve) as u64);
    Some(u64::from_ne_bytes(word)).filter(|bytes| read.is_ok() && bytes.is_power_of_two()).unwrap_or(0)
}

/// Bytes of address space that the process may still have, if there is a limit.
fn left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let used = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = used.split_whitespace().next()?.parse().ok()?;
    Some(limit.saturating_sub(pages * rustix::param::page_size() as u64))
}

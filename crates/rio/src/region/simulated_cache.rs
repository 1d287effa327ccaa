//! A simulated processor cache for tests: a crash may lose stores to a region that were not written back, line by
//! line.
//!
//! Compiled in only with the feature `planted`. A region whose lines are written back as `WriteBack::Simulated` has a
//! copy, with the contents that the real memory would have. If a line of the region differs from the line of the copy,
//! a crash leaves one of the two, because a cache may write back any line at any time, and in any order.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::{Offset, Region};

const LINE: usize = 64;

/// The simulated memory of each region that has such a cache, by the inode of the region's file.
static MEMORIES: OnceLock<Mutex<HashMap<u64, Vec<u8>>>> = OnceLock::new();

fn with_memory<T>(region: &Region, what: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let inode = region.file().metadata().map_or(0, |metadata| metadata.ino());
    let mut all = MEMORIES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    what(all.entry(inode).or_default())
}

/// Writes lines back to the simulated memory.
pub(crate) fn write_back(region: &Region, at: u64, bytes: usize) {
    let from = usize::try_from(at).expect("a region is mapped") & !(LINE - 1);
    let to = (usize::try_from(at).expect("a region is mapped") + bytes).next_multiple_of(LINE);
    with_memory(region, |memory| {
        if memory.len() < to {
            memory.resize(to, 0);
        }
        // A store that runs at the same time may be missed. Such a store counts as made after the write-back.
        copy_out(region, from, &mut memory[from..to]);
    });
}

/// Crashes the machine. `is_kept` decides for each line that is only in the cache whether it got to memory in time.
/// Returns the number of lost lines.
pub fn crash(region: &Region, mut is_kept: impl FnMut() -> bool) -> u64 {
    let size = usize::try_from(region.size()).expect("a region is mapped");
    with_memory(region, |memory| {
        memory.resize(size.max(memory.len()), 0);
        let mut lost = 0;
        let mut now = [0; LINE];
        for at in (0..size).step_by(LINE) {
            copy_out(region, at, &mut now);
            let line = &mut memory[at..at + LINE];
            if line == now {
                continue;
            }
            if is_kept() {
                line.copy_from_slice(&now);
                continue;
            }
            lost += 1;
            let place = at.max(8);
            region.copy_in(Offset::from_raw(place as u64).expect("not the first word"), &line[place - at..]);
        }
        lost
    })
}

/// Forgets the region's simulated memory: the region no longer exists, or another region replaces it.
pub fn forget(region: &Region) {
    with_memory(region, Vec::clear);
}

/// Forgets the simulated memory of each region whose file this process no longer has open.
pub fn forget_closed() {
    // The lock is taken before the open files are listed: a region that is opened after the listing gets its memory
    // after this call.
    let mut all = MEMORIES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().filter_map(Result::ok);
    let inodes: HashSet<u64> =
        open.filter_map(|entry| std::fs::metadata(entry.path()).ok()).map(|file| file.ino()).collect();
    all.retain(|inode, _| inodes.contains(inode));
}

/// Copies bytes out of the region. The region's first word is copied apart: it is the magic number, and has no offset.
fn copy_out(region: &Region, at: usize, to: &mut [u8]) {
    let skipped = 8_usize.saturating_sub(at);
    to[..skipped].copy_from_slice(&region.header().magic.get().to_ne_bytes()[..skipped]);
    region.copy_out(Offset::from_raw((at + skipped) as u64).expect("not the first word"), &mut to[skipped..]);
}

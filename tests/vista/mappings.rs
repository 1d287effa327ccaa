//! A process with few mappings left. Each automatic range that is not adjacent to another range takes one mapping,
//! until no mapping is left. The kernel needs two mappings to hide a part of vista's structures.
#![allow(unsafe_code)]

use libtp_tests::process::{succeeds, this_program};
use rustix::mm::{mmap_anonymous, mprotect, munmap, MapFlags, MprotectFlags, ProtFlags};
use vista::{Error, Options, Segment};

const PATH: &str = "VISTA_TEST_MAPPINGS";
const HIDDEN: &str = "VISTA_TEST_MAPPINGS_HIDDEN";
const BYTES: usize = 8 << 20;
const PAGE: usize = 4096;
/// Number of mappings that are left.
const LEFT: usize = 300;

/// Mappings that leave this process only a given number of further mappings. A drop of the value removes them.
struct Used(*mut std::ffi::c_void, usize);

impl Drop for Used {
    fn drop(&mut self) {
        // SAFETY: the mapping made below, which nothing uses.
        unsafe { munmap(self.0, self.1) }.unwrap();
    }
}

fn use_up_mappings(left: usize) -> Used {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse::<usize>().unwrap();
    let bytes = 2 * (most + 2) * PAGE;
    let lazy = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a null hint without MAP_FIXED replaces no existing mapping; nothing uses the new mapping.
    let place = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::empty(), lazy) }.unwrap();
    let protect = |from: usize, pages: usize, flags: MprotectFlags| {
        // SAFETY: a part of the mapping just made, which nothing uses.
        unsafe { mprotect(place.wrapping_byte_add(from * PAGE), pages * PAGE, flags) }
    };
    // Makes every second page readable: then each page is a separate mapping.
    let refused = (0..most).map(|nth| nth * 2 + 1).find(|page| protect(*page, 1, MprotectFlags::READ).is_err());
    assert!(refused.is_some(), "the kernel still grants mappings after {most}");
    if left != 0 {
        protect(0, left, MprotectFlags::empty()).unwrap();
    }
    Used(place, bytes)
}

/// The child's part.
fn work(path: &str) {
    let mut segment = Options::new(BYTES as u64).anywhere().open(path.as_ref()).unwrap();
    let _used = use_up_mappings(LEFT);
    let store = |bytes: &mut [u8], value: u8| bytes.iter_mut().step_by(2 * PAGE).for_each(|byte| *byte = value);
    let is = |bytes: &[u8], value: u8| {
        bytes.iter().enumerate().all(|(at, byte)| *byte == if at % (2 * PAGE) == 0 { value } else { 0 })
    };
    for value in [1, 2] {
        let refused: Result<(), Error> = segment.automatically(|bytes| {
            store(bytes, value + 100);
            Err(Error::NoRoom { path: "told to".into(), wanted: 0, most: 0 })
        });
        assert!(refused.is_err() && is(segment.bytes(), value - 1), "a transaction that did not end is undone");
        segment
            .automatically(|bytes| {
                store(bytes, value);
                Ok::<(), Error>(())
            })
            .unwrap();
        assert!(is(segment.bytes(), value));
    }
    std::process::exit(0);
}

/// Returns the access rights of the segment's mappings between two file offsets, from `/proc`.
fn rights(segment: &Segment, places: std::ops::Range<u64>) -> Vec<String> {
    let start = segment.address() as u64 - segment.flat_places().start;
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = |line: &str| {
        let (range, rest) = line.split_once(' ').unwrap();
        let ends = range.split_once('-').map(|(from, to)| [from, to].map(|end| u64::from_str_radix(end, 16).unwrap()));
        let [from, to] = ends.unwrap();
        (from < start + places.end && start + places.start < to).then(|| rest[..4].to_owned())
    };
    maps.lines().filter_map(line).collect()
}

/// The lengths of the two blocks that are allocated first, in units. The undo log grows for the second block, so the
/// second block is after all hidden parts. The next part that grows is the heap's table.
const PREPARED: [u64; 2] = [80, 30];

/// The child's part. At first no mapping is left, so no part of vista's structures can be hidden. Later each part can
/// be hidden.
fn hide(path: &str) {
    let mut segment = Options::new(BYTES as u64).grows_to(2 * BYTES as u64).anywhere().open(path.as_ref()).unwrap();
    let is_refused = |refused: Result<(), Error>| {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("changing the protection"), "{refused}");
    };
    // The heap's first blocks are allocated before the mappings are used up.
    let mut txn = segment.begin();
    for units in PREPARED {
        txn.malloc(units << 16).unwrap();
    }
    txn.end().unwrap();
    let used = use_up_mappings(0);
    // A longer undo log cannot be hidden.
    let (before, mut after) = (segment.file_used(), 0);
    for nth in 0..5 {
        let mut txn = segment.begin();
        is_refused(txn.set_range(0, 1 << 20).map(drop));
        // The refusal does not abort the transaction.
        txn.set_range(0, 8).unwrap().fill(nth);
        is_refused(txn.set_range(0, 1 << 20).map(drop));
        txn.end().unwrap();
        assert_eq!(segment.bytes()[0], nth);
        if nth == 0 {
            after = segment.file_used();
        }
        assert_eq!(segment.file_used(), after, "the next attempt reuses the memory of the refused log");
    }
    assert!(after > before);
    // More entries of the heap's table cannot be hidden.
    let mut txn = segment.begin();
    let have = std::iter::from_fn(|| txn.malloc(1 << 20).ok()).count();
    assert!(have < 100, "{have} blocks: the table never grew");
    is_refused(txn.malloc(1 << 20).map(drop));
    is_refused(txn.malloc(1 << 20).map(drop));
    txn.set_range(8, 8).unwrap().fill(1);
    txn.end().unwrap();
    // A longer flat part cannot be protected.
    is_refused(segment.grow(BYTES as u64 + 4096));
    assert_eq!(segment.bytes().len(), BYTES, "the flat part keeps its length");
    segment.begin().set_range(BYTES as u64, 1).map(drop).unwrap_err();
    drop(used);
    segment.grow(BYTES as u64 + 4096).unwrap();
    assert_eq!(segment.bytes().len(), BYTES + 4096);
    let mut txn = segment.begin();
    txn.set_range(0, 1 << 20).unwrap().fill(7);
    txn.abort();
    assert_eq!(rights(&segment, before.next_multiple_of(64 << 10)..after), ["---s"], "the longer log is hidden");
    assert_eq!((segment.bytes()[0], segment.bytes()[8], segment.verify().unwrap().blocks), (4, 1, have as u64 + 2));
    // A worker's undo log cannot be hidden. A hidden part next to another hidden part shares its mapping, so a block is
    // allocated between the two parts.
    let mut txn = segment.begin();
    txn.malloc(4 << 20).unwrap();
    txn.end().unwrap();
    let threads = segment.share().unwrap();
    let used = use_up_mappings(0);
    for _ in 0..3 {
        is_refused(threads.worker().map(drop));
    }
    drop(used);
    let mut worker = threads.worker().unwrap();
    // Allocates twice, because the heap's table may have grown after the first block.
    for _ in 0..2 {
        worker.run(|txn| txn.malloc(4 << 20)).unwrap();
    }
    let used = use_up_mappings(0);
    for _ in 0..3 {
        let mut txn = worker.begin();
        is_refused(txn.set_range(0, 1 << 20).map(drop));
        txn.set_range(0, 1).unwrap().fill(10);
        txn.end().unwrap();
    }
    drop(used);
    worker.run(|txn| txn.set_range(0, 1 << 20).map(|range| range.fill(11))).unwrap();
    drop(worker);
    let segment = threads.into_segment();
    segment.close().unwrap();
    std::process::exit(0);
}

#[test]
fn a_part_that_cannot_be_hidden_is_not_used_until_it_is_hidden() {
    if let Ok(path) = std::env::var(HIDDEN) {
        hide(&path);
    }
    run("mappings::a_part_that_cannot_be_hidden_is_not_used_until_it_is_hidden", HIDDEN);
}

#[test]
fn automatic_ranges_work_when_the_kernel_grants_no_more_mappings() {
    if let Ok(path) = std::env::var(PATH) {
        work(&path);
    }
    run("mappings::automatic_ranges_work_when_the_kernel_grants_no_more_mappings", PATH);
}

/// Runs a child's part.
fn run(test: &str, variable: &str) {
    let directory = tempfile::tempdir().unwrap();
    succeeds(this_program(test).env(variable, directory.path().join("segment")));
}

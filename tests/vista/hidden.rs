//! Vista's own structures are protected from stores even without a guard: in the program's mapping, a store to
//! one of their pages faults. A store just before or just after the program's mapping or the library's mapping faults,
//! too.
//!
//! A separate child does each store. The test notices a build without the protection.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::planted::{self, NoticedBy};
use libtp_tests::process::{succeeds, this_program};
use vista::{Options, Segment};

use crate::wild::{store, waited};

/// Bytes of the flat part: whole units, so that the next part follows the flat part directly.
const BYTES: u64 = 256 << 10;
const PAGE: usize = 4096;
/// Length of the mapping that keeps a segment locked (`rio::Anchor`).
const ANCHOR: usize = 64 << 10;
const CHILD: &str = "VISTA_TEST_HIDDEN";

/// Makes a segment with all hidden parts: the front, an undo log that has grown, logs of threads, and a heap's table
/// that has grown.
fn of_all_kinds(path: &Path) -> Segment {
    let mut segment = Options::new(BYTES).open(path).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, 200_000).unwrap();
    txn.end().unwrap();
    let threads = segment.share().unwrap();
    drop([threads.worker().unwrap(), threads.worker().unwrap()]);
    let mut segment = threads.into_segment();
    let mut txn = segment.begin();
    for _ in 0..20 {
        let _ = txn.malloc(1 << 20).unwrap();
    }
    txn.end().unwrap();
    segment
}

/// Returns the first and last address of each mapping of the file.
fn mappings(path: &Path) -> Vec<(usize, usize)> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut mappings: Vec<(usize, usize)> = Vec::new();
    for line in maps.lines().filter(|line| line.ends_with(path.to_str().unwrap())) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (from, to) = words[0].split_once('-').unwrap();
        let (from, to) = (usize::from_str_radix(from, 16).unwrap(), usize::from_str_radix(to, 16).unwrap());
        if words[1] == "---s" && words[2] == "00000000" && to - from == ANCHOR {
            // This mapping only keeps the file locked, and shows no bytes.
            continue;
        }
        match mappings.last_mut().filter(|last| last.1 == from) {
            Some(last) => last.1 = to,
            None => mappings.push((from, to)),
        }
    }
    mappings
}

fn faults(address: usize, value: u64) -> bool {
    match make_child(ForkKind::Fork) {
        Side::Child => {
            store(address, value);
            exit_now(0);
        }
        Side::Parent(pid) => waited(pid).signal() == Some(libc::SIGSEGV),
    }
}

/// The child's part: prints whether each store faults.
fn store_everywhere(path: &Path) {
    let segment = of_all_kinds(path);
    let mappings = mappings(path);
    assert_eq!(mappings.len(), 2, "the library's mapping and the program's mapping");
    for (from, to) in &mappings {
        for address in [from - PAGE, from - 8, *to, to + PAGE - 8] {
            println!("\nend {}", faults(address, 1));
        }
    }
    let (base, _) = mappings.into_iter().find(|(from, to)| (*from..*to).contains(&segment.address())).unwrap();
    let front = segment.address() - base;
    let (mut parts, mut was_hidden) = (0, false);
    for place in (0..usize::try_from(segment.file_used()).unwrap()).step_by(PAGE) {
        let shown = place.checked_sub(front).and_then(|at| segment.get(at as u64, 8).ok());
        if let Some(bytes) = shown {
            // The control: a store of the same bytes to visible memory does not fault.
            let value = u64::from_ne_bytes(bytes.try_into().unwrap());
            assert!(place % (1 << 20) != 0 || !faults(base + place, value), "shown memory can be stored to");
        } else {
            parts += u64::from(!was_hidden);
            println!("\nhidden {}", faults(base + place, 1));
        }
        was_hidden = shown.is_none();
    }
    println!("\nparts {parts}");
}

/// Returns two pairs and the number of hidden parts. Each pair has the number of tried stores and the number of stores
/// that did not fault. The first pair is for hidden pages, the second is for ends of mappings.
fn stored(bug: Option<&str>) -> ([usize; 2], [usize; 2], u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut command = this_program("hidden::hidden_parts_of_a_segment_cannot_be_stored_to");
    command.env(CHILD, directory.path().join("segment")).envs(bug.map(|bug| ("LIBTP_PLANTED", bug)));
    let message = succeeds(&mut command);
    let count = |line: &str| message.lines().filter(|it| it.starts_with(line)).count();
    let parts = message.lines().find_map(|line| line.strip_prefix("parts ")).unwrap().parse().unwrap();
    ([count("hidden "), count("hidden false")], [count("end "), count("end false")], parts)
}

#[test]
fn hidden_parts_of_a_segment_cannot_be_stored_to() {
    if let Ok(path) = std::env::var(CHILD) {
        return store_everywhere(Path::new(&path));
    }
    let (hidden, ends, parts) = stored(None);
    assert_eq!((hidden[1], ends[1]), (0, 0), "hidden pages and ends of mappings that did not fault");
    assert!(ends[0] == 8 && parts >= 3, "{ends:?} ends, {parts} hidden parts");
    println!(
        "figures: no guard: {} hidden pages in {parts} parts and {} ends of mappings, each faults",
        hidden[0], ends[0]
    );
    for bug in planted::of_stores(NoticedBy::WildStores) {
        let (hidden, ends, _) = stored(Some(bug));
        println!(
            "  {bug}: {} of {} hidden pages and {} of {} ends do not fault",
            hidden[1], hidden[0], ends[1], ends[0]
        );
        assert!(hidden[1] + ends[1] > 0, "no test noticed {bug:?}");
    }
}

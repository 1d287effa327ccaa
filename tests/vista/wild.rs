//! Wild stores into the program's mapping. With a guard every wild store faults and is reported with the segment's
//! name. Without a guard, stores to vista's own structures fault, and the other stores are counted.
//!
//! A separate child does each store. The child is a fork of a process that has the segment open and, every second time,
//! a transaction with a declared range.
#![allow(unsafe_code)]

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::sizes;
use rio::Key;
use vista::{Guard, Options};

use crate::business::{self, Draw};

const BYTES: u64 = 8 << 20;
const CHILD: &str = "VISTA_TEST_WILD";
/// The file's name states its guard.
const GUARDS: [(&str, Guard); 3] = [("guarded", Guard::Pages), ("keys", Guard::Keys), ("open", Guard::Off)];
/// The range that every second transaction declares. No wild store goes to its pages.
const DECLARED: std::ops::Range<usize> = 1 << 20..(1 << 20) + 100;

/// Does a wild store.
pub fn store(address: usize, value: u64) {
    let place = std::ptr::with_exposed_provenance_mut::<u64>(address);
    // SAFETY: none: this is the wild store under test. The child that does it ends right after it.
    unsafe { place.write_unaligned(value) };
}

pub fn waited(pid: i32) -> ExitStatus {
    let mut status = 0;
    // SAFETY: waits for a child of this process; `status` is a valid place for the answer.
    let done = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(done, pid);
    ExitStatus::from_raw(status)
}

/// Lets children do wild stores, and prints how many children were killed by their store.
fn store_wildly(path: &Path, guard: Guard) {
    let mut segment = Options::new(BYTES).guard(guard).open(path).unwrap();
    assert_eq!(segment.guard(), guard);
    let (mut draw, mut faulted) = (Draw(sizes::first_seed()), 0);
    for _ in 0..50 {
        business::transact(&mut segment, &mut draw, 5000);
    }
    // All of the file, and some addresses before and after it.
    let (first, last) = (segment.address() - (1 << 16), segment.address() + (10 << 20));
    let declared = DECLARED.start - 4096..DECLARED.end + 4096;
    let count = sizes::number("LIBTP_TEST_WILD", 2000);
    for nth in 0..count {
        let mut address = first + usize::try_from(draw.below((last - first) as u64)).unwrap();
        if declared.contains(&(address.wrapping_sub(segment.address()))) {
            address = segment.address();
        }
        let mut txn = segment.begin();
        // With protection keys, a transaction that has declared any range may store anywhere.
        if nth % 2 == 0 && guard != Guard::Keys {
            txn.set_range(DECLARED.start as u64, 100).unwrap()[0] = 1;
        }
        match make_child(ForkKind::Fork) {
            Side::Child => {
                store(address, draw.0);
                exit_now(0);
            }
            Side::Parent(pid) => faulted += u64::from(waited(pid).signal().is_some()),
        }
        txn.end().unwrap();
    }
    println!("\nfaulted: {faulted}");
    let verified = segment.verify().is_ok();
    println!("figures: guard {guard:?}: {count} wild stores, {faulted} faulted, verify finds {}", {
        if verified {
            "nothing"
        } else {
            "damage"
        }
    });
    if guard != Guard::Off {
        assert_eq!(faulted, count, "every wild store faults");
        business::judge(&segment).unwrap();
    } else {
        assert!(faulted < count, "the control: without a guard, no check notices a wild store into data");
    }
}

#[test]
fn no_wild_store_gets_past_the_guard() {
    if let Ok(path) = std::env::var(CHILD) {
        let file = Path::new(&path).file_name().unwrap();
        let (_, guard) = GUARDS.into_iter().find(|(name, _)| *name == file).unwrap();
        return store_wildly(Path::new(&path), guard);
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, guard) in GUARDS {
        if guard == Guard::Keys && !Key::is_possible() {
            println!("figures: UNTRIED: guard Keys: this processor has no protection keys, so no wild store was tried against them");
            continue;
        }
        let (path, told) = (directory.path().join(name), directory.path().join(format!("{name}.told")));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "wild::no_wild_store_gets_past_the_guard", "--nocapture", "--test-threads=1"])
            .env(CHILD, &path)
            .stderr(File::create(&told).unwrap())
            .output()
            .unwrap();
        let (message, told) = (String::from_utf8_lossy(&child.stdout), std::fs::read_to_string(&told).unwrap());
        assert!(child.status.success(), "{message}{told}");
        message.lines().filter(|line| line.starts_with("figures: ")).for_each(|line| println!("{line}"));
        let faulted =
            message.lines().find_map(|line| line.strip_prefix("faulted: ")).unwrap().parse::<usize>().unwrap();
        let naming = told.lines().filter(|line| line.contains(path.to_str().unwrap())).count();
        assert_eq!(naming, if guard == Guard::Off { 0 } else { faulted }, "each fault names the segment: {told}");
    }
}

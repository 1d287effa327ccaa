//! Wild stores without a guard: the number of stores that each check notices, and of stores that no check notices.
//!
//! A separate child does each store and runs the checks. Then the parent restores the file's bytes.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;

use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::process::{succeeds, this_program};
use libtp_tests::sizes;
use vista::{Options, Segment};

use crate::business::{self, Draw};
use crate::wild::{store, waited};

const BYTES: u64 = 8 << 20;
const CHILD: &str = "VISTA_TEST_WILD_FOUND";

/// The target of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    /// Anywhere in the program's mapping.
    Program,
    /// Anywhere in the library's mapping, which shows all of the file.
    Library,
    /// Vista's own structures before the flat part, in the library's mapping.
    Tables,
}

/// The check that noticed a store, as a child's exit status.
const UNNOTICED: i32 = 0;
const BUSINESS: i32 = 10;
const VERIFY: i32 = 11;

/// Runs the check of `tp vista verify` and the program's own check. Returns the check that noticed a wild store.
fn look(segment: &Segment) -> i32 {
    let look = || match (segment.verify().is_ok(), business::judge(segment).is_ok()) {
        (false, _) => VERIFY,
        (true, false) => BUSINESS,
        (true, true) => UNNOTICED,
    };
    // A check that panics has noticed the store. The checks run again to find which check panicked.
    catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|_| {
        let verified = catch_unwind(AssertUnwindSafe(|| segment.verify().is_ok()));
        if verified.is_ok() {
            BUSINESS
        } else {
            VERIFY
        }
    })
}

/// The number of stores that each check noticed.
#[derive(Debug, Default)]
struct Noticed {
    faulted: u64,
    verify: u64,
    business: u64,
    unnoticed: u64,
}

fn store_one(segment: &Segment, file: &File, target: Target, draw: &mut Draw, noticed: &mut Noticed) {
    let bytes = file.metadata().unwrap().len();
    let base = segment.address() as u64;
    let front = front(file);
    // An offset in the file.
    let place = match target {
        // All of the file that is mapped there, and some bytes after its end.
        Target::Program => draw.below(front + (10 << 20)),
        Target::Library => draw.below(bytes - 8),
        Target::Tables => 4096 + draw.below(front - 4096 - 8),
    };
    let mut before = vec![0; usize::try_from(bytes.saturating_sub(place).min(8)).unwrap()];
    file.read_exact_at(&mut before, place).unwrap();
    draw.below(2);
    let value = draw.0.to_ne_bytes();
    match make_child(ForkKind::Fork) {
        Side::Child => {
            // The parent reports the child's end.
            std::panic::set_hook(Box::new(|_| {}));
            match target {
                Target::Program => store(usize::try_from(base - front + place).unwrap(), draw.0),
                Target::Library | Target::Tables => file.write_all_at(&value, place).unwrap(),
            }
            exit_now(look(segment));
        }
        Side::Parent(pid) => match waited(pid).code() {
            None => noticed.faulted += 1,
            Some(VERIFY) => noticed.verify += 1,
            Some(BUSINESS) => noticed.business += 1,
            Some(UNNOTICED) => noticed.unnoticed += 1,
            Some(other) => panic!("the child ended with {other}"),
        },
    }
    file.write_all_at(&before, place).unwrap();
}

/// Returns the flat part's offset in the file.
fn front(file: &File) -> u64 {
    let word = |at| {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at).unwrap();
        u64::from_ne_bytes(word)
    };
    word(word(128 + 6 * 8) + 8)
}

fn store_all(path: &Path) {
    let mut segment = Options::new(BYTES).open(path).unwrap();
    let mut draw = Draw(sizes::first_seed());
    for _ in 0..500 {
        business::transact(&mut segment, &mut draw, 5000);
    }
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let count = sizes::number("LIBTP_TEST_WILD_JUDGED", 200);
    // Ends the line in which the test's name is printed.
    println!();
    for target in [Target::Program, Target::Library, Target::Tables] {
        let mut noticed = Noticed::default();
        for _ in 0..count {
            store_one(&segment, &file, target, &mut draw, &mut noticed);
            assert_eq!(look(&segment), UNNOTICED, "the file was not restored");
        }
        let Noticed { faulted, verify, business, unnoticed } = noticed;
        println!(
            "figures: no guard, {target:?}: of {count} wild stores one by one {faulted} faulted, verify found {verify}, \
             the program's own sums {business} more, unnoticed {unnoticed}"
        );
        // Vista's structures are hidden from the program, and `verify` finds wrong values in vista's tables.
        match target {
            Target::Program => assert!(faulted > 0 && verify == 0),
            Target::Library => assert!(unnoticed > 0),
            Target::Tables => assert!(verify > 0),
        }
    }
}

#[test]
fn wild_stores_noticed_without_a_guard() {
    if let Ok(path) = std::env::var(CHILD) {
        return store_all(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    // A separate process makes the children that do the stores, because it has no other running threads.
    let mut child = this_program("wild_found::wild_stores_noticed_without_a_guard");
    let message = succeeds(child.env(CHILD, directory.path().join("segment")));
    message.lines().filter(|line| line.starts_with("figures: ")).for_each(|line| println!("{line}"));
}

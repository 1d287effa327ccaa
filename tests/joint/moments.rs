//! Two processes at once, one of which is stopped at a chosen place.

use std::path::Path;
use std::time::{Duration, Instant};

use libtp::Env;
use libtp_sim::Random;
use libtp_tests::sizes;

use crate::business::Business;
use libtp_tests::process::hang;

use crate::child::Child;
use crate::deaths::{found, lose_memory, BEFORE, SYNC};

fn start(directory: &Path, seed: u64) -> Child {
    let mut child = Child::start(directory, seed, "");
    assert!(child.says("open"));
    child
}

/// Waits until the condition holds. Returns false if it does not hold in time.
fn becomes_true(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// A checkpoint reads the unresolved transactions. Meanwhile they are resolved, and another process dies: it has logged
/// its commit record, but its segments have not applied the commit. Then all processes die, and the shared memory is
/// lost.
#[test]
fn a_checkpoint_does_not_confuse_unresolved_transactions() {
    let directory = tempfile::tempdir().unwrap();
    let (directory, seed) = (directory.path(), sizes::first_seed());
    found(directory, SYNC);
    // This process repairs the dead sessions. It dies with the others at the end.
    let mut beside = start(directory, seed);
    let looks = Env::builder().look(directory).unwrap().expect("a process has the environment open");
    let unresolved = |before: u64| {
        let unresolved = looks.joined_segments().into_iter().filter_map(|segment| segment.unresolved_txn);
        unresolved.filter(|&txn| txn > before).max()
    };
    let dies = |victim: &mut Child| {
        victim.does(&format!("arm {BEFORE}"));
        victim.order("try");
    };
    let [mut first, mut second] = [1, 2].map(|nth| start(directory, seed + nth));
    dies(&mut first);
    assert!(first.end(), "the first process did not reach {BEFORE}");
    assert!(becomes_true(hang(), || unresolved(0).is_some()), "the dead session was not repaired");
    let one = unresolved(0).unwrap();
    let mut checkpointer = start(directory, seed + 3);
    checkpointer.does("arm unresolved: row partly read!stop");
    checkpointer.order("checkpoint");
    checkpointer.stops();
    // The second process does as much as it can while the checkpointer is stopped.
    dies(&mut second);
    becomes_true(Duration::from_secs(2), || unresolved(one).is_some());
    checkpointer.resume();
    assert!(checkpointer.says("done"));
    assert!(second.end(), "the second process did not reach {BEFORE}");
    assert!(becomes_true(hang(), || unresolved(one).is_some()), "the dead session was not repaired");
    // The order `note` makes all earlier commits durable.
    beside.does("note");
    drop(looks);
    for child in [&mut beside, &mut checkpointer] {
        child.kill();
        child.end();
    }
    lose_memory(directory);
    let judged = Business::open(directory).unwrap().judge();
    assert_eq!(judged, Ok(2), "both transactions had their records on the disk");
}

/// The shared memory is full, and the disk fails after a commit record was logged and before the segments apply the
/// commit. Nevertheless the transaction is committed, and the unresolved segments are noted.
#[test]
fn a_commit_on_a_failed_disk_needs_no_room() {
    let directory = tempfile::tempdir().unwrap();
    let (directory, seed) = (directory.path(), sizes::first_seed());
    found(directory, SYNC);
    let mut child = start(directory, seed);
    child.does("work 20");
    child.does("fill");
    child.does(&format!("arm {BEFORE}!stop"));
    child.order("try");
    child.stops();
    let looks = Env::builder().look(directory).unwrap().expect("a process has the environment open");
    looks.managers().log.poison();
    child.resume();
    let answer = child.line().unwrap();
    assert!(
        answer.starts_with("OutcomeUnknown"),
        "the outcome of the transaction must be unknown: {answer}; {}",
        child.errors()
    );
    assert!(!answer.contains("full"), "an unknown outcome must not need room: {answer}");
    let unresolved = looks.joined_segments().into_iter().filter(|segment| segment.unresolved_txn.is_some());
    assert_eq!(unresolved.count(), 2, "both segments wait for the outcome");
    child.kill();
    child.end();
    drop(looks);
    let business = Business::open(directory).unwrap();
    let count = business.judge().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(count >= child.told);
    business.transact(&mut Random::new(seed)).unwrap();
}

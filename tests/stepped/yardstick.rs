//! A check of the suite `stepped`. Every planted bug in the order of stores must be noticed by the deaths in one
//! operation. Without a bug, the same deaths must cause no failure.
//!
//! This is a separate program, because the suite itself is built without planted bugs, as users build the library.
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod child;
mod deaths;
mod member;
mod operations;
mod town;
mod world;

use libtp_tests::sizes;

use deaths::{Deaths, Dies};
use operations::Operation;

libtp_tests::yardstick!(Stepped);

/// The number of processes that die in one operation, with each seed.
const EACH: u64 = 40;
/// The number of repairers that die after one operation, with each seed.
const EACH_REPAIRING: u64 = 12;

/// Lets processes die in an operation, up to the first failure.
fn die(operation: Operation, dies: Dies) {
    let each = if dies == Dies::AtWork { EACH } else { EACH_REPAIRING };
    let figures = Deaths { operation, dies, each, seed: sizes::first_seed(), failures_max: 1 }.run();
    println!("{figures}");
    if let Some(why) = figures.untried {
        println!("figures: UNTRIED: {why}");
    }
    assert!(figures.failures.is_empty(), "{}", figures.failures[0]);
}

#[test]
fn deaths_in_an_insert() {
    die(Operation::Insert, Dies::AtWork);
}

#[test]
fn deaths_in_an_append_to_records_by_number() {
    die(Operation::Append, Dies::AtWork);
}

#[test]
fn deaths_in_a_lock() {
    die(Operation::LockRecord, Dies::AtWork);
}

#[test]
fn deaths_of_repairers_of_an_insert() {
    die(Operation::Insert, Dies::Repairing);
}

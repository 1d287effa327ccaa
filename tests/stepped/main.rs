//! A process dies between any two instructions of one operation, while other processes use the same environment.
//!
//! A tracer steps the process and kills it before a store to shared memory or before a system call of the operation.
//! Between two of these events no other process can see a difference. The compiler chooses the order of the stores, so
//! `--deep` and `soak` build the program as users do.
//!
//! After each death two survivors change the same records, each within a bounded time. They must find all changes of
//! the dead process's transaction or no change. If the transaction's commit was answered, they must find all changes.
//! No lock, pin, transaction or session of the dead process may be left, and no database may be damaged. At the end, a
//! replay of the files must give the same records.
//!
//! `LIBTP_TEST_STORES` and `LIBTP_TEST_REPAIRERS` set the number of deaths of each operation; zero means one death
//! before each event. `LIBTP_TEST_OPERATION` chooses one operation. The report of a failure names the source line of
//! the store. For this, the program needs line tables (profile `suite`), and the machine needs `addr2line`.
//!
//! | file | contents |
//! |---|---|
//! | `world` | the databases, and their records in a model |
//! | `operations` | the operations, and the changes of each |
//! | `child` | a process that a test starts: a victim, a repairer or a survivor |
//! | `member` | a process that the test has started, and its death |
//! | `town` | an environment with its survivors, and the checks after a death |
//! | `deaths` | the deaths of an operation, one after the other |
//! | `yardstick` | a separate program: the deaths in one operation must notice each planted bug |
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
use libtp_tests::threads::on_threads;

use deaths::{Deaths, Dies, Figures};
use operations::Operation;

/// The number of operations that are tried concurrently. While the victim of an operation is stepped, the survivors of
/// this operation wait.
const THREADS: usize = 2;
/// The operations whose repair is stepped.
const REPAIRED: [Operation; 4] = [Operation::Whole, Operation::CommitRelaxed, Operation::Split, Operation::Insert];

/// Tries today's share of the operations; fails with all failures.
fn try_all(operations: Vec<Operation>, dies: Dies, each: u64) {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_OPERATION");
    let is_chosen = |operation: &Operation| chosen.as_deref().is_none_or(|name| operation.name() == name);
    let operations: Vec<Operation> = operations.into_iter().filter(is_chosen).collect();
    let operations = if chosen.is_some() { operations } else { sizes::todays(operations) };
    let tried: Vec<Figures> = on_threads(THREADS, &operations, |&operation| {
        let figures = Deaths { operation, dies, each, seed: sizes::first_seed(), failures_max: 3 }.run();
        println!("{figures}");
        figures
    });
    let wrong: Vec<&String> = tried.iter().flat_map(|figures| &figures.failures).collect();
    let sum = |of: fn(&Figures) -> u64| tried.iter().map(of).sum::<u64>();
    println!(
        "figures: {dies}: {} operations with {} stores and system calls, {} deaths, {} failures",
        tried.len(),
        sum(|one| one.events),
        sum(|one| one.deaths),
        wrong.len()
    );
    let text: Vec<String> = wrong.iter().map(|one| format!("\n  {one}")).collect();
    assert!(wrong.is_empty(), "{} failures:{}", wrong.len(), text.concat());
    if let Some(why) = tried.iter().find_map(|figures| figures.untried.as_ref()) {
        println!("figures: UNTRIED: {why}, so some processes were not stepped");
    }
}

#[test]
fn the_survivors_continue_after_a_death_before_any_store() {
    try_all(Operation::ALL.to_vec(), Dies::AtWork, sizes::number("LIBTP_TEST_STORES", 4));
}

#[test]
fn the_survivors_continue_after_a_death_of_the_repairer_too() {
    try_all(REPAIRED.to_vec(), Dies::Repairing, sizes::number("LIBTP_TEST_REPAIRERS", 4));
}

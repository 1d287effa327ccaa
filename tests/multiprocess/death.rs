//! All processes die. If their shared memory survives, the next process repairs it; otherwise it replays the log.
//! In both cases the environment must have every acknowledged transfer, and no part of an uncommitted transfer.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use libtp::{Env, OpenedBy};
use libtp_tests::audit::nothing_lost;
use libtp_tests::sizes;
use libtp_tests::transfers::TransferId;

use crate::crew::Member;

/// How the processes die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Death {
    /// Each process calls `abort()` when it is ordered to.
    Abort,
    /// The processes are killed from outside.
    Kill,
}

/// Lets two processes work until they die; returns the transfers that they reported as committed.
fn work_and_die(directory: &Path, round: u64, durability: &str, death: Death) -> BTreeSet<TransferId> {
    let mut crew: Vec<Member> = (1..=2).map(|number| Member::start(directory, 100 * (round + 1) + number)).collect();
    for member in &mut crew {
        assert_eq!(member.ask(&format!("work {durability}")), "working");
    }
    std::thread::sleep(Duration::from_millis(150 + 37 * (round % 7)));
    for member in &mut crew {
        match death {
            Death::Abort => member.order("abort"),
            Death::Kill => member.kill(),
        }
    }
    crew.into_iter().flat_map(Member::acknowledged).collect()
}

/// Opens the environment and compares its journal with the acknowledged transfers.
fn judge(directory: &Path, wanted: OpenedBy, acknowledged: &mut BTreeSet<TransferId>) -> u64 {
    let env = Env::open_or_create(directory).unwrap();
    assert_eq!(env.opened().how, wanted, "{:?}", env.opened());
    let journal = nothing_lost(&env, acknowledged, "after all processes died");
    // Each of the four threads may have died after it committed a transfer and before it reported the transfer.
    let unheard = journal.difference(acknowledged).count();
    assert!(unheard <= 4, "the journal has {unheard} transfers that no process acknowledged");
    acknowledged.extend(journal);
    env.opened().millis
}

fn rounds() -> u64 {
    sizes::number("LIBTP_TEST_DEATHS", 6)
}

/// The number of rounds with one environment. After them the journal is long, so the test makes a new environment.
const ROUNDS_OF_ONE: u64 = 20;

/// Lets all processes die several times; returns the number of transfers. `is_memory_lost`: removes the shared memory
/// after each death.
fn die_again_and_again(death: Death, is_memory_lost: bool) -> usize {
    let mut directory = tempfile::tempdir().unwrap();
    let (mut acknowledged, mut sum, mut longest) = (BTreeSet::new(), 0, 0);
    for round in 0..rounds() {
        if round % ROUNDS_OF_ONE == 0 {
            directory = tempfile::tempdir().unwrap();
            sum += std::mem::take(&mut acknowledged).len();
        }
        let region = is_memory_lost.then(|| Env::open_or_create(directory.path()).unwrap().stats().unwrap().region);
        // If the memory is lost, relaxed commits may be lost with it, so all commits are synced.
        let durability = if round % 2 == 0 || is_memory_lost { "sync" } else { "relaxed" };
        acknowledged.extend(work_and_die(directory.path(), round, durability, death));
        region.iter().for_each(|region| std::fs::remove_file(region).unwrap());
        let wanted = if is_memory_lost { OpenedBy::Restarted } else { OpenedBy::Repaired };
        longest = longest.max(judge(directory.path(), wanted, &mut acknowledged));
    }
    sum += acknowledged.len();
    let memory = if is_memory_lost { ", with the memory lost," } else { "" };
    println!(
        "figures: {death:?} of all processes{memory} {} times: {sum} transfers, 0 lost, opening took at most {longest} ms",
        rounds()
    );
    sum
}

fn repaired(death: Death) {
    let sum = die_again_and_again(death, false);
    assert!(sum as u64 > rounds() * 10, "{sum} transfers are too few for a meaningful test");
}

#[test]
fn after_all_processes_aborted_their_memory_is_repaired() {
    repaired(Death::Abort);
}

#[test]
fn after_all_processes_were_killed_their_memory_is_repaired() {
    repaired(Death::Kill);
}

#[test]
fn when_the_shared_memory_is_lost_too_the_log_is_replayed() {
    die_again_and_again(Death::Abort, true);
}

#[test]
fn no_change_of_an_unfinished_transaction_is_left_after_the_death_of_all_processes() {
    for is_memory_lost in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut one = Member::start(directory.path(), 1);
        one.ask("put key before");
        one.ask("put other before");
        one.ask("begin");
        one.ask("put key after");
        one.ask("put new after");
        // The other process's sync commit also flushes the unfinished transaction's records.
        let mut two = Member::start(directory.path(), 2);
        two.ask("put mine committed");
        let region = one.ask("region");
        one.kill();
        two.kill();
        drop((one, two));
        if is_memory_lost {
            std::fs::remove_file(region).unwrap();
        }
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!(env.opened().how, if is_memory_lost { OpenedBy::Restarted } else { OpenedBy::Repaired });
        assert_eq!(env.opened().undone, 1, "{:?}", env.opened());
        let table = env.btree("table").unwrap();
        let get = |key: &[u8]| env.run(|txn| table.get(txn, key)).unwrap();
        assert_eq!(get(b"key").as_deref(), Some(&b"before"[..]));
        assert_eq!(get(b"mine").as_deref(), Some(&b"committed"[..]));
        assert_eq!(get(b"new"), None);
    }
}

#[test]
fn the_death_of_a_process_without_locks_does_not_disturb_the_last_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key value");
    one.kill();
    drop(one);
    assert_eq!(two.ask("get key"), "value");
    assert_eq!(two.ask("put key other"), "put");
    two.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"other"[..]));
}

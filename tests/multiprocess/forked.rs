//! A child that was forked without an `exec` has all open files of its parent, including the locks of open file
//! descriptions. Nevertheless its dead parent must count as dead (PROTOCOLS D9).

use std::time::{Duration, Instant};

use libtp::{Env, OpenedBy};
use libtp_tests::orphan::Orphan;
use libtp_tests::sizes;

use crate::crew::Member;

/// Lets a process make a child that outlives it, by `fork` (`libc`) or by the system call `clone` (`raw`).
pub fn orphan_of(member: &mut Member, how: &str) -> Orphan {
    Orphan::named(&member.ask(&format!("fork {how}")))
}

fn survivors_go_on(how: &str) {
    let directory = tempfile::tempdir().unwrap();
    let (mut victim, mut other) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    other.ask("put key before");
    victim.ask("begin");
    victim.ask("put key unfinished");
    let orphan = orphan_of(&mut victim, how);
    victim.kill();
    assert_eq!(other.ask("put key after"), "put", "the dead parent's lock on the record must be released");
    assert_eq!(other.ask("get key"), "after");
    assert!(orphan.lives(), "the child has ended, so the test shows nothing");
    other.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"after"[..]));
    assert!(orphan.lives(), "the child has ended, so the test shows nothing");
}

#[test]
fn a_forked_child_does_not_keep_its_dead_parent_alive() {
    survivors_go_on("libc");
}

#[test]
fn a_raw_clone_does_not_keep_its_dead_parent_alive() {
    survivors_go_on("raw");
}

fn the_next_open_works(how: &str) {
    let directory = tempfile::tempdir().unwrap();
    let mut victim = Member::start(directory.path(), 1);
    victim.ask("put key before");
    victim.ask("begin");
    victim.ask("put key unfinished");
    let orphan = orphan_of(&mut victim, how);
    victim.kill();
    for _ in 0..2 {
        let env = Env::open_or_create(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        assert_ne!(env.opened().how, OpenedBy::Restarted, "the region was there");
        assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"before"[..]));
        assert!(orphan.lives(), "the child has ended, so the test shows nothing");
    }
}

#[test]
fn a_forked_child_of_the_last_process_does_not_prevent_the_next_open() {
    the_next_open_works("libc");
}

#[test]
fn a_raw_clone_of_the_last_process_does_not_prevent_the_next_open() {
    the_next_open_works("raw");
}

#[test]
fn a_process_that_opens_and_closes_the_environments_files_stays_attached() {
    let directory = tempfile::tempdir().unwrap();
    let (mut curious, mut other) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    for round in 0..5 {
        assert_eq!(curious.ask("read-own-files 20"), "read");
        assert_eq!(curious.ask(&format!("put key {round}")), "put");
        assert_eq!(other.ask("get key"), round.to_string());
    }
    // No process has taken `curious` for dead, so `curious` is still attached after `other` has left.
    other.leave();
    curious.ask("begin");
    curious.ask("put key unfinished");
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Joined);
    let table = env.btree("table").unwrap();
    let impatient = Env::builder().lock_timeout(std::time::Duration::from_millis(200)).open(directory.path()).unwrap();
    let same = impatient.btree("table").unwrap();
    let refused = impatient.begin().map(|txn| same.get(&txn, b"key")).unwrap();
    assert!(matches!(refused, Err(libtp::Error::LockTimeout(_))), "the curious process keeps its lock: {refused:?}");
    assert_eq!(curious.ask("commit"), "committed");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"unfinished"[..]));
    curious.leave();
}

#[test]
fn a_process_that_runs_another_program_counts_as_dead_even_without_a_waiter() {
    let directory = tempfile::tempdir().unwrap();
    let mut victim = Member::start(directory.path(), 1);
    let env = Env::open_or_create(directory.path()).unwrap();
    victim.ask("begin");
    victim.ask("put key unfinished");
    assert_eq!(env.transactions().len(), 1);
    assert_eq!(victim.ask("become-another-program"), "becomes");
    // No session waits for the victim's lock. The library must notice without a waiter that the victim no longer uses
    // the environment, although the process with its pid still runs.
    let (begun, patience) = (Instant::now(), Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 20)));
    while !env.transactions().is_empty() {
        assert!(begun.elapsed() < patience, "the victim's transaction is still there: {:?}", env.transactions());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(env.repairs().rebuilds, 0);
}

//! Processes that work in one environment at the same time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libtp::{Durability, Env, Settings};

use crate::crew::Member;
use libtp_tests::transfers::Bank;

#[test]
fn a_commit_of_one_process_is_visible_to_the_other_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    assert_eq!((one.how.as_str(), two.how.as_str()), ("Created", "Joined"));
    for round in 0..50 {
        let text = format!("text{round}");
        assert_eq!(one.ask(&format!("put key {text}")), "put");
        assert_eq!(two.ask("get key"), text);
        assert_eq!(two.ask(&format!("put-relaxed key{round} {text}")), "put");
        assert_eq!(one.ask(&format!("get key{round}")), text);
    }
    one.leave();
    two.leave();
}

#[test]
fn another_process_waits_for_an_uncommitted_change() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key before");
    one.ask("begin");
    one.ask("put key after");
    two.waits("get key");
    one.ask("commit");
    assert_eq!(two.answer(), "after");
    one.leave();
    two.leave();
}

#[test]
fn processes_that_wait_for_each_other_lose_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("begin");
    two.ask("begin");
    one.ask("put x 1");
    two.ask("put y 2");
    one.waits("put y 1");
    two.order("put x 2");
    let mut answers = [one.answer(), two.answer()];
    answers.sort_unstable();
    assert_eq!(answers, ["deadlock", "put"]);
    one.leave();
    two.leave();
}

#[test]
fn two_processes_write_at_the_same_time_and_their_sums_agree() {
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (1..=2).map(|number| Member::start(directory.path(), number)).collect();
    let start = Instant::now();
    for member in &mut crew {
        member.order("transfers 3000");
    }
    for member in &crew {
        assert_eq!(member.answer(), "transferred");
    }
    let took = start.elapsed();
    // This process audits the bank while both processes are attached.
    let env = Env::open_or_create(directory.path()).unwrap();
    let bank = Bank::open(&env).unwrap();
    let wanted: BTreeSet<(u64, u64)> = (1..=2).flat_map(|worker| (0..3000).map(move |one| (worker, one))).collect();
    assert_eq!(bank.audit().unwrap(), wanted);
    crew.into_iter().for_each(Member::leave);
    assert_eq!(bank.audit().unwrap(), wanted);
    println!("figures: 6000 transfers of 2 processes in {} ms, sums agree", took.as_millis());
}

#[test]
fn transfers_of_four_processes_with_two_threads_each_pass_the_audit() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let bank = Bank::open(&env).unwrap();
    let mut crew: Vec<Member> = (1..=4).map(|number| Member::start(directory.path(), number)).collect();
    for (at, member) in crew.iter_mut().enumerate() {
        member.order(if at % 2 == 0 { "work sync" } else { "work relaxed" });
    }
    // This process makes transfers, too.
    let mut random = libtp_sim::Random::new(9);
    let start = Instant::now();
    let mut own = BTreeSet::new();
    while start.elapsed() < Duration::from_millis(1500) {
        let id = (0, own.len() as u64);
        bank.transfer(id, &mut random, Durability::Relaxed).unwrap();
        own.insert(id);
    }
    for member in &mut crew {
        own.extend(member.acknowledged_until_it_stops());
    }
    crew.into_iter().for_each(Member::leave);
    let journal = bank.audit().unwrap();
    assert_eq!(journal, own, "the journal must have exactly the acknowledged transfers");
    println!("figures: {} transfers of 5 processes with 9 threads, all acknowledged, sums agree", journal.len());
}

#[test]
fn a_relaxed_commit_is_on_disk_within_its_processs_bound_although_another_process_has_a_longer_bound() {
    let directory = tempfile::tempdir().unwrap();
    let with = |millis| Settings { relaxed_millis: Some(millis), ..Settings::default() };
    // The background thread of the first handle flushes the commits of both handles.
    let slow = Env::builder().settings(with(3_600_000)).open(directory.path()).unwrap();
    let table = slow.btree("table").unwrap();
    slow.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", b"1")).unwrap();
    let hasty = Env::builder().settings(with(100)).open(directory.path()).unwrap();
    let table = hasty.btree("table").unwrap();
    for round in 0..5 {
        hasty.run_with(Durability::Relaxed, |txn| table.put(txn, b"key", &[round])).unwrap();
        let (end, begun) = (hasty.stats().unwrap().log_tail, Instant::now());
        while hasty.stats().unwrap().log_durable < end {
            assert!(begun.elapsed() < Duration::from_secs(10), "the commit of round {round} is not on disk");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

//! Processes open the environment and leave it, in any order.

use libtp::{Env, OpenedBy};

use crate::crew::Member;
use libtp_tests::transfers::Bank;

fn first_or_last_leaves_first(first_leaves_first: bool) {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    let mut two = Member::start(directory.path(), 2);
    one.ask("transfers 200");
    two.ask("transfers 200");
    let (leaver, mut stayer) = if first_leaves_first { (one, two) } else { (two, one) };
    leaver.leave();
    assert_eq!(stayer.ask("put still here"), "put");
    assert_eq!(stayer.ask("get still"), "here");
    let mut third = Member::start(directory.path(), 3);
    assert_eq!(third.how, "Joined");
    assert_eq!(third.ask("get still"), "here");
    stayer.leave();
    third.ask("transfers 100");
    third.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    assert_eq!(Bank::open(&env).unwrap().audit().unwrap().len(), 500);
}

#[test]
fn the_first_process_leaves_first_and_the_second_continues() {
    first_or_last_leaves_first(true);
}

#[test]
fn the_second_process_leaves_first_and_the_first_continues() {
    first_or_last_leaves_first(false);
}

#[test]
fn an_opening_after_all_have_left_finds_a_clean_close() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
        assert_eq!((one.how.as_str(), two.how.as_str()), (if round == 0 { "Created" } else { "Clean" }, "Joined"));
        let before = if round == 0 { "none".into() } else { format!("round{}", round - 1) };
        assert_eq!(two.ask("get key"), before);
        one.ask(&format!("put-relaxed key round{round}"));
        // The two processes take turns in leaving last.
        let (first, last) = if round % 2 == 0 { (one, two) } else { (two, one) };
        first.leave();
        last.leave();
    }
}

#[test]
fn one_process_may_open_it_twice() {
    let directory = tempfile::tempdir().unwrap();
    let one = Env::open_or_create(directory.path()).unwrap();
    let two = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((one.opened().how, two.opened().how), (OpenedBy::Created, OpenedBy::Joined));
    let (table, same) = (one.btree("table").unwrap(), two.btree("table").unwrap());
    for round in 0..100u32 {
        one.run(|txn| table.put(txn, b"key", &round.to_le_bytes())).unwrap();
        assert_eq!(two.run(|txn| same.get(txn, b"key")).unwrap().as_deref(), Some(&round.to_le_bytes()[..]));
    }
    // Handles of one process conflict with each other: a lock of the first is refused to another.
    let txn = one.begin().unwrap();
    table.put(&txn, b"key", b"mine").unwrap();
    let impatient = Env::builder().lock_timeout(std::time::Duration::from_millis(20)).open(directory.path()).unwrap();
    let third = impatient.btree("table").unwrap();
    let refused = impatient.begin().map(|txn| third.get(&txn, b"key")).unwrap();
    assert!(matches!(refused, Err(libtp::Error::LockTimeout(_))), "{refused:?}");
    txn.commit().unwrap();
    drop((table, one));
    assert_eq!(two.run(|txn| same.get(txn, b"key")).unwrap().as_deref(), Some(&b"mine"[..]));
    drop((same, two, third, impatient));
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean);
}

#[test]
fn of_many_processes_that_open_a_new_environment_at_once_exactly_one_makes_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (1..=8).map(|number| Member::launch(directory.path(), number)).collect();
    let ways: Vec<String> = crew.iter().map(Member::answer).collect();
    assert_eq!(ways.iter().filter(|how| *how == "Created").count(), 1, "{ways:?}");
    assert_eq!(ways.iter().filter(|how| *how == "Joined").count(), 7, "{ways:?}");
    for member in &mut crew {
        member.order("transfers 50");
    }
    for member in &crew {
        assert_eq!(member.answer(), "transferred");
    }
    // All processes leave at the same time.
    for member in &mut crew {
        member.order("leave");
    }
    for member in &crew {
        assert_eq!(member.answer(), "left");
    }
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    assert_eq!(Bank::open(&env).unwrap().audit().unwrap().len(), 400);
}

#[test]
fn a_process_that_cannot_see_the_shared_memory_learns_the_setting() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let region = one.ask("region");
    let hidden = format!("{region}.hidden");
    std::fs::rename(&region, &hidden).unwrap();
    let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
    std::fs::rename(&hidden, &region).unwrap();
    assert!(error.contains("region_directory") && error.contains(&directory.path().display().to_string()), "{error}");
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Joined);
    assert_eq!(one.ask("get key"), "value");
    one.leave();
}

#[test]
fn a_thread_that_ends_in_the_middle_of_a_transaction_releases_its_slot() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    let slots = || env.managers().processes.sessions();
    let before = slots().len();
    for round in 0..40 {
        let ended = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let txn = env.begin().unwrap();
                table.put(&txn, b"key", b"new").unwrap();
                assert!(round % 2 == 0, "as planned");
            });
            thread.join()
        });
        assert_eq!(ended.is_ok(), round % 2 == 0);
    }
    let after = slots();
    assert!(after.len() <= before + 1, "{} slots, {before} before: the ended threads keep slots", after.len());
    assert!(after.iter().all(|session| session.alive && session.latches == 0), "{after:?}");
    assert!(env.transactions().is_empty() && env.locks().unwrap().is_empty());
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"old"[..]));
}

/// A transaction belongs to no thread, so it does not end with the thread that began it. A transaction that the program
/// forgets ends only with the process.
#[test]
fn a_forgotten_transaction_ends_with_its_process() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key old");
    one.ask("forget-in-a-thread key new");
    let env = Env::builder().lock_timeout(std::time::Duration::from_millis(20)).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let refused = env.begin().map(|txn| table.get(&txn, b"key")).unwrap();
    assert!(matches!(refused, Err(libtp::Error::LockTimeout(_))), "{refused:?}");
    // A waiter without a timeout waits. `Env::transactions` lists its transaction and the forgotten transaction.
    two.waits("put key newer");
    assert_eq!(env.transactions().len(), 2, "{:?}", env.transactions());
    one.ask("put other value");
    // An orderly end of the process ends the transaction, too, and returns no error.
    one.leave();
    assert_eq!(two.answer(), "put");
    assert_eq!(two.ask("get key"), "newer");
    two.leave();
    assert!(env.transactions().is_empty() && env.locks().unwrap().is_empty());
    let slots = env.managers().processes.sessions();
    assert!(slots.iter().all(|session| session.alive && session.pid == std::process::id()), "{slots:?}");
    drop((table, env));
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean);
}

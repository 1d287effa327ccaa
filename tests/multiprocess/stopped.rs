//! A process stands still in the middle of its work, latches and locks in hand. The others may have to wait; nobody takes
//! it for dead, and when it goes on so does everything.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use libtp::{Env, HeldLatch, Life, WaitsFor};
use libtp_tests::sizes;

use crate::bank::Bank;
use crate::crew::Member;

/// It stands still for so long.
const STILL: Duration = Duration::from_secs(2);

#[test]
fn a_process_that_stands_still_is_waited_for_and_never_taken_for_dead() {
    let rounds = sizes::number("LIBTP_TEST_STOPS", 2);
    let directory = tempfile::tempdir().unwrap();
    let mut crew: Vec<Member> = (1..=4).map(|number| Member::start(directory.path(), number)).collect();
    for (at, member) in crew.iter_mut().enumerate() {
        assert_eq!(member.ask(if at % 2 == 0 { "work sync" } else { "work relaxed" }), "working");
    }
    let mut meanwhile = 0;
    let mut told = BTreeSet::new();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(150 + 13 * round));
        let victim = usize::try_from(round % 4).unwrap();
        crew[victim].stop();
        told.extend(crew.iter_mut().flat_map(Member::acknowledged_so_far));
        std::thread::sleep(STILL);
        // Whether somebody needs what it holds is left to chance: this asks.
        let env = Env::open(directory.path()).unwrap();
        assert_eq!(env.managers().processes.dead_sessions(), [], "who is stopped is taken for dead");
        drop(env);
        let more: Vec<_> = crew.iter_mut().flat_map(Member::acknowledged_so_far).collect();
        meanwhile += more.len();
        told.extend(more);
        crew[victim].resume();
    }
    for member in &mut crew {
        told.extend(member.acknowledged_until_it_stops());
    }
    // Whoever had been taken for dead would have been told by an error, or have lost its transactions.
    crew.into_iter().for_each(Member::leave);
    let env = Env::open(directory.path()).unwrap();
    assert_eq!(
        Bank::open(&env).unwrap().audit().unwrap(),
        told,
        "the journal is what was acknowledged, no more and no less"
    );
    for name in env.databases().unwrap() {
        assert!(env.verify(&name).unwrap().findings.is_empty(), "{name}");
    }
    println!("figures: {rounds} times one of four stood still for 2 s: {meanwhile} transfers of the others meanwhile, 0 lost");
}

#[test]
fn it_is_told_which_latches_a_stopped_process_holds_and_who_waits_for_them_since_when() {
    let directory = tempfile::tempdir().unwrap();
    let [mut holder, mut waiter] = [1, 2].map(|number| Member::start(directory.path(), number));
    waiter.ask("put key 1");
    assert_eq!(holder.ask("hold-pages table"), "holding");
    holder.stop();
    waiter.waits("get key");
    let env = Env::open(directory.path()).unwrap();
    let start = Instant::now();
    let (held, waits) = loop {
        let sessions = env.sessions();
        let waits = sessions.iter().find(|one| matches!(one.waits_for, Some(WaitsFor::Latch(_))));
        if let Some(waits) = waits {
            let stopped = |one: &&libtp::SessionState| one.life == Life::Stopped && !one.held.is_empty();
            let holds = sessions.iter().find(stopped).expect("who waits for a latch waits for somebody");
            break (holds.held.clone(), waits.clone());
        }
        assert!(start.elapsed() < Duration::from_secs(60), "nobody says that it waits: {sessions:#?}");
        std::thread::sleep(Duration::from_millis(1));
    };
    let Some(WaitsFor::Latch(wanted)) = &waits.waits_for else { panic!("it was found by that") };
    let name = |held: &HeldLatch| held.name.clone();
    assert_eq!(held.iter().map(name).collect::<Vec<_>>(), ["page 1 of table", "page 2 of table"]);
    assert!(held.iter().all(|held| held.alone));
    let since = |held: &HeldLatch| held.wanted_since;
    assert_eq!(held.iter().find(|held| held.name == *wanted).and_then(since), waits.waits_since);
    assert!(waits.waits_since.is_some_and(|since| since.elapsed().is_ok()));
    holder.resume();
    holder.order("go on");
    assert_eq!(holder.answer(), "let go");
    assert_eq!(waiter.answer(), "1");
    assert!(env.sessions().iter().all(|one| one.waits_for.is_none() && one.held.is_empty()), "all is over");
    drop(env);
    [holder, waiter].into_iter().for_each(Member::leave);
}

#[cfg(feature = "failpoints")]
#[test]
fn who_is_stopped_while_it_changes_the_control_file_keeps_nobody_waiting_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let mut holder = Member::start(directory.path(), 1);
    let env = Env::open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    holder.ask("arm control: file held!stop");
    holder.order("checkpoint");
    let begun = Instant::now();
    let at_it = loop {
        let sessions = env.sessions();
        let stopped = sessions.into_iter().find(|one| one.life == Life::Stopped && one.roles.len() == 2);
        if let Some(one) = stopped {
            break one;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come to the failpoint: {:?}", env.sessions());
        std::thread::sleep(Duration::from_millis(1));
    };
    assert_eq!(at_it.roles, ["takes a checkpoint", "changes the control file"]);
    // A new database needs a number out of that file.
    let refused = env.btree("another").err().map(|error| error.to_string()).unwrap();
    assert!(refused.contains(&format!("process {}, which is stopped", at_it.pid)), "{refused}");
    assert!(refused.contains("kill"), "{refused}");
    env.run(|txn| table.put(txn, b"key", b"meanwhile")).unwrap();
    holder.resume();
    assert_eq!(holder.answer(), "taken");
    env.btree("another").unwrap();
    holder.leave();
}

#[cfg(feature = "failpoints")]
#[test]
fn who_is_stopped_as_it_has_just_left_has_nothing_to_be_repaired() {
    let directory = tempfile::tempdir().unwrap();
    let mut leaver = Member::start(directory.path(), 1);
    let env = Env::open(directory.path()).unwrap();
    let pid = env.sessions().iter().map(|one| one.pid).find(|&pid| pid != std::process::id()).unwrap();
    leaver.ask("arm leave: risen, door held!stop");
    leaver.order("leave");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    while !stat().contains(") T ") {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Its seat is free. Whoever is still in it is dead to all others, who then give the place to the next.
    let sessions: Vec<_> = env.sessions().into_iter().filter(|one| one.pid == pid).collect();
    leaver.resume();
    assert_eq!(leaver.answer(), "left");
    assert!(sessions.is_empty(), "{sessions:?}");
}

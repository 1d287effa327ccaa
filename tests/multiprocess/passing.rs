//! A transaction that one process passes on and another process continues. If the process that has the transaction
//! dies, the transaction is undone.

use std::path::Path;
#[cfg(feature = "failpoints")]
use std::time::Duration;

use libtp::Env;

use crate::crew::Member;

/// Starts a process that changes `key` to "new" and passes the transaction on. Returns the process, and the text with
/// which another process can take the transaction over.
fn passes_on(directory: &Path, number: u64) -> (Member, String) {
    passes_on_that(directory, number, "key")
}

fn passes_on_that(directory: &Path, number: u64, key: &str) -> (Member, String) {
    let mut member = Member::start(directory, number);
    assert_eq!(member.ask("begin"), "begun");
    assert_eq!(member.ask(&format!("put {key} new")), "put");
    let word = member.ask("pass-on");
    (member, word)
}

#[test]
fn another_process_takes_a_transaction_over_and_the_first_may_die() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    let (mut first, word) = passes_on(directory.path(), 1);
    let mut second = Member::start(directory.path(), 2);
    assert_eq!(second.ask(&format!("take-over {word}")), "taken over");
    first.kill();
    first.wait();
    assert_eq!(second.ask("get key"), "new");
    assert_eq!(second.ask("put other new"), "put");
    // The log records are longer than the session may append without a new reservation (PROTOCOLS D11).
    assert_eq!(second.ask(&format!("put long {}", "x".repeat(20_000))), "put");
    // The dead process is repaired, and its remaining locks are released.
    env.run(|txn| table.put(txn, b"third", b"by the way")).unwrap();
    let mut third = Member::start(directory.path(), 3);
    assert_eq!(third.ask(&format!("take-over {word}")), "not passed on");
    assert_eq!(second.ask("commit"), "committed");
    let seen = env.run(|txn| Ok([table.get(txn, b"key")?, table.get(txn, b"other")?])).unwrap();
    assert_eq!(seen.map(Option::unwrap), [b"new", b"new"]);
    assert_eq!(env.repairs().rebuilds, 0);
}

#[test]
fn the_death_of_a_transactions_owner_ends_it_before_and_after_a_takeover() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"old")).unwrap();
    for is_taken in [false, true, false, true] {
        let (mut first, word) = passes_on(directory.path(), 1);
        let mut second = Member::start(directory.path(), 2);
        if is_taken {
            assert_eq!(second.ask(&format!("take-over {word}")), "taken over");
            assert_eq!(second.ask("put other new"), "put");
            second.kill();
            second.wait();
        } else {
            first.kill();
            first.wait();
        }
        // The read waits for the transaction's locks until the transaction is undone.
        let seen = env.run(|txn| Ok((table.get(txn, b"key")?, table.get(txn, b"other")?))).unwrap();
        assert_eq!(seen, (Some(b"old".to_vec()), None), "taken over: {is_taken}");
        let mut left = if is_taken { first } else { second };
        assert_eq!(left.ask(&format!("take-over {word}")), "not passed on");
        assert_eq!(left.ask("get key"), "old");
        left.order("leave");
    }
    // The locks of an undone transaction are released before its slot is free.
    let begun = std::time::Instant::now();
    while !env.transactions().is_empty() && begun.elapsed() < std::time::Duration::from_secs(10) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(env.transactions(), [], "the undone transactions still have slots");
    assert_eq!(env.repairs().rebuilds, 0);
}

#[test]
fn a_passed_transaction_is_undone_by_the_next_process_after_all_died() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    env.run(|txn| env.btree("table")?.put(txn, b"key", b"old")).unwrap();
    let (mut first, word) = passes_on(directory.path(), 1);
    let mut second = Member::start(directory.path(), 2);
    drop(env);
    assert_eq!(second.ask(&format!("take-over {word}")), "taken over");
    let (mut third, other) = passes_on_that(directory.path(), 3, "other");
    for member in [&mut first, &mut second, &mut third] {
        member.kill();
        member.wait();
    }
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let seen = env.run(|txn| Ok((table.get(txn, b"key")?, table.get(txn, b"other")?))).unwrap();
    assert_eq!(seen, (Some(b"old".to_vec()), None));
    for word in [word, other] {
        assert!(env.attach(&word.parse().unwrap()).is_err());
    }
}

/// A process is stopped in a takeover: it has the transaction's slot, but not yet the transaction's locks. The process
/// that passed the transaction on may be gone. Another session that requests the locks must wait until the takeover
/// is complete.
#[cfg(feature = "failpoints")]
#[test]
fn a_process_stopped_during_a_takeover_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    env.run(|txn| env.btree("table")?.put(txn, b"key", b"old")).unwrap();
    for is_killed in [true, false] {
        let (mut first, word) = passes_on(directory.path(), 1);
        let mut second = Member::start(directory.path(), 2);
        second.ask("arm pass: slot taken over, locker not!stop");
        second.order(&format!("take-over {word}"));
        crate::stopped::stopped(directory.path(), |_| true);
        if is_killed {
            first.kill();
            first.wait();
        } else {
            first.leave();
        }
        let mut third = Member::start(directory.path(), 3);
        third.order("get key");
        // A waiter that finds no holder of the lock declares the memory broken after about a second. This wait is
        // longer.
        assert_eq!(
            third.answer_within(Duration::from_secs(4)),
            None,
            "a lock of the transaction was granted to another"
        );
        assert_eq!(env.repairs().rebuilds, 0, "the first process was killed: {is_killed}");
        second.resume();
        assert_eq!(second.answer(), "taken over");
        assert_eq!(second.ask("commit"), "committed");
        assert_eq!(third.answer(), "new");
        [second, third].into_iter().for_each(Member::leave);
        assert_eq!(env.repairs().rebuilds, 0, "the first process was killed: {is_killed}");
    }
}

/// While a process takes a transaction over, `tp abort` is refused.
#[cfg(feature = "failpoints")]
#[test]
fn a_transaction_cannot_be_aborted_while_a_process_takes_it_over() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    env.run(|txn| env.btree("table")?.put(txn, b"key", b"old")).unwrap();
    let (first, word) = passes_on(directory.path(), 1);
    let number = word.parse::<libtp::Detached>().unwrap().txn();
    let mut second = Member::start(directory.path(), 2);
    second.ask("arm pass: slot taken over, locker not!stop");
    second.order(&format!("take-over {word}"));
    crate::stopped::stopped(directory.path(), |_| true);
    let refused = env.abort_detached(number).map_err(|error| error.to_string());
    assert!(refused.as_ref().is_err_and(|why| why.contains("waits to be taken over")), "{refused:?}");
    second.resume();
    assert_eq!(second.answer(), "taken over");
    assert_eq!(second.ask("put other new"), "put");
    assert_eq!(second.ask("commit"), "committed");
    let found = env.run(|txn| env.btree("table")?.get(txn, b"key")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"new"[..]));
    [first, second].into_iter().for_each(Member::leave);
    assert_eq!(env.repairs().rebuilds, 0);
}

#[cfg(feature = "failpoints")]
#[test]
fn a_transaction_undone_for_a_dead_process_cannot_be_ended_by_another() {
    let directory = tempfile::tempdir().unwrap();
    let env = crate::stopped::idle().open(directory.path()).unwrap();
    env.run(|txn| env.btree("table")?.put(txn, b"key", b"old")).unwrap();
    let (mut first, word) = passes_on(directory.path(), 1);
    let number = word.parse::<libtp::Detached>().unwrap().txn();
    let mut second = Member::start(directory.path(), 2);
    second.ask("arm repair: adopted, not undone!stop");
    first.kill();
    first.wait();
    crate::stopped::stopped(directory.path(), |_| true);
    let refused = env.abort_detached(number).map_err(|error| error.to_string());
    assert!(refused.as_ref().is_err_and(|why| why.contains("waits to be taken over")), "{refused:?}");
    second.resume();
    assert_eq!(second.ask("get key"), "old");
    second.leave();
    assert_eq!(env.repairs().rebuilds, 0);
}

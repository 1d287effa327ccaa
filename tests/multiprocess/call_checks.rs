//! The checks at the beginning and end of a call (docs/design/0023). Each of these tests fails if its check is left
//! out. Tests of the check for a fork are in `forks.rs`. `barrier.rs` tests a commit that coincides with the
//! declaration that memory is broken.

use libtp::Env;

use crate::crew::Member;
use crate::stopped::{idle, stopped};

/// Returns whether an answer reports an error.
fn is_refused(answer: &str) -> bool {
    answer.starts_with("failed")
}

/// Gives an order and returns the answer, which may report an error.
fn tell(member: &mut Member, order: &str) -> String {
    member.order(order);
    member.answer()
}

#[test]
fn the_calls_of_a_transaction_whose_session_has_died_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut member = Member::start(directory.path(), 0);
    for order in ["put before 1", "begin", "put first 1", "arm change: page changed, LSN old@1!panic"] {
        member.ask(order);
    }
    assert!(is_refused(&tell(&mut member, "put second 1")), "the call that panics must report an error");
    for order in ["get before", "put third 1", "commit"] {
        let answer = tell(&mut member, order);
        assert!(is_refused(&answer) && answer.contains("an earlier call"), "{order}: {answer}");
    }
    // The next transaction uses another session.
    for key in ["first", "second", "third"] {
        assert_eq!(member.ask(&format!("get {key}")), "none");
    }
    member.ask("put first 2");
    member.leave();
}

#[test]
fn a_pooled_session_of_abandoned_memory_is_not_used() {
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (idle().open(directory.path()).unwrap(), idle().open(directory.path()).unwrap());
    let (table, others) = (one.btree("table").unwrap(), other.btree("table").unwrap());
    one.run(|txn| table.put(txn, b"key", b"1")).unwrap();
    // This transaction has the pooled session of its handle. So the handle's next transaction needs a new session, and
    // notices that the region is broken.
    let busy = other.begin().unwrap();
    other.managers().processes.declare_broken();
    other.run(|txn| others.put(txn, b"key", b"2")).unwrap();
    let txn = one.begin().unwrap();
    assert_eq!(table.get(&txn, b"key").unwrap().as_deref(), Some(&b"2"[..]));
    txn.commit().unwrap();
    drop(busy);
}

#[test]
fn a_relaxed_commit_in_abandoned_memory_is_not_answered() {
    let directory = tempfile::tempdir().unwrap();
    // Without background threads, no thread of the stopped process can hold a role of writing, for which a rebuild
    // would wait.
    std::fs::write(directory.path().join("libtp.toml"), "no_background = true\n").unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let mut member = Member::start(directory.path(), 0);
    // The first relaxed commit in a region changes the control file before it logs its record. So the test makes
    // another relaxed commit before the tested commit.
    member.ask("put-relaxed key 0");
    member.ask("arm commit: committing, nothing logged!stop");
    member.order("put-relaxed key 1");
    stopped(directory.path(), |_| true);
    env.managers().processes.declare_broken();
    env.run(|txn| table.put(txn, b"other", b"meanwhile")).unwrap();
    member.resume();
    // The member's transaction was not committed, and runs again in the new memory.
    assert_eq!(member.answer(), "put");
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"1"[..]));
    member.leave();
}

#[test]
fn a_snapshot_of_abandoned_memory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"1")).unwrap();
    let mut member = Member::start(directory.path(), 0);
    member.ask("hold-snapshot");
    assert_eq!(member.ask("key"), "1");
    env.managers().processes.declare_broken();
    env.run(|txn| table.put(txn, b"key", b"2")).unwrap();
    let answer = tell(&mut member, "key");
    assert!(is_refused(&answer), "{answer}");
    member.leave();
}

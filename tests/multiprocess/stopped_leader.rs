//! The process that writes the log is stopped in the middle of a flush (PROTOCOLS L3a). Commits of other processes wait
//! until the process continues or is killed. A commit with a bound, or a commit that its program cancels, ends with an
//! error that names the process. The transaction stays committed in memory, and its session works on.

use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use libtp::{Db, Durability, Env, Error, ProcessState, SessionState, WaitsFor};
use libtp_tests::process::until;

use crate::crew::{in_time, Member};
use crate::stopped::{idle, stopped};

/// A commit that has no answer after this time is taken to wait.
const MOMENT: Duration = Duration::from_millis(600);
/// The bound of the waits.
const BOUND: Duration = Duration::from_millis(300);

/// Starts a process and lets it stop in a flush. Returns the process and its session that writes the log.
fn stopped_leader(directory: &Path) -> (Member, SessionState) {
    let mut leader = Member::start(directory, 1);
    leader.ask("put key 0");
    leader.ask("arm log: flush begun!stop");
    leader.order("put key 1");
    let at_it = stopped(directory, |one| one.roles == ["writes the log"]);
    (leader, at_it)
}

/// Puts a record in another thread, and returns the receiver of the answer.
fn put_meanwhile(env: &Env, table: &Db, key: &'static [u8]) -> Receiver<libtp::Result<()>> {
    let (answer, answered) = channel();
    let (env, table) = (env.clone(), table.clone());
    std::thread::spawn(move || answer.send(env.run(|txn| table.put(txn, key, b"1"))));
    answered
}

fn value(env: &Env, table: &Db, key: &[u8]) -> Option<Vec<u8>> {
    env.run_with(Durability::Relaxed, |txn| table.get(txn, key)).unwrap()
}

/// Checks that the error names the stopped process and the two ways on.
fn names(error: &Error, pid: u32) {
    let told = error.to_string();
    for part in [
        "not known to be on disk".to_owned(),
        format!("process {pid} is writing the log, and it is stopped"),
        format!("`kill -CONT {pid}` or `kill -KILL {pid}` frees all waiters"),
    ] {
        assert!(told.contains(&part), "{told}");
    }
}

#[test]
fn a_commit_without_a_bound_waits_until_the_stopped_leader_continues_or_is_killed() {
    for is_killed in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let (mut leader, at_it) = stopped_leader(directory.path());
        let env = idle().open(directory.path()).unwrap();
        let table = env.btree("table").unwrap();
        let answered = put_meanwhile(&env, &table, b"other");
        assert_eq!(answered.recv_timeout(MOMENT).unwrap_err(), RecvTimeoutError::Timeout, "the commit has an answer");
        let sessions = env.sessions();
        assert!(sessions.iter().any(|one| matches!(one.waits_for, Some(WaitsFor::Flush(_)))), "{sessions:#?}");
        let leads = sessions.iter().find(|one| one.roles == ["writes the log"]).expect("the leader is named");
        assert_eq!((leads.pid, leads.process_state), (at_it.pid, ProcessState::Stopped));
        if is_killed {
            leader.kill();
        } else {
            leader.resume();
        }
        in_time("the commit", move || answered.recv().unwrap()).unwrap();
        assert_eq!(value(&env, &table, b"other").as_deref(), Some(&b"1"[..]));
        if is_killed {
            leader.wait();
        } else {
            assert_eq!(leader.answer(), "put");
            leader.leave();
        }
    }
}

#[test]
fn a_commit_with_a_bound_does_not_wait_for_a_stopped_leader() {
    let directory = tempfile::tempdir().unwrap();
    let (leader, at_it) = stopped_leader(directory.path());
    let env = idle().lock_timeout(BOUND).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let begun = Instant::now();
    let answered = put_meanwhile(&env, &table, b"other");
    let unknown = in_time("the commit", move || answered.recv().unwrap()).unwrap_err();
    assert!(begun.elapsed() >= BOUND, "the commit has waited for {:?} only", begun.elapsed());
    assert!(matches!(unknown, Error::OutcomeUnknown { .. }) && !unknown.is_retryable(), "{unknown}");
    names(&unknown, at_it.pid);
    // The transaction is committed in memory, its locks are free, and its session is used again.
    assert_eq!(value(&env, &table, b"other").as_deref(), Some(&b"1"[..]));
    env.run_with(Durability::Relaxed, |txn| table.put(txn, b"relaxed", b"1")).unwrap();
    let sessions = env.sessions();
    assert!(sessions.iter().all(|one| one.waits_for.is_none()), "{sessions:#?}");
    assert!(sessions.iter().all(|one| one.process_state != ProcessState::Dead), "{sessions:#?}");
    // Every other wait for the flush has the bound, too.
    let (reading, read) = (env.clone(), table.clone());
    let only_read = in_time("a commit that has only read", move || reading.run(|txn| read.get(txn, b"other")));
    names(&only_read.unwrap_err(), at_it.pid);
    let (flushing, taking, showing) = (env.clone(), env.clone(), env.clone());
    names(&in_time("a flush", move || flushing.flush()).unwrap_err(), at_it.pid);
    names(&in_time("a checkpoint", move || taking.checkpoint()).unwrap_err(), at_it.pid);
    names(&in_time("a snapshot", move || showing.snapshot().and_then(|shown| shown.durable())).unwrap_err(), at_it.pid);
    leader.resume();
    assert_eq!(leader.answer(), "put");
    in_time("a flush", move || env.flush().map(|()| drop((table, env)))).unwrap();
    leader.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    for key in [&b"key"[..], b"other", b"relaxed"] {
        assert_eq!(value(&env, &table, key).as_deref(), Some(&b"1"[..]), "{}", key.escape_ascii());
    }
}

#[test]
fn a_drop_with_a_bound_does_not_wait_for_a_stopped_leader_and_is_done_later() {
    let directory = tempfile::tempdir().unwrap();
    let env = idle().lock_timeout(BOUND).open(directory.path()).unwrap();
    env.btree("unwanted").unwrap();
    let (leader, at_it) = stopped_leader(directory.path());
    let dropping = env.clone();
    let unknown = in_time("a drop", move || dropping.run(|txn| txn.drop_database("unwanted"))).unwrap_err();
    assert!(matches!(unknown, Error::OutcomeUnknown { .. }), "{unknown}");
    names(&unknown, at_it.pid);
    // The drop keeps its locks. An opening tries to repair the session of the drop, and does not wait.
    let (path, wanting) = (directory.path().to_path_buf(), env.clone());
    let refused = in_time("a transaction", move || {
        let other = idle().lock_timeout(BOUND).open(path)?;
        drop(other);
        wanting.run(|txn| wanting.btree("unwanted")?.put(txn, b"key", b"1"))
    });
    assert!(refused.is_err(), "the locks of a drop that is not on disk were released");
    leader.resume();
    assert_eq!(leader.answer(), "put");
    // A background thread of the leader's process repairs the session of the drop.
    until("the database is not dropped", || !env.databases().unwrap().contains(&"unwanted".to_owned()));
    until("the locks of the drop are not released", || env.btree("unwanted").is_ok());
    leader.leave();
}

#[test]
fn a_commit_that_its_program_cancels_does_not_wait_for_a_stopped_leader() {
    let directory = tempfile::tempdir().unwrap();
    // The waiter has no bound.
    let mut waiter = Member::start(directory.path(), 2);
    waiter.ask("put key 0");
    let (leader, at_it) = stopped_leader(directory.path());
    waiter.order("put-and-cancel other 1");
    let told = waiter.answer();
    assert!(told.contains("it is unknown whether the commit is kept"), "{told}");
    assert!(told.contains(&format!("process {} is writing the log, and it is stopped", at_it.pid)), "{told}");
    leader.resume();
    assert_eq!(leader.answer(), "put");
    assert_eq!(waiter.ask("get other"), "1");
    assert_eq!(waiter.ask("put key 2"), "put");
    [leader, waiter].into_iter().for_each(Member::leave);
}

#[test]
fn a_commit_with_a_bound_waits_for_a_leader_that_is_only_slow() {
    let (directory, signs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let go_on = signs.path().join("go on");
    let mut leader = Member::start(directory.path(), 1);
    leader.ask("put key 0");
    let env = idle().lock_timeout(Duration::ZERO).open(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    leader.ask(&format!("arm log: flush begun!sleep={}", go_on.display()));
    leader.order("put key 1");
    until("the leader does not reach the failpoint", || go_on.with_extension("asleep").exists());
    let answered = put_meanwhile(&env, &table, b"other");
    let early = answered.recv_timeout(2 * MOMENT);
    std::fs::write(&go_on, b"").unwrap();
    assert_eq!(early.unwrap_err(), RecvTimeoutError::Timeout, "the commit has an answer before it is on disk");
    in_time("the commit", move || answered.recv().unwrap()).unwrap();
    assert_eq!(leader.answer(), "put");
    drop((table, env));
    leader.leave();
}

//! A process is stopped while it holds a latch or has a role, and other processes leave. The leaving processes do not
//! wait for the stopped process for ever: sessions that they cannot end are repaired later, as if the sessions had
//! died. No commit is lost.

use std::time::{Duration, Instant};

use libtp::{Durability, Env, OpenedBy, ProcessState};

use libtp_tests::process::until;

use crate::crew::{in_time, Member};
use crate::stopped::{idle, stopped};

/// The failpoints at which the process stops, each with the order that leads there.
const PLACES: [(&str, &str); 8] = [
    ("txn: slot off the list, without owner", "checkpoint"),
    ("log: latched, nothing copied", "commit"),
    ("log: flush begun", "commit"),
    ("log: written, not synced", "commit"),
    ("lock: released, section open", "commit"),
    ("change: pages changed, record not in the slot", "put other 1"),
    ("checkpoint: has the role", "checkpoint"),
    ("buffer: claimed, latched, not copied", "checkpoint"),
];
/// The longest time to leave. It is much longer than leaving takes.
const SOON: Duration = Duration::from_secs(15);

#[test]
fn a_process_that_leaves_does_not_wait_for_latches_of_a_stopped_process() {
    let mut longest = Duration::ZERO;
    for (place, order) in PLACES {
        let directory = tempfile::tempdir().unwrap();
        let [mut holder, mut leaver] = [1, 2].map(|number| Member::start(directory.path(), number));
        // This handle has no background threads.
        let own = idle().open(directory.path()).unwrap();
        let table = own.btree("table").unwrap();
        leaver.ask("put-relaxed leaver 1");
        own.run_with(Durability::Relaxed, |txn| table.put(txn, b"own", b"1")).unwrap();
        // This transaction uses the process's only session, so the next order takes another session.
        holder.ask("begin");
        holder.ask("put key 1");
        if place.starts_with("lock:") {
            // A lock for which no other locker has asked would be released without a latch.
            own.run(|txn| Ok(txn.within(Some(Duration::ZERO), || table.get(txn, b"key")).unwrap_err())).unwrap();
        }
        holder.ask(&format!("arm {place}!stop"));
        holder.order(order);
        let at_it = stopped(directory.path(), |_| true);
        let begun = Instant::now();
        leaver.leave();
        in_time("the close", move || drop((table, own)));
        longest = longest.max(begun.elapsed());
        assert!(begun.elapsed() < SOON, "{place}: it took {:?} to leave", begun.elapsed());
        let look = Env::builder().look(directory.path()).unwrap().expect("a process is still there");
        assert!(
            look.sessions().iter().any(|one| one.pid == at_it.pid && one.process_state == ProcessState::Stopped),
            "{place}"
        );
        drop(look);
        holder.kill();
        holder.wait();
        let env = idle().open(directory.path()).unwrap();
        assert_eq!(env.opened().how, OpenedBy::Repaired, "{place}");
        let table = env.btree("table").unwrap();
        for key in [&b"leaver"[..], b"own"] {
            assert_eq!(env.run(|txn| table.get(txn, key)).unwrap().as_deref(), Some(&b"1"[..]), "{place}");
        }
        assert!(env.managers().processes.dead_sessions().is_empty(), "{place}");
        drop((table, env));
        assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean, "{place}");
    }
    println!("figures: two processes left while one was stopped: in at most {} ms together", longest.as_millis());
}

#[test]
fn a_stopped_process_that_is_continued_repairs_the_sessions_of_other_processes() {
    let directory = tempfile::tempdir().unwrap();
    let [mut holder, mut leaver] = [1, 2].map(|number| Member::start(directory.path(), number));
    leaver.ask("put-relaxed key 1");
    holder.ask("begin");
    holder.ask("put held 1");
    holder.ask("arm txn: slot off the list, without owner!stop");
    holder.order("checkpoint");
    stopped(directory.path(), |_| true);
    leaver.leave();
    let look = Env::builder().look(directory.path()).unwrap().expect("a process is still there");
    let is_left = || look.sessions().iter().any(|one| one.process_state == ProcessState::Dead);
    assert!(is_left(), "the leaving process cannot end its session while the other is stopped");
    holder.resume();
    assert_eq!(holder.answer(), "taken");
    until("the session is repaired", || !is_left());
    assert_eq!(holder.ask("commit"), "committed");
    assert_eq!(holder.ask("get key"), "1");
    drop(look);
    holder.leave();
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean);
}

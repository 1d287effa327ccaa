//! All processes die; then the process that opens the environment next dies in the middle of its repair (PROTOCOLS D3,
//! D6, L6).

use libtp::{Env, OpenedBy};

use crate::crew::Member;

#[test]
fn a_half_made_update_is_made_again_though_two_repairers_die_in_its_redo() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Member::start(directory.path(), 1);
    first.ask("put one before");
    first.ask("begin");
    first.ask("arm rio: first repeated store made");
    first.order("put one behind");
    first.wait();
    for number in 2..4 {
        let mut repairer = Member::launch_armed(directory.path(), number, "redo: changed, LSN old");
        repairer.wait();
    }
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((env.opened().how, env.opened().redone), (OpenedBy::Repaired, 1));
    let table = env.btree("table").unwrap();
    let found = env.run(|txn| table.get(txn, b"one")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"before"[..]), "the transaction of the update had not committed");
}

/// The log record of a half-made update is only in the memory, and its page still has the old LSN, so the write-ahead
/// rule does not prevent a write of the page. Only the order of the repair's steps prevents it (PROTOCOLS D4).
#[test]
fn a_half_made_update_does_not_reach_the_disk_before_its_record_is_redone() {
    let directory = tempfile::tempdir().unwrap();
    let mut first = Member::start(directory.path(), 1);
    first.ask("put one before");
    let region = first.ask("region");
    first.ask("begin");
    first.ask("arm rio: further repeated store made");
    first.order("put one behind");
    first.wait();
    let mut repairer = Member::launch_armed(directory.path(), 2, "alone: all redone, nothing ended");
    repairer.wait();
    // The machine stops, so the memory is lost, and with it the log record.
    std::fs::remove_file(region).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Restarted);
    let table = env.btree("table").unwrap();
    let found = env.run(|txn| table.get(txn, b"one")).unwrap();
    assert_eq!(found.as_deref(), Some(&b"before"[..]), "a part of the update is on the disk");
}

#[test]
fn a_session_that_died_in_an_append_is_undone_though_the_repairer_dies_too() {
    let directory = tempfile::tempdir().unwrap();
    // The slot of the first process comes before the slot of the second process. So every repair first ends the
    // transaction of the first process.
    let mut first = Member::start(directory.path(), 1);
    let mut second = Member::start(directory.path(), 2);
    for key in ["one", "two"] {
        first.ask(&format!("put {key} before"));
    }
    first.ask("begin");
    first.ask("put one after");
    second.ask("begin");
    second.ask("put two after");
    second.ask("arm log: append noted, tail not published");
    // No process repairs the second process after its death, because the first is stopped until it is killed.
    first.stop();
    second.order("put three after");
    second.wait();
    first.kill();
    first.wait();
    // The repairer first ends the transaction of the first process. The log records of this repair are at the LSN at
    // which the second process was about to append. Then the repairer dies.
    let mut repairer = Member::launch_armed(directory.path(), 3, "alone: ended, slot not idle");
    repairer.wait();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Repaired);
    let table = env.btree("table").unwrap();
    for (key, expected) in [("one", Some("before")), ("two", Some("before")), ("three", None)] {
        let found = env.run(|txn| table.get(txn, key.as_bytes())).unwrap();
        assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{key}: neither transaction had committed");
    }
    let running = env.transactions();
    assert!(running.is_empty(), "{running:?}");
}

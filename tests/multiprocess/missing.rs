//! Files and directories that vanish while processes work. The processes continue, or their commits return an error
//! that names the file; a new process gets an error that names the problem.

use std::fs;

use libtp::{Durability, Env, OpenedBy};

use crate::crew::Member;
use libtp_tests::transfers::Bank;

#[test]
fn without_the_control_file_openings_are_refused_and_attached_processes_continue() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key value");
    let control = directory.path().join("control");
    let kept = tempfile::tempdir().unwrap();
    // The file gets a second name before it is removed, so that the test can put the same file back.
    let aside = kept.path().join("control");
    fs::hard_link(&control, &aside).or_else(|_| fs::copy(&control, &aside).map(drop)).unwrap();
    fs::remove_file(&control).unwrap();
    for _ in 0..2 {
        let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
        assert!(error.contains("control") && error.contains("backup"), "{error}");
    }
    assert_eq!(two.ask("put key other"), "put");
    assert_eq!(one.ask("get key"), "other");
    // After the file is put back, everything is as before.
    fs::rename(&aside, &control).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Joined);
    one.leave();
    two.leave();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"other"[..]));
}

#[test]
fn a_commit_whose_log_segment_was_moved_away_is_not_answered() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    let put = |key: &[u8]| env.run_with(Durability::Sync, |txn| table.put(txn, key, b"value"));
    put(b"before").unwrap();
    let (segment, aside) = (directory.path().join("log.00000001"), directory.path().join("aside"));
    fs::rename(&segment, &aside).unwrap();
    let error = put(b"not answered").unwrap_err().to_string();
    assert!(error.contains("log.00000001") && error.contains("put that file back"), "{error}");
    assert!(put(b"later").is_err());
    drop((table, env));
    fs::rename(&aside, &segment).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"before")).unwrap().as_deref(), Some(&b"value"[..]));
    env.run_with(Durability::Sync, |txn| table.put(txn, b"after", b"value")).unwrap();
}

#[test]
fn attached_processes_continue_after_a_rename_of_the_directory_and_others_join_by_the_new_name() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = (parent.path().join("old"), parent.path().join("new"));
    let (mut one, mut two) = (Member::start(&old, 1), Member::start(&old, 2));
    one.ask("transfers 100");
    fs::rename(&old, &new).unwrap();
    one.ask("put key value");
    assert_eq!(two.ask("get key"), "value");
    two.ask("transfers 2000");
    // A process that opens the old name makes a new environment there, which is independent.
    let mut stranger = Member::start(&old, 3);
    assert_eq!(stranger.how, "Created");
    assert_eq!(stranger.ask("get key"), "none");
    let env = Env::open_or_create(&new).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Joined);
    one.leave();
    two.leave();
    stranger.leave();
    assert_eq!(Bank::open(&env).unwrap().audit().unwrap().len(), 2100);
    drop(env);
    let env = Env::open_or_create(&new).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    assert_eq!(Bank::open(&env).unwrap().audit().unwrap().len(), 2100);
}

#[test]
fn attached_processes_continue_after_the_removal_of_their_memorys_file_and_others_join_them() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("transfers 100");
    fs::remove_file(one.ask("region")).unwrap();
    two.ask("transfers 100");
    // The processes have rebuilt the memory, or are about to.
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Joined);
    drop(env);
    one.leave();
    two.ask("put key value");
    two.leave();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Clean);
    assert_eq!(Bank::open(&env).unwrap().audit().unwrap().len(), 200);
}

#[test]
fn if_processes_whose_memorys_file_was_removed_are_killed_no_sync_commit_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    fs::remove_file(one.ask("region")).unwrap();
    one.ask("put one value");
    two.ask("put two value");
    for member in [&mut one, &mut two] {
        member.kill();
        member.wait();
    }
    let env = Env::open_or_create(directory.path()).unwrap();
    // The processes may have rebuilt the memory before they were killed.
    assert!(matches!(env.opened().how, OpenedBy::Restarted | OpenedBy::Repaired), "{:?}", env.opened());
    assert!(!env.opened().lost);
    let table = env.btree("table").unwrap();
    for key in [b"one", b"two"] {
        assert_eq!(env.run(|txn| table.get(txn, key)).unwrap().as_deref(), Some(&b"value"[..]));
    }
}

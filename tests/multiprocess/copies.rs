//! Copies of an environment at work, and backups restored in its place while its shared memory is still there.

use std::path::Path;
use std::process::Command;

use libtp::{Env, Error, How, Keep};

use crate::crew::Member;

/// As `cp -a` does: into files that are there, so that these keep their inodes.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

fn get(env: &Env, key: &str) -> Option<String> {
    let table = env.btree("table").unwrap();
    let value = env.run(|txn| table.get(txn, key.as_bytes())).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn a_copy_of_a_live_environment_is_another_one() {
    let (directory, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key original");
    two.ask("begin");
    two.ask("put key unfinished");
    copy(directory.path(), copied.path());
    let mut three = Member::start(copied.path(), 3);
    assert_eq!(three.how, "Restarted", "it has the files, and no part in the memory of the original");
    assert_ne!(three.ask("region"), one.ask("region"));
    assert_eq!(three.ask("get key"), "original", "a sync commit is in the copy, an unfinished one is not");
    assert_eq!(three.ask("put key copy"), "put");
    assert_eq!(two.ask("commit"), "committed");
    assert_eq!(one.ask("get key"), "unfinished");
    // The copy dies: the original does not notice, nor the other way round.
    three.kill();
    assert_eq!(one.ask("put key on"), "put");
    one.kill();
    two.kill();
    let copy = Env::open(copied.path()).unwrap();
    let original = Env::open(directory.path()).unwrap();
    assert_eq!((get(&copy, "key").as_deref(), get(&original, "key").as_deref()), (Some("copy"), Some("on")));
}

/// An environment whose processes died and left their memory, with files of an earlier time put in its place: of the same
/// life, or of one before, which was closed in good order.
fn restored_in_place(is_same_life: bool) -> tempfile::TempDir {
    let (directory, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key backup");
    if !is_same_life {
        one.leave();
        copy(directory.path(), backup.path());
        one = Member::start(directory.path(), 2);
    } else {
        copy(directory.path(), backup.path());
    }
    for number in 0..50 {
        one.ask(&format!("put key later{number}"));
    }
    one.kill();
    one.wait();
    copy(backup.path(), directory.path());
    directory
}

#[test]
fn a_backup_restored_under_surviving_memory_is_refused_with_what_to_decide() {
    let directory = restored_in_place(true);
    for _ in 0..2 {
        let error = Env::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("--keep-files") && error.contains("--keep-region"), "{error}");
        let numbers = error.split(|letter: char| !letter.is_ascii_digit()).filter(|word| !word.is_empty()).count();
        assert!(numbers >= 2, "both LSNs are named: {error}");
    }
}

#[test]
fn a_backup_of_an_earlier_life_is_never_mixed_with_surviving_memory() {
    let directory = restored_in_place(false);
    match Env::open(directory.path()) {
        // The memory is of another incarnation, and has no part in it.
        Ok(env) => assert_eq!(get(&env, "key").as_deref(), Some("backup")),
        Err(error) => assert!(error.to_string().contains("--keep-files"), "{error}"),
    }
}

#[test]
fn who_decides_for_the_files_has_the_backup() {
    let directory = restored_in_place(true);
    let env = Env::builder().keep(Keep::Files).open(directory.path()).unwrap();
    assert_eq!(get(&env, "key").as_deref(), Some("backup"));
    drop(env);
    assert_eq!(Env::open(directory.path()).unwrap().opened().how, How::Clean);
}

#[test]
fn who_decides_for_the_memory_has_what_was_done_since() {
    let directory = restored_in_place(true);
    let env = Env::builder().keep(Keep::Region).open(directory.path()).unwrap();
    assert_eq!(get(&env, "key").as_deref(), Some("later49"));
    drop(env);
    let env = Env::open(directory.path()).unwrap();
    assert_eq!(get(&env, "key").as_deref(), Some("later49"));
    assert!(env.verify("table").unwrap().findings.is_empty());
}

#[test]
fn a_backup_is_not_restored_under_processes_at_work_unnoticed() {
    let (directory, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key before");
    copy(directory.path(), backup.path());
    one.ask("put key after");
    copy(backup.path(), directory.path());
    // Whoever joins now either sees what those at work see, or is told; it never splits the environment in two.
    match Env::open(directory.path()) {
        Ok(env) => {
            assert_eq!(env.opened().how, How::Joined);
            assert_eq!(get(&env, "key").as_deref(), Some("after"));
        }
        Err(error) => {
            assert!(matches!(error, Error::Environment { .. } | Error::Corrupt(_)), "{error}");
        }
    }
    assert_eq!(one.ask("get key"), "after");
}

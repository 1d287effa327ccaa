//! A process of another build of the library, with another memory layout. While other processes are attached, the
//! process is refused. If it is the first process, it opens the environment and makes a new region, without losing a
//! commit. The tests simulate another build by changing the hash of the build in the region's file.

use std::os::unix::fs::FileExt;
use std::path::Path;

use libtp::{Env, Keep, OpenedBy};

use crate::crew::Member;

/// The offset of the build's hash in the region's header (docs/formats/region.md).
const LAYOUT: u64 = 16;
/// The offset of the hash of the log's layout.
const LOG_LAYOUT: u64 = 3872;

/// Changes the build's hash in the region into that of another build, or back into ours.
fn swap_build(region: &Path) {
    swap(region, LAYOUT);
}

fn swap(region: &Path, place: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(region).unwrap();
    let mut hash = [0; 8];
    file.read_exact_at(&mut hash, place).unwrap();
    assert_ne!(hash, [0; 8]);
    file.write_all_at(&hash.map(|byte| !byte), place).unwrap();
}

/// Kills a process that has answered a commit which is only in shared memory. Returns the region's path.
fn killed_with_a_relaxed_commit(directory: &Path) -> String {
    // No session syncs the log meanwhile.
    std::fs::write(directory.join("libtp.toml"), "relaxed_millis = 3600000\nno_background = true\n").unwrap();
    let mut one = Member::start(directory, 1);
    one.ask("put key old");
    one.ask("put-relaxed key value");
    let region = one.ask("region");
    one.kill();
    one.acknowledged();
    region
}

fn value(directory: &Path) -> Option<Vec<u8>> {
    let env = Env::open_or_create(directory).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.get(txn, b"key")).unwrap()
}

#[test]
fn another_build_takes_over_answered_commits_that_were_not_synced() {
    let directory = tempfile::tempdir().unwrap();
    let region = killed_with_a_relaxed_commit(directory.path());
    swap_build(region.as_ref());
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(!env.opened().lost, "the opening read all commits from the memory, and lost none");
    drop(env);
    assert_eq!(value(directory.path()).as_deref(), Some(&b"value"[..]));
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean);
}

/// Overwrites each copy of a value in the shared memory with zeros.
fn lose_value(region: &Path, value: &[u8]) {
    let mut bytes = std::fs::read(region).unwrap();
    let places: Vec<usize> =
        bytes.windows(value.len()).enumerate().filter_map(|(at, it)| (it == value).then_some(at)).collect();
    assert!(!places.is_empty());
    let file = std::fs::OpenOptions::new().write(true).open(region).unwrap();
    for at in places {
        bytes[at..at + value.len()].fill(0);
        file.write_all_at(&bytes[at..at + value.len()], at as u64).unwrap();
    }
}

#[test]
fn a_relaxed_commit_missing_in_damaged_memory_is_reported_as_lost() {
    let directory = tempfile::tempdir().unwrap();
    let region = killed_with_a_relaxed_commit(directory.path());
    swap_build(region.as_ref());
    lose_value(region.as_ref(), b"value");
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((env.opened().how, env.opened().lost), (OpenedBy::Restarted, true));
    drop(env);
    assert_eq!(value(directory.path()).as_deref(), Some(&b"old"[..]));
}

#[test]
fn a_build_that_cannot_read_the_log_in_memory_leaves_it_and_explains() {
    let directory = tempfile::tempdir().unwrap();
    let region = killed_with_a_relaxed_commit(directory.path());
    let swap_both = || [LAYOUT, LOG_LAYOUT].iter().for_each(|place| swap(region.as_ref(), *place));
    swap_both();
    for _ in 0..2 {
        let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
        for word in [region.as_str(), "another build", "nothing was changed", "--keep-files"] {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
    }
    // The build that made the region finds all commits.
    swap_both();
    assert_eq!(value(directory.path()).as_deref(), Some(&b"value"[..]));

    let directory = tempfile::tempdir().unwrap();
    let region = killed_with_a_relaxed_commit(directory.path());
    [LAYOUT, LOG_LAYOUT].iter().for_each(|place| swap(region.as_ref(), *place));
    let env = Env::builder().keep(Keep::Files).open(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Restarted);
    drop(env);
    assert_eq!(value(directory.path()).as_deref(), Some(&b"old"[..]));
}

#[test]
fn another_build_is_refused_while_others_are_attached() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let region = one.ask("region");
    swap_build(region.as_ref());
    let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
    assert!(error.contains("another build") && error.contains(&region), "{error}");
    assert_eq!(one.ask("get key"), "value");
    swap_build(region.as_ref());
    assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Joined);
    one.leave();
}

#[test]
fn another_build_takes_over_when_it_is_first() {
    let directory = tempfile::tempdir().unwrap();
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let region = one.ask("region");
    one.kill();
    one.acknowledged();
    swap_build(region.as_ref());
    for wanted in [OpenedBy::Restarted, OpenedBy::Clean] {
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!(env.opened().how, wanted);
        let table = env.btree("table").unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
    }
    assert!(!Path::new(&region).exists(), "the region's file must be removed");
}

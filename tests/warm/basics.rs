//! Tests with real files and one process: when commits are acknowledged from memory, when such commits are refused, and
//! what an opening reports if the memory was lost.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use libtp::{Durability, Env, Error, Keep, OpenedBy, Survives};
use libtp_tests::process::{next_order, say, Process};

pub const DIRECTORY: &str = "LIBTP_TEST_WARM_DIRECTORY";

pub fn region_of(directory: &Path) -> PathBuf {
    let mut files = std::fs::read_dir(directory.join("memory")).unwrap();
    files.next().expect("there must be a shared memory").unwrap().path()
}

/// Makes the settings of an environment, with or without the declaration that its shared memory outlives the system. No
/// background thread syncs, because a test restores files to an earlier state, and no disk loses synced bytes.
pub fn found(directory: &Path, declared: &str) {
    std::fs::create_dir_all(directory.join("memory")).unwrap();
    let always = "relaxed_millis = 3600000\nno_background = true";
    let text = format!("region_directory = {:?}\n{declared}\n{always}\n", directory.join("memory"));
    std::fs::write(directory.join("libtp.toml"), text).unwrap();
}

#[test]
fn rio_commits_are_refused_with_a_remedy_if_the_memory_survives_only_processes() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "");
    let refused = Env::builder().durability(Durability::Rio).open(directory.path()).err().unwrap();
    let text = refused.to_string();
    assert!(matches!(refused, Error::NotLasting { survives: Survives::Process, .. }), "{text}");
    for word in ["memory/libtp-", "the death of processes", "region_directory", "region_survives"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
    let left = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap());
    let left: Vec<_> = left.filter(|entry| entry.metadata().unwrap().is_file()).collect();
    assert!(left.len() == 1 && left[0].file_name() == "libtp.toml", "the refused opening has made a file: {left:?}");
    assert!(std::fs::read_dir(directory.path().join("memory")).unwrap().next().is_none());
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(env.opened().how, OpenedBy::Created);
    let stock = env.btree("stock").unwrap();
    assert!(matches!(env.begin_with(Durability::Rio), Err(Error::NotLasting { .. })));
    let mut txn = env.begin().unwrap();
    stock.put(&txn, b"apples", b"3").unwrap();
    txn.set_durability(Durability::Rio);
    assert!(matches!(txn.commit(), Err(Error::NotLasting { .. })));
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap(), None, "the transaction was aborted");
    let stats = env.stats().unwrap();
    assert_eq!((stats.survives, stats.durability), ("process", "sync"));
}

#[test]
fn rio_commits_are_accepted_without_a_sync_if_the_memory_is_declared_to_survive() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"power\"\ndurability = \"rio\"");
    let env = Env::open_or_create(directory.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let syncs = env.stats().unwrap().log_syncs;
    for number in 0..100_u32 {
        env.run(|txn| stock.put(txn, &number.to_be_bytes(), b"3")).unwrap();
    }
    let stats = env.stats().unwrap();
    assert_eq!((stats.survives, stats.durability), ("power", "rio"));
    assert_eq!(stats.log_syncs, syncs, "the commits caused no sync");
    let second = Env::open_or_create(directory.path()).unwrap();
    assert_eq!(second.stats().unwrap().survives, "power");
}

/// The entry of a child. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let env = Env::open_or_create(Path::new(&directory)).unwrap();
    let stock = env.btree("stock").unwrap();
    assert!(env.checkpoint().unwrap());
    env.flush().unwrap();
    say("flushed");
    assert!(next_order().is_some());
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    say("committed");
    let _ = next_order();
}

/// The entry of a child that opens the environment and reports whether commits are lost. In an ordinary test run this
/// test does nothing.
#[test]
fn opens() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let env = Env::open_or_create(Path::new(&directory)).unwrap();
        say(if env.opened().lost { "lost" } else { "whole" });
    }
}

/// The entry of a child that opens the environment without its shared memory. In an ordinary test run this test does
/// nothing.
#[test]
fn opens_without_memory() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        Env::builder().keep(Keep::Files).open(Path::new(&directory)).unwrap();
    }
}

/// Starts a process that acknowledges a commit, and kills it. Then restores the files to their state before that
/// commit, as if they had lost their unsynced bytes.
pub fn killed(directory: &Path) {
    let mut child = Process::start("basics::entry", &[(DIRECTORY, directory.display().to_string())]);
    child.says("flushed");
    let before = contents(directory);
    child.order("go on");
    child.says("committed");
    child.kill();
    child.wait();
    for (path, bytes) in before {
        // The bytes are written into the same file, which is not replaced.
        std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all_at(&bytes, 0).unwrap();
    }
}

/// Simulates a restart of the machine: changes the number of the boot in the header of each region.
pub fn start_machine_again(directory: &Path) {
    for region in std::fs::read_dir(directory.join("memory")).unwrap() {
        let file = std::fs::OpenOptions::new().write(true).open(region.unwrap().path()).unwrap();
        file.write_all_at(&[0x5a; 16], 32).unwrap();
    }
}

/// Returns the contents of the log's and the databases' files.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_data = |path: &PathBuf| path.file_name().is_some_and(|name| name != "control" && name != "memory");
    files.filter(is_data).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

pub fn apples(directory: &Path) -> (OpenedBy, bool, Option<Vec<u8>>) {
    let env = Env::open_or_create(directory).unwrap();
    let stock = env.btree("stock").unwrap();
    let value = env.run(|txn| stock.get(txn, b"apples")).unwrap();
    (env.opened().how, env.opened().lost, value)
}

#[test]
fn memory_that_survived_a_restart_has_the_answered_commits() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    killed(directory.path());
    start_machine_again(directory.path());
    assert_eq!(apples(directory.path()), (OpenedBy::Survived, false, Some(b"3".to_vec())));
    assert_eq!(apples(directory.path()), (OpenedBy::Clean, false, Some(b"3".to_vec())));
}

#[test]
fn memory_without_a_declaration_is_not_trusted_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "durability = \"relaxed\"");
    killed(directory.path());
    start_machine_again(directory.path());
    let (how, lost, _) = apples(directory.path());
    // A relaxed commit was acknowledged that may not have been on the disk, so a loss is reported.
    assert_eq!((how, lost), (OpenedBy::Restarted, true));
}

#[test]
fn lost_memory_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    killed(directory.path());
    std::fs::remove_file(region_of(directory.path())).unwrap();
    refused_without_memory(directory.path());
    assert_eq!(opened_without_memory(directory.path()), (OpenedBy::Restarted, true));
    assert!(!apples(directory.path()).1, "the loss is reported once");
}

pub fn opened_without_memory(directory: &Path) -> (OpenedBy, bool) {
    let env = Env::builder().keep(Keep::Files).open(directory).unwrap();
    (env.opened().how, env.opened().lost)
}

fn refused_without_memory(directory: &Path) {
    let refused = Env::open_or_create(directory).expect_err("the acknowledged commit is in missing memory");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Environment { .. }), "{text}");
    for word in ["memory/libtp-", "region_directory", "--keep-files"] {
        assert!(text.contains(word), "{word} is not in: {text}");
    }
}

#[test]
fn an_opening_without_the_memory_is_refused_until_the_memory_is_back() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    killed(directory.path());
    start_machine_again(directory.path());
    let (memory, away) = (directory.path().join("memory"), tempfile::tempdir().unwrap());
    std::fs::rename(&memory, away.path().join("memory")).unwrap();
    refused_without_memory(directory.path());
    refused_without_memory(directory.path());
    // The memory is mounted again.
    std::fs::rename(away.path().join("memory"), &memory).unwrap();
    assert_eq!(apples(directory.path()), (OpenedBy::Survived, false, Some(b"3".to_vec())));
}

#[test]
fn a_process_without_lasting_memory_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    killed(directory.path());
    std::fs::remove_file(region_of(directory.path())).unwrap();
    found(directory.path(), "durability = \"rio\"");
    let refused = Env::builder().keep(Keep::Files).open(directory.path()).err().unwrap();
    assert!(matches!(refused, Error::NotLasting { .. }), "{refused}");
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    assert_eq!(opened_without_memory(directory.path()), (OpenedBy::Restarted, true));
}

#[test]
fn the_declaration_that_one_directory_survives_does_not_apply_to_another_directory() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"power\"");
    // The memory's directory does not exist (as if not mounted), so the region is in the directory of the files.
    std::fs::remove_dir(directory.path().join("memory")).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert!(directory.path().join("region").exists());
    assert_eq!(env.stats().unwrap().survives, "process");
    assert!(matches!(env.begin_with(Durability::Rio), Err(Error::NotLasting { .. })));
}

#[test]
fn a_process_that_repairs_a_dead_process_may_declare_that_the_memory_survives() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "durability = \"relaxed\"");
    killed(directory.path());
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    assert_eq!(apples(directory.path()), (OpenedBy::Repaired, false, Some(b"3".to_vec())));
}

//! Processes with another log directory, or without standard descriptors.

use std::process::{Command, Stdio};

use libtp::{Durability, Env};
use libtp_tests::sizes;

const CLOSED: &str = "LIBTP_TEST_CLOSED";
const COMMITS: u64 = 50;

#[test]
fn a_process_with_another_log_directory_is_refused_and_the_others_continue() {
    let dir = tempfile::tempdir().unwrap();
    let (home, ours, theirs) = (dir.path().join("env"), dir.path().join("ours"), dir.path().join("theirs"));
    let env = Env::builder().log_directory(&ours).open(&home).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    std::fs::create_dir(&theirs).unwrap();
    for builder in [Env::builder().log_directory(&theirs), Env::builder()] {
        let refused = builder.open(&home).map(drop).unwrap_err().to_string();
        assert!(refused.contains("ours"), "{refused}");
        assert!(refused.contains("theirs") || refused.contains("env"), "{refused}");
    }
    env.run(|txn| stock.put(txn, b"pears", b"4")).unwrap();
    // The same directory by another path is accepted.
    std::os::unix::fs::symlink(&ours, dir.path().join("by-another-name")).unwrap();
    let other = Env::builder().log_directory(dir.path().join("by-another-name")).open(&home).unwrap();
    let same = other.btree("stock").unwrap();
    assert_eq!(other.run(|txn| same.get(txn, b"pears")).unwrap().as_deref(), Some(&b"4"[..]));
}

#[test]
fn a_log_that_was_moved_while_unused_is_found_in_its_new_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (home, old, new) = (dir.path().join("env"), dir.path().join("old"), dir.path().join("new"));
    let env = Env::builder().log_directory(&old).open(&home).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| stock.put(txn, b"apples", b"3")).unwrap();
    drop((stock, env));
    std::fs::create_dir(&new).unwrap();
    for entry in std::fs::read_dir(&old).unwrap() {
        let entry = entry.unwrap();
        std::fs::rename(entry.path(), new.join(entry.file_name())).unwrap();
    }
    let env = Env::builder().log_directory(&new).open(&home).unwrap();
    let stock = env.btree("stock").unwrap();
    assert_eq!(env.run(|txn| stock.get(txn, b"apples")).unwrap().as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_program_that_closed_its_standard_descriptors_prints_into_no_file_of_the_library() {
    if let Some(directory) = sizes::chosen::<String>(CLOSED) {
        return work_without_standard_descriptors(&directory);
    }
    let directory = tempfile::tempdir().unwrap();
    let name = "admission::a_program_that_closed_its_standard_descriptors_prints_into_no_file_of_the_library";
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(CLOSED, directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let env = Env::open_or_create(directory.path()).unwrap_or_else(|error| panic!("{ended}: {error}"));
    let stock = env.btree("stock").unwrap();
    let found = env.run(|txn| stock.count(txn, ..)).unwrap();
    assert_eq!(found, COMMITS, "{ended}");
}

/// Runs in the child. At the start of a program, Rust's runtime opens standard descriptors that are missing. So the
/// child cannot be started without them, and closes them here. If the library did not avoid the numbers of these
/// descriptors, the first two files that it opens, the directory and the control file, would get them.
fn work_without_standard_descriptors(directory: &str) {
    for standard in [1, 2] {
        nix::unistd::close(standard).unwrap();
    }
    let env = Env::open_or_create(directory).unwrap();
    let stock = env.btree("stock").unwrap();
    for number in 0..COMMITS {
        env.run_with(Durability::Sync, |txn| stock.put(txn, &number.to_be_bytes(), b"there")).unwrap();
        println!("commit {number} was answered");
        eprintln!("commit {number} was answered");
    }
    // Does not return to the test harness, which needs the descriptors.
    std::process::exit(0);
}

//! `tp vista`: an undamaged segment, a damaged segment, and a missing segment.
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use libtp::Env;
use vista::{Options, Segment};

fn verify(file: &Path) -> (Output, String) {
    verify_with(file, &[])
}

fn verify_with(file: &Path, words: &[&str]) -> (Output, String) {
    let mut tp = Command::new(env!("CARGO_BIN_EXE_tp"));
    let done = tp.args(["--json", "vista", "verify"]).arg(file).args(words).output().unwrap();
    let message = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done, message)
}

#[test]
fn a_segment_is_verified_and_a_damaged_segment_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let (none, message) = verify(&file);
    assert!(none.status.code() == Some(1) && message.contains("there is no segment") && !file.exists(), "{message}");
    let mut segment = Segment::open(&file, 1000).unwrap();
    let mut txn = segment.begin();
    txn.malloc(100).unwrap();
    txn.end().unwrap();
    segment.close().unwrap();
    let (whole, message) = verify(&file);
    assert!(
        whole.status.success() && message.contains("\"blocks\":1") && message.contains("\"findings\":0"),
        "{message}"
    );
    // Damages the heap's table, which is at the segment's front.
    let on_disk = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    on_disk.write_all_at(&[0x55; 8], 65_536).unwrap();
    let (damaged, message) = verify(&file);
    assert!(damaged.status.code() == Some(1) && message.contains(file.to_str().unwrap()), "{message}");
}

fn word(file: &File, at: u64) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).unwrap();
    u64::from_ne_bytes(word)
}

/// Adds to the heap's list 10 a free run that is not in the heap's table.
fn damage_heap(path: &Path) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    // docs/formats/vista.md: root 6 is the segment's header, which has the place of the heap's header.
    let heap = word(&file, word(&file, 128 + 6 * 8) + 32);
    assert_eq!(word(&file, heap + 24 + 10 * 8), 0, "list 10 has no free run");
    file.write_all_at(&50_u64.to_ne_bytes(), heap + 24 + 10 * 8).unwrap();
}

/// The opening of a segment checks the seal that the close put over the segment's tables. A segment that was in use has
/// no seal.
#[test]
fn damage_in_a_segment_without_a_seal_is_found_by_reading_all_of_the_segment() {
    let directory = tempfile::tempdir().unwrap();
    let (file, copy) = (directory.path().join("segment"), directory.path().join("copy"));
    let mut segment = Options::new(1000).anywhere().open(&file).unwrap();
    let mut txn = segment.begin();
    txn.malloc(100).unwrap();
    txn.end().unwrap();
    // The copy is in the state that a killed process leaves.
    std::fs::copy(&file, &copy).unwrap();
    drop(segment);
    let (whole, message) = verify(&copy);
    assert!(whole.status.success() && message.contains("\"findings\":0"), "{message}");
    let in_use = File::options().write(true).open(&copy).unwrap();
    in_use.write_all_at(&0_u64.to_ne_bytes(), 120).unwrap();
    damage_heap(&copy);
    let (damaged, message) = verify(&copy);
    assert_eq!(damaged.status.code(), Some(1), "{message}");
    // The segment was not closed in good order, so the opening reads all of it.
    assert!(message.contains("list 10 of free runs"), "{message}");
    assert!(message.contains(copy.to_str().unwrap()), "{message}");
}

#[test]
fn a_segment_of_an_environment_is_verified_through_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let (home, other) = (directory.path().join("env"), directory.path().join("other"));
    let file = directory.path().join("segment");
    let env = Env::open_or_create(&home).unwrap();
    drop(Env::open_or_create(&other).unwrap());
    let segment = env.segment_at(&file, &Options::new(1000).anywhere()).unwrap();
    let txn = env.begin().unwrap();
    txn.join(&segment).unwrap().malloc(100).unwrap();
    txn.commit().unwrap();
    let with = |env: &Path| verify_with(&file, &["--env", env.to_str().unwrap()]);
    // The segment is checked by another process while the segment is in use, and then while no process uses it.
    let (shared, message) = with(&home);
    assert!(shared.status.success() && message.contains("\"blocks\":1"), "{message}");
    drop((segment, env));
    let (whole, message) = with(&home);
    assert!(
        whole.status.success() && message.contains("\"blocks\":1") && message.contains("\"findings\":0"),
        "{message}"
    );
    for (refused, message) in [verify(&file), with(&other)] {
        assert_eq!(refused.status.code(), Some(1), "{message}");
        assert!(message.contains("belongs to the environment"), "{message}");
    }
    assert!(verify(&file).1.contains("--env DIR"));
    let in_use = File::options().write(true).open(&file).unwrap();
    in_use.write_all_at(&0_u64.to_ne_bytes(), 120).unwrap();
    damage_heap(&file);
    let (damaged, message) = with(&home);
    assert_eq!(damaged.status.code(), Some(1), "{message}");
    assert!(message.contains("\"findings\":1") && message.contains("list 10 of free runs"), "{message}");
}

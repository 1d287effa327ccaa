//! `tp vista`: a segment that is whole, one that was damaged while nobody had it, and none.
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};

use vista::Segment;

fn verify(file: &Path) -> (Output, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_tp")).args(["--json", "vista", "verify"]).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    (done, said)
}

#[test]
fn a_segment_is_verified_and_a_damaged_one_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("segment");
    let (none, said) = verify(&file);
    assert!(none.status.code() == Some(1) && said.contains("there is no segment") && !file.exists(), "{said}");
    let mut segment = Segment::open(&file, 1000).unwrap();
    let mut txn = segment.begin();
    txn.malloc(100).unwrap();
    txn.end().unwrap();
    segment.close().unwrap();
    let (whole, said) = verify(&file);
    assert!(whole.status.success() && said.contains("\"blocks\":1") && said.contains("\"findings\":0"), "{said}");
    // In the heap's table, which is in the segment's front.
    let on_disk = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
    on_disk.write_all_at(&[0x55; 8], 65_536).unwrap();
    let (damaged, said) = verify(&file);
    assert!(damaged.status.code() == Some(1) && said.contains(file.to_str().unwrap()), "{said}");
}

//! A child of a fork, or of a clone that bypasses the C library, outlives its killed parent and never calls the
//! library. The child does not prevent another process from opening the parent's segment (PROTOCOLS D9).

use std::path::{Path, PathBuf};

use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::orphan::{leave_a_child, Orphan};
use libtp_tests::planted::Suite;
use libtp_tests::process::{next_order, say};
use libtp_tests::trial;
use rustix::process::{waitpid, Pid, WaitOptions};
use vista::{Error, Segment};

const PATH: &str = "LIBTP_TEST_FORKED_PATH";
const WAY: &str = "LIBTP_TEST_FORKED_WAY";
const WAYS: [(&str, ForkKind); 2] = [("fork", ForkKind::Fork), ("clone", ForkKind::RawClone)];

fn way() -> Option<(PathBuf, ForkKind)> {
    let (path, way) = (std::env::var_os(PATH)?, std::env::var(WAY).ok()?);
    WAYS.iter().find(|(name, _)| *name == way).map(|(_, how)| (path.into(), *how))
}

/// The entry of the parent. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some((path, how)) = way() else { return };
    let mut segment = Segment::open(path, 64).unwrap();
    let mut txn = segment.begin();
    txn.set_range(0, 1).unwrap().fill(7);
    say(&leave_a_child(how).to_string());
    next_order();
}

/// The entry of the parent whose memory has a redo log on a disk.
#[test]
fn entry_of_a_disk() {
    let Some((path, how)) = way() else { return };
    let mut memory = rvm::Options::new(64).log_bytes(1 << 16).open(path).unwrap();
    let mut txn = memory.begin().unwrap();
    txn.set_range(0, 1).unwrap().fill(7);
    say(&leave_a_child(how).to_string());
    next_order();
}

fn outlives(entry: &str, path: &Path, judge: impl Fn(&Path)) {
    for (way, _) in WAYS {
        let variables = [(PATH, path.display().to_string()), (WAY, way.to_owned())];
        let orphan = Orphan::of(entry, &variables, None);
        judge(path);
        assert!(orphan.lives(), "{way}: the child has ended, so the test proves nothing");
    }
}

fn refuses(path: &Path) {
    let refused = Segment::open(path, 64).map(drop).unwrap_err();
    assert!(matches!(refused, Error::Memory(rio::Error::InUse { .. })), "{refused}");
}

#[test]
fn a_child_that_outlives_its_killed_parent_keeps_no_segment() {
    // Tries a filesystem in memory, and a filesystem on a disk.
    for home in [Path::new("/dev/shm"), &std::env::temp_dir()] {
        let directory = tempfile::tempdir_in(home).unwrap();
        if !rio::Anchor::holds_locks_of(std::fs::File::open(directory.path()).unwrap()) {
            println!("figures: SKIPPED {}: on this filesystem a child keeps its parent's lock", home.display());
            continue;
        }
        outlives("forks::entry", &directory.path().join("segment"), |path| {
            let segment = Segment::open(path, 64).unwrap();
            assert_eq!(
                (segment.bytes()[0], segment.rolled_back()),
                (0, 1),
                "the parent's unfinished transaction must be rolled back"
            );
            refuses(path);
        });
    }
}

#[test]
fn a_child_that_outlives_its_killed_parent_does_not_keep_its_memory_on_a_disk_in_use() {
    let directory = tempfile::tempdir().unwrap();
    outlives("forks::entry_of_a_disk", directory.path(), |path| {
        let open = || rvm::Options::new(64).log_bytes(1 << 16).open(path);
        let memory = open().unwrap();
        assert_eq!(memory.segment().bytes()[0], 0, "the parent's unfinished transaction must be rolled back");
        assert!(matches!(open().map(drop), Err(rvm::Error::InUse { .. })));
    });
}

#[test]
fn a_child_that_drops_its_inheritance_takes_nothing_from_its_parent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("segment");
    let segment = Segment::open(&path, 64).unwrap();
    match make_child(ForkKind::Fork) {
        Side::Child => {
            drop(segment);
            exit_now(0);
        }
        Side::Parent(child) => _ = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap(),
    }
    refuses(&path);
    drop(segment);
    assert!(Segment::open(&path, 64).is_ok());
}

#[test]
fn planted_bugs_in_the_inheritance_of_a_child_are_noticed() {
    trial::all_noticed(Suite::Vista, "");
}

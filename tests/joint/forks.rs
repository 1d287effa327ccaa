//! A child of a fork, and of a clone that the C library does not know of, outlives its killed parent and never calls us: it keeps
//! nobody from the parent's segments (PROTOCOLS D9).

use std::mem::offset_of;
use std::path::Path;
use std::time::Duration;

use libtp::{Builder, Env, Segment, Settings};
use libtp_tests::forking::How;
use libtp_tests::orphan::{leave_a_child, Orphan};
use libtp_tests::process::{next_order, say};

const DIRECTORY: &str = "LIBTP_TEST_FORKED_DIRECTORY";
const WAY: &str = "LIBTP_TEST_FORKED_WAY";

/// The entry of the parent. In the run of all tests it does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(way)) = (std::env::var_os(DIRECTORY), std::env::var(WAY)) else { return };
    let (env, segment) = open(Path::new(&directory));
    let txn = env.begin().unwrap();
    txn.join(&segment).unwrap().set_range(0, 1).unwrap().fill(7);
    leave_a_child(if way == "fork" { How::Fork } else { How::RawClone });
    if next_order().as_deref() == Some("leave") {
        txn.commit().unwrap();
        rio::failpoint::arm("rio: kept region left alone, not sealed");
        drop((segment, env));
        say("it has left");
    }
}

/// Without threads of its own: a child of clone has only the one that made it.
fn open(directory: &Path) -> (Env, Segment) {
    let settings = Settings { no_background: true, ..Settings::default() };
    let env = Builder::default().settings(settings).lock_timeout(Duration::from_secs(2)).open(directory).unwrap();
    let segment = env.segment_at(directory.join("memory.vista"), &vista::Options::new(64).anywhere()).unwrap();
    (env, segment)
}

/// A parent makes a child and is killed; with an order, while it does that.
fn orphan(directory: &Path, way: &str, order: Option<&str>) -> Orphan {
    let variables = [(DIRECTORY, directory.display().to_string()), (WAY, way.to_owned())];
    Orphan::of("forks::entry", &variables, order)
}

fn first_byte(env: &Env, segment: &Segment) -> libtp::Result<u8> {
    let txn = env.begin()?;
    let byte = txn.join(segment)?.bytes()[0];
    txn.commit().map(|()| byte)
}

/// Whether the segment says that it was left in good order.
fn is_left_in_good_order(directory: &Path) -> bool {
    let bytes = std::fs::read(directory.join("memory.vista")).unwrap();
    bytes[offset_of!(rio::RegionHeader, clean)] == 1
}

#[test]
fn a_child_that_outlives_its_killed_parent_keeps_no_segment() {
    for way in ["fork", "clone"] {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        let orphan = orphan(directory, way, None);
        let (env, segment) = open(directory);
        assert_eq!(first_byte(&env, &segment).unwrap(), 0, "{way}: what its parent had not committed");
        env.run(|txn| txn.join(&segment)?.set_range(0, 1).map(|range| range.fill(9))).unwrap();
        drop((segment, env));
        // Of a clone nobody knows whether it may store.
        assert_eq!(is_left_in_good_order(directory), way == "fork", "{way}");
        assert!(orphan.lives(), "the child is still there");
        let (env, segment) = open(directory);
        assert_eq!(first_byte(&env, &segment).unwrap(), 9, "{way}");
    }
}

/// Whoever leaves a segment last has it alone for a moment.
#[test]
fn a_child_of_who_was_killed_while_leaving_keeps_nobody_out() {
    let directory = tempfile::tempdir().unwrap();
    let _orphan = orphan(directory.path(), "fork", Some("leave"));
    let (env, segment) = open(directory.path());
    assert_eq!(first_byte(&env, &segment).unwrap(), 7);
}

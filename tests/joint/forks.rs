//! A child of a fork, or of a clone that bypasses the C library, outlives its killed parent and never calls the
//! library. The child does not prevent another process from using the parent's segments (PROTOCOLS D9).

use std::mem::offset_of;
use std::path::Path;
use std::time::Duration;

use libtp::{Builder, Env, Segment, Settings};
use libtp_tests::forking::{exit_now, make_child, ForkKind, Side};
use libtp_tests::orphan::{leave_a_child, Orphan};
use libtp_tests::process::is_alone;
use libtp_tests::process::{next_order, say};
use rustix::process::{waitpid, Pid, WaitOptions};

const DIRECTORY: &str = "LIBTP_TEST_FORKED_DIRECTORY";
const WAY: &str = "LIBTP_TEST_FORKED_WAY";

/// The entry of the parent. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(way)) = (std::env::var_os(DIRECTORY), std::env::var(WAY)) else { return };
    let (env, segment) = open(Path::new(&directory));
    let txn = env.begin().unwrap();
    txn.join(&segment).unwrap().set_range(0, 1).unwrap().fill(7);
    say(&leave_a_child(if way == "fork" { ForkKind::Fork } else { ForkKind::RawClone }).to_string());
    if next_order().as_deref() == Some("leave") {
        txn.commit().unwrap();
        rio::failpoint::arm("rio: kept region unused, not sealed");
        drop((segment, env));
        say("it has left");
    }
}

/// Opens without background threads: a child of clone has only the thread that made it.
fn open(directory: &Path) -> (Env, Segment) {
    let settings = Settings { no_background: true, ..Settings::default() };
    let env = Builder::default().settings(settings).lock_timeout(Duration::from_secs(2)).open(directory).unwrap();
    let segment = env.segment_at(directory.join("memory.vista"), &vista::Options::new(64).anywhere()).unwrap();
    (env, segment)
}

/// Starts a parent that makes a child, and kills the parent. If there is an order, the parent is killed while it
/// executes the order.
fn orphan(directory: &Path, way: &str, order: Option<&str>) -> Orphan {
    let variables = [(DIRECTORY, directory.display().to_string()), (WAY, way.to_owned())];
    Orphan::of("forks::entry", &variables, order)
}

fn first_byte(env: &Env, segment: &Segment) -> libtp::Result<u8> {
    let txn = env.begin()?;
    let byte = txn.join(segment)?.bytes()[0];
    txn.commit().map(|()| byte)
}

/// Returns whether the segment's header says that it was closed cleanly.
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
        assert_eq!(first_byte(&env, &segment).unwrap(), 0, "{way}: a store that the parent had not committed was kept");
        env.run(|txn| txn.join(&segment)?.set_range(0, 1).map(|range| range.fill(9))).unwrap();
        drop((segment, env));
        // The library cannot know whether a child of a clone still stores, so the segment is not closed cleanly.
        assert_eq!(is_left_in_good_order(directory), way == "fork", "{way}");
        assert!(orphan.lives(), "the child has ended, so the test proves nothing");
        let (env, segment) = open(directory);
        assert_eq!(first_byte(&env, &segment).unwrap(), 9, "{way}");
    }
}

#[test]
fn a_child_cannot_change_a_joined_segment_and_the_parent_commits() {
    if !is_alone("forks::a_child_cannot_change_a_joined_segment_and_the_parent_commits") {
        return;
    }
    for how in [ForkKind::Fork, ForkKind::RawClone] {
        let directory = tempfile::tempdir().unwrap();
        let (env, segment) = open(directory.path());
        for is_committed in [true, false] {
            let txn = env.begin().unwrap();
            let mut memory = txn.join(&segment).unwrap();
            memory.set_range(0, 1).unwrap().fill(7);
            let Side::Parent(child) = make_child(how) else {
                let mut tried = Vec::new();
                for at in [0, 8] {
                    tried.push(memory.set_range(at, 1).map(|range| range.fill(99)));
                }
                tried.push(memory.malloc(100).map(drop));
                tried.push(vista::Stores::ensure_ranges(&mut memory, &[(0, 8)]).map_err(libtp::Error::from));
                tried.push(memory.free(0));
                drop(memory);
                tried.push(if is_committed { txn.commit() } else { txn.abort() });
                // Counts the calls that succeeded, or failed with another error than `Forked`.
                let is_refused = |tried: &libtp::Result<()>| matches!(tried, Err(libtp::Error::Forked { .. }));
                exit_now(i32::try_from(tried.iter().filter(|tried| !is_refused(tried)).count()).unwrap());
            };
            let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
            // Only `free` failed in another way, because nothing is allocated there.
            assert_eq!(status.exit_status(), Some(1), "{how:?}: calls that were not refused");
            memory.set_range(16, 1).unwrap().fill(7);
            drop(memory);
            match is_committed {
                true => txn.commit().unwrap(),
                false => txn.abort().unwrap(),
            }
            let txn = env.begin().unwrap();
            let seen = txn.join(&segment).unwrap().bytes()[..17].to_vec();
            txn.commit().unwrap();
            assert_eq!([0, 8, 16].map(|at| seen[at]), [7, 0, 7]);
        }
    }
}

/// The last process that leaves a segment holds it exclusively for a moment.
#[test]
fn a_child_of_a_process_killed_while_closing_blocks_no_other_process() {
    let directory = tempfile::tempdir().unwrap();
    let _orphan = orphan(directory.path(), "fork", Some("leave"));
    let (env, segment) = open(directory.path());
    assert_eq!(first_byte(&env, &segment).unwrap(), 7);
}

//! A child of a fork, and of a clone that the C library does not know of, outlives its killed parent and never calls us: it keeps
//! nobody from the parent's segments (PROTOCOLS D9).

use std::mem::offset_of;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use libtp::{Builder, Env, Segment, Settings};
use libtp_tests::forking::{exit_now, make_child, How, Side};
use libtp_tests::process::{next_order, say, Process};
use rustix::process::{kill_process, Pid, Signal};

use crate::child::LONG;

const DIRECTORY: &str = "LIBTP_TEST_FORKED_DIRECTORY";
const WAY: &str = "LIBTP_TEST_FORKED_WAY";

/// The entry of the parent. In the run of all tests it does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(way)) = (std::env::var_os(DIRECTORY), std::env::var(WAY)) else { return };
    let (env, segment) = open(Path::new(&directory));
    let txn = env.begin().unwrap();
    txn.join(&segment).unwrap().set_range(0, 1).unwrap().fill(7);
    match make_child(if way == "fork" { How::Fork } else { How::RawClone }) {
        Side::Child => {
            // Not for ever: the test may have been killed itself.
            std::thread::sleep(Duration::from_secs(60));
            exit_now(0);
        }
        Side::Parent(child) => say(&child.to_string()),
    }
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

/// What a parent leaves that does not live any more: its child, which does.
struct Orphan(Pid);

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// A parent makes a child and is killed; with an order, while it does that.
fn orphan(directory: &Path, way: &str, order: Option<&str>) -> Orphan {
    let (tell, said) = channel();
    let variables = [(DIRECTORY, directory.display().to_string()), (WAY, way.to_owned())];
    let mut parent = Process::start("forks::entry", &variables, move |line| _ = tell.send(line.to_owned()));
    let child = said.recv_timeout(LONG).unwrap_or_else(|_| panic!("it makes no child: {}", parent.errors()));
    let orphan = Orphan(Pid::from_raw(child.parse().unwrap()).unwrap());
    match order {
        Some(order) => parent.order(order),
        None => parent.kill(),
    }
    // Not for the end of what it says: its child has the pipe, too.
    let ended = loop {
        match parent.ended() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    assert!(!ended.success(), "it is killed: {}", parent.errors());
    orphan
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
        kill_process(orphan.0, Signal::CONT).expect("the child is still there");
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

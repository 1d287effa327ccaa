//! A process dies when it is about to acknowledge a commit from memory, or while it recovers such commits after a
//! restart of the machine. The next process finds the commits in spite of that death.

use libtp::OpenedBy;
use libtp_tests::failpoints::{self, Scene};
use libtp_tests::process::{Process, FAILPOINT};

use crate::basics::{apples, found, killed, opened_without_memory, region_of, start_machine_again, DIRECTORY};

/// Failpoints of a warm start outside of the scene `Warm`. Some are seldom reached.
const ON_THE_WAY: [&str; 8] = [
    "rescue: a piece written, not synced",
    "rescue: a piece synced, its name not durable",
    "restart: log's end found",
    "restart: region made",
    "restart: managers made",
    "restart: replayed",
    "restart: session left, region not ready",
    "warm start: region safe, not ready",
];

/// Returns whether a process that runs `entry` dies at the failpoint `name`.
fn dies(directory: &std::path::Path, entry: &str, name: &str) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let variables = [(DIRECTORY, directory.display().to_string()), (FAILPOINT, name.to_owned())];
    let mut child = Process::start(entry, &variables);
    child.order("go on");
    child.order("end");
    child.wait().signal().is_some()
}

#[test]
fn a_death_at_the_warm_start_leaves_the_commits_to_the_next_process() {
    let warm = failpoints::of(Scene::Warm);
    let mut deaths = 0;
    for name in warm.filter(|name| name.starts_with("warm start")).chain(ON_THE_WAY) {
        let directory = tempfile::tempdir().unwrap();
        found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
        killed(directory.path());
        start_machine_again(directory.path());
        assert!(dies(directory.path(), "basics::opens", name), "no process reached {name}");
        deaths += 1;
        let (how, lost, value) = apples(directory.path());
        assert_eq!((lost, value.as_deref()), (false, Some(&b"3"[..])), "{name}");
        assert!(matches!(how, OpenedBy::Survived | OpenedBy::Restarted), "{name}: {how:?}");
    }
    println!("figures: {deaths} deaths at warm starts, 0 lost");
}

#[test]
fn a_death_before_the_first_answer_leaves_no_commit() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    assert!(dies(directory.path(), "basics::entry", "rio: noted in the control file, not in the region"));
    assert_eq!(apples(directory.path()), (OpenedBy::Repaired, false, None));
}

#[test]
fn a_death_after_the_memory_was_found_lost_leaves_the_report_to_the_next_process() {
    for name in ["restart: region made", "restart: session left, region not ready"] {
        let directory = tempfile::tempdir().unwrap();
        found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
        killed(directory.path());
        std::fs::remove_file(region_of(directory.path())).unwrap();
        assert!(dies(directory.path(), "basics::opens_without_memory", name), "no process reached {name}");
        assert!(apples(directory.path()).1, "{name}: the loss was not reported");
        assert!(!apples(directory.path()).1, "{name}: the loss is reported once");
    }
}

#[test]
fn commits_after_an_interrupted_close_are_not_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path(), "region_survives = \"system\"\ndurability = \"rio\"");
    assert!(dies(directory.path(), "basics::entry", "leave: closed, region not removed"));
    // The next process finds the memory in good order, and acknowledges more commits from it.
    killed(directory.path());
    std::fs::remove_file(region_of(directory.path())).unwrap();
    assert_eq!(opened_without_memory(directory.path()), (OpenedBy::Restarted, true));
}

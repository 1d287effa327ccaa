//! A process that commits files, *finishes* (gives committed files their names) or *sweeps* (removes temporary files)
//! is killed at each failpoint. A survivor, or the next process, finds all of the change or none of it.

use std::path::Path;
use std::time::{Duration, Instant};

use libtp::{Env, Settings};
use libtp_tests::failpoints::{self, Scene};
use libtp_tests::process::dies_at;

use crate::business::{judge, names_in, Business};

const JOB: &str = "LIBTP_TEST_FILES_JOB";
const PLACE: &str = "LIBTP_TEST_FILES_PLACE";
/// Longest time until other processes must have finished the dead process's work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that finds the files of the dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Successor {
    /// A process that has the environment open during the death.
    Survivor,
    /// The next process that opens the environment.
    Next,
    /// The next process that opens the environment, after its shared memory was lost.
    Restart,
}

fn open(place: &Path) -> Env {
    let memory = place.join("memory");
    std::fs::create_dir_all(&memory).unwrap();
    let settings = Settings { region_directory: Some(memory), ..Settings::default() };
    Env::builder().settings(settings).open(place.join("env")).unwrap()
}

/// The entry of the child, which dies at the failpoint in `LIBTP_FAILPOINT`.
#[test]
fn entry() {
    let (Ok(job), Ok(place)) = (std::env::var(JOB), std::env::var(PLACE)) else { return };
    let place = Path::new(&place);
    let env = open(place);
    let business = Business::open(&env, &place.join("etc")).unwrap();
    if job == "step" {
        business.step(&env).unwrap();
    }
}

fn dies(place: &Path, job: &str, failpoint: &str) -> bool {
    dies_at(failpoint, "deaths::entry", &[(JOB, job.to_owned()), (PLACE, place.display().to_string())])
}

/// Returns the failpoint at which another process must die first, if any, and the victim's job.
fn way_to(name: &str) -> (Option<&'static str>, &'static str) {
    match name {
        "files: listed, nothing swept" | "files: a file swept" => (Some("files: prepared, not committed"), "open"),
        _ => (None, "step"),
    }
}

fn die_and_judge(name: &str, before: Option<&str>, job: &str, successor: Successor) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let etc = place.join("etc");
    std::fs::create_dir(&etc).unwrap();
    let env = open(&place);
    let business = Business::open(&env, &etc).unwrap();
    if name == "files: directory noted" {
        // A process reaches this failpoint only once for each directory in an environment.
        std::fs::create_dir(place.join("first")).unwrap();
        Business::open(&env, &place.join("first")).unwrap().begin(&env).unwrap();
        for file in names_in(&place.join("first")) {
            std::fs::rename(place.join("first").join(&file), etc.join(&file)).unwrap();
        }
    } else {
        business.begin(&env).unwrap();
    }
    // The first process keeps the environment open only in the following case. While it keeps the environment open,
    // another opener sweeps and finishes nothing.
    let keeps_open = successor == Successor::Survivor && before.is_none() && job == "step";
    let mut kept = Some((env, business));
    if !keeps_open {
        kept = None;
    }
    if let Some(before) = before {
        assert!(dies(&place, "step", before), "no process reached {before}");
    }
    assert!(dies(&place, job, name), "no process reached {name} ({job})");
    if successor == Successor::Restart {
        for region in names_in(&place.join("memory")) {
            std::fs::remove_file(place.join("memory").join(region)).unwrap();
        }
    }
    let (env, business) = kept.unwrap_or_else(|| {
        let env = open(&place);
        let business = Business::open(&env, &etc).unwrap();
        (env, business)
    });
    // A transaction reads the committed version at once, even before the files are finished.
    let version = business.read(&env).unwrap();
    let start = Instant::now();
    loop {
        let wrong = match (judge(&etc, version), business.rows(&env).unwrap()) {
            (Ok(()), 0) => break,
            (Err(wrong), _) => wrong,
            (Ok(()), rows) => format!("{rows} rows are left"),
        };
        assert!(keeps_open && start.elapsed() < PATIENCE, "{name} {before:?} {successor:?}: {wrong}");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(business.step(&env).unwrap(), version + 1, "{name} {successor:?}");
    judge(&etc, version + 1).unwrap_or_else(|wrong| panic!("{name} {successor:?}: {wrong}"));
}

#[test]
fn a_death_leaves_all_changes_of_files_or_none() {
    let chosen: Option<String> = libtp_tests::sizes::chosen("LIBTP_TEST_FAILPOINT");
    let points = failpoints::all().filter(|point| point.scene == Scene::Files);
    let points: Vec<_> = points.filter(|point| chosen.as_deref().is_none_or(|one| one == point.name)).collect();
    let mut deaths = 0;
    for point in &points {
        let (before, job) = way_to(point.name);
        for successor in [Successor::Survivor, Successor::Next, Successor::Restart] {
            die_and_judge(point.name, before, job, successor);
            deaths += 1 + u64::from(before.is_some());
        }
        if is_of_finishing(point.name) {
            // The failpoint is also tried in an opener that finishes the work of another dead process.
            die_and_judge(point.name, Some("files: committed, no file in its place"), "open", Successor::Next);
            deaths += 2;
        }
    }
    println!("figures: {} failpoints, {deaths} deaths, 0 partial changes", points.len());
}

fn is_of_finishing(name: &str) -> bool {
    [
        "files: about to be put in place",
        "files: a file in its place",
        "files: in place, directories not synced",
        "files: in place, witnesses present",
        "files: in place, rows not deleted",
        "files: rows deleted, not committed",
    ]
    .contains(&name)
}

/// For the yardstick: a survivor finishes the files of a process that died after its commit.
#[test]
fn survivors_finish_the_files_of_the_dead() {
    die_and_judge("files: committed, no file in its place", None, "step", Successor::Survivor);
}

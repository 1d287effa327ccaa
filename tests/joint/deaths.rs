//! A process dies at each failpoint of the way from joining to the last segment that was told.
//!
//! Afterwards records and memory agree: for who lived beside it, for who opens when everybody has died, and for a restart
//! from the log, where the shared memory is gone too. What was acknowledged is there.

use std::path::Path;

use libtp_sim::Random;
use libtp_tests::failpoints::{Scene, FAILPOINTS};
use libtp_tests::sizes;

use crate::business::Business;
use crate::child::Child;

/// Who looks at what the dead one has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finder {
    /// Somebody who works beside it.
    Survivor,
    /// Who opens the environment next.
    Next,
    /// The same, when the shared memory is gone.
    Restart,
}

const FINDERS: [Finder; 3] = [Finder::Survivor, Finder::Next, Finder::Restart];
/// Where somebody dies that the next has something to do.
const BEFORE: &str = "joined: logged, memory not told";
/// So many transactions a victim does at most: what is rare happens in them.
const MANY: u64 = 60;

/// An environment whose shared memory lies where it can be taken away.
fn found(directory: &Path) {
    std::fs::create_dir_all(directory.join("shm")).unwrap();
    let text = format!("region_directory = {:?}\n", directory.join("shm").display().to_string());
    std::fs::write(directory.join("libtp.toml"), text).unwrap();
}

fn lose_memory(directory: &Path) {
    for entry in std::fs::read_dir(directory.join("shm")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// A victim dies at the failpoint when it comes to it for the `hit`th time; false if it did not come there so often.
fn dies(directory: &Path, name: &str, hit: u64, is_repairer: bool, finder: Finder, seed: u64) -> bool {
    found(directory);
    let what = format!("{name}@{hit}, found by {finder:?}");
    let beside = (finder == Finder::Survivor && !is_repairer).then(|| Business::open(directory).unwrap());
    if let Some(beside) = &beside {
        for _ in 0..3 {
            beside.transact(&mut Random::new(seed)).unwrap();
        }
    }
    let mut told = 0;
    let mut victim = Child::start(directory, seed, &format!("{name}@{hit}"));
    let is_open = victim.says("open");
    if is_repairer && is_open {
        let mut first = Child::start(directory, seed + 1, BEFORE);
        first.says("open");
        first.work(MANY);
        assert!(first.end(), "the first one comes to {BEFORE}");
        told = first.told;
    }
    victim.work(MANY);
    let has_died = victim.end();
    told = told.max(victim.told);
    if finder == Finder::Restart {
        lose_memory(directory);
    }
    let business =
        beside.unwrap_or_else(|| Business::open(directory).unwrap_or_else(|error| panic!("{what}: {error}")));
    for round in 0..2 {
        let count = business.judge().unwrap_or_else(|wrong| panic!("{what}, round {round}: {wrong}"));
        assert!(count >= told, "{what}: {told} was acknowledged, {count} are there");
        assert!(business.env.managers().open_outcomes().is_empty(), "{what}: every segment has been told");
        (0..20).for_each(|_| _ = business.transact(&mut Random::new(seed + round)).unwrap());
    }
    has_died
}

/// How often a victim comes to a place before it dies there.
fn hits() -> impl Iterator<Item = u64> {
    [1, 4].into_iter().chain(2..sizes::number("LIBTP_TEST_HITS", 0))
}

/// As [`dies`], in an environment of its own.
fn dies_once(name: &str, hit: u64, is_repairer: bool, finder: Finder) -> bool {
    let directory = tempfile::tempdir().unwrap();
    dies(directory.path(), name, hit, is_repairer, finder, sizes::first_seed() + hit)
}

#[test]
fn survivors_find_what_was_committed() {
    assert!([1, 3, 5].map(|hit| dies_once(BEFORE, hit, false, Finder::Survivor)).contains(&true));
}

#[test]
fn who_opens_next_finds_what_was_committed() {
    assert!([1, 3, 5].map(|hit| dies_once(BEFORE, hit, false, Finder::Next)).contains(&true));
}

#[test]
fn a_restart_finds_what_was_committed() {
    // When the first of two segments was told, the record that decided is on the disk.
    for name in [BEFORE, "joined: one segment told"] {
        assert!([1, 3, 5].map(|hit| dies_once(name, hit, false, Finder::Restart)).contains(&true));
    }
}

#[test]
fn what_is_not_committed_is_taken_back() {
    for finder in FINDERS {
        assert!(dies_once("joined: committing, nothing logged", 2, false, finder));
    }
}

/// Nobody joins the segments for a while; meanwhile the log goes on, and is closed in good order.
#[test]
fn checkpoints_carry_what_nobody_has_told() {
    let directory = tempfile::tempdir().unwrap();
    found(directory.path());
    let mut victim = Child::start(directory.path(), sizes::first_seed(), &format!("{BEFORE}@3"));
    victim.says("open");
    victim.work(MANY);
    assert!(victim.end(), "it comes to {BEFORE}");
    let count = {
        let env = libtp::Env::open(directory.path()).unwrap();
        let open = env.managers().open_outcomes();
        assert_eq!(open.len(), 2, "both segments are to be told: {open:?}");
        assert!(env.checkpoint().unwrap());
        let control = std::fs::read(directory.path().join("control")).unwrap();
        let named = [4096, 8192].map(|slot| u32::from_le_bytes(control[slot + 88..slot + 92].try_into().unwrap()));
        assert_eq!(named.iter().max(), Some(&1), "one transaction is named by the control file");
        env.checkpoint().unwrap();
        open.len()
    };
    let business = Business::open(directory.path()).unwrap();
    assert_eq!(business.env.managers().open_outcomes().len(), count, "the checkpoint has them");
    business.judge().unwrap_or_else(|wrong| panic!("{wrong}"));
    assert_eq!(business.env.managers().open_outcomes(), []);
}

#[test]
fn both_or_neither_wherever_somebody_dies() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_FAILPOINT");
    let points = FAILPOINTS.iter().filter(|it| matches!(it.scene, Scene::Memory { .. }));
    let (mut deaths, mut never) = (0, Vec::new());
    for point in points.filter(|it| chosen.as_deref().is_none_or(|one| one == it.name)) {
        let is_repairer = point.scene == Scene::Memory { repairs: true };
        let scenes = FINDERS.into_iter().flat_map(|finder| hits().map(move |hit| (finder, hit)));
        let died = scenes.filter(|&(finder, hit)| dies_once(point.name, hit, is_repairer, finder)).count();
        if died == 0 {
            never.push(point.name);
        }
        deaths += died;
    }
    println!("figures: {deaths} deaths between records and memory, 0 torn, 0 lost");
    assert!(never.is_empty(), "nobody died at {never:?}");
}

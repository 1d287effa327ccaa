//! The yardstick of deaths. Every planted bug in the handling of a death must be noticed within a few seeds, and the
//! same scenes must pass without a bug.
//!
//! Each bug is tried in its own process, because the process may hang. The process and its children get the bug from
//! the variable `LIBTP_PLANTED`. If `LIBTP_TEST_BUG` names a bug, only this bug is tried.

use std::collections::BTreeSet;

use libtp_sim::Random;
use libtp_tests::failpoints::{Failpoint, Scene as Place};
use libtp_tests::planted::{self, Scene, Suite};
use libtp_tests::{sizes, trial};

use crate::figures::Figures;
use crate::panics;
use crate::scenes;
use crate::town::Scenario;

/// The number of seeds within which each bug must be noticed.
const SEEDS: u64 = 10;
/// The number of times that the bug's scenes are played for each seed.
const ROUNDS: u64 = 4;
/// The test that plays the scenes of one bug.
const ENTRY: &str = "yardstick::one_bug_in_a_process_of_its_own";

#[test]
fn every_planted_bug_is_noticed_at_a_death() {
    trial::all_noticed(Suite::Failpoints, ENTRY);
}

/// Checks that docs/testing.md lists exactly the bugs that `cargo xtask test` leaves out.
#[test]
fn the_list_in_docs_testing_has_the_bugs_that_only_a_deep_run_tries() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/testing.md");
    let document = std::fs::read_to_string(path).unwrap();
    let listed: BTreeSet<&str> =
        document.lines().filter_map(|line| line.strip_prefix("* `")?.strip_suffix('`')).collect();
    let left_out: BTreeSet<&str> = planted::all().filter(|bug| bug.shows_seldom).map(|bug| bug.name).collect();
    assert_eq!(listed, left_out);
}

/// Plays today's share of the scenes that notice planted bugs, without a bug. If `LIBTP_TEST_FAILPOINT` names a
/// failpoint, plays all scenes of this failpoint.
#[test]
fn the_same_scenes_without_a_bug_pass() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_FAILPOINT");
    let is_chosen = |scene: &&Scene| chosen.as_deref().is_none_or(|name| scene.point() == name);
    let scenes: BTreeSet<Scene> = planted::all().flat_map(|bug| bug.scenes()).filter(is_chosen).copied().collect();
    let scenes =
        if chosen.is_some() { scenes.into_iter().collect() } else { sizes::todays(scenes.into_iter().collect()) };
    let (first, seeds) = (sizes::first_seed(), sizes::number("LIBTP_TEST_SEEDS", 1));
    for seed in first..first + seeds {
        let mut random = Random::new(seed);
        let mut scenes: Vec<Scene> = scenes.clone();
        random.shuffle(&mut scenes);
        play(seed, &scenes, &mut random);
    }
}

/// Plays the scenes of one bug, in a process that was started for this bug.
#[test]
fn one_bug_in_a_process_of_its_own() {
    let Some(planted) = trial::planted() else { return };
    let bug = planted::all().find(|bug| bug.name == planted).expect("the bug is on the list");
    let first = sizes::first_seed();
    for seed in first..first + SEEDS {
        trial::begin_seed(seed - first + 1);
        let mut random = Random::new(seed);
        let scenes: Vec<Scene> = (0..ROUNDS).flat_map(|_| bug.scenes()).copied().collect();
        play(seed, &scenes, &mut random);
    }
}

fn play(seed: u64, scenes: &[Scene], random: &mut Random) {
    let mut figures = Figures::default();
    let mut town: Option<Scenario> = None;
    for scene in scenes {
        if let Scene::Young(point) = *scene {
            scenes::dies_young(seed, &Failpoint { name: point, scene: Place::Young }, random, &mut figures);
            continue;
        }
        let here = town.get_or_insert_with(|| scenes::settled(seed));
        let at = |name| Failpoint { name, scene: Place::Work };
        match *scene {
            Scene::At(point) => scenes::dies_at_work(here, &at(point), random, &mut figures),
            Scene::Repairing(before, point) => {
                scenes::dies_repairing(here, &at(point), Some(before), random, &mut figures)
            }
            Scene::Standing(point) => {
                scenes::stands_still(here, point, random);
                // The town is closed at once, so that no checkpoint hides the bug's effect on the files.
                town.take().expect("the town is open").close(&format!("seed {seed}, {point:?}"));
                true
            }
            Scene::Panicking(point) => panics::dies_of_a_panic(here, point, random),
            Scene::Young(_) => unreachable!("this scene was played above, in an environment of its own"),
        };
    }
    if let Some(town) = town {
        town.close(&format!("seed {seed}"));
    }
}

//! A model of thin locks (docs/design/0021), run through every order of its steps and every death.
//!
//! Two owners, a contender and two reapers work on three names. `world.rs` has the shared memory, `steps.rs` has the
//! calls, one store at a time, and `search.rs` searches the orders and the deaths. In a further test each rule of the
//! design is broken: the search must then find a path to two holders, to a lock that no session releases, or to a
//! waiter that waits for ever.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may stop at any surprise")]

mod search;
mod steps;
mod world;

use search::{explore, SearchResult};
use steps::Op::{self, Downgrade, Instant, Lock, Unlock, UnlockAll};
use world::Mode::{S, X};
use world::{Bug, A, B, D};

/// The calls of the two owners and of the contender.
pub(crate) type Scripts = [&'static [Op]; 3];

/// `A` and `B` have the same word, and the same tag in it; `D` has another word, in another bucket.
const SCENES: &[(&str, Scripts)] = &[
    (
        "an upgrade, two readers, a writer",
        [&[Lock(A, S), Lock(A, X), UnlockAll], &[Lock(A, S), UnlockAll], &[Lock(A, X), UnlockAll]],
    ),
    (
        "two names of one word",
        [&[Lock(A, X), Lock(B, X), UnlockAll], &[Lock(B, S), UnlockAll], &[Lock(A, X), UnlockAll]],
    ),
    ("two buckets", [&[Lock(A, X), Lock(D, X), UnlockAll], &[Lock(D, X), UnlockAll], &[Lock(A, S), UnlockAll]]),
    (
        "a slot used again",
        [&[Lock(A, X), UnlockAll, Lock(B, X), UnlockAll], &[Lock(B, X), UnlockAll], &[Lock(A, X), UnlockAll]],
    ),
    (
        "a downgrade, an early release, and instant locks",
        [
            &[Lock(A, X), Downgrade(A), Lock(D, S), Unlock(A), UnlockAll],
            &[Lock(A, S), Instant(B), UnlockAll],
            &[Lock(A, X), Instant(D), Unlock(A)],
        ],
    ),
];

/// The ways to break the rules, with the numbers of the rules in the design.
const BROKEN: &[(Bug, &str)] = &[
    (Bug::ContenderPushes, "1: the contender puts the inflated request on its owner's stack"),
    (Bug::NotedLate, "1: the request goes on its stack after the swap"),
    (Bug::OwnNotSought, "2: a locker does not look for its own request in the queue"),
    (Bug::TwoBuckets, "3: the names of one word have two buckets"),
    (Bug::ThinBesideQueue, "3: a word gets an owner while another name of the word has a queue"),
    (Bug::OldLook, "4: the word is not looked at again under the latch"),
    (Bug::ClearedInSection, "5: the word becomes free inside the section that removes the queue"),
    (Bug::ExactCompare, "6: a release compares the mode that was noted"),
    (Bug::RefusedIsDone, "7: a refused release counts as done"),
    (Bug::MineByTag, "8: a locker recognises its own lock on a name by the tag alone"),
    (Bug::PlainRelease, "10: a release is a plain store"),
    (Bug::NameReadEarly, "10: the contender reads the request before FAT is in the word"),
    (Bug::FatIsDone, "11: a word with FAT and an owner counts as inflated"),
    (Bug::InflatedTwice, "11: a word with FAT and an owner counts as not inflated"),
    (Bug::FatTooEarly, "11: the word loses its owner before the section closes"),
    (Bug::OwnerStays, "11: a release leaves its place in a word with FAT"),
    (Bug::GrantNotLatched, "a waiter that sees its grant without the latch does not look again under the latch"),
];

/// Deaths on one path of the first scene: enough for the owner, the contender and a reaper to die.
const DEATHS_AT_FIRST: u8 = 3;
/// Deaths on one path of each other scene, and of each broken rule.
const DEATHS: u8 = 2;

#[test]
fn no_order_of_steps_and_no_deaths_break_the_model() {
    for (number, (scene, scripts)) in SCENES.iter().enumerate() {
        let deaths = if number == 0 { DEATHS_AT_FIRST } else { DEATHS };
        match explore(scripts, None, deaths) {
            SearchResult::Nothing { states } => println!("{scene}: {states} states"),
            SearchResult::Failure { failure, path } => panic!("{scene}: {failure}\n{}", path.join("\n")),
        }
    }
}

#[test]
fn every_broken_rule_is_found() {
    for &(bug, rule) in BROKEN {
        let found = SCENES.iter().find_map(|(scene, scripts)| match explore(scripts, Some(bug), DEATHS) {
            SearchResult::Nothing { .. } => None,
            SearchResult::Failure { failure, path } => Some((scene, failure, path.len())),
        });
        let Some((scene, failure, steps)) = found else { panic!("not found: {rule}") };
        println!("{rule}: {failure}, after {steps} steps of \"{scene}\"");
    }
}

//! A process dies at a chosen failpoint of the library, while three other processes work in the same environment.
//!
//! A failpoint is a place where the shared memory is between two valid states (`rio/src/failpoint.rs`). For each
//! failpoint, a victim reaches it and kills itself. The survivors must repair its sessions and acknowledge more
//! transfers. At the end every process must leave in good order, the bank's balances must agree with its journal, every
//! acknowledged transfer must be there, and no database may be damaged. A failpoint that no process reaches fails the
//! suite.
//!
//! | file | contents |
//! |---|---|
//! | `child` | a process that a test starts: the same program, which works until it is stopped or dies |
//! | `role` | the role of a child |
//! | `churn` | the child's other work, with which every failpoint is reached |
//! | `crew` | the processes that a test has started: their orders, reports and deaths |
//! | `town` | an environment, its survivors, and the checks after a death |
//! | `audit` | checks after all other processes have left |
//! | `scenes` | how each failpoint is reached: at work, during a repair, or without other processes |
//! | `figures` | the figures of the report |
//! | `counts` | a commit counts once, whichever session completes it |
//! | `rebuild` | deaths of processes that rebuild the shared memory |
//! | `panics` | a thread panics at the failpoint: only its session dies, and the process continues |
//! | `slabs` | a death after a slab's header names a new chunk and before it counts the chunk |
//! | `listed` | the list of failpoints agrees with the sources |
//! | `yardstick` | planted bugs, each of which one of these scenes must notice |
// Test code outside of test functions: a panic is the report.
#![allow(clippy::unwrap_used)]
#![forbid(unsafe_code)]

mod audit;
mod child;
mod churn;
mod counts;
mod crew;
mod figures;
mod listed;
mod panics;
mod rebuild;
mod role;
mod scenes;
mod several;
mod slabs;
mod town;
#[cfg(feature = "planted")]
mod yardstick;

use std::time::{Duration, Instant};

use libtp_tests::failpoints::{self, Failpoint, Scene};
use libtp_tests::sizes;

use figures::Figures;

/// Lets a victim die at each failpoint of today's part of the list. Each time the other processes must continue.
#[test]
fn the_survivors_continue_after_a_death_at_any_failpoint() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_FAILPOINT");
    // Other suites play the other scenes (`failpoints::Scene`).
    let is_others = |scene| {
        matches!(
            scene,
            Scene::Memory { .. } | Scene::Warm | Scene::Backup | Scene::Files | Scene::Load | Scene::Databases
        )
    };
    let listed = failpoints::all().filter(|it| !is_others(it.scene));
    let points: Vec<&Failpoint> = listed.filter(|it| chosen.as_deref().is_none_or(|one| one == it.name)).collect();
    assert!(!points.is_empty(), "no failpoint has the name {chosen:?}");
    let points = if chosen.is_some() { points } else { sizes::todays(points) };
    let seeds = sizes::number("LIBTP_TEST_SEEDS", 1);
    let (first, start) = (sizes::first_seed(), Instant::now());
    let mut figures = Figures::default();
    for seed in first..first + seeds {
        let never = scenes::play_all(seed, &points, &mut figures);
        assert!(never.is_empty(), "seed {seed}: no process reached {} failpoints: {never:#?}", never.len());
    }
    println!(
        "figures: {} failpoints, {} deaths, 0 lost, 0 stuck, in {} s; {}",
        points.len(),
        figures.deaths,
        start.elapsed().as_secs(),
        figures.repairs()
    );
}

/// Returns the time within which each survivor must acknowledge a transfer after a death: 10 s, or less in a test that
/// expects stuck survivors.
fn watchdog() -> Duration {
    Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 10))
}

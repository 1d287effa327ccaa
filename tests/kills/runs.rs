//! The runs: `LIBTP_TEST_KILL_SECONDS` sets the length of each, `LIBTP_TEST_SEED` the first seed.
//!
//! A long run is split into rounds, each in a new environment. A run fails if a transfer is lost or torn, if the region
//! is rebuilt, or if there is no acknowledgement for ten seconds. The length of shorter stalls is not judged.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtp::Durability;
use libtp_tests::sizes;

use crate::driver::{run, Kills, Pace, Plan, Report};

/// The longest run in one environment, in seconds.
const ROUND: u64 = 60;
/// Each run locks this mutex, because concurrent runs would distort each other's figures.
static ALONE: Mutex<()> = Mutex::new(());

fn seconds() -> u64 {
    sizes::number("LIBTP_TEST_KILL_SECONDS", 4)
}

/// Runs a plan for `seconds` seconds, in rounds of at most a minute. Returns the sum of the rounds.
fn rounds(plan: Plan, seconds: u64) -> Report {
    let mut sum = Report::default();
    for (seed, done) in (sizes::first_seed()..).zip((0..seconds).step_by(usize::try_from(ROUND).expect("small"))) {
        let time = Duration::from_secs(ROUND.min(seconds - done));
        let report = run(Plan { seed, time, ..plan });
        sum.acknowledged += report.acknowledged;
        sum.kills += report.kills;
        sum.newcomers += report.newcomers;
        sum.repairers += report.repairers;
        sum.repaired += report.repaired;
        sum.stalls.add(report.stalls);
    }
    sum
}

fn kills_and_control(processes: usize, kills: Kills, seconds: u64) {
    let plan = Plan { seed: 0, processes, time: Duration::ZERO, kills, pace: Pace::Usual, durability: None };
    planned(plan, "", seconds);
}

fn planned(plan: Plan, how: &str, seconds: u64) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Plan { processes, kills, .. } = plan;
    let killed = rounds(plan, seconds);
    let control = rounds(Plan { kills: Kills::None, ..plan }, seconds.min(ROUND));
    println!(
        "figures: {processes} processes{how}, kills {kills:?}, {seconds} s: {} transfers, {} kills ({} of newcomers, {} of repairers), 0 lost, \
         0 rebuilt, 0 stuck, {} times no worker was left; stall p50/p99/max of {}: {}; without kills, {} transfers: {}",
        killed.acknowledged,
        killed.kills,
        killed.newcomers,
        killed.repairers,
        killed.repaired,
        killed.stalls.len(),
        killed.stalls,
        control.acknowledged,
        control.stalls,
    );
    assert!(killed.kills as u64 >= seconds, "too few processes were killed, so the test proves nothing");
    let is_long = kills == Kills::Two && killed.kills >= 300;
    assert!(killed.repairers > 0 || !is_long, "no worker was killed during a repair");
    assert!(killed.acknowledged > killed.kills as u64, "too few transfers were made, so the test proves nothing");
}

#[test]
fn four_processes_continue_while_one_at_a_time_is_killed() {
    kills_and_control(4, Kills::One, seconds());
}

#[test]
fn sixteen_processes_continue_while_one_at_a_time_is_killed() {
    kills_and_control(16, Kills::One, seconds().div_ceil(2));
}

#[test]
fn four_processes_continue_if_the_repairer_is_killed_too() {
    kills_and_control(4, Kills::Two, seconds().div_ceil(2));
}

/// Measures how long survivors are delayed if all commits have the same durability. `LIBTP_TEST_STALL_SECONDS` sets the
/// length of each run. Without the variable, nothing is measured.
#[test]
fn survivors_continue_if_all_commits_have_one_durability() {
    let seconds = sizes::number("LIBTP_TEST_STALL_SECONDS", 0);
    let plans = [
        (4, Pace::Usual, Durability::Sync),
        (8, Pace::Hurried, Durability::Sync),
        (8, Pace::Hurried, Durability::Relaxed),
    ];
    for (processes, pace, durability) in plans.into_iter().filter(|_| seconds > 0) {
        let plan =
            Plan { seed: 0, processes, time: Duration::ZERO, kills: Kills::One, pace, durability: Some(durability) };
        planned(plan, &format!(", all {durability:?}, {pace:?}"), seconds);
    }
}

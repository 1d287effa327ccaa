//! The runs: `LIBTP_TEST_KILL_SECONDS` sets the length of each, `LIBTP_TEST_SEED` the first seed.
//!
//! A long run is split into rounds, each in a new environment. The length of a stall is not judged; a run fails by
//! lost or torn work, a rebuilt region, or ten seconds without an acknowledgement.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use libtp::Durability;
use libtp_tests::sizes;

use crate::driver::{run, Kills, Pace, Plan, Report};

/// The longest run in one environment, in seconds.
const ROUND: u64 = 60;
/// Held by each run, because simultaneous runs would distort each other's figures.
static ALONE: Mutex<()> = Mutex::new(());

fn seconds() -> u64 {
    sizes::number("LIBTP_TEST_KILL_SECONDS", 4)
}

/// Runs a plan, in rounds of at most a minute, for `seconds` in all. Returns the sum of the rounds.
fn rounds(plan: Plan, seconds: u64) -> Report {
    let mut sum = Report::default();
    for (seed, done) in (sizes::first_seed()..).zip((0..seconds).step_by(usize::try_from(ROUND).expect("small"))) {
        let time = Duration::from_secs(ROUND.min(seconds - done));
        let report = run(Plan { seed, time, ..plan });
        sum.acknowledged += report.acknowledged;
        sum.kills += report.kills;
        sum.newcomers += report.newcomers;
        sum.menders += report.menders;
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
        "figures: {processes} processes{how}, kills {kills:?}, {seconds} s: {} transfers, {} kills ({} of newcomers, {} of menders), 0 lost, \
         0 rebuilt, 0 stuck, {} times no worker was left; stall p50/p99/max of {}: {}; without kills, {} transfers: {}",
        killed.acknowledged,
        killed.kills,
        killed.newcomers,
        killed.menders,
        killed.repaired,
        killed.stalls.len(),
        killed.stalls,
        control.acknowledged,
        control.stalls,
    );
    assert!(killed.kills as u64 >= seconds, "too few processes were killed: the test shows nothing");
    let is_long = kills == Kills::Two && killed.kills >= 300;
    assert!(killed.menders > 0 || !is_long, "no worker was killed at a repair");
    assert!(killed.acknowledged > killed.kills as u64, "too few transfers were made: the test shows nothing");
}

#[test]
fn four_processes_continue_while_one_after_the_other_is_killed() {
    kills_and_control(4, Kills::One, seconds());
}

#[test]
fn sixteen_processes_continue_while_one_after_the_other_is_killed() {
    kills_and_control(16, Kills::One, seconds().div_ceil(2));
}

#[test]
fn four_processes_continue_if_the_repairer_is_killed_too() {
    kills_and_control(4, Kills::Two, seconds().div_ceil(2));
}

/// Measures how long survivors are held up if all processes commit in the same way. `LIBTP_TEST_STALL_SECONDS` sets the
/// length of each run; without the variable nothing is measured.
#[test]
fn survivors_continue_if_all_commits_are_of_one_kind() {
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

//! The yardstick: every planted bug must be noticed within ten seeds, and the same tests must pass without a bug.
//!
//! Each bug is tried in its own process, because a bug may end the process by a panic with a latch held, or let it
//! hang. Without a bug the tests run with `LIBTP_TEST_UNPLANTED` seeds, which are few, because the other tests of this
//! suite run without a bug, too.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use libtp_sim::Random;
use libtp_tests::counted_ranges::a_counted_range_stays_unchanged;
use libtp_tests::crash_states::{all_states, explore, sample, THREADS};
use libtp_tests::damage::{self, Damage, DamagedImage, IMAGES};
use libtp_tests::dead_leader::a_dead_leaders_writes_are_written_again;
use libtp_tests::failing_calls::{self, count_calls, judge_failing_call, CallClass};
use libtp_tests::found_tail::a_found_tail_is_written_again;
use libtp_tests::limited_process::others_continue_while_a_process_is_limited;
use libtp_tests::log_ends::{self, all_log_ends, judge_log_end};
use libtp_tests::planted::{self, Catcher, Suite};
use libtp_tests::sizes;
use libtp_tests::sources::names_after;
use libtp_tests::stale_log::stale_records_stay_out_of_the_log;
use libtp_tests::stopped_writer::a_checkpoint_passes_no_page_in_flight;
use libtp_tests::threads::on_all_threads;
use libtp_tests::trial;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::whole_writes::{
    a_page_that_a_failed_write_tore_has_an_image, an_older_image_replaces_no_page_written_whole,
};
use libtp_tests::workload::{self, Plan};

const SEEDS: u64 = 10;
const STATES: u64 = 800;
/// The number of calls of each class that fail. Many page writes fail, because few power cuts in an interrupted batch
/// show a bug.
const FAILING_CALLS: [(CallClass, u64); 4] =
    [(CallClass::Syncs, 60), (CallClass::DirectorySyncs, 60), (CallClass::PageWrites, 100), (CallClass::Any, 40)];
const DAMAGES: u64 = 60;
/// The test that tries one bug.
const ENTRY: &str = "one_bug_in_a_process_of_its_own";

#[test]
fn every_planted_bug_is_caught_within_ten_seeds() {
    trial::all_noticed(Suite::Crash, ENTRY);
}

#[test]
fn a_build_without_a_planted_bug_passes() {
    // Without a planted bug, the other tests of the suite run every check except `CountedRanges`. If
    // `LIBTP_TEST_UNPLANTED` is 0, only this check runs here.
    let few = [Catcher::CountedRanges];
    let catchers = if sizes::number("LIBTP_TEST_UNPLANTED", 2) == 0 { &few[..] } else { &Catcher::ALL };
    let seen = on_all_threads(catchers, |&catcher| (catcher, trial::without_a_bug(ENTRY, catcher)));
    let wrong: Vec<_> = seen.into_iter().filter(|(_, noticed)| noticed.is_some()).collect();
    assert!(wrong.is_empty(), "checks fail although no bug is planted: {wrong:?}");
    println!("figures: {} checks pass without a planted bug", catchers.len());
}

/// Checks that the list has every planted bug in the sources. No test tries a bug that is not on the list.
#[test]
fn every_site_in_the_sources_is_on_the_list() {
    // The name of a bug is in a call of `planted`, or in a constant after the comment "A planted bug".
    let calls = names_after("planted(\"").into_iter();
    let sites: BTreeSet<String> = calls.chain(names_after("/// A planted bug")).collect();
    let listed: BTreeSet<String> = planted::all().map(|bug| bug.name.to_owned()).collect();
    assert_eq!(listed.len(), planted::all().count(), "a bug is listed twice");
    assert!(listed.len() >= 80, "the yardsticks have {} bugs", listed.len());
    assert_eq!(
        sites.difference(&listed).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "bugs in the sources that are not on the list"
    );
    assert_eq!(
        listed.difference(&sites).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "bugs on the list that are not in the sources"
    );
}

/// Runs the test that `LIBTP_TEST_CATCHER` names, in a process that was started for one bug.
#[test]
fn one_bug_in_a_process_of_its_own() {
    let Some((catcher, known)) = trial::chosen_catcher() else { return };
    let watchdog = Watchdog::start(THREADS);
    let first = sizes::first_seed();
    // The test of the stopped writer takes seconds, and no seed changes it.
    let seeds = match (catcher.as_str(), trial::planted()) {
        ("StoppedWriter", _) => 1,
        // No other test runs this check without a bug.
        ("CountedRanges", _) => SEEDS,
        // Other tests run these checks without a bug.
        (_, None) => sizes::number("LIBTP_TEST_UNPLANTED", 2),
        _ => SEEDS,
    };
    for (seed, number) in known.into_iter().chain(first..first + seeds).zip(1..) {
        trial::begin_seed(number);
        watchdog.begin(0, format!("seed {seed}"));
        let noticed = match catcher.as_str() {
            "FailingCalls" => failing_calls(seed, &watchdog),
            "Damage" => damages(seed, &watchdog),
            "StaleLog" => caught(|| stale_records_stay_out_of_the_log(seed)),
            "FoundTail" => caught(|| a_found_tail_is_written_again(seed)),
            "LogEnds" => log_ends(seed, &watchdog),
            "CountedRanges" => caught(|| a_counted_range_stays_unchanged(seed)),
            "DeadLeader" => caught(|| a_dead_leaders_writes_are_written_again(seed)),
            "LimitedProcess" => caught(|| others_continue_while_a_process_is_limited(seed)),
            "WholeWrites" => caught(|| an_older_image_replaces_no_page_written_whole(seed))
                .and_then(|()| caught(|| a_page_that_a_failed_write_tore_has_an_image(seed))),
            "StoppedWriter" => caught(|| a_checkpoint_passes_no_page_in_flight(seed)),
            _ => crashes(seed, &watchdog),
        };
        noticed.unwrap_or_else(|what| panic!("{what}"));
    }
}

fn crashes(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    let run = caught(|| workload::run(Plan::full(seed), |_| {}))?;
    let states = sample(&all_states(&mut run.machine.disk.crash_images()), STATES);
    let explored = explore(seed, &run, &states, watchdog);
    explored.failures.into_iter().next().map_or(Ok(()), Err)
}

fn failing_calls(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    for (class, wanted) in FAILING_CALLS {
        for failing in failing_calls::sample(class, count_calls(seed, class)?, wanted) {
            watchdog.begin(0, failing.replay(seed));
            caught(|| judge_failing_call(seed, failing)).map_err(|what| format!("{}: {what}", failing.replay(seed)))?;
        }
    }
    Ok(())
}

fn log_ends(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    let run = caught(|| workload::run(log_ends::plan(seed), |_| {}))?;
    let mut walk = run.machine.disk.crash_images();
    for end in all_log_ends(seed, &run) {
        watchdog.begin(0, format!("seed {seed}, {end}"));
        caught(|| judge_log_end(seed, &run, &mut walk, &end)).map_err(|what| format!("{end}: {what}"))?;
    }
    Ok(())
}

fn damages(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    let run = caught(|| workload::run(damage::plan(seed), |_| {}))?;
    let try_damage = |image: &str, patient: &DamagedImage, damage: &Damage| {
        watchdog.begin(0, format!("seed {seed}, image {image}, {damage}"));
        caught(|| patient.open_and_read(damage)).map(drop).map_err(|what| format!("{damage}: {what}"))
    };
    for patient in DamagedImage::before_control_writes(seed, &run) {
        for damage in patient.slots_of_control() {
            try_damage("before a control write", &patient, &damage)?;
        }
    }
    for number in 0..IMAGES {
        let patient = DamagedImage::of_run(seed, &run, number);
        let random = |flip| patient.any_damage(&mut Random::new(seed << 20 ^ (number as u64) << 10 ^ flip));
        for damage in patient.flushes_before_the_last().into_iter().chain((0..DAMAGES).map(random)) {
            try_damage(&number.to_string(), &patient, &damage)?;
        }
    }
    Ok(())
}

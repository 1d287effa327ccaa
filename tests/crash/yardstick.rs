//! The yardstick: every planted bug is caught within ten seeds, and a build without a bug passes.
//!
//! Each bug runs in its own process, because some bugs end the process: it panics with a latch held, or never ends.
//! The variable `LIBTP_TEST_PLANTED` names the bug for such a process. `LIBTP_TEST_BUG` restricts the suite to one
//! bug. `LIBTP_TEST_UNPLANTED` is the number of seeds that a build without a bug is tried with; other tests of this
//! suite try the same.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libtp_sim::Random;
use libtp_tests::counted_ranges::what_was_counted_stays_so;
use libtp_tests::crash_states::{all_states, explore, sample, THREADS};
use libtp_tests::damage::{self, Damage, DamagedImage, PATIENTS};
use libtp_tests::dead_leader::what_a_dead_leader_had_written_is_written_again;
use libtp_tests::failing_calls::{self, count_calls, judge_failing_call, Which};
use libtp_tests::found_tail::a_found_tail_is_written_again;
use libtp_tests::limited_process::others_go_on_beside_a_limited_process;
use libtp_tests::log_ends::{self, all_log_ends, judge_log_end};
use libtp_tests::planted_backup::PLANTED_BACKUP;
use libtp_tests::planted_bugs::{Catcher, PlantedBug, PLANTED_BUGS};
use libtp_tests::planted_deaths::PLANTED_DEATHS;
use libtp_tests::planted_files::PLANTED_FILES;
use libtp_tests::planted_isolation::PLANTED_ISOLATION;
use libtp_tests::planted_joint::PLANTED_JOINT;
use libtp_tests::planted_lived::PLANTED_LIVED;
use libtp_tests::planted_model::PLANTED_MODEL;
use libtp_tests::planted_rio::PLANTED_RIO;
use libtp_tests::planted_snapshots::PLANTED_SNAPSHOTS;
use libtp_tests::planted_stores::{PLANTED_FORKS, PLANTED_STORES};
use libtp_tests::sizes;
use libtp_tests::stale_log::stale_records_stay_dead;
use libtp_tests::stopped_writer::a_checkpoint_passes_no_page_in_flight;
use libtp_tests::threads::on_all_threads;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::workload::{self, Plan};

const SEEDS: u64 = 10;
const STATES: u64 = 800;
/// How many calls of each kind fail. An interrupted batch shows in few of its power cuts.
const FAILING_CALLS: [(Which, u64); 4] =
    [(Which::Syncs, 60), (Which::DirectorySyncs, 60), (Which::PageWrites, 100), (Which::Any, 40)];
const DAMAGES: u64 = 60;
/// The longest time for one bug, on a busy machine; a bug that hangs counts as noticed.
const LIMIT: Duration = Duration::from_secs(900);

/// The verdict on one bug.
struct Verdict {
    name: &'static str,
    /// The failure and its seed; `None` if no failure was noticed.
    noticed: Option<String>,
}

#[test]
fn every_planted_bug_is_caught_within_ten_seeds() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_BUG");
    let is_tried = |bug: &&PlantedBug| chosen.as_ref().is_none_or(|name| name == bug.name);
    let bugs: Vec<_> = PLANTED_BUGS.iter().filter(is_tried).collect();
    let bugs = if chosen.is_some() { bugs } else { sizes::todays(bugs) };
    let verdicts = on_all_threads(&bugs, |bug| {
        let start = Instant::now();
        let noticed = run_in_child(Some(bug), bug.catcher);
        let seconds = start.elapsed().as_secs();
        println!("{} ({seconds} s): {}", bug.name, noticed.as_deref().unwrap_or("NOT CAUGHT"));
        Verdict { name: bug.name, noticed }
    });
    let escaped: Vec<&str> = verdicts.iter().filter(|it| it.noticed.is_none()).map(|it| it.name).collect();
    let at_first =
        verdicts.iter().filter(|it| it.noticed.as_ref().is_some_and(|text| text.starts_with("seed 1:"))).count();
    println!(
        "figures: {} of {} planted bugs caught, {at_first} of them at the first seed",
        verdicts.len() - escaped.len(),
        verdicts.len()
    );
    assert!(escaped.is_empty(), "nobody caught {escaped:?}");
}

#[test]
fn a_build_without_a_planted_bug_passes() {
    // Other suites try the rest without a bug.
    let few = [Catcher::CountedRanges];
    let catchers = if sizes::number("LIBTP_TEST_UNPLANTED", 2) == 0 { &few[..] } else { &Catcher::ALL };
    let seen = on_all_threads(catchers, |&catcher| (catcher, run_in_child(None, catcher)));
    let wrong: Vec<_> = seen.into_iter().filter(|(_, noticed)| noticed.is_some()).collect();
    assert!(wrong.is_empty(), "a bug is seen where none was planted: {wrong:?}");
    println!("figures: {} ways of catching them see none where none is planted", catchers.len());
}

/// A site that is missing on the list is a bug that no test tries.
#[test]
fn every_site_in_the_sources_is_on_the_list() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut sites = BTreeSet::new();
    let mut open = vec![crates];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                sites.extend(sites_of(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    let deaths = PLANTED_DEATHS.iter().chain(PLANTED_JOINT).chain(PLANTED_RIO).map(|bug| bug.name);
    let deaths = deaths.chain(PLANTED_SNAPSHOTS.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_BACKUP.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_FILES.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_LIVED.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_MODEL.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_FORKS.iter().map(|bug| bug.name));
    let deaths = deaths.chain(PLANTED_ISOLATION.iter().map(|bug| bug.name));
    let beside = deaths.chain(PLANTED_STORES.iter().map(|&(name, _)| name));
    let listed: BTreeSet<String> = PLANTED_BUGS.iter().map(|bug| bug.name).chain(beside).map(str::to_owned).collect();
    let beside_count =
        PLANTED_DEATHS.len() + PLANTED_JOINT.len() + PLANTED_RIO.len() + PLANTED_FORKS.len() + PLANTED_STORES.len();
    let count =
        PLANTED_BUGS.len() + PLANTED_SNAPSHOTS.len() + PLANTED_BACKUP.len() + PLANTED_FILES.len() + beside_count;
    let count = count + PLANTED_LIVED.len() + PLANTED_MODEL.len() + PLANTED_ISOLATION.len();
    assert_eq!(listed.len(), count, "a bug is listed twice");
    assert!(listed.len() >= 80, "the yardsticks have {} bugs", listed.len());
    assert_eq!(sites.difference(&listed).collect::<Vec<_>>(), Vec::<&String>::new(), "sites that are not on the list");
    assert_eq!(listed.difference(&sites).collect::<Vec<_>>(), Vec::<&String>::new(), "bugs without a site");
}

/// Returns the names of the planted bugs in a source text: in the call, or in a constant whose comment marks it as
/// one.
fn sites_of(source: &str) -> Vec<String> {
    let until_quote = |text: &str| text.split_once('"').map(|(name, _)| name.to_owned());
    let calls = source.split("planted(\"").skip(1).filter_map(until_quote);
    let constants = source.split("/// A planted bug").skip(1).filter_map(|text| until_quote(text.split_once('"')?.1));
    calls.chain(constants).collect()
}

/// Runs the seeds in a child process; returns the failure that it noticed.
fn run_in_child(bug: Option<&PlantedBug>, catcher: Catcher) -> Option<String> {
    let program = std::env::current_exe().expect("a running test has a program file");
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["--exact", "one_bug_in_a_process_of_its_own", "--nocapture"])
        .env("LIBTP_TEST_PLANTED", bug.map_or("none", |bug| bug.name))
        .envs(bug.and_then(|bug| bug.known_seed).map(|seed| ("LIBTP_TEST_KNOWN_SEED", seed.to_string())))
        .env("LIBTP_TEST_CATCHER", format!("{catcher:?}"))
        // One failure is enough.
        .env("LIBTP_TEST_FAILURES", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test's program can be started again");
    while start.elapsed() < LIMIT && child.try_wait().expect("the child is ours").is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let has_hung = child.try_wait().expect("the child is ours").is_none();
    if has_hung {
        child.kill().expect("the child is ours");
    }
    let output = child.wait_with_output().expect("the child is ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if let Some(line) = text.lines().find_map(|line| line.split_once("NOTICED ")) {
        return Some(line.1.chars().take(300).collect());
    }
    match (has_hung, output.status.success()) {
        (true, _) => Some(format!("it never ended ({} s)", LIMIT.as_secs())),
        (false, false) => {
            Some(format!("its process ended with {}: {}", output.status, last_line(&text, &output.stderr)))
        }
        (false, true) => None,
    }
}

fn last_line(output: &str, errors: &[u8]) -> String {
    let errors = String::from_utf8_lossy(errors).into_owned();
    let hang = output.lines().find(|line| line.contains("HANG"));
    hang.or_else(|| errors.lines().rev().find(|line| !line.trim().is_empty())).unwrap_or_default().to_owned()
}

/// Runs in the child process.
#[test]
fn one_bug_in_a_process_of_its_own() {
    let Some(planted) = sizes::chosen::<String>("LIBTP_TEST_PLANTED") else { return };
    if planted != "none" {
        rio::planted::plant(Some(&planted));
    }
    let catcher: String = sizes::chosen("LIBTP_TEST_CATCHER").unwrap_or_default();
    let watchdog = Watchdog::start(THREADS);
    let first = sizes::first_seed();
    // The case of the stopped writer takes seconds and has nothing random.
    let seeds = match (catcher.as_str(), planted.as_str()) {
        ("StoppedWriter", _) => 1,
        // No other test tries this case without a bug.
        ("CountedRanges", _) => SEEDS,
        // Other suites try these cases without a bug.
        (_, "none") => sizes::number("LIBTP_TEST_UNPLANTED", 2),
        _ => SEEDS,
    };
    let known = sizes::chosen("LIBTP_TEST_KNOWN_SEED");
    for (seed, number) in known.into_iter().chain(first..first + seeds).zip(1..) {
        watchdog.begin(0, format!("seed {seed}"));
        let noticed = match catcher.as_str() {
            "FailingCalls" => failing_calls(seed, &watchdog),
            "Damage" => damages(seed, &watchdog),
            "StaleLog" => caught(|| stale_records_stay_dead(seed)),
            "FoundTail" => caught(|| a_found_tail_is_written_again(seed)),
            "LogEnds" => log_ends(seed, &watchdog),
            "CountedRanges" => caught(|| what_was_counted_stays_so(seed)),
            "DeadLeader" => caught(|| what_a_dead_leader_had_written_is_written_again(seed)),
            "LimitedProcess" => caught(|| others_go_on_beside_a_limited_process(seed)),
            "StoppedWriter" => caught(|| a_checkpoint_passes_no_page_in_flight(seed)),
            _ => crashes(seed, &watchdog),
        };
        if let Err(what) = noticed {
            println!("NOTICED seed {number}: {what}");
            return;
        }
    }
}

fn crashes(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    let run = caught(|| workload::run(Plan::full(seed), |_| {}))?;
    let states = sample(&all_states(&mut run.machine.disk.crash_images()), STATES);
    let explored = explore(seed, &run, &states, watchdog);
    explored.failures.into_iter().next().map_or(Ok(()), Err)
}

fn failing_calls(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    for (which, wanted) in FAILING_CALLS {
        for failing in failing_calls::sample(which, count_calls(seed, which)?, wanted) {
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
    let suffer = |image: &str, patient: &DamagedImage, damage: &Damage| {
        watchdog.begin(0, format!("seed {seed}, image {image}, {damage}"));
        caught(|| patient.open_and_read(damage)).map(drop).map_err(|what| format!("{damage}: {what}"))
    };
    for patient in DamagedImage::before_control_writes(seed, &run) {
        for damage in patient.slots_of_control() {
            suffer("before a control write", &patient, &damage)?;
        }
    }
    for number in 0..PATIENTS {
        let patient = DamagedImage::of_run(seed, &run, number);
        let random = |flip| patient.any_damage(&mut Random::new(seed << 20 ^ (number as u64) << 10 ^ flip));
        for damage in patient.flushes_before_the_last().into_iter().chain((0..DAMAGES).map(random)) {
            suffer(&number.to_string(), &patient, &damage)?;
        }
    }
    Ok(())
}

//! The yardstick: every planted bug is caught within ten seeds, and a build without one passes.
//!
//! Each bug runs in a process of its own, because some end it: it panics with a latch held, or never ends. The variable
//! `LIBTP_TEST_PLANTED` tells such a process its bug; `LIBTP_TEST_BUG` lets the suite try one bug alone.
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use libtp_sim::Random;
use libtp_tests::crash_states::{all_states, explore, sample, THREADS};
use libtp_tests::damage::{self, Patient, PATIENTS};
use libtp_tests::failing_calls::{self, count_calls, judge_failing_call};
use libtp_tests::planted_bugs::{Catcher, PLANTED_BUGS};
use libtp_tests::sizes;
use libtp_tests::watchdog::{caught, Watchdog};
use libtp_tests::workload::{self, Plan};

const SEEDS: u64 = 10;
const STATES: u64 = 500;
const FAILING_CALLS: u64 = 200;
const DAMAGES: u64 = 20;
/// The longest one bug may take; a bug that hangs is a bug that is noticed.
const LIMIT: Duration = Duration::from_secs(300);

/// What became of one bug.
struct Verdict {
    name: &'static str,
    /// What was noticed, at which seed; none if nothing was.
    noticed: Option<String>,
}

/// So many of the planted bugs must be caught. The rest are named in the output: each is a hole in the workload that is
/// still to be closed, and then the floor rises.
const CAUGHT_MIN: usize = 30;

#[test]
fn planted_bugs_are_caught_within_ten_seeds() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_BUG");
    let bugs: Vec<_> = PLANTED_BUGS.iter().filter(|bug| chosen.as_ref().is_none_or(|name| name == bug.name)).collect();
    let (next, verdicts) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // Relaxed: a plain counter.
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let noticed = run_in_child(Some(bug.name), bug.catcher);
                    println!("{}: {}", bug.name, noticed.as_deref().unwrap_or("NOT CAUGHT"));
                    let verdict = Verdict { name: bug.name, noticed };
                    verdicts.lock().unwrap_or_else(PoisonError::into_inner).push(verdict);
                }
            });
        }
    });
    let verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let escaped: Vec<&str> = verdicts.iter().filter(|it| it.noticed.is_none()).map(|it| it.name).collect();
    let at_first =
        verdicts.iter().filter(|it| it.noticed.as_ref().is_some_and(|text| text.starts_with("seed 1:"))).count();
    println!(
        "figures: {} of {} planted bugs caught, {at_first} of them at the first seed",
        verdicts.len() - escaped.len(),
        verdicts.len()
    );
    if !escaped.is_empty() {
        println!("NOT CAUGHT YET: {escaped:?}");
    }
    let floor = CAUGHT_MIN.min(verdicts.len());
    assert!(verdicts.len() - escaped.len() >= floor, "fewer than {floor} were caught; nobody caught {escaped:?}");
}

#[test]
fn a_build_without_a_planted_bug_passes() {
    for catcher in [Catcher::Crashes, Catcher::FailingCalls, Catcher::Damage] {
        assert_eq!(run_in_child(None, catcher), None, "{catcher:?} sees a bug where none was planted");
    }
}

/// Runs the seeds in a process of its own; what it noticed.
fn run_in_child(bug: Option<&str>, catcher: Catcher) -> Option<String> {
    let program = std::env::current_exe().expect("a running test has a program file");
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["--exact", "one_bug_in_a_process_of_its_own", "--nocapture"])
        .env("LIBTP_TEST_PLANTED", bug.unwrap_or("none"))
        .env("LIBTP_TEST_CATCHER", format!("{catcher:?}"))
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

/// The child's part.
#[test]
fn one_bug_in_a_process_of_its_own() {
    let Some(planted) = sizes::chosen::<String>("LIBTP_TEST_PLANTED") else { return };
    if planted != "none" {
        rio::planted::plant(Some(&planted));
    }
    let catcher: String = sizes::chosen("LIBTP_TEST_CATCHER").unwrap_or_default();
    let watchdog = Watchdog::start(THREADS);
    let first = sizes::first_seed();
    for seed in first..first + SEEDS {
        watchdog.begin(0, format!("seed {seed}"));
        let noticed = match catcher.as_str() {
            "FailingCalls" => failing_calls(seed, &watchdog),
            "Damage" => damages(seed, &watchdog),
            _ => crashes(seed, &watchdog),
        };
        if let Err(what) = noticed {
            println!("NOTICED seed {}: {what}", seed - first + 1);
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
    let calls = count_calls(seed)?;
    for failing in failing_calls::sample(calls, FAILING_CALLS) {
        watchdog.begin(0, failing.replay(seed));
        caught(|| judge_failing_call(seed, failing)).map_err(|what| format!("{}: {what}", failing.replay(seed)))?;
    }
    Ok(())
}

fn damages(seed: u64, watchdog: &Watchdog) -> Result<(), String> {
    let run = caught(|| workload::run(damage::plan(seed), |_| {}))?;
    for number in 0..PATIENTS {
        let patient = Patient::of_run(seed, &run, number);
        for flip in 0..DAMAGES {
            let damage = patient.any_damage(&mut Random::new(seed << 20 ^ (number as u64) << 10 ^ flip));
            watchdog.begin(0, format!("seed {seed}, image {number}, {damage}"));
            caught(|| patient.suffer(&damage)).map_err(|what| format!("{damage}: {what}"))?;
        }
    }
    Ok(())
}

//! Tries planted bugs, each in its own process, and reports whether a test noticed each.
//!
//! The process is this test program again, in a test that notices the bug by a panic, a crash or a hang. The variable
//! `LIBTP_PLANTED` names the bug, for that process and the processes that it starts. If `LIBTP_TEST_BUG` names a bug,
//! only this bug is tried.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::planted::{self, Judge, Planted, Suite};
use crate::threads::on_threads;
use crate::{crash_states, sizes};

/// The longest time for one bug. A test that does not end in this time has noticed the bug.
const LIMIT: Duration = Duration::from_secs(90);
/// The longest time for one bug of the crash suites, also on a busy machine.
const CRASH_LIMIT: Duration = Duration::from_secs(900);
/// The number of threads. It may exceed the number of processors: most of the processes wait most of the time.
const THREADS: usize = 4;
/// The number of tries of a case, each with the next seed. A case draws the moment of its event at random, and the bug
/// shows only at some moments.
const CASE_TRIES: u64 = 10;
/// The value of `LIBTP_TEST_WATCHDOG`, in seconds: survivors soon count as stuck.
const WATCHDOG: &str = "3";
/// The environment variable with the test of the crash suites that a process runs.
const CATCHER: &str = "LIBTP_TEST_CATCHER";
/// The environment variable with a seed that has shown the bug.
const KNOWN_SEED: &str = "LIBTP_TEST_KNOWN_SEED";

/// Makes the module `yardstick` of a suite, whose test tries each planted bug that a case of the suite must notice.
#[macro_export]
macro_rules! yardstick {
    ($suite:ident) => {
        mod yardstick {
            #[test]
            fn every_planted_bug_is_noticed_by_its_case() {
                $crate::trial::all_noticed($crate::planted::Suite::$suite, "");
            }
        }
    };
}

/// Returns the name of the bug that is planted in this process, if there is one.
pub fn planted() -> Option<String> {
    sizes::chosen("LIBTP_PLANTED")
}

/// Returns the test of the crash suites that this process was started for, and the bug's known seed.
pub fn chosen_catcher() -> Option<(String, Option<u64>)> {
    Some((sizes::chosen(CATCHER)?, sizes::chosen(KNOWN_SEED)))
}

/// Prints the seed. The parent reads the last printed seed: with this seed the test noticed the bug.
pub fn begin_seed(number: u64) {
    println!("TRIES seed {number}");
}

/// Tries each of today's bugs of a suite in the test `entry`, or in the case that the bug names. Prints the seed with
/// which each bug was noticed. If `entry` is empty, tries only bugs that name a case. Bugs that show seldom are tried
/// only if `LIBTP_TEST_SELDOM` is set.
///
/// # Panics
/// If a bug was not noticed.
pub fn all_noticed(suite: Suite, entry: &str) {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_BUG");
    let has_time = sizes::number("LIBTP_TEST_SELDOM", 0) != 0;
    let is_tried = |bug: &&Planted| match &chosen {
        Some(name) => name == bug.name,
        None => has_time || !bug.shows_seldom,
    };
    let has_test = |bug: &&Planted| !entry.is_empty() || matches!(bug.judge, Judge::Case(_));
    let bugs: Vec<_> = planted::of(suite).into_iter().filter(has_test).filter(is_tried).collect();
    let bugs = if chosen.is_some() { bugs } else { sizes::todays(bugs) };
    let threads = if suite == Suite::Crash { crash_states::THREADS } else { THREADS };
    let tried = on_threads(threads, &bugs, |bug| {
        let start = Instant::now();
        let (test, tries) = match bug.judge {
            Judge::Case(case) => (case, CASE_TRIES),
            // The test `entry` tries ten seeds itself.
            _ => (entry, 1),
        };
        let noticed = (0..tries).find_map(|number| try_one(bug, test, number));
        let not = if bug.shows_seldom { "not noticed this time" } else { "NOT NOTICED" };
        println!("{} ({} s): {}", bug.name, start.elapsed().as_secs(), noticed.as_deref().unwrap_or(not));
        (*bug, noticed)
    });
    let noticed: Vec<&str> = tried.iter().filter_map(|(_, noticed)| noticed.as_deref()).collect();
    let at_first = noticed.iter().filter(|text| text.starts_with("seed 1:")).count();
    println!(
        "figures: {} of {} planted bugs noticed, {at_first} of them at the first seed; {} of the others show seldom",
        noticed.len(),
        tried.len(),
        tried.iter().filter(|(bug, noticed)| noticed.is_none() && bug.shows_seldom).count()
    );
    let escaped = tried.iter().filter(|(bug, noticed)| noticed.is_none() && !bug.shows_seldom);
    let escaped: Vec<&str> = escaped.map(|(bug, _)| bug.name).collect();
    assert!(escaped.is_empty(), "no test noticed {escaped:?}");
}

/// Runs one test with the bug planted and the seed `number` after the first. Returns the seed and the failure if the
/// test noticed the bug.
fn try_one(bug: &Planted, test: &str, number: u64) -> Option<String> {
    let mut variables = vec![("LIBTP_PLANTED", bug.name.to_owned())];
    variables.push(("LIBTP_TEST_SEED", (sizes::first_seed() + number).to_string()));
    variables.extend(bug.known_seed.map(|seed| (KNOWN_SEED, seed.to_string())));
    match bug.judge {
        Judge::Catcher(catcher) => in_a_process(test, Some(catcher), variables, CRASH_LIMIT),
        _ => in_a_process(test, None, variables, LIMIT),
    }
    .map(|(seed, why)| format!("{}: {why}", seed.unwrap_or_else(|| format!("seed {}", number + 1))))
}

/// Runs a test of the crash suites in its own process without a bug; returns the failure, if it fails.
pub fn without_a_bug(entry: &str, catcher: planted::Catcher) -> Option<String> {
    in_a_process(entry, Some(catcher), Vec::new(), CRASH_LIMIT).map(|(_, why)| why)
}

/// Runs one test in its own process. Returns the seed and the reason of its failure; `None` if it succeeds.
fn in_a_process(
    test: &str,
    catcher: Option<planted::Catcher>,
    mut variables: Vec<(&str, String)>,
    limit: Duration,
) -> Option<(Option<String>, String)> {
    if let Some(catcher) = catcher {
        // The first failure ends the test: it proves that the bug is noticed.
        variables.extend([(CATCHER, format!("{catcher:?}")), ("LIBTP_TEST_FAILURES", "1".to_owned())]);
    }
    let program = std::env::current_exe().expect("a running test has a program file");
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env("LIBTP_TEST_WATCHDOG", WATCHDOG)
        .envs(variables)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test's program can be started again");
    // Both pipes are read while the child runs: a full pipe would stop the child.
    let message = read(child.stdout.take());
    let complained = read(child.stderr.take());
    let mut has_ended = false;
    while start.elapsed() < limit && !has_ended {
        std::thread::sleep(Duration::from_millis(20));
        has_ended = child.try_wait().expect("the child is ours").is_some();
    }
    if !has_ended {
        child.kill().expect("the child is ours");
    }
    let status = child.wait().expect("the child is ours");
    if !has_ended {
        // The output is not read to its end: stuck children of the child may keep the pipes open.
        return Some((None, format!("no end after {} s", limit.as_secs())));
    }
    let (message, complained) = (message.join().unwrap_or_default(), complained.join().unwrap_or_default());
    if status.success() {
        return None;
    }
    let seed = message.lines().rev().find_map(|line| line.strip_prefix("TRIES ")).map(str::to_owned);
    // The last panic is the panic of the test. Before it, the test reports the panics of its child processes.
    let mut lines = complained.lines();
    let mut why = message.lines().find(|line| line.contains("HANG")).map(str::to_owned);
    while let Some(line) = lines.next() {
        if line.starts_with("thread '") && line.contains("panicked at") {
            why = lines.next().map(|line| line.chars().take(300).collect());
        }
    }
    Some((seed, why.unwrap_or_else(|| status.to_string())))
}

fn read(from: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // An error is ignored: the bytes that were read before it are returned.
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

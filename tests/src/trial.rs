//! Tries planted bugs, each in its own process, and collects what was noticed of each.
//!
//! The process is this test program again, in a test that notices the bug by a panic, a crash or a hang.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::planted_deaths::PlantedDeath;
use crate::sizes;
use crate::threads::on_threads;

/// The longest time for one bug; a bug that hangs counts as noticed.
const LIMIT: Duration = Duration::from_secs(90);
/// More threads than processors: most of the processes wait most of the time.
const THREADS: usize = 4;
/// Tries of a case, each with the next seed. A case draws its moment at random, and the bug shows only at some
/// moments.
const CASE_TRIES: u64 = 10;
/// Seconds after which survivors count as stuck.
const WATCHDOG: &str = "3";

/// Returns the bug that is planted in this process, if the process was started to try one.
pub fn planted() -> Option<String> {
    sizes::chosen("LIBTP_PLANTED")
}

/// Prints the seed, so that the parent knows which seed noticed the bug.
pub fn begin_seed(number: u64) {
    println!("TRIES seed {number}");
}

/// Tries each of today's bugs in the test `entry`, or in the case that the bug names, and prints what was noticed.
/// Bugs that show seldom are tried if there is time for them.
///
/// # Panics
/// If a bug was not noticed.
pub fn all_noticed(bugs: &[&PlantedDeath], entry: &str) {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_BUG");
    let has_time = sizes::number("LIBTP_TEST_SELDOM", 0) != 0;
    let is_tried = |bug: &&&PlantedDeath| match &chosen {
        Some(name) => name == bug.name,
        None => has_time || !bug.is_seldom,
    };
    let bugs: Vec<_> = bugs.iter().filter(is_tried).collect();
    let bugs = if chosen.is_some() { bugs } else { sizes::todays(bugs) };
    let tried = on_threads(THREADS, &bugs, |bug| {
        // The entry goes through ten seeds by itself.
        let tries = if bug.case().is_some() { CASE_TRIES } else { 1 };
        let noticed = (0..tries).find_map(|number| try_one(bug.name, bug.case().unwrap_or(entry), number));
        let not = if bug.is_seldom { "not noticed this time" } else { "NOT NOTICED" };
        println!("{}: {}", bug.name, noticed.as_deref().unwrap_or(not));
        (*bug, noticed)
    });
    let noticed: Vec<&str> = tried.iter().filter_map(|(_, noticed)| noticed.as_deref()).collect();
    let at_first = noticed.iter().filter(|text| text.starts_with("seed 1:")).count();
    println!(
        "figures: {} of {} planted bugs noticed, {at_first} of them at the first seed; {} of those not noticed show seldom",
        noticed.len(),
        tried.len(),
        tried.iter().filter(|(bug, noticed)| noticed.is_none() && bug.is_seldom).count()
    );
    let escaped = tried.iter().filter(|(bug, noticed)| noticed.is_none() && !bug.is_seldom);
    let escaped: Vec<&str> = escaped.map(|(bug, _)| bug.name).collect();
    assert!(escaped.is_empty(), "nobody noticed {escaped:?}");
}

/// Runs one test with the bug planted, `number` seeds after the first; returns the failure, if the bug was noticed.
fn try_one(bug: &str, test: &str, number: u64) -> Option<String> {
    let program = std::env::current_exe().expect("a running test has a program file");
    let start = Instant::now();
    let mut child = Command::new(program)
        .args(["--exact", test, "--nocapture"])
        .env("LIBTP_PLANTED", bug)
        .env("LIBTP_TEST_WATCHDOG", WATCHDOG)
        .env("LIBTP_TEST_SEED", (sizes::first_seed() + number).to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test's program can be started again");
    // Both pipes are read while the child runs: a full pipe would stop the child.
    let message = read(child.stdout.take());
    let complained = read(child.stderr.take());
    let mut has_ended = false;
    while start.elapsed() < LIMIT && !has_ended {
        std::thread::sleep(Duration::from_millis(20));
        has_ended = child.try_wait().expect("the child is ours").is_some();
    }
    if !has_ended {
        child.kill().expect("the child is ours");
    }
    let status = child.wait().expect("the child is ours");
    if !has_ended {
        // Its own children end when it no longer listens; stuck children keep the pipes open.
        return Some(format!("seed {}: it never ended ({} s)", number + 1, LIMIT.as_secs()));
    }
    let (message, complained) = (message.join().unwrap_or_default(), complained.join().unwrap_or_default());
    if status.success() {
        return None;
    }
    let seed = message.lines().rev().find_map(|line| line.strip_prefix("TRIES ")).map(str::to_owned);
    let seed = seed.unwrap_or_else(|| format!("seed {}", number + 1));
    // The last panic of a thread is the test's own: panics of other processes were reported before it.
    let mut lines = complained.lines();
    let mut why = String::new();
    while let Some(line) = lines.next() {
        if line.starts_with("thread '") && line.contains("panicked at") {
            why = lines.next().unwrap_or_default().chars().take(240).collect();
        }
    }
    Some(format!("{seed}: {}", if why.is_empty() { status.to_string() } else { why }))
}

fn read(from: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // Keeps the bytes that were read before an error.
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

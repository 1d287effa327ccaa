//! The machine stops between any two stores: each state of the memory is recovered, and each transaction is whole.
//!
//! Where memory outlives the cache a state is more than what was stored: of each line that was stored to since it was last
//! written back, memory has what it had then or anything since; some such states are drawn.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use libtp_tests::planted_stores::{NoticedBy, PLANTED_STORES};
use libtp_tests::sizes;
use vista::{Options, Segment};

use crate::business::{judge, transact, Draw};
use crate::several;
use crate::trace::{be_traced, trace, Event};

/// Bytes of the flat part: small, for it is compared after every step.
const BYTES: u64 = 16 << 10;
/// Ranges and blocks have at most so many bytes: each store is a state.
const LONGEST: u64 = 200;
const LINE: usize = 64;
const PATH: &str = "VISTA_TEST_TRACED";
const WRITTEN_BACK: &str = "VISTA_TEST_WRITTEN_BACK";
const TXNS: &str = "VISTA_TEST_TXNS";
/// Two transactions go on at once.
const TWO: &str = "VISTA_TEST_TWO";
const BUG: &str = "VISTA_TEST_BUG";

fn open(path: &Path, is_written_back: bool) -> Segment {
    Options::new(BYTES).reserve(16 << 20).write_back(is_written_back).anywhere().open(path).unwrap()
}

/// The child's part.
fn work(path: &Path) {
    let mut segment = open(path, sizes::number(WRITTEN_BACK, 0) == 1);
    let mut draw = Draw(sizes::first_seed());
    if sizes::number(TWO, 0) == 1 {
        let threads = segment.share_by(several::STRIPE).unwrap();
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap()];
        work_traced(path, || several::interleaved(&mut workers, &mut draw, LONGEST));
    }
    work_traced(path, || {
        transact(&mut segment, &mut draw, LONGEST);
    });
}

fn work_traced(path: &Path, mut transact: impl FnMut()) -> ! {
    // The heap's first blocks, so that the file does not grow while it is looked at.
    for _ in 0..300 {
        transact();
    }
    if let Some(bug) = sizes::chosen::<String>(BUG) {
        let bug: &'static str = bug.leak();
        rio::planted::plant(Some(bug));
    }
    be_traced(path);
    for _ in 0..sizes::number(TXNS, 0) {
        transact();
    }
    std::process::exit(0);
}

/// What was found out.
#[derive(Default)]
struct Findings {
    steps: u64,
    states: u64,
    torn: Vec<String>,
}

/// A run of the child, and a judgement of each state.
struct Run<'r> {
    directory: &'r Path,
    is_two: bool,
    /// What the flat part was when so many transactions had ended.
    seen: BTreeMap<u64, Vec<u8>>,
    findings: Findings,
}

impl Run<'_> {
    fn judge(&mut self, memory: &[u8]) {
        if !self.findings.torn.is_empty() {
            // One is enough.
            return;
        }
        self.findings.states += 1;
        let copy = self.directory.join("copy");
        std::fs::write(&copy, memory).unwrap();
        let opened = catch_unwind(|| open(&copy, false));
        let Ok(segment) = opened else { return self.findings.torn.push("it cannot be opened".into()) };
        match if self.is_two { several::judge(&segment) } else { judge(&segment) } {
            Err(what) => self.findings.torn.push(what),
            Ok(ended) => {
                let first = self.seen.entry(ended).or_insert_with(|| segment.bytes().to_vec());
                if first.as_slice() != segment.bytes() {
                    self.findings.torn.push(format!("two different states after {ended} transactions"));
                }
            }
        }
    }
}

/// What memory has where it outlives the cache.
struct Lines {
    /// What is there for certain.
    memory: Vec<u8>,
    /// What is on its way.
    underway: BTreeMap<usize, Vec<u8>>,
    draw: Draw,
}

impl Lines {
    fn told(&mut self, event: Event, stored: &[u8]) {
        match event {
            Event::Store => {}
            Event::WriteBack(line) => {
                self.underway.insert(line, stored[line..line + LINE].to_vec());
            }
            Event::Fence => {
                for (line, bytes) in std::mem::take(&mut self.underway) {
                    self.memory[line..line + LINE].copy_from_slice(&bytes);
                }
            }
        }
    }

    /// What memory may have now: of each line what is there, what is on its way, or what is in the cache.
    fn state(&mut self, stored: &[u8]) -> Vec<u8> {
        let mut state = self.memory.clone();
        for line in (0..state.len()).step_by(LINE) {
            if state[line..line + LINE] == stored[line..line + LINE] {
                continue;
            }
            match (self.draw.below(3), self.underway.get(&line)) {
                (0, _) => {}
                (1, Some(bytes)) => state[line..line + LINE].copy_from_slice(bytes),
                _ => state[line..line + LINE].copy_from_slice(&stored[line..line + LINE]),
            }
        }
        state
    }
}

/// What is run: cache lines are written back; two transactions go on at once.
#[derive(Clone, Copy)]
struct How {
    is_written_back: bool,
    is_two: bool,
}

fn run(How { is_written_back, is_two }: How, txns: u64, seed: u64, bug: Option<&str>) -> Findings {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("segment");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "traced::stopped_between_any_two_stores", "--test-threads=1"])
        .env(PATH, &path)
        .env(WRITTEN_BACK, u64::from(is_written_back).to_string())
        .env(TXNS, txns.to_string())
        .env(TWO, u64::from(is_two).to_string())
        .env("LIBTP_TEST_SEED", seed.to_string());
    if let Some(bug) = bug {
        command.env(BUG, bug);
    }
    let mut run = Run { directory: directory.path(), is_two, seen: BTreeMap::new(), findings: Findings::default() };
    let mut lines: Option<Lines> = None;
    let steps = trace(&mut command, &path, |event, stored| {
        if !is_written_back {
            return run.judge(stored);
        }
        // The child begins with an empty log, whose stores have all been written back.
        let lines =
            lines.get_or_insert_with(|| Lines { memory: stored.to_vec(), underway: BTreeMap::new(), draw: Draw(seed) });
        // Where the file is longer now it was made safe first.
        lines.memory.extend_from_slice(&stored[lines.memory.len()..]);
        lines.told(event, stored);
        if matches!(event, Event::WriteBack(_)) {
            // Memory may have of it what it might have had before.
            return;
        }
        let state = lines.state(stored);
        run.judge(&state);
    });
    match steps {
        Ok(steps) => run.findings.steps = steps,
        Err(what) => run.findings.torn.push(what),
    }
    run.findings
}

#[test]
fn stopped_between_any_two_stores() {
    if let Some(path) = sizes::chosen::<String>(PATH) {
        work(Path::new(&path));
    }
    let (txns, start) = (sizes::number("LIBTP_TEST_TRACED", 20), Instant::now());
    for (is_written_back, is_two) in [(false, false), (true, false), (false, true), (true, true)] {
        let found = run(How { is_written_back, is_two }, txns, sizes::first_seed(), None);
        let back = if is_written_back { "cache lines written back" } else { "no write-back" };
        let how = format!("{back}, {}", if is_two { "two at once" } else { "one at a time" });
        assert!(found.torn.is_empty(), "{how}: {} states torn, first: {}", found.torn.len(), found.torn[0]);
        println!(
            "figures: {how}: {txns} transactions of {} instructions, stopped {} times, 0 torn, {} s",
            found.steps,
            found.states,
            start.elapsed().as_secs()
        );
        assert!(found.states > txns * 4, "hardly a store was seen: {} states", found.states);
    }
}

#[test]
fn planted_bugs_are_noticed() {
    for (bug, noticed_by) in PLANTED_STORES.into_iter().filter(|(_, by)| *by != NoticedBy::Threads) {
        let how = How { is_written_back: noticed_by == NoticedBy::LostLines, is_two: noticed_by == NoticedBy::Two };
        let noticed = (1..=5).find(|&seed| !run(how, 8, seed, Some(bug)).torn.is_empty());
        println!("  {bug}: noticed with seed {noticed:?}");
        assert!(noticed.is_some(), "nobody noticed {bug:?}");
    }
}

//! The machine stops between any two stores. Each state of the memory is recovered, and has each transaction either
//! complete or undone.
//!
//! If memory outlives the cache, there are more states than the stored states (`lines`). The test draws some of these
//! states.

use std::collections::BTreeMap;
use std::panic::catch_unwind;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use libtp_tests::planted::{self, Judge, NoticedBy};
use libtp_tests::sizes;
use libtp_tests::threads::on_all_threads;
use vista::{Options, Segment};

use crate::business::{judge, transact, Draw};
use crate::lines::{Lines, LINE};
use crate::several;
use crate::trace::{answer, be_traced, trace_while, Event};

/// Bytes of the flat part: few, because the flat part is compared after every step.
const BYTES: u64 = 16 << 10;
/// The longest ranges and blocks, in bytes: short, because each store is a state to judge.
const LONGEST: u64 = 200;
/// Number of before-images of the flat part that fit into the undo log.
const RANGES_OF_A_LOG: usize = 7;
/// Number of the file's first bytes, which have the offsets of all other structures.
const FRONT: usize = 64 << 10;
const PATH: &str = "VISTA_TEST_TRACED";
const WRITTEN_BACK: &str = "VISTA_TEST_WRITTEN_BACK";
const TXNS: &str = "VISTA_TEST_TXNS";
const BUG: &str = "VISTA_TEST_BUG";
const SCENE: &str = "VISTA_TEST_SCENE";

/// The traced part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scene {
    /// Transactions.
    Work = 0,
    /// The undo log, the heap and the flat part grow.
    Growth = 1,
    /// A segment is opened, used and closed.
    Life = 2,
    /// Two transactions are open at once.
    Two = 3,
    /// A segment with two unfinished transactions is opened. Each transaction has an undo log.
    Recovery = 4,
}

impl Scene {
    /// Returns the number of states that are judged after an event. Growth copies bytes by many stores, so only a
    /// sample is judged. Rarely, a store puts an offset into the front of the file. Memory may have the offset before
    /// or after the bytes at that offset, so several states are judged.
    fn states(self, number: u64, is_link: bool) -> u64 {
        match self {
            Scene::Growth if is_link => 6,
            Scene::Growth => u64::from(number % 7 == 0),
            _ => 1,
        }
    }
}

fn open(path: &Path, is_written_back: bool) -> Segment {
    // An existing segment keeps its length.
    let bytes = if path.exists() { 0 } else { BYTES };
    let options = Options::new(bytes).reserve(16 << 20).grows_to(4 * BYTES).write_back(is_written_back);
    options.anywhere().open(path).unwrap()
}

/// The child's part.
fn work(path: &Path) {
    let (is_written_back, scene) = (sizes::number(WRITTEN_BACK, 0) == 1, sizes::number(SCENE, 0));
    let is_recovery = scene == Scene::Recovery as u64;
    // In the scene of recovery, the recovered segment is a copy of a segment in use.
    let used = if is_recovery { path.with_extension("used") } else { path.to_path_buf() };
    let (mut segment, mut draw) = (open(&used, is_written_back), Draw(sizes::first_seed()));
    // Transactions before the traced transactions allocate the heap's first blocks, so that the file does not grow
    // during the trace.
    let before = 300;
    let plant = || {
        if let Some(bug) = sizes::chosen::<String>(BUG) {
            let bug: &'static str = bug.leak();
            rio::planted::plant(Some(bug));
        }
    };
    let begin = || {
        plant();
        be_traced(path);
    };
    let txns = sizes::number(TXNS, 0);
    if is_recovery {
        let threads = segment.share_by(several::STRIPE).unwrap();
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap()];
        (0..before).for_each(|_| several::interleaved(&mut workers, &mut draw, LONGEST));
        several::while_under_way(&mut workers, &mut draw, LONGEST, || {
            std::fs::copy(&used, path).unwrap();
        });
        begin();
        let segment = open(path, is_written_back);
        assert!(segment.rolled_back() > 8, "both transactions were under way");
        let threads = segment.share_by(several::STRIPE).unwrap();
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap()];
        (0..txns).for_each(|_| several::interleaved(&mut workers, &mut draw, LONGEST));
        std::process::exit(0);
    }
    if scene == Scene::Two as u64 {
        // The bug is planted before the trace, because it is in the code that makes the logs.
        plant();
        let threads = segment.share_by(several::STRIPE).unwrap();
        let mut workers = [threads.worker().unwrap(), threads.worker().unwrap()];
        (0..before).for_each(|_| several::interleaved(&mut workers, &mut draw, LONGEST));
        begin();
        (0..txns).for_each(|_| several::interleaved(&mut workers, &mut draw, LONGEST));
        std::process::exit(0);
    }
    for _ in 0..before {
        transact(&mut segment, &mut draw, LONGEST);
    }
    let mut work = |segment: &mut Segment| {
        for _ in 0..txns {
            transact(segment, &mut draw, LONGEST);
            answer();
        }
    };
    match scene {
        1 => grow(&mut segment, path, begin),
        2 => {
            segment.close().unwrap();
            begin();
            let mut segment = open(path, is_written_back);
            work(&mut segment);
            segment.close().unwrap();
        }
        _ => {
            begin();
            work(&mut segment);
        }
    }
    std::process::exit(0);
}

/// Runs a transaction whose undo log must grow, then grows the flat part, then runs transactions that take the file's
/// next units.
fn grow(segment: &mut Segment, path: &Path, begin: impl FnOnce()) {
    let bytes_of_file = || std::fs::metadata(path).unwrap().len();
    let mut txn = segment.begin();
    let all = usize::try_from(BYTES).unwrap();
    // Fills the log almost to its end. Its before-images differ from the present bytes.
    for _ in 0..RANGES_OF_A_LOG {
        txn.set_range(0, all).unwrap().iter_mut().step_by(LINE).for_each(|byte| *byte ^= 1);
    }
    let before = bytes_of_file();
    begin();
    let range = txn.set_range(0, all).unwrap();
    range[100] ^= 1;
    assert!(bytes_of_file() > before, "the log did not grow: it has room for more than {RANGES_OF_A_LOG} ranges");
    txn.abort();
    segment.grow(2 * BYTES).unwrap();
    for bytes in [70_000, 200_000] {
        let mut txn = segment.begin();
        let block = txn.malloc(bytes).unwrap();
        txn.set_range(block, 8).unwrap().fill(1);
        if bytes == 70_000 {
            txn.abort();
        } else {
            txn.end().unwrap();
        }
    }
}

/// The result of a run.
#[derive(Default)]
struct Findings {
    steps: u64,
    states: u64,
    torn: Vec<String>,
}

/// A run of the child, of which each state is judged.
struct Run<'r> {
    directory: &'r Path,
    scene: Scene,
    is_written_back: bool,
    /// The flat part after each number of ended transactions.
    seen: BTreeMap<u64, Vec<u8>>,
    /// Number of acknowledged transactions.
    answered: u64,
    findings: Findings,
}

impl Run<'_> {
    fn judge(&mut self, memory: &[u8]) {
        self.findings.states += 1;
        match self.ended(memory) {
            Ok(ended) if ended < self.answered => {
                self.findings.torn.push(format!("{ended} transactions, of {} that were acknowledged", self.answered));
            }
            Ok(_) => {}
            Err(what) => self.findings.torn.push(what),
        }
    }

    /// Returns the number of transactions that have ended in `memory`, or a description of the torn part.
    fn ended(&mut self, memory: &[u8]) -> Result<u64, String> {
        let copy = self.directory.join("copy");
        std::fs::write(&copy, memory).unwrap();
        // The copy is recovered alternately as memory that outlives the cache and as other memory.
        let is_written_back = self.is_written_back && self.findings.states % 2 == 0;
        let opened = catch_unwind(|| open(&copy, is_written_back));
        let segment = opened.map_err(|_| "the opening panicked")?;
        let are_several = matches!(self.scene, Scene::Two | Scene::Recovery);
        let ended = if are_several { several::judge(&segment)? } else { judge(&segment)? };
        let bytes = &segment.bytes()[..usize::try_from(BYTES).unwrap()];
        let first = self.seen.entry(ended).or_insert_with(|| bytes.to_vec());
        if first.as_slice() != bytes {
            return Err(format!("two different states after {ended} transactions"));
        }
        Ok(ended)
    }
}

fn run(scene: Scene, is_written_back: bool, txns: u64, seed: u64, bug: Option<&str>) -> Findings {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let path = directory.path().join("segment");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "traced::stopped_between_any_two_stores", "--test-threads=1"])
        .env(PATH, &path)
        .env(SCENE, (scene as u64).to_string())
        .env(WRITTEN_BACK, u64::from(is_written_back).to_string())
        .env(TXNS, txns.to_string())
        .env("LIBTP_TEST_SEED", seed.to_string());
    command.envs(bug.map(|bug| (BUG, bug)));
    let mut run = Run {
        directory: directory.path(),
        scene,
        is_written_back,
        seen: BTreeMap::new(),
        answered: 0,
        findings: Findings::default(),
    };
    let (mut lines, mut stores, mut front): (Option<Lines>, u64, Vec<u8>) = (None, 0, Vec::new());
    let steps = trace_while(&mut command, &path, |event, stored| {
        // When the trace begins, memory has all of the child's stores.
        let lines = is_written_back.then(|| lines.get_or_insert_with(|| Lines::new(stored, seed)));
        if event == Event::Answered {
            // The stored bytes show how many transactions the child has ended.
            run.answered = run.ended(stored).unwrap_or(run.answered);
            return true;
        }
        stores += 1;
        let is_link = event == Event::Store && front != stored[..FRONT];
        if is_link {
            stored[..FRONT].clone_into(&mut front);
        }
        let states = match event {
            // A write-back adds no new state of the memory.
            Event::WriteBack(_) => 0,
            _ => scene.states(stores, is_link || event == Event::Fence),
        };
        match lines {
            Some(lines) => {
                lines.told(event, stored);
                (0..states).for_each(|_| run.judge(&lines.state()));
            }
            None if states > 0 => run.judge(stored),
            None => {}
        }
        // The run ends at the first torn state.
        run.findings.torn.is_empty()
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
    let txns = sizes::number("LIBTP_TEST_TRACED", 20);
    let of_two = sizes::number("LIBTP_TEST_TRACED_TWO", 20);
    let scenes =
        [(Scene::Two, of_two), (Scene::Life, 2), (Scene::Work, txns), (Scene::Recovery, 2), (Scene::Growth, 3)];
    let cases: Vec<_> =
        scenes.into_iter().flat_map(|(scene, txns)| [true, false].map(|how| (scene, txns, how))).collect();
    on_all_threads(&sizes::todays(cases), |&(scene, txns, is_written_back)| {
        let start = Instant::now();
        let found = run(scene, is_written_back, txns, sizes::first_seed(), None);
        let how = if is_written_back { "cache lines written back" } else { "no write-back" };
        assert!(found.torn.is_empty(), "{scene:?}, {how}: {}", found.torn[0]);
        println!(
            "figures: {scene:?}, {how}: {txns} transactions of {} steps, stopped {} times, 0 torn, {} s",
            found.steps,
            found.states,
            start.elapsed().as_secs()
        );
        assert!(found.states > txns * 4, "too few stores were seen: {} states", found.states);
    });
}

#[test]
fn planted_bugs_are_noticed() {
    let chosen: Option<String> = sizes::chosen("LIBTP_TEST_BUG");
    let all = planted::all().filter(|bug| matches!(bug.judge, Judge::Stores(_)));
    let bugs: Vec<_> = match &chosen {
        Some(name) => all.filter(|bug| name == bug.name).collect(),
        None => sizes::todays(all.collect()),
    };
    for bug in bugs {
        let (scene, is_written_back) = match bug.judge {
            Judge::Stores(NoticedBy::Stops) => (Scene::Work, false),
            Judge::Stores(NoticedBy::LostLines) => (Scene::Work, true),
            Judge::Stores(NoticedBy::Two) => (Scene::Two, false),
            Judge::Stores(NoticedBy::Growth) => (Scene::Growth, true),
            // Other tests try the other bugs.
            _ => continue,
        };
        let bug = bug.name;
        let is_noticed_in = |scene: Scene| {
            let noticed = (1..=5).find(|&seed| !run(scene, is_written_back, 4, seed, Some(bug)).torn.is_empty());
            println!("  {bug}: noticed in {scene:?} with seed {noticed:?}");
            noticed.is_some()
        };
        assert!(is_noticed_in(scene), "no test noticed {bug:?}");
    }
}

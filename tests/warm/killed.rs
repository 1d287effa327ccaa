//! Real processes acknowledge commits from memory and are killed at random moments. Then their files lose unsynced
//! bytes, and a restart of the machine is simulated. The next process that opens the environment finds every
//! acknowledged commit, and no partial commit.
//!
//! The memory is a file of this machine that is declared to outlive the system. Its contents stay in the page cache.
//! The disk consists of real files whose syncs are tracked ([`LosingDirectory`]).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libtp::{Bytes, Durability, Env, Memory, OpenedBy, Platform, Settings, Survives};
use libtp_sim::{LayeredDirectory, Random};
use libtp_tests::audit::verify_all;
use libtp_tests::bank::{self, Bank};
use libtp_tests::losing_disk::{LosingDirectory, Lost};
use libtp_tests::process::{say, Process};
use libtp_tests::sizes;

use crate::basics::start_machine_again;

const HOME: &str = "LIBTP_TEST_KILLED_HOME";
const NUMBER: &str = "LIBTP_TEST_KILLED_NUMBER";
const WORKERS: u64 = 3;
/// Number of crashes of one environment. Then a new environment is made, because the audit of a long history takes
/// long.
const CRASHES_OF_ONE: u64 = 10;

fn disk(home: &Path) -> LosingDirectory {
    LosingDirectory::open(&home.join("files"), &home.join("shadows")).unwrap()
}

fn open(home: &Path) -> libtp::Result<Env> {
    let directory = Arc::new(LayeredDirectory(disk(home)));
    let memory = home.join("memory");
    std::fs::create_dir_all(&memory).unwrap();
    let settings = Settings {
        durability: Some(Durability::Rio),
        region_survives: Some(Survives::System),
        region_directory: Some(memory.clone()),
        // Syncs are rare. So a large part of the log is not on the disk when the machine goes down.
        relaxed_millis: Some(60_000),
        checkpoint_log: Some(Bytes::mib(2)),
        ..bank::settings()
    };
    let platform = Platform {
        path: home.join("files"),
        log_directory: directory.clone(),
        directory,
        memory: Memory::Files(vec![memory, home.join("files")]),
        log_types: std::sync::Arc::default(),
    };
    Env::builder().settings(settings).open_on(platform, &mut |_| {})
}

/// The entry of a worker. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let (Some(home), Ok(number)) = (std::env::var_os(HOME), std::env::var(NUMBER)) else { return };
    let worker = number.parse().unwrap();
    let env = open(Path::new(&home)).unwrap();
    let (bank, mut random) = (Bank::open(&env).unwrap(), Random::new(sizes::first_seed() << 20 | worker));
    say("opened");
    for number in 0.. {
        let durability = if random.chance(1, 50) { Durability::Sync } else { Durability::Rio };
        bank.transfer(worker, number, &mut random, durability).unwrap();
        say("answered");
    }
}

/// A worker, and the number of its acknowledged commits.
struct Worker {
    number: u64,
    process: Process,
    answered: Arc<Mutex<u64>>,
}

impl Worker {
    fn start(home: &Path, number: u64) -> Worker {
        let answered = Arc::new(Mutex::new(0));
        let theirs = Arc::clone(&answered);
        let variables = [(HOME, home.display().to_string()), (NUMBER, number.to_string())];
        let process = Process::start_heard_by("killed::entry", &variables, move |line| {
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(line == "answered");
        });
        Worker { number, process, answered }
    }

    fn answered(&self) -> u64 {
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs workers, kills and replaces some of them, and finally kills all. Returns each worker's number of acknowledged
/// commits.
fn work_and_die(home: &Path, first: u64, random: &mut Random) -> BTreeMap<u64, u64> {
    let mut workers: Vec<Worker> = (first..first + WORKERS).map(|number| Worker::start(home, number)).collect();
    let is_awaited = random.chance(7, 8);
    let (mut dead, mut next) = (Vec::new(), first + WORKERS);
    if is_awaited {
        // Waits for some commits before the first kill. Otherwise all workers would die while they open the
        // environment.
        while workers.iter().all(|worker| worker.answered() < 10) {
            let ended = workers.iter_mut().find_map(|worker| worker.process.ended().map(|_| worker.process.errors()));
            assert!(ended.is_none(), "a worker ended without a kill: {ended:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for _ in 0..random.below(3) {
        std::thread::sleep(Duration::from_micros(random.below(40_000)));
        let mut victim = workers.swap_remove(random.index(workers.len()));
        victim.process.kill();
        dead.push(victim);
        workers.push(Worker::start(home, next));
        next += 1;
    }
    std::thread::sleep(Duration::from_micros(random.below(100_000)));
    for worker in &mut workers {
        assert!(worker.process.ended().is_none(), "a worker ended without a kill: {}", worker.process.errors());
        worker.process.kill();
        std::thread::sleep(Duration::from_micros(random.below(300)));
    }
    dead.extend(workers);
    // `wait` reads all output of the worker.
    dead.iter_mut().for_each(|worker| _ = worker.process.wait());
    dead.iter().map(|worker| (worker.number, worker.answered())).collect()
}

/// Compares the found commits with the acknowledged commits. No acknowledged commit is lost. For each worker, at most
/// the last commit was found but not acknowledged.
fn compare(found: &BTreeMap<u64, u64>, answered: &BTreeMap<u64, u64>, what: &str) {
    for (worker, &answered) in answered {
        let found = found.get(worker).copied().unwrap_or(0);
        assert!(
            found >= answered,
            "{what}: LOST: {answered} commits of worker {worker} were acknowledged, {found} were found"
        );
        assert!(
            found <= answered + 1,
            "{what}: {answered} commits of worker {worker} were acknowledged, {found} were found"
        );
    }
    let stranger = found.keys().find(|worker| !answered.contains_key(worker));
    assert!(stranger.is_none(), "{what}: found commits of worker {stranger:?}, which was never started");
}

#[test]
fn answered_commits_survive_kills_and_a_disk_that_loses_unsynced_bytes() {
    let mut random = Random::new(sizes::first_seed());
    let (mut commits, mut survived, mut all_lost) = (0, 0, Lost::default());
    let crashes = sizes::number("LIBTP_TEST_WARM_KILLS", 3);
    let mut of_one = None;
    for crash in 0..crashes {
        if crash % CRASHES_OF_ONE == 0 {
            let home = tempfile::tempdir().unwrap();
            Bank::open(&open(home.path()).unwrap()).unwrap().fill().unwrap();
            of_one = Some((home, BTreeMap::new()));
        }
        let Some((home, answered)) = &mut of_one else { unreachable!("it has just been made") };
        let (home, what) = (home.path(), format!("LIBTP_TEST_SEED={}, crash {crash}", sizes::first_seed()));
        let before = answered.len();
        answered.extend(work_and_die(home, crash * 100, &mut random));
        let kept = random.below(11);
        let lost = disk(home).crash(&mut random, kept);
        (all_lost.sectors, all_lost.kept) = (all_lost.sectors + lost.sectors, all_lost.kept + lost.kept);
        let is_used = std::fs::read_dir(home.join("memory")).unwrap().next().is_some();
        if is_used {
            start_machine_again(home);
        }
        let env = open(home).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(
            !env.opened().lost,
            "{what}: commits are reported as lost, although the memory was kept: {:?}",
            env.opened()
        );
        survived += u64::from(env.opened().how == OpenedBy::Survived);
        verify_all(&env).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        let bank = Bank::open(&env).unwrap();
        let found = bank.audit().unwrap_or_else(|torn| panic!("{what}: {torn}"));
        compare(&found, answered, &what);
        // Each later opening must find all commits found now, including a worker's last commit that was not
        // acknowledged.
        *answered = answered.keys().map(|worker| (*worker, found.get(worker).copied().unwrap_or(0))).collect();
        commits += found.iter().filter(|(worker, _)| **worker >= crash * 100).map(|(_, count)| count).sum::<u64>();
        assert!(answered.len() >= before + 3);
    }
    println!(
        "figures: {crashes} crashes of {WORKERS} processes, {survived} survived in memory, {commits} commits, \
         {} sectors of their files lost and {} kept unsynced; 0 lost, 0 torn",
        all_lost.sectors, all_lost.kept
    );
    assert!(survived > 0 && all_lost.sectors > 0, "no crash was survived in memory, or no bytes were lost");
}

//! Several processes make versions of the same files, and are killed at random moments while the others continue.
//! Acknowledged versions are kept, a transaction reads one version, and any program finds each file whole.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use libtp::{Env, OpenedBy};
use libtp_sim::Random;
use libtp_tests::process::{say, Process};
use libtp_tests::sizes;

use crate::business::{judge, version_of, Business};

const PLACE: &str = "LIBTP_TEST_FILES_KILLS";
const WORKERS: usize = 3;
/// Longest time until living processes must have finished the dead processes' work.
const PATIENCE: Duration = Duration::from_secs(10);

/// A worker. In an ordinary test run this test does nothing.
#[test]
fn entry() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let place = Path::new(&place);
    let env = Env::open_or_create(place.join("env")).unwrap();
    let business = Business::open(&env, &place.join("etc")).unwrap();
    loop {
        let version = business.step(&env).unwrap();
        say(&format!("{version}"));
    }
}

fn start(place: &Path, answered: &Arc<AtomicU64>) -> Process {
    let answered = Arc::clone(answered);
    Process::start_heard_by("kills::entry", &[(PLACE, place.display().to_string())], move |line| {
        // Relaxed: the value is used after the process has ended and all its lines were read.
        answered.fetch_max(line.parse().unwrap(), Ordering::Relaxed);
    })
}

/// Reads a file as other programs do, until `is_over`. Each time the file must be whole, old or new. Returns the number
/// of reads.
fn read_from_outside(place: &Path, is_over: &AtomicBool) -> u64 {
    let mut reads = 0;
    while !is_over.load(Ordering::Relaxed) {
        let found = std::fs::read(place.join("passwd")).expect("the file exists at every moment");
        version_of(&found).expect("the file is whole at every moment");
        reads += 1;
    }
    reads
}

#[test]
fn files_and_records_have_one_version_under_kills() {
    let kills = sizes::number("LIBTP_TEST_KILLS", 30);
    // The library's warnings are printed with a failure. Another test may have set this up before.
    let warnings = tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::WARN);
    let _ = warnings.with_writer(std::io::stderr).try_init();
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().canonicalize().unwrap();
    let etc = place.join("etc");
    std::fs::create_dir(&etc).unwrap();
    let env = Env::open_or_create(place.join("env")).unwrap();
    Business::open(&env, &etc).unwrap().begin(&env).unwrap();
    let (mut random, answered) = (Random::new(sizes::first_seed()), Arc::new(AtomicU64::new(0)));
    let (is_over, mut inside) = (AtomicBool::new(false), 0);
    let mut kept = Some(env);
    let outside = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_from_outside(&etc, &is_over));
        // If this part fails, the other thread still ends.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut workers: Vec<Process> = (0..WORKERS).map(|_| start(&place, &answered)).collect();
            for kill in 0..kills {
                std::thread::sleep(Duration::from_micros(5_000 + random.below(150_000)));
                if let Some(env) = &kept {
                    let business = Business::open(env, &etc).unwrap();
                    let least = answered.load(Ordering::Relaxed);
                    let version = business.read(env).unwrap();
                    assert!(version >= least, "version {least} was acknowledged, and version {version} is found");
                    inside += 1;
                }
                let ended = workers.iter_mut().find_map(|it| it.ended().map(|_| it.errors()));
                assert!(ended.is_none(), "a worker ended without a kill: {ended:?}");
                let victim = random.index(workers.len());
                workers[victim].kill();
                let _ = workers[victim].wait();
                if kill % 10 == 9 {
                    // After every tenth kill all processes die, and the next process finds their files.
                    drop(kept.take());
                    workers.iter_mut().for_each(Process::kill);
                    workers.iter_mut().for_each(|it| {
                        it.wait();
                    });
                    let env = Env::open_or_create(place.join("env")).unwrap();
                    // If the old handle of this process is not closed yet, its threads or the new handle's threads
                    // finish the work later.
                    let is_alone = env.opened().how != OpenedBy::Joined;
                    let patience = if is_alone { Duration::ZERO } else { PATIENCE };
                    settle(&env, &etc, answered.load(Ordering::Relaxed), patience);
                    kept = Some(env);
                    workers = (0..WORKERS).map(|_| start(&place, &answered)).collect();
                } else {
                    workers[victim] = start(&place, &answered);
                }
            }
            workers.iter_mut().for_each(Process::kill);
            workers.iter_mut().for_each(|it| {
                it.wait();
            });
        }));
        is_over.store(true, Ordering::Relaxed);
        let reads = reading.join();
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        reads.unwrap()
    });
    let version = settle(kept.as_ref().unwrap(), &etc, answered.load(Ordering::Relaxed), PATIENCE);
    println!(
        "figures: {kills} kills among {version} versions, {inside} reads in transactions, {outside} by another program"
    );
}

/// Checks that the dead processes' work is finished, within `patience`. Returns the version.
fn settle(env: &Env, etc: &Path, least: u64, patience: Duration) -> u64 {
    let business = Business::open(env, etc).unwrap();
    let version = business.read(env).unwrap();
    assert!(version >= least, "version {least} was acknowledged, and version {version} is found");
    let start = Instant::now();
    loop {
        let wrong = match (judge(etc, version), business.rows(env).unwrap()) {
            (Ok(()), 0) => return version,
            (Err(wrong), _) => wrong,
            (Ok(()), rows) => format!("{rows} rows are left"),
        };
        assert!(start.elapsed() < patience, "{wrong}; {:?}", env.opened());
        std::thread::sleep(Duration::from_millis(5));
    }
}

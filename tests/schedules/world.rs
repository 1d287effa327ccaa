//! An environment whose threads are shuttle's tasks.
//!
//! A handle makes some structures at their first use, under a lock of the standard library. [`World::open`] makes them
//! all before the tasks begin: if a task were suspended while it holds such a lock, another task that wants the lock
//! would block the only thread of all tasks.

use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::Arc;

use libtp::{Bytes, DatabaseSettings, Db, Durability, Env, Settings, SharedMemory};
use libtp_io::Directory;
use libtp_sim::{Random, SimDisk, SimProcess};
use libtp_tests::sizes;
use libtp_tests::versions::platform;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};

/// Bytes of a task's stack.
const STACK: usize = 1 << 20;

/// Lets the scheduler switch to another task.
fn at_point() {
    // A task that unwinds is not suspended: all tasks are on one thread, so the other tasks would seem to panic, too.
    if !std::thread::panicking() {
        shuttle::thread::yield_now();
    }
}

/// A simulated disk and memory.
pub struct World {
    disk: SimDisk,
    memory: SharedMemory,
    processes: Vec<SimProcess>,
}

impl World {
    /// Makes an empty world.
    pub fn new(seed: u64) -> World {
        World { disk: SimDisk::new(seed), memory: SharedMemory::new(), processes: Vec::new() }
    }

    /// Opens the environment and its tree as another process.
    pub fn open(&mut self) -> (Env, Db) {
        let env = self.open_environment();
        let tree = env.btree("tree").unwrap();
        env.run(|txn| tree.put(txn, b"first", b"").and_then(|()| tree.delete(txn, b"first"))).unwrap();
        // Inner pages are then read without their latches.
        env.managers().processes.join_barriers();
        // Reads the statistics of every pool, so that nothing is left to initialize.
        env.stats().unwrap();
        (env, tree)
    }

    fn open_environment(&mut self) -> Env {
        let process = self.disk.process_view();
        let directory: Arc<dyn Directory> = process.directory();
        self.processes.push(process);
        let platform = platform(directory, &self.memory);
        let small = DatabaseSettings { page_bytes: Some(Bytes::kib(4)), ..DatabaseSettings::default() };
        let settings = Settings {
            memory: Some(Bytes::mib(1)),
            durability: Some(Durability::Relaxed),
            no_background: true,
            database: [("tree".to_owned(), small)].into(),
            ..Settings::default()
        };
        Env::builder().settings(settings).open_on(platform, &mut |_| {}).unwrap()
    }
}

/// Runs the function `schedule` under `LIBTP_TEST_SCHEDULES` random schedules, each with its own seed.
pub fn explore(name: &str, schedule: fn(Random)) {
    let count = usize::try_from(sizes::number("LIBTP_TEST_SCHEDULES", 100)).unwrap();
    let first = sizes::first_seed();
    let start = std::time::Instant::now();
    for seed in (first..).take(count) {
        let told = format!("{name}: LIBTP_TEST_SEED={seed}");
        let mut config = Config::new();
        config.stack_size = STACK;
        config.max_steps = shuttle::MaxSteps::None;
        let run = move || {
            rio::schedule::at_each_point(Some(at_point));
            schedule(Random::new(seed));
            rio::schedule::at_each_point(None);
        };
        let ran = catch_unwind(AssertUnwindSafe(|| {
            Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(run);
        }));
        rio::schedule::at_each_point(None);
        if let Err(why) = ran {
            println!("{told}");
            resume_unwind(why);
        }
    }
    println!("figures: {name}: {count} schedules in {:.0} s", start.elapsed().as_secs_f64());
}

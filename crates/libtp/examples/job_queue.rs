//! A job queue that any number of processes work on: each job is done once, and a job whose worker is killed is done by
//! another worker.
//!
//! `cargo run --release -p libtp --example job_queue`
//!
//! A worker takes a job, does it and notes the result in one transaction. Until the transaction commits, the job is
//! locked, and the other workers skip it. When a worker is killed, its transaction is undone, and the job is in the
//! queue again.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use libtp::{Env, Error, Result, Table, Txn};

const JOBS: u64 = 300;
const WORKERS: u64 = 3;

/// The tables of the queue.
struct Queue {
    /// The work to do. The key is the job's number.
    jobs: Table<u64, String>,
    /// The results. The key is the job's number.
    results: Table<u64, u64>,
}

impl Queue {
    fn open(env: &Env) -> Result<Queue> {
        Ok(Queue { jobs: env.table("jobs")?, results: env.table("results")? })
    }

    /// Adds a job after the last job; returns its number.
    fn add(&self, txn: &Txn<'_>, work: &str) -> Result<u64> {
        let last = self.jobs.iter(txn).next_back().transpose()?.map_or(0, |(number, _)| number);
        self.jobs.put_new(txn, last + 1, work)?;
        Ok(last + 1)
    }

    /// Does one job; returns its number, or `None` if no job is free.
    fn do_one(&self, env: &Env) -> Result<Option<u64>> {
        // The snapshot shows the jobs without a wait for their workers.
        let waiting = self.jobs.iter(&env.snapshot()?).take(16).collect::<Result<Vec<_>>>()?;
        for (number, _) in waiting {
            let done = env.run(|txn| {
                let taken = match txn.within(Some(Duration::ZERO), || self.jobs.take(txn, number)) {
                    // Another worker has the job.
                    Err(Error::LockTimeout(_)) => None,
                    taken => taken?,
                };
                let Some(work) = taken else { return Ok(false) };
                self.results.put_new(txn, number, work.len() as u64)?;
                Ok(true)
            })?;
            if done {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }
}

/// Works until every job is done.
pub fn work(path: &Path) -> Result<()> {
    let env = Env::open(path)?;
    let queue = Queue::open(&env)?;
    loop {
        if queue.do_one(&env)?.is_none() {
            if queue.results.iter(&env.snapshot()?).count() as u64 == JOBS {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Fills a queue, starts workers with `worker`, kills each of them once, and prints a report.
pub fn show(
    path: &Path,
    worker: &dyn Fn() -> std::io::Result<Command>,
    out: &mut impl Write,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let env = Env::create(path)?;
    let queue = Queue::open(&env)?;
    env.run(|txn| (0..JOBS).try_for_each(|job| queue.add(txn, &format!("mail to customer {job}")).map(|_| ())))?;
    let start = || -> std::io::Result<Child> { worker()?.spawn() };
    let mut workers = (0..WORKERS).map(|_| start()).collect::<std::io::Result<Vec<Child>>>()?;
    for one in &mut workers {
        std::thread::sleep(Duration::from_millis(30));
        one.kill()?;
        one.wait()?;
        *one = start()?;
    }
    for one in &mut workers {
        assert!(one.wait()?.success());
    }
    let snapshot = env.snapshot()?;
    let (left, done) = (queue.jobs.iter(&snapshot).count(), queue.results.iter(&snapshot).count());
    writeln!(out, "{WORKERS} workers were killed; {done} of {JOBS} jobs are done, {left} are left")?;
    Ok(())
}

#[cfg_attr(test, allow(dead_code))]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if let Some(path) = std::env::args_os().nth(1) {
        return Ok(work(Path::new(&path))?);
    }
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("queue");
    let worker = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(&path);
        Ok(command)
    };
    show(&path, &worker, &mut std::io::stdout())
}

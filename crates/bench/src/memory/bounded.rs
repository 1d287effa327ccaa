//! A database of any size on a disk, used by a process with limited memory (Rio Vista, figures 5b and 5c). If the
//! database is larger than the limit, the system pages it in and out.
//!
//! Two processes take part. The benchmark's own process has no limit. It makes the database, and drops the database's
//! pages from the system's page cache, so that pages which the limited process reads count against the limit. Then it
//! starts the limited process, which reads the whole database, warms up, works for the given time, and reports its
//! result. At the end, the benchmark's process audits the database.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bound::Bounds;
use super::change::{Journaled, Memory};
use super::client::{ask, Bounded, BoundedEngine, MemoryJob, SizedWorkload, StartMemory};
use super::debit_credit::DebitCredit;
use super::judge::judge;
use super::order_entry::OrderEntry;
use super::{size, store, take, Work};
use crate::cold::forget_files;
use crate::error::{Error, Result};

/// Approximate time between two readings of the clock.
const LOOK: Duration = Duration::from_millis(1);
/// Largest number of transactions between two readings of the clock.
const COUNT_MAX: u64 = 4096;
const PAGE: usize = 4096;
/// Smallest length of a log in bytes: the log must hold the stores of one transaction of the load, also for a small
/// database.
const LOG_BYTES_MIN: u64 = 4 << 20;

/// The result of the limited process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Transactions since the database was made.
    pub ended: u64,
    /// Measured transactions.
    pub measured: u64,
    /// Duration of the measured transactions, including a truncation at the end.
    pub elapsed_ns: u64,
    /// Number of page faults that read from the disk, during the measured transactions.
    pub faults: u64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundedReport {
    /// The benchmark and its size.
    pub workload: SizedWorkload,
    /// The transaction system.
    pub engine: BoundedEngine,
    /// Bytes of the database.
    pub bytes: u64,
    /// The limit of the process's memory in bytes, if there was one.
    pub limit: Option<u64>,
    /// The process's peak memory in bytes, if the kernel reports it.
    pub most: Option<u64>,
    /// The result of the limited process.
    pub done: Done,
    /// Transactions per second.
    pub tps: f64,
    /// "ok", or a description of the fault.
    pub audit: String,
}

/// Makes a database, starts a process that uses it with at most `limit` bytes of memory, audits the database, and
/// removes it. If no limit can be set, a database that is not larger than the limit is measured without a limit.
///
/// # Errors
/// `Settings` if the database is larger than the limit and no limit can be set, or if the process failed, for example
/// for lack of memory.
pub(crate) fn run_bounded(job: Bounded, limit: u64, start: StartMemory<'_>) -> Result<BoundedReport> {
    std::fs::create_dir_all(&job.directory).map_err(Error::file("make", &job.directory))?;
    let report = on(job.workload, Whole { job: &job, limit, start });
    let removed = std::fs::remove_dir_all(&job.directory).map_err(Error::file("remove", &job.directory));
    let report = report?;
    removed?;
    Ok(report)
}

/// Does the job of the limited process.
pub(super) fn work_bounded(job: &Bounded) -> Result<Done> {
    on(job.workload, Part(job))
}

/// Returns the size of a database in bytes.
pub(crate) fn bytes_of(workload: SizedWorkload) -> Result<u64> {
    on(workload, Length)
}

/// A task that is generic over a benchmark's size.
trait Task {
    type Output;
    fn with<W: Work>(self, work: &W) -> Result<Self::Output>;
}

/// Runs a task with the benchmark of this size.
fn on<T: Task>(workload: SizedWorkload, task: T) -> Result<T::Output> {
    match workload {
        SizedWorkload::DebitCredit(1) => task.with(&DebitCredit::<1>),
        SizedWorkload::DebitCredit(2) => task.with(&DebitCredit::<2>),
        SizedWorkload::DebitCredit(3) => task.with(&DebitCredit::<3>),
        SizedWorkload::DebitCredit(4) => task.with(&DebitCredit::<4>),
        SizedWorkload::DebitCredit(6) => task.with(&DebitCredit::<6>),
        SizedWorkload::DebitCredit(9) => task.with(&DebitCredit::<9>),
        SizedWorkload::DebitCredit(18) => task.with(&DebitCredit::<18>),
        SizedWorkload::OrderEntry(2) => task.with(&OrderEntry::<2>),
        SizedWorkload::OrderEntry(3) => task.with(&OrderEntry::<3>),
        SizedWorkload::OrderEntry(4) => task.with(&OrderEntry::<4>),
        SizedWorkload::OrderEntry(5) => task.with(&OrderEntry::<5>),
        SizedWorkload::OrderEntry(8) => task.with(&OrderEntry::<8>),
        SizedWorkload::OrderEntry(12) => task.with(&OrderEntry::<12>),
        SizedWorkload::OrderEntry(24) => task.with(&OrderEntry::<24>),
        other => Err(Error::Settings(format!("{other:?} is no size that was compiled into this program"))),
    }
}

struct Length;

impl Task for Length {
    type Output = u64;

    fn with<W: Work>(self, _: &W) -> Result<u64> {
        Ok(W::BYTES)
    }
}

/// The task of the process without limit: the whole run.
struct Whole<'j> {
    job: &'j Bounded,
    limit: u64,
    start: StartMemory<'j>,
}

impl Task for Whole<'_> {
    type Output = BoundedReport;

    fn with<W: Work>(self, work: &W) -> Result<BoundedReport> {
        let Whole { job, limit, start } = self;
        let bounds = match Bounds::new(limit) {
            Ok(bounds) => Some(bounds),
            Err(why) if W::BYTES > limit => return Err(why),
            Err(_) => None,
        };
        load::<W>(work, job)?;
        forget_files(&job.directory)?;
        let done = ask(start, &MemoryJob::Bounded(job.clone()), bounds.as_ref())?;
        let done: Done = serde_json::from_value(done).map_err(|why| Error::Settings(why.to_string()))?;
        let most = bounds.as_ref().and_then(Bounds::most);
        let audit = audit(work, job, done.ended)?;
        let tps = done.measured as f64 * 1e9 / done.elapsed_ns.max(1) as f64;
        let limit = bounds.map(|_| limit);
        Ok(BoundedReport { workload: job.workload, engine: job.engine, bytes: W::BYTES, limit, most, done, tps, audit })
    }
}

/// The task of the limited process.
struct Part<'j>(&'j Bounded);

impl Task for Part<'_> {
    type Output = Done;

    fn with<W: Work>(self, work: &W) -> Result<Done> {
        let job = self.0;
        match job.engine {
            BoundedEngine::Vista => {
                let mut segment = open_segment(job, W::BYTES)?;
                touch(segment.bytes());
                transact(work, &mut segment, job)
            }
            BoundedEngine::Rvm | BoundedEngine::RvmRio => {
                let mut memory = Journaled::new(open_rvm(job, W::BYTES, job.engine == BoundedEngine::RvmRio)?);
                touch(memory.bytes());
                transact(work, &mut memory, job)
            }
        }
    }
}

fn transact<W: Work, M: Memory>(work: &W, memory: &mut M, job: &Bounded) -> Result<Done> {
    let mut next = 0;
    work_for(work, memory, &mut next, job.warmup)?;
    memory.settle()?;
    let (first, faults, start) = (next, major_faults(), Instant::now());
    work_for(work, memory, &mut next, job.time)?;
    memory.settle()?;
    let elapsed_ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Done { ended: next, measured: next - first, elapsed_ns, faults: major_faults().saturating_sub(faults) })
}

fn work_for<W: Work, M: Memory>(work: &W, memory: &mut M, next: &mut u64, time: Duration) -> Result<()> {
    let (start, mut count) = (Instant::now(), 1);
    loop {
        let before = start.elapsed();
        work.run(memory, take(next, count))?;
        let now = start.elapsed();
        if now >= time {
            return Ok(());
        }
        match now - before < LOOK {
            true => count = COUNT_MAX.min(count * 2),
            false => count = (count / 2).max(1),
        }
    }
}

/// Touches every page once, so that as many pages as the limit allows are in memory.
fn touch(memory: &[u8]) {
    let sum = memory.iter().step_by(PAGE).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}

/// Returns the number of page faults of this process that read from the disk.
fn major_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The process's name, which is in parentheses before the other fields, may have blanks.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn open_segment(job: &Bounded, bytes: u64) -> Result<vista::Segment> {
    // The file cache is regarded as safe, like Rio's, so stores are not written back from the processor's cache.
    let options = vista::Options::new(bytes).anywhere().write_back(false);
    options.open(&job.directory.join("segment")).map_err(Error::engine("vista", "opening a segment"))
}

/// Opens RVM. Its log has a tenth of the database's size, as in the paper.
fn open_rvm(job: &Bounded, bytes: u64, is_safe: bool) -> Result<rvm::Rvm> {
    let options = rvm::Options::of(vista::Options::new(bytes).anywhere())
        .memory(&job.directory)
        .log_bytes(LOG_BYTES_MIN.max(bytes / 10));
    options.file_cache_is_safe(is_safe).open(&job.directory).map_err(Error::engine("rvm", "opening"))
}

fn load<W: Work>(work: &W, job: &Bounded) -> Result<()> {
    let mut image = vec![0; size(W::BYTES)];
    work.load(&mut image);
    match job.engine {
        BoundedEngine::Vista => store(&mut open_segment(job, W::BYTES)?, &image),
        BoundedEngine::Rvm | BoundedEngine::RvmRio => {
            let mut memory = Journaled::new(open_rvm(job, W::BYTES, true)?);
            store(&mut memory, &image)?;
            memory.settle()
        }
    }
}

fn audit<W: Work>(work: &W, job: &Bounded, ended: u64) -> Result<String> {
    let judged = match job.engine {
        BoundedEngine::Vista => judge(work, open_segment(job, W::BYTES)?.bytes(), ended),
        BoundedEngine::Rvm | BoundedEngine::RvmRio => {
            judge(work, open_rvm(job, W::BYTES, true)?.segment().bytes(), ended)
        }
    };
    Ok(judged.map_or_else(|what| what, |()| "ok".into()))
}

#[cfg(test)]
mod tests;

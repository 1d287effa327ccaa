//! A database of any size on a disk, worked on by a process whose memory is bounded (Rio Vista, figures 5b and 5c): where the database is
//! larger than its memory, its pages come and go.
//!
//! The database is made by a process that nothing bounds, and what the system has of it in memory is given up, so that the pages are
//! counted as those of the bounded process. That one goes through all of it, warms up, works for so long, and says how far it came; the
//! first one then looks at what it left.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::bound::Bounds;
use super::change::{Journaled, Memory};
use super::client::{ask, MemoryJob};
use super::debit_credit::DebitCredit;
use super::judge::judge;
use super::order_entry::OrderEntry;
use super::rounds::take;
use super::{size, store, Work};
use crate::cold::forget_files;
use crate::error::{Error, Result};
use crate::paper::StartMemory;

/// Between two looks at the clock, about, and how many transactions at most.
const LOOK: Duration = Duration::from_millis(1);
const COUNT_MAX: u64 = 4096;
const PAGE: usize = 4096;
/// A log has room for what is loaded in a transaction, however small the database.
const LOG_BYTES_MIN: u64 = 4 << 20;

/// A benchmark with its size. There are those that the compiler was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizedWorkload {
    /// So many branches, of about 10 MB each.
    DebitCredit(u64),
    /// So many districts, of about 8 MB each.
    OrderEntry(u64),
}

/// What makes transactions of it, in files on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoundedEngine {
    /// Vista on a file.
    Vista,
    /// RVM that syncs each transaction. Its memory is paged out to a file without a name.
    Rvm,
    /// The same without syncs, as on a file cache that is safe: RVM on Rio.
    RvmRio,
}

/// What the bounded process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounded {
    /// The benchmark.
    pub workload: SizedWorkload,
    /// Who makes transactions of it.
    pub engine: BoundedEngine,
    /// Where the database lies.
    pub directory: PathBuf,
    /// How long it works before it is measured.
    pub warmup: Duration,
    /// How long it is measured.
    pub time: Duration,
}

/// What it says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Transactions since the database was made.
    pub ended: u64,
    /// Those of them that were measured.
    pub measured: u64,
    /// What these took, with a truncation at the end.
    pub elapsed_ns: u64,
    /// Pages that were read from the disk meanwhile.
    pub faults: u64,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BoundedReport {
    /// The benchmark and its size.
    pub workload: SizedWorkload,
    /// Who made transactions of it.
    pub engine: BoundedEngine,
    /// Bytes of the database.
    pub bytes: u64,
    /// Bytes of memory that the process was allowed, if it could be bounded.
    pub limit: Option<u64>,
    /// The most that it had.
    pub most: Option<u64>,
    /// What it did.
    pub done: Done,
    /// Transactions a second.
    pub tps: f64,
    /// "ok", or what does not add up.
    pub audit: String,
}

/// Makes a database, has a process work on it that may have `limit` bytes of memory, audits what is left, and removes it. What fits is measured
/// without a limit where none can be set.
///
/// # Errors
/// `Settings` if the database is larger than the limit, and there is no limit to be had; if the process ended by itself, or for want
/// of memory.
pub(crate) fn run_bounded(job: Bounded, limit: u64, start: StartMemory<'_>) -> Result<BoundedReport> {
    std::fs::create_dir_all(&job.directory).map_err(Error::file("make", &job.directory))?;
    let report = on(job.workload, Whole { job: &job, limit, start });
    let removed = std::fs::remove_dir_all(&job.directory).map_err(Error::file("remove", &job.directory));
    let report = report?;
    removed?;
    Ok(report)
}

/// What the bounded process does.
pub(super) fn work_bounded(job: &Bounded) -> Result<Done> {
    on(job.workload, Part(job))
}

/// Bytes of a database.
pub(crate) fn bytes_of(workload: SizedWorkload) -> Result<u64> {
    on(workload, Length)
}

/// Something that is done with a benchmark of whatever size.
trait Task {
    type Gives;
    fn with<W: Work>(self, work: &W) -> Result<Self::Gives>;
}

/// Does it with the one that has this size.
fn on<T: Task>(workload: SizedWorkload, task: T) -> Result<T::Gives> {
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
        other => Err(Error::Settings(format!("{other:?} is no size that was compiled"))),
    }
}

struct Length;

impl Task for Length {
    type Gives = u64;

    fn with<W: Work>(self, _: &W) -> Result<u64> {
        Ok(W::BYTES)
    }
}

/// What the process does that nothing bounds.
struct Whole<'j> {
    job: &'j Bounded,
    limit: u64,
    start: StartMemory<'j>,
}

impl Task for Whole<'_> {
    type Gives = BoundedReport;

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

/// What the bounded process does.
struct Part<'j>(&'j Bounded);

impl Task for Part<'_> {
    type Gives = Done;

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

/// Has every page in memory once, as far as there is room.
fn touch(memory: &[u8]) {
    let sum = memory.iter().step_by(PAGE).fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    black_box(sum);
}

/// Pages that this process had to wait for so far.
fn major_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Its name, which may have blanks, is in brackets.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split(' ').nth(9).and_then(|field| field.parse().ok()).unwrap_or(0)
}

fn open_segment(job: &Bounded, bytes: u64) -> Result<vista::Segment> {
    // On a file cache that is taken to be safe, as Rio's: nothing is written back from the processor's.
    let options = vista::Options::new(bytes).anywhere().write_back(false);
    options.open(&job.directory.join("segment")).map_err(Error::engine("vista", "opening a segment"))
}

/// Opens RVM; its log has a tenth of the database, as in the paper.
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

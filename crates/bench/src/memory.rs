//! The benchmarks of recoverable memory (Rio Vista, section 5). In each run, rounds with transactions alternate with
//! rounds of the same work without transactions (the bare work, on bare memory).
//!
//! | file | contents |
//! |---|---|
//! | `change` | the operations of a workload on a memory: begin, declare a range, end |
//! | `synthetic` | bytes changed at a random place in 50 MB; two pointers swapped |
//! | `debit_credit` | TPC-B with a circular audit trail of 2 MB |
//! | `order_entry` | TPC-C's new-order, payment and delivery |
//! | `rounds` | short alternating rounds of one thread |
//! | `together` | alternating rounds of one thread and of several threads |
//! | `report` | the report, computed from the rounds |
//! | `judge` | the check of the memory at the end, by the workload's audit and by the same work on bare memory |
//! | `pmemobj` | libpmemobj, if it was built in |
//! | `place` | the check whether a directory is in memory |
//! | `response` | the time of each transaction until it is safe |
//! | `bounded` | a database of any size, used by a process with limited memory |
//! | `client`, `serve` | a separate process for a job: how it is started; how it does the job |
//! | `bound` | the limit of a process's memory: a control group |

mod bound;
mod bounded;
mod change;
mod client;
mod debit_credit;
mod judge;
mod order_entry;
mod place;
#[cfg(feature = "peers-all")]
mod pmemobj;
mod report;
mod response;
mod rounds;
mod serve;
mod synthetic;
mod together;

pub use bound::Bounds;
pub use bounded::BoundedReport;
pub(crate) use bounded::{bytes_of, run_bounded};
pub(crate) use client::ask;
pub use client::{Bounded, BoundedEngine, MemoryJob, SizedWorkload, StartMemory};
pub(crate) use place::filesystem_of;
pub use report::{Figures, MemoryReport, ResponseTimes};
pub use serve::serve_memory;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vista::Segment;

use crate::error::{Error, Result};
use change::{Bare, Change, Journaled, Memory};
use debit_credit::DebitCredit;
use judge::judge;
use order_entry::OrderEntry;
use rounds::measure;
use synthetic::{Swap, Synthetic, SyntheticOf};
use together::measure_threads;

/// Default size of RVM's log. The log is larger than the database, so a large number of transactions share the writes
/// of a truncation.
pub const LOG_BYTES: u64 = 64 << 20;

/// Bytes that one transaction stores when the memory is loaded. They fit into half of the shortest log.
const PIECE: usize = 1 << 20;

/// A benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// A number of bytes changes.
    Synthetic {
        /// The number of bytes.
        bytes: u64,
        /// Whether the bytes are always at the same place, which is in the processor's cache, instead of at a random
        /// place.
        is_hot: bool,
    },
    /// Two pointers are swapped.
    Swap {
        /// Whether all transactions swap the same two pointers, which are in the processor's cache.
        is_hot: bool,
    },
    /// Three balances and the audit trail's end change, and a record of the trail is written.
    DebitCredit,
    /// New orders, payments, deliveries.
    OrderEntry,
}

/// The transaction system of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryEngine {
    /// This library's Vista.
    Vista,
    /// RVM: the new bytes go to a redo log on a disk, which RVM syncs when a group of transactions has ended.
    Rvm {
        /// Number of transactions that RVM writes and syncs together.
        group: u32,
    },
    /// RVM with its redo log in memory, where a sync does nothing: the paper's RVM on Rio.
    RvmRio {
        /// Number of transactions that RVM writes together.
        group: u32,
    },
    /// libpmemobj, if it was built in (feature `peers-all`).
    Pmemobj,
    /// No transactions: the bare work is compared with itself, which shows the noise of the measurement.
    None,
}

/// The settings of a run: the benchmark, its engine, its directories and its time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemorySettings {
    /// The benchmark.
    pub workload: Workload,
    /// The transaction system.
    pub engine: MemoryEngine,
    /// The directory in memory where the run makes the segments. The run removes them at its end.
    pub memory: PathBuf,
    /// The directory of RVM's log and database.
    pub directory: PathBuf,
    /// The length of RVM's log, in bytes. The bare writes that are compared with RVM use a file of the same length.
    pub log_bytes: u64,
    /// Whether Vista writes its stores back from the processor's cache, as for memory that outlives the cache.
    pub write_back: bool,
    /// Number of threads, each with an undo log and a database. The run compares one thread with all threads.
    pub threads: u32,
    /// Whether each transaction locks stripes of the segment. Otherwise each thread owns a part of the segment.
    pub is_striped: bool,
    /// Whether one thread also measures, for half of the time, how long each transaction takes until it is safe.
    pub times_responses: bool,
    /// The approximate duration of the run.
    pub time: Duration,
}

/// A benchmark's transactions, on any memory.
pub(crate) trait Work: Sync {
    /// Bytes of memory that the benchmark needs.
    const BYTES: u64;
    /// Writes the initial contents of the memory.
    fn load(&self, memory: &mut [u8]);
    /// Runs the transactions with these numbers.
    fn run<M: Memory>(&self, memory: &mut M, numbers: std::ops::Range<u64>) -> Result<()>;
    /// Checks that the contents of the memory are consistent. Otherwise returns a description of the fault.
    fn audit(&self, memory: &[u8]) -> std::result::Result<(), String>;
}

/// Runs a benchmark.
///
/// # Errors
/// `Settings` if a transaction would change no bytes or too many, if the build or the engine does not support the
/// settings, or if RVM's log would be on the wrong kind of filesystem (see `place`); `Engine` if the engine fails.
pub fn run_memory(settings: &MemorySettings) -> Result<MemoryReport> {
    place::check(settings)?;
    match settings.workload {
        Workload::Synthetic { bytes: 8, is_hot } => run(settings, &Synthetic::<8>(is_hot)),
        Workload::Synthetic { bytes: 64, is_hot } => run(settings, &Synthetic::<64>(is_hot)),
        Workload::Synthetic { bytes: 1024, is_hot } => run(settings, &Synthetic::<1024>(is_hot)),
        Workload::Synthetic { bytes: 4096, is_hot } => run(settings, &Synthetic::<4096>(is_hot)),
        Workload::Synthetic { bytes: 65_536, is_hot } => run(settings, &Synthetic::<65_536>(is_hot)),
        Workload::Synthetic { bytes: 1_048_576, is_hot } => run(settings, &Synthetic::<1_048_576>(is_hot)),
        Workload::Synthetic { bytes: bytes @ 1..=1_048_576, is_hot } => {
            run(settings, &SyntheticOf { bytes: size(bytes), is_hot })
        }
        Workload::Synthetic { bytes, .. } => {
            Err(Error::Settings(format!("a transaction can change 1 to 1048576 bytes, and {bytes} were given")))
        }
        Workload::Swap { is_hot } => run(settings, &Swap(is_hot)),
        Workload::DebitCredit => run(settings, &DebitCredit::<5>),
        Workload::OrderEntry => run(settings, &OrderEntry::<10>),
    }
}

fn run<W: Work>(settings: &MemorySettings, work: &W) -> Result<MemoryReport> {
    if settings.threads > 1 || settings.is_striped {
        return run_threads(settings, work);
    }
    let failed = |doing| move |why: vista::Error| Error::engine("vista", doing)(why);
    let file = OwnFile::new(&settings.memory, "bare");
    let mut bare = Segment::open(&file.0, W::BYTES).map_err(failed("making the memory"))?;
    let mut txn = bare.begin();
    // The bare memory is a segment, too, so that both memories are of the same kind. One transaction declares the whole
    // segment and never ends.
    let flat = txn.set_range(0, size(W::BYTES)).map_err(failed("making the memory"))?;
    work.load(flat);
    let mut bare = Bare(flat);
    let spent = match settings.engine {
        MemoryEngine::None => {
            let file = OwnFile::new(&settings.memory, "none");
            let mut other = Segment::open(&file.0, W::BYTES).map_err(failed("making the memory"))?;
            let mut txn = other.begin();
            let flat = txn.set_range(0, size(W::BYTES)).map_err(failed("making the memory"))?;
            work.load(flat);
            let mut other = Bare(flat);
            let spent = measure(settings, work, &mut other, &mut bare)?;
            spent.audited(|ended| judge(work, other.0, ended[0]))
        }
        MemoryEngine::Vista => {
            let file = OwnFile::new(&settings.memory, "vista");
            let options = vista::Options::new(W::BYTES).write_back(settings.write_back);
            let mut segment = options.open(&file.0).map_err(failed("opening a segment"))?;
            load(work, &mut segment).map_err(failed("loading"))?;
            let spent = measure(settings, work, &mut segment, &mut bare)?;
            spent.audited(|ended| judge(work, segment.bytes(), ended[0]))
        }
        MemoryEngine::Pmemobj => run_pmemobj(settings, work, &mut bare)?,
        MemoryEngine::Rvm { group } | MemoryEngine::RvmRio { group } => {
            let failed = |doing| move |why: rvm::Error| Error::engine("rvm", doing)(why);
            let options = rvm::Options::new(W::BYTES).memory(&settings.memory).group(group);
            let options = options.log_bytes(settings.log_bytes);
            let memory = options.open(&settings.directory).map_err(failed("opening"))?;
            let mut image = vec![0; size(W::BYTES)];
            work.load(&mut image);
            let mut memory = Journaled::new(memory);
            store(&mut memory, &image)?;
            let spent = measure(settings, work, &mut memory, &mut bare)?;
            spent.audited(|ended| judge(work, memory.bytes(), ended[0]))
        }
    };
    Ok(spent.report(settings))
}

/// Environment variables that libpmemobj needs at the program's start to treat memory as this benchmark does. The
/// second variable makes libpmemobj leave its stores in the processor's cache, so it is not set with `write_back`.
pub const PMEMOBJ_VARIABLES: [(&str, &str); 2] = [("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_FLUSH", "1")];

/// Measures libpmemobj, half of the time in rounds that alternate with this library's Vista, and half in rounds that
/// alternate with the bare work.
#[cfg(feature = "peers-all")]
fn run_pmemobj<W: Work>(settings: &MemorySettings, work: &W, bare: &mut Bare<'_>) -> Result<rounds::Timings> {
    let failed = |doing| move |why: vista::Error| Error::engine("vista", doing)(why);
    let settings = MemorySettings { time: settings.time / 2, ..settings.clone() };
    let file = OwnFile::new(&settings.memory, "vista");
    let options = vista::Options::new(W::BYTES).write_back(settings.write_back);
    let mut segment = options.open(&file.0).map_err(failed("opening a segment"))?;
    load(work, &mut segment).map_err(failed("loading"))?;
    let of_pool = |name: &str| -> Result<(OwnFile, pmemobj::Pool)> {
        let file = OwnFile::new(&settings.memory, name);
        let mut pool = pmemobj::Pool::create(&file.0, W::BYTES)?;
        work.load(pool.bytes());
        Ok((file, pool))
    };
    let (_first, mut pool) = of_pool("pmemobj")?;
    let beside = measure(&settings, work, &mut pool, &mut segment)?;
    let beside = beside.audited(|ended| judge(work, pool.bytes(), ended[0]));
    drop(pool);
    // The second half needs a new pool, because its transactions have the same numbers as those of the first half, and
    // the audit counts each number once.
    let (_second, mut pool) = of_pool("pmemobj-again")?;
    let spent = measure(&settings, work, &mut pool, bare)?;
    let spent = spent.audited(|ended| judge(work, pool.bytes(), ended[0]));
    let audit = if beside.audit == "ok" { spent.audit } else { beside.audit };
    Ok(rounds::Timings { beside_vista: beside.pairs, audit, ..spent })
}

#[cfg(not(feature = "peers-all"))]
fn run_pmemobj<W: Work>(_: &MemorySettings, _: &W, _: &mut Bare<'_>) -> Result<rounds::Timings> {
    Err(Error::Settings(
        "libpmemobj was not built in: build with --features peers-all, which needs libpmemobj-dev".into(),
    ))
}

/// Measures several threads on one segment: rounds of one thread alternate with rounds of all threads.
fn run_threads<W: Work>(settings: &MemorySettings, work: &W) -> Result<MemoryReport> {
    if settings.engine != MemoryEngine::Vista {
        return Err(Error::Settings(
            "only vista lets several threads change one segment: choose vista, or leave out --threads".into(),
        ));
    }
    let failed = |doing| move |why: vista::Error| Error::engine("vista", doing)(why);
    let file = OwnFile::new(&settings.memory, "threads");
    let part = W::BYTES.next_multiple_of(1 << 20);
    let options = vista::Options::new(part * u64::from(settings.threads)).write_back(settings.write_back);
    let mut segment = options.open(&file.0).map_err(failed("opening a segment"))?;
    let mut txn = segment.begin();
    for nth in 0..u64::from(settings.threads) {
        work.load(txn.set_range(nth * part, size(W::BYTES)).map_err(failed("loading"))?);
    }
    txn.end().map_err(failed("loading"))?;
    let threads = segment.share().map_err(failed("sharing"))?;
    let spent = measure_threads(settings, work, &threads, part)?;
    let segment = threads.into_segment();
    let mut parts = segment.bytes().chunks(size(part));
    let spent = spent.audited(|ended| {
        parts.by_ref().zip(ended).try_for_each(|(part, ended)| judge(work, &part[..size(W::BYTES)], *ended))
    });
    Ok(spent.report(settings))
}

/// Stores a whole image, one piece in each transaction. Skips pieces of zeros, because new memory is zero.
fn store<M: Memory>(memory: &mut M, image: &[u8]) -> Result<()> {
    for (piece, at) in image.chunks(PIECE).zip((0..).step_by(PIECE)) {
        if piece.iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut txn = memory.begin()?;
        txn.range_of(at, piece.len())?.copy_from_slice(piece);
        txn.end()?;
    }
    memory.flush()
}

fn load<W: Work>(work: &W, segment: &mut Segment) -> vista::Result<()> {
    let mut txn = segment.begin();
    work.load(txn.set_range(0, size(W::BYTES))?);
    txn.end()
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).expect("the memory is mapped")
}

/// The path of a file that no other value uses. Dropping the value removes the file.
struct OwnFile(PathBuf);

impl OwnFile {
    fn new(directory: &Path, name: &str) -> OwnFile {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // `Relaxed` is enough: the numbers only have to differ.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        OwnFile(directory.join(format!("tp-bench-{}-{count}-{name}", std::process::id())))
    }
}

impl Drop for OwnFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Takes the next `count` transaction numbers.
fn take(next: &mut u64, count: u64) -> std::ops::Range<u64> {
    let from = *next;
    *next += count;
    from..*next
}

#[cfg(test)]
mod tests;

//! Recoverable memory: figures 5 and 6 of the Rio Vista paper, and the sources of Vista's speed (section 5.3 of the
//! paper).
//!
//! | file | contents |
//! |---|---|
//! | `overhead` | figure 5a, and the swap of two pointers |
//! | `database_size` | figures 5b and 5c: databases smaller and larger than memory |
//! | `factors` | the gain from a safe file cache, and the further gain from Vista |
//! | `groups` | figure 6 |
//! | `core_lines` | the length of Vista's source |

mod core_lines;
mod database_size;
mod factors;
mod groups;
mod overhead;

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::memory::{
    ask, run_memory, MemoryEngine, MemoryJob, MemorySettings, StartMemory, Workload, PMEMOBJ_VARIABLES,
};

use super::figure::{Place, Series};
use super::rounds::Sample;
use super::{Paper, PaperSettings};

pub(super) use groups::figure_6;

/// Length of RVM's log, as in the paper: a tenth of the database of 50 MB.
const LOG_BYTES: u64 = 5 << 20;

const VISTA: Contender = Contender { name: "vista", engine: MemoryEngine::Vista, is_on_disk: false };
const VISTA_ON_DISK: Contender = Contender { name: "vista, a file on the disk", is_on_disk: true, ..VISTA };
const RVM_RIO: Contender = Contender { name: "rvm-rio", engine: MemoryEngine::RvmRio { group: 1 }, is_on_disk: false };
const RVM: Contender = Contender { name: "rvm", engine: MemoryEngine::Rvm { group: 1 }, is_on_disk: false };
const PMEMOBJ: Contender = Contender { name: crate::kinds::PMEMOBJ, engine: MemoryEngine::Pmemobj, is_on_disk: false };

/// Measures figure 5 and the swap of pointers, and computes the factors.
pub(super) fn figure_5(paper: &mut Paper<'_>) -> Result<()> {
    overhead::figure(paper)?;
    overhead::swap(paper)?;
    database_size::figures(paper)?;
    factors::figure(paper);
    Ok(())
}

/// A recoverable memory of 50 MB.
#[derive(Clone, Copy)]
struct Contender {
    name: &'static str,
    engine: MemoryEngine,
    /// Whether the segment is a file on the disk. Otherwise the segment is in memory.
    is_on_disk: bool,
}

/// Returns the contenders of figure 5a, with libpmemobj if it is built in and peers were chosen.
fn contenders(paper: &Paper<'_>) -> Vec<Contender> {
    [VISTA, VISTA_ON_DISK, RVM_RIO, RVM].into_iter().chain(pmemobj(paper)).collect()
}

/// Returns whether libpmemobj is built in and peers were chosen.
pub(super) fn has_pmemobj(settings: &PaperSettings<'_>) -> bool {
    cfg!(feature = "peers-all") && !settings.peers.is_empty()
}

/// Returns libpmemobj, if it takes part.
fn pmemobj(paper: &Paper<'_>) -> Option<Contender> {
    has_pmemobj(paper.settings).then_some(PMEMOBJ)
}

/// Returns a series with the reason `why` libpmemobj does not take part, if peers were chosen.
fn without_pmemobj(paper: &Paper<'_>, place: Place, why: &str) -> Option<Series> {
    (!paper.settings.peers.is_empty()).then(|| Series::refused(PMEMOBJ.name, [place], why))
}

/// Returns a series with the reason that libpmemobj is not in this build. Returns `None` if the build has libpmemobj,
/// or no peers were chosen.
fn pmemobj_left_out(paper: &Paper<'_>, place: Place) -> Option<Series> {
    let how = "it is not in this build: install libpmemobj-dev and build with --features peers-all";
    if cfg!(feature = "peers-all") {
        return None;
    }
    without_pmemobj(paper, place, how)
}

/// Returns the number of rounds of these figures. There are few rounds, because making a memory takes longer than
/// measuring it.
fn rounds(paper: &Paper<'_>) -> u32 {
    match paper.settings.is_quick {
        true => 1,
        false => paper.pace.rounds.min(3),
    }
}

/// Converts nanoseconds per transaction to transactions per second.
fn as_rates(mut series: Vec<Series>) -> Vec<Series> {
    for sample in series.iter_mut().flat_map(|series| &mut series.points).flat_map(|point| &mut point.samples) {
        *sample = 1e9 / *sample;
    }
    series
}

/// The directories and settings with which a benchmark is run on a contender.
struct Runner<'p> {
    memory: PathBuf,
    disk: PathBuf,
    time: Duration,
    times_responses: bool,
    start: StartMemory<'p>,
}

impl<'p> Runner<'p> {
    fn of(paper: &Paper<'p>) -> Runner<'p> {
        let settings = paper.settings;
        let disk = settings.disk.join("recoverable");
        let (memory, time, start) = (settings.memory.clone(), paper.pace.memory_time, settings.memory_client);
        Runner { memory, disk, time, times_responses: false, start }
    }

    /// Runs a benchmark. The sample's value is the nanoseconds per transaction.
    fn run(&self, workload: Workload, contender: Contender) -> Result<Sample> {
        let is_in_memory = matches!(contender.engine, MemoryEngine::RvmRio { .. });
        let of_ours = self.memory.join(format!("tp-paper-{}", std::process::id()));
        let directory = if is_in_memory { of_ours } else { self.disk.clone() };
        std::fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
        let settings = MemorySettings {
            workload,
            engine: contender.engine,
            memory: if contender.is_on_disk { self.disk.clone() } else { self.memory.clone() },
            directory: directory.clone(),
            log_bytes: LOG_BYTES,
            write_back: false,
            threads: 1,
            is_striped: false,
            times_responses: self.times_responses,
            time: self.time,
        };
        let report = self.report(settings);
        let removed = std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory));
        let report = report?;
        removed?;
        let audit = report["audit"].as_str().unwrap_or("the report has no audit").to_owned();
        Ok(Sample { value: figure(&report, "/with/median_ns")?, audit, raw: report })
    }

    fn report(&self, settings: MemorySettings) -> Result<serde_json::Value> {
        if settings.engine != MemoryEngine::Pmemobj {
            return serde_json::to_value(run_memory(&settings)?).map_err(|why| Error::Settings(why.to_string()));
        }
        // libpmemobj reads its environment variables when it is loaded, so it is measured in a new process.
        let start = |job: &str| {
            let mut command = (self.start)(job);
            command.envs(PMEMOBJ_VARIABLES);
            command
        };
        ask(&start, &MemoryJob::Run(settings), None)
    }
}

/// Returns the number at a JSON pointer in a report.
fn figure(report: &serde_json::Value, place: &str) -> Result<f64> {
    let number = report.pointer(place).and_then(serde_json::Value::as_f64);
    number.ok_or_else(|| Error::Settings(format!("the report has no {place}: {report}")))
}

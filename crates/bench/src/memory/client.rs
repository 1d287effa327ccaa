//! A separate process for one job of a benchmark. The process is separate because its memory is limited, or because a
//! library reads environment variables when it is loaded.
//!
//! The process gets its job on its command line. It begins when it has read a line from standard input. The parent
//! sends this line after it has set the limit. The process writes its result as one line of JSON.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::bound::Bounds;
use super::MemorySettings;
use crate::error::{Error, Result};

/// A benchmark and its size. The sizes are constants of the program, which are listed in `on`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SizedWorkload {
    /// A number of branches, of about 10 MB each.
    DebitCredit(u64),
    /// A number of districts, of about 8 MB each.
    OrderEntry(u64),
}

/// A transaction system whose files are on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoundedEngine {
    /// Vista, whose segment is a file.
    Vista,
    /// RVM that syncs each transaction. The system pages RVM's memory out to an unnamed file.
    Rvm,
    /// RVM without syncs, as on a file cache that survives a crash: the paper's RVM on Rio.
    RvmRio,
}

/// The job of the limited process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bounded {
    /// The benchmark.
    pub workload: SizedWorkload,
    /// The transaction system.
    pub engine: BoundedEngine,
    /// The directory of the database.
    pub directory: PathBuf,
    /// Duration of the work before the measurement.
    pub warmup: Duration,
    /// Duration of the measurement.
    pub time: Duration,
}

/// The job of a separate process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MemoryJob {
    /// A whole benchmark ([`run_memory`](super::run_memory)).
    Run(MemorySettings),
    /// Transactions on an existing database, with limited memory.
    Bounded(Bounded),
}

/// A function that gets a job as JSON and returns the command of a process for it.
pub type StartMemory<'s> = &'s dyn Fn(&str) -> Command;

/// Starts a process for a job, with the limit `bounds` if it is given, and returns the process's result.
pub(crate) fn ask(start: StartMemory<'_>, job: &MemoryJob, bounds: Option<&Bounds>) -> Result<serde_json::Value> {
    let job = serde_json::to_string(job).map_err(|why| Error::Settings(why.to_string()))?;
    let failed = |what: String| Error::Settings(format!("a process of the benchmark {what}"));
    let mut command = start(&job);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|why| failed(format!("could not be started: {why}")))?;
    let admitted = bounds.map_or(Ok(()), |bounds| bounds.admit(child.id()));
    if let (Some(mut orders), true) = (child.stdin.take(), admitted.is_ok()) {
        // If the process has ended already, the write fails, and the exit status below has the reason.
        let _ = writeln!(orders, "go");
    }
    if admitted.is_err() {
        let _ = child.kill();
    }
    let ended = child.wait_with_output().map_err(|why| failed(format!("could not be waited for: {why}")))?;
    admitted?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(failed(format!("ended with {}: {}", ended.status, said.trim())));
    }
    let last = ended.stdout.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty()).unwrap_or_default();
    serde_json::from_slice(last).map_err(|why| failed(format!("wrote a result that cannot be parsed: {why}")))
}

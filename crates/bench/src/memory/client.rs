//! A separate process for one job of a benchmark. The process is separate because its memory is limited, or because a
//! library reads environment variables when it is loaded.
//!
//! The process gets its job on its command line. It begins when it has read a line from standard input. The parent
//! sends this line after it has set the limit. The process writes its result as one line of JSON.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::bound::Bounds;
use super::bounded::{work_bounded, Bounded};
use super::{run_memory, MemorySettings};
use crate::error::{Error, Result};

/// The job of a separate process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum MemoryJob {
    /// A whole benchmark ([`run_memory`]).
    Run(MemorySettings),
    /// Transactions on an existing database, with limited memory.
    Bounded(Bounded),
}

/// A function that gets a job as JSON and returns the command of a process for it.
pub type StartMemory<'s> = &'s dyn Fn(&str) -> Command;

/// Runs in the separate process: waits for a line, does the job, and writes the result.
///
/// # Errors
/// `Settings` if the job cannot be parsed or a pipe fails; otherwise the benchmark's error.
pub fn serve_memory(job: &str, orders: &mut dyn BufRead, answers: &mut dyn Write) -> Result<()> {
    let unreadable = |why: serde_json::Error| Error::Settings(format!("the job {job} cannot be parsed: {why}"));
    let job: MemoryJob = serde_json::from_str(job).map_err(unreadable)?;
    let unheard =
        |why: std::io::Error| Error::Settings(format!("the pipe between two processes of the benchmark failed: {why}"));
    orders.read_line(&mut String::new()).map_err(unheard)?;
    let answer = match job {
        MemoryJob::Run(settings) => serde_json::to_value(run_memory(&settings)?),
        MemoryJob::Bounded(job) => serde_json::to_value(work_bounded(&job)?),
    };
    let answer = answer.map_err(|why| Error::Settings(why.to_string()))?;
    writeln!(answers, "{answer}").map_err(unheard)
}

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

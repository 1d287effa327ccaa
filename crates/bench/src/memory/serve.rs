//! The separate process of a job: does the job and writes the result.

use std::io::{BufRead, Write};

use super::bounded::work_bounded;
use super::client::MemoryJob;
use super::run_memory;
use crate::error::{Error, Result};

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

//! The work of several processes: each process repeats a step for a given time. The figures are the steps per second
//! and the longest step.
//!
//! Each process is a child of this program and runs [`client`]. It prints `ready`, reads `go`, works, and prints its
//! report as JSON.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtp_histogram::Histogram;
use rusqlite::ErrorCode;
use serde::{Deserialize, Serialize};

use super::{of, open, Side, Work};
use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::random::Random;

/// One measurement.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// The kind of database.
    pub side: Side,
    /// The kind of step.
    pub work: Work,
    /// The durability of all commits.
    pub durability: Durability,
    /// The number of processes.
    pub processes: u32,
    /// The time for which the processes work.
    pub time: Duration,
}

/// The result of one process, or of all processes together.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Number of steps.
    pub steps: u64,
    /// Number of errors of SQLite after which the program repeated a step.
    pub errors: u64,
    /// Times of the steps, including the attempts that failed.
    pub times: Histogram,
    /// The time of the process that worked longest, in nanoseconds.
    pub nanos: u64,
}

impl Done {
    /// Returns the steps per second of all processes.
    pub fn per_second(&self) -> f64 {
        self.steps as f64 * 1e9 / self.nanos.max(1) as f64
    }

    /// Returns the time of the longest step, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.times.max() as f64 / 1e6
    }
}

/// Makes a database in `directory`, lets the processes work, and audits the database. `client` gets the number of a
/// process and returns the command of the process.
///
/// # Errors
/// `Engine` if SQLite refuses a call; `Client` if a process fails; `Settings` if the audit finds a fault.
pub fn measure(case: &Case, directory: &Path, client: &dyn Fn(&Case, u32) -> Command) -> Result<Done> {
    std::fs::create_dir_all(directory).map_err(Error::file("make", directory))?;
    let mut connection = open(case.side, directory, Durability::Relaxed)?;
    case.work.make(&mut connection).map_err(of(case.side, "making the tables"))?;
    drop(connection);
    let mut clients = Vec::new();
    for number in 0..case.processes {
        clients.push(Client::start(number, client(case, number))?);
    }
    clients.iter_mut().try_for_each(Client::wait_until_ready)?;
    clients.iter_mut().try_for_each(Client::go)?;
    let mut all = Done::default();
    for mut client in clients {
        let done = client.report()?;
        all.steps += done.steps;
        all.errors += done.errors;
        all.times.merge(&done.times);
        all.nanos = all.nanos.max(done.nanos);
    }
    let connection = open(case.side, directory, Durability::Relaxed)?;
    let audit = case.work.audit(&connection, all.steps).map_err(of(case.side, "auditing"))?;
    match audit.as_str() {
        "ok" => Ok(all),
        wrong => Err(Error::Settings(format!(
            "{}, {} with {} processes: the audit found a fault: {wrong}",
            case.side.name(),
            case.work.name(),
            case.processes
        ))),
    }
}

/// Does the work of one process, after it has read `go` from standard input.
///
/// # Errors
/// `Engine` if SQLite refuses a call for a reason other than a lock of another process; `Client` if standard input or
/// output fails.
pub fn client(case: &Case, directory: &Path, number: u32) -> Result<()> {
    let stdio =
        |error| Error::Client { client: number, what: format!("cannot exchange lines with its parent: {error}") };
    let mut connection = open(case.side, directory, case.durability)?;
    let mut random = Random(u64::from(number) * 7_919 + 1);
    println!("ready");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(stdio)?;
    let (begun, mut done) = (Instant::now(), Done::default());
    // Each process makes at least one step, also if the scheduler does not run it within a short `case.time`.
    while done.steps == 0 || begun.elapsed() < case.time {
        let step = Instant::now();
        while let Err(error) = case.work.step(&mut connection, &mut random) {
            if !matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::OperationAborted)
            ) {
                return Err(of(case.side, "making a step")(error));
            }
            done.errors += 1;
        }
        done.times.record(u64::try_from(step.elapsed().as_nanos()).unwrap_or(u64::MAX));
        done.steps += 1;
    }
    done.nanos = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let report = serde_json::to_string(&done).map_err(|error| stdio(error.into()))?;
    let mut output = std::io::stdout();
    writeln!(output, "{report}").and_then(|()| output.flush()).map_err(stdio)
}

/// A process that works. Dropping the value kills the process if it still runs.
struct Client {
    number: u32,
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Client {
    fn start(number: u32, mut command: Command) -> Result<Client> {
        let failed = |what: String| Error::Client { client: number, what };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| failed(format!("cannot be started: {error}")))?;
        let output = child.stdout.take().map(BufReader::new).ok_or_else(|| failed("has no output".into()))?;
        Ok(Client { number, child, output })
    }

    fn failed(&self, what: impl Into<String>) -> Error {
        Error::Client { client: self.number, what: what.into() }
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err(self.failed("ended before its report; it has written its error to standard error")),
            Ok(_) => Ok(line),
            Err(error) => Err(self.failed(format!("has an output that cannot be read: {error}"))),
        }
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        self.line().map(drop)
    }

    fn go(&mut self) -> Result<()> {
        let told = self.child.stdin.as_mut().map_or(Ok(()), |input| input.write_all(b"go\n"));
        told.map_err(|error| self.failed(format!("has an input that cannot be written: {error}")))
    }

    fn report(&mut self) -> Result<Done> {
        let line = self.line()?;
        let done =
            serde_json::from_str(&line).map_err(|error| self.failed(format!("has an unreadable report: {error}")))?;
        let ended = self.child.wait().map_err(|error| self.failed(format!("cannot be waited for: {error}")))?;
        if ended.success() {
            Ok(done)
        } else {
            Err(self.failed(format!("failed: {ended}")))
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // For a process that has ended and was waited for, both calls do nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

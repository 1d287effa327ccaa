//! `tp bench sql`: SQL of several processes, on an environment and on a file of SQLite.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::Args;
use libtp_bank::BankDirectory;
use libtp_bench::sql::shared::Case;
use libtp_bench::sql::{report, run_sql, shared, Side, SqlSettings, Work};
use libtp_bench::Durability;
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::numbers::seconds;
use libtp_console::output::{note, Output};

use crate::command_paper::{build, typed};

/// Name of the hidden verb.
const CLIENT: &str = "sql-client";

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Kinds of work that several processes do. Default: all.
    #[arg(long, value_enum, value_delimiter = ',')]
    work: Vec<Work>,
    /// Numbers of processes.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    processes: Vec<u32>,
    /// Values of PRAGMA synchronous: off, full or both.
    #[arg(long, value_delimiter = ',', default_value = "off,full", value_parser = ["off", "full"])]
    synchronous: Vec<String>,
    /// Length of each measurement, in seconds.
    #[arg(long, default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Rows for the work that one process does; 0: leave that work out.
    #[arg(long, default_value_t = 100_000)]
    rows: u32,
    /// Number of rounds. Each round has all measurements, on an environment and on a file.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Leave out the work that several processes do.
    #[arg(long, conflicts_with = "work")]
    bulk_only: bool,
    /// Directory for report.md and the pictures. Default: no report, only tables.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Directory on a disk for the databases. Default: a new directory. The run removes everything that it makes there.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The command line of a process that works together with other processes.
#[derive(Args)]
pub struct ClientArguments {
    side: String,
    #[arg(value_enum)]
    work: Work,
    synchronous: String,
    millis: u64,
    number: u32,
    directory: PathBuf,
}

impl Arguments {
    /// Measures SQL on an environment and on a file alternately, and prints the tables.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        let mut home = BankDirectory::open(self.dir.as_deref(), "libtp-sql")?;
        if self.dir.is_none() {
            home = home.removed_at_end();
        }
        let own = BankDirectory::inside(home.path(), "libtp-sql")?;
        let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
        let client = |case: &Case, directory: &Path, number: u32| {
            let mut command = Command::new(&program);
            let (time, number) = (case.time.as_millis().to_string(), number.to_string());
            let synchronous = if case.durability == Durability::Sync { "full" } else { "off" };
            let words = [CLIENT, case.side.name(), case.work.name(), synchronous, &time, &number];
            command.args(words.map(OsStr::new)).arg(directory);
            command
        };
        let all = if self.bulk_only { Vec::new() } else { Work::ALL.to_vec() };
        let settings = SqlSettings {
            directory: own.path().to_path_buf(),
            out: self.out.clone(),
            works: if self.work.is_empty() { all } else { self.work.clone() },
            processes: self.processes.clone(),
            durabilities: self.synchronous.iter().map(|word| durability(word)).collect(),
            time: self.seconds,
            rows: self.rows,
            rounds: self.rounds.max(1),
            command: typed(),
            build: build(),
            client: &client,
        };
        let outcome = run_sql(&settings, &mut |doing| note(format!("measuring: {doing}")))?;
        output.object(&outcome)?;
        if !outcome.shared.is_empty() {
            output.line(report::shared_table(&outcome.shared))?;
        }
        if !outcome.bulk.is_empty() {
            output.line(report::bulk_table(&outcome.bulk))?;
        }
        if let Some(out) = &self.out {
            output.line(format!("the report is {}", out.join("report.md").display()))?;
        }
        Ok(Ending::Done)
    }
}

impl ClientArguments {
    /// Does this process's part of the work.
    pub fn run(&self) -> Result<Ending> {
        let side = if self.side == Side::Libtp.name() { Side::Libtp } else { Side::File };
        let time = Duration::from_millis(self.millis);
        let case = Case { side, work: self.work, durability: durability(&self.synchronous), processes: 1, time };
        shared::client(&case, &self.directory, self.number)?;
        Ok(Ending::Done)
    }
}

fn durability(synchronous: &str) -> Durability {
    if synchronous == "full" {
        Durability::Sync
    } else {
        Durability::Relaxed
    }
}

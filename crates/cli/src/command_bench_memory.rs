//! `tp bench synthetic|swap|debit-credit|order-entry`: the benchmarks of recoverable memory (Rio Vista, section 5), each beside
//! the same work without transactions, in turns in one run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use libtp_bench::{run_memory, MemoryEngine, MemoryReport, MemorySettings, Workload};

use crate::bank::BankDirectory;
use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::spelling::{grouped, some_seconds};

/// The command line of all of them.
#[derive(Args)]
pub struct Arguments {
    /// Who makes transactions of it.
    #[arg(long, value_enum, default_value_t = EngineName::Vista)]
    engine: EngineName,
    /// Transactions that RVM writes and syncs at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    group: u32,
    /// How long it takes.
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    seconds: Duration,
    /// Threads that change one segment, each with an undo log and a database of its own; they are compared with one of them
    /// (vista only).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// The threads lock stripes of the segment for each transaction, instead of keeping parts of it (vista only).
    #[arg(long)]
    striped: bool,
    /// Write what is stored back from the processor's cache, as where memory outlives it (vista only).
    #[arg(long)]
    write_back: bool,
    /// The directory in whose filesystem the segments lie.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Where RVM keeps its files; without it a fresh directory is used and removed.
    #[arg(long, value_name = "DIR")]
    env: Option<PathBuf>,
}

/// What is particular to the synthetic benchmark.
#[derive(Args)]
pub struct Synthetic {
    /// Bytes that a transaction changes: 8, 64, 1024, 4096, 65536 or 1048576.
    #[arg(long, default_value_t = 8)]
    bytes: u64,
    /// Always at the same place, which is then in the processor's cache, instead of a random one of 50 MB.
    #[arg(long)]
    hot: bool,
    #[command(flatten)]
    common: Arguments,
}

/// What is particular to two pointers that change places.
#[derive(Args)]
pub struct Swap {
    /// Always the same two, which are then in the processor's cache, instead of two random ones of 50 MB.
    #[arg(long)]
    hot: bool,
    #[command(flatten)]
    common: Arguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// Recoverable memory with an undo log in it.
    Vista,
    /// A redo log on the disk.
    Rvm,
    /// A redo log in memory: the paper's RVM on Rio.
    RvmRio,
    /// The bare work against itself, which shows the noise.
    None,
}

impl Synthetic {
    /// Runs it and reports.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        self.common.run(Workload::Synthetic { bytes: self.bytes, is_hot: self.hot }, output)
    }
}

impl Swap {
    /// Runs it and reports.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        self.common.run(Workload::Swap { is_hot: self.hot }, output)
    }
}

impl Arguments {
    /// Runs a benchmark and reports; exit 1 if the audit disagrees.
    pub fn run(&self, workload: Workload, output: &mut Output) -> Result<Ending> {
        self.check()?;
        let engine = match self.engine {
            EngineName::Vista => MemoryEngine::Vista,
            EngineName::Rvm | EngineName::RvmRio => MemoryEngine::Rvm { group: self.group },
            EngineName::None => MemoryEngine::None,
        };
        let directory = self.directory()?;
        let path = directory.as_ref().map_or(Path::new(""), BankDirectory::path).to_path_buf();
        let report = run_memory(&MemorySettings {
            workload,
            engine,
            memory: self.memory.clone(),
            directory: path,
            write_back: self.write_back,
            threads: self.threads,
            is_striped: self.striped,
            time: self.seconds,
        })?;
        output.object(&report)?;
        write(output, &report)?;
        Ok(Ending::of(report.audit == "ok"))
    }

    fn check(&self) -> Result<()> {
        let is_vista = self.engine == EngineName::Vista;
        if !is_vista && (self.threads > 1 || self.striped || self.write_back) {
            let why = "--threads, --striped and --write-back are vista's alone: leave them out for another engine";
            return Err(Failure::Usage(why.into()));
        }
        if self.group > 1 && !matches!(self.engine, EngineName::Rvm | EngineName::RvmRio) {
            return Err(Failure::Usage("--group is RVM's alone: vista has nothing to write at commit".into()));
        }
        Ok(())
    }

    /// Where RVM's files go.
    fn directory(&self) -> Result<Option<BankDirectory>> {
        match (self.engine, &self.env) {
            (EngineName::Vista | EngineName::None, _) => Ok(None),
            (_, Some(named)) => BankDirectory::open(Some(named), "").map(Some),
            (EngineName::RvmRio, None) => {
                let fresh = self.memory.join(format!("libtp-bench-{}", std::process::id()));
                BankDirectory::open(Some(&fresh), "").map(|directory| Some(directory.removed_at_end()))
            }
            (EngineName::Rvm, None) => {
                BankDirectory::open(None, "libtp-bench").map(|directory| Some(directory.removed_at_end()))
            }
        }
    }
}

fn write(output: &mut Output, report: &MemoryReport) -> Result<()> {
    let bytes = report.bytes.map_or(String::new(), |bytes| format!(", {} bytes", grouped(bytes)));
    let place = if report.is_hot { ", always at the same place" } else { "" };
    let threads = match report.threads {
        1 => String::new(),
        several => format!(", {several} threads"),
    };
    let locks = if report.is_striped { ", stripes locked" } else { "" };
    let group = report.group.map_or(String::new(), |group| format!(", groups of {group}"));
    let back = if report.write_back { ", written back from the cache" } else { "" };
    output.line(format_args!("{} on {}{bytes}{place}{threads}{locks}{group}{back}", report.workload, report.engine))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, for people")]
    let tps = report.tps as u64;
    output.line(format_args!(
        "{} transactions a second; {:.1} ns each (quickest round {:.1})",
        grouped(tps),
        report.with.median_ns,
        report.with.min_ns
    ))?;
    match report.times_one {
        Some(times) => output.line(format_args!(
            "{times:.2} times {}, which took {:.1} ns each (quickest round {:.1})",
            report.compared_with, report.without.median_ns, report.without.min_ns
        ))?,
        None => output.line(format_args!(
            "{:.1} ns more than {}, which took {:.1} ns: {:.2} of it; in the quickest rounds {:.1} more than {:.1}: {:.2}",
            report.overhead_ns,
            report.compared_with,
            report.without.median_ns,
            report.overhead_ratio,
            report.quickest_overhead_ns,
            report.without.min_ns,
            report.quickest_overhead_ratio
        ))?,
    }
    output.line(format_args!(
        "{} rounds in turns, {} transactions; audit: {}",
        report.rounds,
        grouped(report.transactions),
        report.audit
    ))
}

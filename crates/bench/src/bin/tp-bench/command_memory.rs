//! `tp bench synthetic|swap|debit-credit|order-entry`: the benchmarks of recoverable memory (Rio Vista, section 5).
//! Rounds with transactions alternate with rounds of the same work without transactions.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args, ValueEnum};
use libtp_bench::memory::{serve_memory, LOG_BYTES};
use libtp_bench::{run_memory, MemoryEngine, MemoryReport, MemorySettings, Workload, PMEMOBJ_VARIABLES};

use libtp_bank::BankDirectory;
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::numbers::{grouped, some_seconds};
use libtp_console::output::Output;

/// The arguments that all benchmarks of recoverable memory have.
#[derive(Args)]
pub struct Arguments {
    /// Engine that runs the transactions.
    #[arg(long, value_enum, default_value_t = EngineName::Vista)]
    engine: EngineName,
    /// Number of transactions that RVM writes and syncs together.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    group: u32,
    /// Length of the run, in seconds.
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    seconds: Duration,
    /// Number of threads that change one segment, each with an undo log and a database; the result is compared with one
    /// thread (vista only).
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: u32,
    /// Let each transaction lock stripes of the segment. Without this option, each thread owns a part of the segment
    /// (vista only).
    #[arg(long)]
    striped: bool,
    /// Write stores back from the processor's cache to memory, for memory that survives a loss of the cache (vista and
    /// pmemobj only).
    #[arg(long)]
    write_back: bool,
    /// Directory in memory for the segments.
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
    /// Directory of RVM's files. Default: a new directory, which is removed at the end.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
}

/// The command line of a process that does one job of a benchmark of recoverable memory. The parent process may limit
/// the memory of this process.
#[derive(Args)]
pub struct ClientArguments {
    /// The job, as JSON.
    job: String,
}

/// Waits for a line on standard input, does the job, and writes the result as one line of JSON.
pub fn run_client(arguments: &ClientArguments) -> Result<Ending> {
    serve_memory(&arguments.job, &mut std::io::stdin().lock(), &mut std::io::stdout())?;
    Ok(Ending::Done)
}

/// The arguments of the synthetic benchmark.
#[derive(Args)]
pub struct Synthetic {
    /// Bytes that a transaction changes, at most 1048576. For 8, 64, 1024, 4096, 65536 and 1048576 bytes, the program
    /// has code compiled for that length, with and without transactions.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    bytes: u64,
    /// Always change the same place, which is then in the processor's cache, instead of a random place in 50 MB.
    #[arg(long)]
    hot: bool,
    #[command(flatten)]
    common: Arguments,
}

/// The arguments of the swap benchmark.
#[derive(Args)]
pub struct Swap {
    /// Always swap the same two pointers, which are then in the processor's cache, instead of two random pointers among
    /// 50 MB of pointers.
    #[arg(long)]
    hot: bool,
    #[command(flatten)]
    common: Arguments,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// Recoverable memory: the before-images are in the same memory, and a commit writes nothing to a disk.
    Vista,
    /// RVM: new bytes go to a redo log on a disk, which is synced.
    Rvm,
    /// RVM with its redo log in memory, where a sync costs nothing: the paper's RVM on Rio.
    RvmRio,
    /// libpmemobj, if it was built in: undo logs in a pool, flushed only with --write-back. Also called `pmdk`.
    #[value(alias = "pmdk")]
    Pmemobj,
    /// No transactions: the work without transactions is compared with itself, which shows the noise of the
    /// measurement.
    None,
}

impl Synthetic {
    /// Runs the benchmark and reports.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        self.common.run(Workload::Synthetic { bytes: self.bytes, is_hot: self.hot }, output)
    }
}

impl Swap {
    /// Runs the benchmark and reports.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        self.common.run(Workload::Swap { is_hot: self.hot }, output)
    }
}

impl Arguments {
    /// Runs a benchmark and reports. Returns `Disagrees` (exit code 1) if the audit finds a fault.
    pub fn run(&self, workload: Workload, output: &mut Output) -> Result<Ending> {
        self.check()?;
        self.exec_again_with_pmemobj_variables()?;
        let engine = match self.engine {
            EngineName::Vista => MemoryEngine::Vista,
            EngineName::Rvm => MemoryEngine::Rvm { group: self.group },
            EngineName::RvmRio => MemoryEngine::RvmRio { group: self.group },
            EngineName::Pmemobj => MemoryEngine::Pmemobj,
            EngineName::None => MemoryEngine::None,
        };
        let directory = self.directory()?;
        let path = directory.as_ref().map_or(Path::new(""), BankDirectory::path).to_path_buf();
        let report = run_memory(&MemorySettings {
            workload,
            engine,
            memory: self.memory.clone(),
            directory: path,
            log_bytes: LOG_BYTES,
            write_back: self.write_back,
            threads: self.threads,
            is_striped: self.striped,
            times_responses: false,
            time: self.seconds,
        })?;
        output.object(&report)?;
        write(output, &report)?;
        Ok(Ending::of(report.audit == "ok"))
    }

    /// Executes this program again with libpmemobj's environment variables, if they are not set. libpmemobj reads the
    /// variables when it is loaded, so this process cannot set them for itself.
    fn exec_again_with_pmemobj_variables(&self) -> Result<()> {
        let [forced, unflushed] = PMEMOBJ_VARIABLES;
        if self.engine != EngineName::Pmemobj || std::env::var_os(forced.0).is_some() {
            return Ok(());
        }
        let failed = |why| {
            Failure::Usage(format!("this program cannot be started again with the variables of libpmemobj: {why}"))
        };
        let mut again = Command::new(std::env::current_exe().map_err(failed)?);
        again.args(std::env::args_os().skip(1)).env(forced.0, forced.1);
        if !self.write_back {
            again.env(unflushed.0, unflushed.1);
        }
        Err(failed(again.exec()))
    }

    fn check(&self) -> Result<()> {
        let is_vista = self.engine == EngineName::Vista;
        if !is_vista && (self.threads > 1 || self.striped) {
            let why = "only the engine vista has --threads and --striped: leave them out for another engine";
            return Err(Failure::Usage(why.into()));
        }
        if self.write_back && !matches!(self.engine, EngineName::Vista | EngineName::Pmemobj) {
            let why = "only the engines vista and pmemobj have --write-back: leave it out for another engine";
            return Err(Failure::Usage(why.into()));
        }
        if self.group > 1 && !matches!(self.engine, EngineName::Rvm | EngineName::RvmRio) {
            return Err(Failure::Usage(
                "only the engines rvm and rvm-rio have --group: leave it out for another engine".into(),
            ));
        }
        Ok(())
    }

    /// Returns the directory of RVM's files; `None` for other engines.
    fn directory(&self) -> Result<Option<BankDirectory>> {
        match (self.engine, &self.env) {
            (EngineName::Vista | EngineName::Pmemobj | EngineName::None, _) => Ok(None),
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
    let log_on = report.log_on.as_ref().map_or(String::new(), |kind| format!(" (here {kind})"));
    output.line(format_args!("{}: {}{log_on}", report.engine, report.about))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate, for people")]
    let tps = report.tps as u64;
    output.line(format_args!(
        "{} transactions per second; {:.1} ns each (quickest round {:.1})",
        grouped(tps),
        report.with.median_ns,
        report.with.min_ns
    ))?;
    if report.truncations > 0 {
        output.line(format_args!(
            "this time includes {:.1} ns, each transaction's share of the {} truncations of the log, including the truncation at the end of the run",
            report.truncation_ns,
            grouped(report.truncations)
        ))?;
    }
    if let (Some(bare), Some(times)) = (&report.bare_sync, report.times_bare_sync) {
        output.line(format_args!(
            "without the truncations, a transaction took {times:.2} times as long as a bare write and fdatasync of the same length, which took {:.1} ns per transaction (quickest round {:.1})",
            bare.median_ns, bare.min_ns
        ))?;
    }
    match report.times_one {
        Some(times) => output.line(format_args!(
            "{times:.2} times as fast as {}, which took {:.1} ns each (quickest round {:.1})",
            report.compared_with, report.without.median_ns, report.without.min_ns
        ))?,
        None => output.line(format_args!(
            "{:.1} ns more than {}, which took {:.1} ns: a ratio of {:.2}; in the quickest rounds {:.1} ns more than {:.1} ns: a ratio of {:.2}",
            report.overhead_ns,
            report.compared_with,
            report.without.median_ns,
            report.overhead_ratio,
            report.quickest_overhead_ns,
            report.without.min_ns,
            report.quickest_overhead_ratio
        ))?,
    }
    if let (Some(vista), Some(times)) = (&report.vista, report.times_vista) {
        output.line(format_args!(
            "{times:.1} times as long as this library's vista, which ran in alternate rounds and took {:.1} ns each (quickest round {:.1})",
            vista.median_ns, vista.min_ns
        ))?;
    }
    output.line(format_args!(
        "{} alternating rounds, {} transactions; audit: {}",
        report.rounds,
        grouped(report.transactions),
        report.audit
    ))
}

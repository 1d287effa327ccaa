//! `tp bench tpcb`: TPC-B as the paper ran it, on libtp or on a peer, audited record by record.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use libtp_bench::paper::Contender;
use libtp_bench::{
    run_processes, run_threads, serve_client, ClientsAs, Durability, Engine, EngineKind, Granularity, Progress as Rate,
    Report, RunSettings, Scale,
};

use crate::command_paper::client;
use libtp_bank::home::{self, BankDirectory};
use libtp_console::failure::{Ending, Failure, Result};
use libtp_console::numbers::{grouped, seconds, some_seconds, time};
use libtp_console::output::{note, Output};
use libtp_console::progress::Progress;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    bank: Bank,
    #[command(flatten)]
    size: home::Size,
    /// Number of clients that work at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Kind of the clients.
    #[arg(long = "as", value_enum, default_value_t = As::Threads)]
    clients_as: As,
    /// Length of the measurement, in seconds.
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    seconds: Duration,
    /// Length of the unmeasured run before the measurement, in seconds.
    #[arg(long, default_value = "1", value_parser = seconds)]
    warmup: Duration,
    /// Seed for the random choice of transfers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Read three balances instead of changing them.
    #[arg(long)]
    read_only: bool,
    /// Directory of the bank. Default: a new directory, which is removed at the end.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
}

/// Settings for opening the bank.
#[derive(Args)]
struct Bank {
    /// Engine that stores the bank: this library, or a peer that was built in (postgresql also needs an installed
    /// server).
    #[arg(long, default_value = OURS, value_parser = PossibleValuesParser::new(engines()))]
    engine: String,
    /// Event that an acknowledged commit survives. `sync`: a loss of power; `relaxed`: the death of every process;
    /// `rio` (libtp only): every event that the shared memory survives (`region_survives` in the environment's
    /// libtp.toml).
    #[arg(long, default_value = "sync")]
    durability: Durability,
    /// Unit that a lock covers: `record` or `page` (libtp only).
    #[arg(long, default_value = "record")]
    granularity: Granularity,
    /// Read each balance under a shared lock and then lock it for the change, as the paper's programs did: two
    /// transactions deadlock if both have read the same balance. Without this option, a transaction takes only the lock
    /// for the change (libtp only).
    #[arg(long)]
    read_first: bool,
    /// Let one transfer in TRANSFERS take its locks in reverse order, which causes deadlocks; 0: no transfer (libtp
    /// only).
    #[arg(long, default_value_t = 0, value_name = "TRANSFERS")]
    reverse_one_in: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum As {
    /// A thread of this process.
    Threads,
    /// A separate process.
    Processes,
}

/// The command line of a client process, which takes its orders from standard input.
#[derive(Args)]
pub struct ClientArguments {
    /// The contender, as JSON.
    #[arg(long)]
    contender: String,
    #[arg(long)]
    env: PathBuf,
}

/// The name of this library among the engines.
const OURS: &str = "libtp";

/// Returns the names of the engines that store a bank on a disk.
fn engines() -> Vec<&'static str> {
    let peers = EngineKind::LIGHT.into_iter().chain(EngineKind::HEAVY).chain([EngineKind::Postgres]);
    std::iter::once(OURS).chain(peers.map(EngineKind::name)).collect()
}

/// Runs one client for the process that started this process.
pub fn run_client(arguments: &ClientArguments) -> Result<Ending> {
    let contender: Contender = serde_json::from_str(&arguments.contender)
        .map_err(|why| Failure::Usage(format!("--contender {}: {why}", arguments.contender)))?;
    contender.with_kernel_latches(|| serve(contender.open(&arguments.env, true)?))?;
    Ok(Ending::Done)
}

fn serve(engine: Box<dyn Engine>) -> libtp_bench::Result<()> {
    let mut orders = BufReader::new(std::io::stdin());
    serve_client(engine.as_ref(), &mut orders, &mut std::io::stdout())?;
    engine.close()
}

impl Arguments {
    /// Loads the bank if it is missing, runs the workload, audits, and reports. Returns `Disagrees` (exit code 1) if
    /// the audit finds a fault.
    pub fn run(&self, output: &mut Output) -> Result<Ending> {
        self.bank.check()?;
        let mut directory = BankDirectory::open(self.env.as_deref(), "libtp-bench")?;
        if self.env.is_none() {
            directory = directory.removed_at_end();
        }
        let contender = self.bank.contender(self.clients_as);
        let (shown, mut bar) = (output.may_draw(), None);
        let engine = contender.open_watched(directory.path(), false, &mut |now| {
            bar.get_or_insert_with(|| Progress::bytes(shown, now.step, now.total)).set(now.done);
        })?;
        drop(bar);
        let usual = Scale::PAPER.accounts;
        let loaded = home::load(engine.as_ref(), self.size, usual, output)?;
        if let (Some(time), false) = (loaded.time, output.is_json()) {
            note(format_args!("{} records loaded in {:.1} s", grouped(loaded.scale.total()), time.as_secs_f64()));
        }
        let report = self.measure(engine.as_ref(), &contender, loaded.scale, directory.path(), output)?;
        engine.close()?;
        output.object(&report)?;
        write(output, &report)?;
        Ok(Ending::of(report.audit_is_ok()))
    }

    fn measure(
        &self,
        engine: &dyn Engine,
        contender: &Contender,
        scale: Scale,
        directory: &Path,
        output: &Output,
    ) -> Result<Report> {
        let settings = RunSettings {
            scale,
            seed: self.seed,
            clients: self.clients,
            warmup: self.warmup,
            measured: self.seconds,
            read_only: self.read_only,
            durability: self.bank.durability,
            most: None,
        };
        let bar = Progress::clock(output.may_draw(), self.warmup + self.seconds);
        let mut show = |now: &Rate| {
            bar.set(u64::try_from(now.elapsed.as_millis()).unwrap_or(u64::MAX));
            bar.say(format!("{} transactions per second", grouped(now.tps_now)));
        };
        let report = match self.clients_as {
            As::Threads => run_threads(engine, &settings, &mut show)?,
            As::Processes => {
                let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
                let mut again = |_client| client(&program, contender, directory);
                run_processes(engine, &settings, &mut again, &mut show)?
            }
        };
        Ok(report)
    }
}

impl Bank {
    fn contender(&self, clients_as: As) -> Contender {
        Contender {
            granularity: self.granularity,
            reads_first: self.read_first,
            reversing_one_in: self.reverse_one_in,
            is_shared: clients_as == As::Processes,
            ..Contender::of(&self.engine, self.durability)
        }
    }

    /// Refuses settings that this build or the engine does not support, before the run makes anything on disk.
    fn check(&self) -> Result<()> {
        if self.engine == OURS {
            return Ok(());
        }
        if self.read_first || self.reverse_one_in != 0 {
            let why = "only libtp has --read-first and --reverse-one-in: leave them out for a peer";
            return Err(Failure::Usage(why.to_string()));
        }
        Ok(self.engine.parse::<EngineKind>()?.check_built_in()?)
    }
}

fn write(output: &mut Output, report: &Report) -> Result<()> {
    let clients_as = match report.clients_as {
        ClientsAs::Threads if report.clients == 1 => "client as a thread",
        ClientsAs::Threads => "clients as threads",
        ClientsAs::Processes if report.clients == 1 => "client as a process",
        ClientsAs::Processes => "clients as processes",
    };
    output.line(format_args!(
        "{} on {}: {} accounts, {} branches, {} {clients_as}, {}, locks on {}s{}",
        report.workload,
        report.engine,
        grouped(u64::from(report.accounts)),
        report.branches,
        report.clients,
        report.durability,
        report.granularity,
        if report.reads_first { ", read before the change" } else { "" },
    ))?;
    output.line(format_args!(
        "{} transactions per second; half of them took at most {}, 99 of 100 at most {}, all at most {}",
        grouped(report.tps),
        time(report.p50_us),
        time(report.p99_us),
        time(report.max_us),
    ))?;
    output.line(format_args!(
        "{} committed in {:.1} s, {} aborted and run again ({} per 1,000), {} bytes of log; audit: {}",
        grouped(report.committed),
        report.seconds,
        grouped(report.aborts),
        report.aborts_per_1000,
        grouped(report.log_bytes),
        report.audit,
    ))
}

//! `tp demo`: kills processes in the middle of their transfers in a bank, and proves that nothing was lost.
//!
//! This process loads the bank, and then only listens and kills. Its clients are processes ([`crate::demo_worker`]),
//! which acknowledge each transfer after its commit has returned. From time to time this process kills and replaces one
//! client, while the other clients continue. At the end it kills all clients at once. Then the bank is opened again,
//! which recovers it, and every record is compared: the balances with the history, and the history with the list of
//! acknowledged transfers.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use libtp_bank::history::History;
use libtp_bank::home::{self, BankDirectory};
use libtp_bank::{Durability, Engine, Granularity, Libtp, Scale, Table};
use serde::Serialize;
use serde_json::json;

use crate::demo_audit::audit;
use crate::demo_business::{self, Plan};
use crate::demo_worker::durability_of;
use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::live_rate::Rates;
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::{grouped, some_seconds, time_with_unit};
use crate::stalls::StallReport;

/// Default number of accounts. A bank of this size loads in a moment.
const ACCOUNTS: u32 = 100_000;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Directory of the bank, which may exist. Default: a new directory libtp-demo-N in TMPDIR or /var/tmp, which stays at
    /// the end.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
    /// Seconds of work before all processes are killed.
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    seconds: Duration,
    #[command(flatten)]
    size: home::Size,
    /// Number of processes. Every second process waits for the disk at each commit.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    processes: u32,
    /// Time between two kills, such as 500ms or 2s; 0: no kills. Each time, one process, chosen at random, is killed
    /// (kill -9) and replaced, while the other processes continue. The demonstration also measures the time from a kill
    /// to the next acknowledged commit of another process.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = time_with_unit)]
    kill_every: Duration,
    /// Seed for the random choice of transfers and of the processes to kill.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The result, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    workload: &'static str,
    engine: &'static str,
    env: &'a Path,
    accounts: u32,
    branches: u32,
    processes: u32,
    seconds: f64,
    acknowledged: u64,
    lost: u64,
    unacknowledged: u64,
    history: u64,
    audit: &'a str,
    #[serde(flatten)]
    rates: &'a Rates,
    kills: usize,
    /// Sessions of killed processes that other processes repaired; a process has several sessions.
    repairs: u64,
    /// The number of times that the shared memory was rebuilt while processes were at work.
    rebuilds: u64,
    #[serde(flatten)]
    stalls: &'a StallReport,
    recovery_ms: f64,
    recovery: &'a libtp::Opened,
}

/// Makes the bank, lets processes work and die in it, recovers the bank, and audits it. Exit 1 if the audit disagrees.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    refuse_others(arguments.env.as_deref(), output)?;
    let directory = BankDirectory::open(arguments.env.as_deref(), "libtp-demo")?;
    let path = directory.path();
    let (scale, first_client) = prepare(arguments, path, output)?;
    announce(arguments, output)?;
    let plan = Plan {
        path,
        scale,
        processes: arguments.processes as usize,
        kill_every: arguments.kill_every,
        time: arguments.seconds,
        first_client,
        seed: arguments.seed,
    };
    let business = demo_business::run(&plan, output)?;
    output
        .line(format_args!("crash: all {} processes killed in the middle of their transfers", arguments.processes))?;
    output.flush()?;

    let begin = Instant::now();
    let bank = open(path, output)?;
    let recovery = begin.elapsed();
    let opened = bank.env().opened().clone();
    output.line(format_args!("recovered in {:.1} ms: {}", millis(recovery), describe(&opened)))?;
    output.flush()?;
    let acknowledged = business.acknowledged.count();
    let verdict = audit(&bank, &scale, business.acknowledged, first_client, output)?;
    Box::new(bank).close()?;

    let report = Report {
        workload: "demo",
        engine: "libtp",
        env: path,
        accounts: scale.accounts,
        branches: scale.branches,
        processes: arguments.processes,
        seconds: millis(business.time).round() / 1_000.0,
        acknowledged,
        lost: verdict.difference.lost,
        unacknowledged: verdict.difference.unacknowledged,
        history: verdict.history,
        audit: &verdict.audit,
        rates: &business.rates,
        kills: business.kills,
        repairs: business.repairs.sessions_repaired,
        rebuilds: business.repairs.rebuilds,
        stalls: &business.stalls,
        recovery_ms: millis(recovery),
        recovery: &opened,
    };
    output.object(&report)?;
    write(output, &report, &scale)?;
    Ok(Ending::of(verdict.audit == "ok"))
}

/// Refuses an environment that has databases and no bank: the bank's tables would stay in it.
fn refuse_others(named: Option<&Path>, output: &Output) -> Result<()> {
    let Some(path) = named.filter(|path| path.join("control").is_file()) else { return Ok(()) };
    let names = EnvironmentArgument::at(path).open(output)?.databases()?;
    let tables: Vec<&str> = Table::BALANCES.iter().chain([&Table::History]).map(|table| table.name()).collect();
    let has_bank = tables.iter().all(|table| names.iter().any(|name| name == table));
    // If the load of a bank was cut off, some of its tables may be missing.
    match names.iter().find(|name| !tables.contains(&name.as_str())) {
        Some(other) if !has_bank => Err(Failure::Failed(format!(
            "{} is an environment with other databases, such as `{other}`, and without a bank; nothing was changed. Name a new directory, or leave out --env",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Loads the bank. Returns its scale and the first client number that was never used.
fn prepare(arguments: &Arguments, path: &Path, output: &mut Output) -> Result<(Scale, u32)> {
    let bank = open(path, output)?;
    let loaded = home::load(&bank, arguments.size, ACCOUNTS, output)?;
    let scale = loaded.scale;
    let first_client = History::read(&bank)?.first_client;
    Box::new(bank).close()?;
    let what = format!(
        "a bank of {} accounts, {} tellers and {} branches in {}",
        grouped(u64::from(scale.accounts)),
        scale.tellers,
        scale.branches,
        path.display()
    );
    match loaded.time {
        Some(time) => output.line(format_args!("{what}, loaded in {:.1} s", time.as_secs_f64()))?,
        None => output.line(format_args!("{what}, which existed already"))?,
    }
    output.flush()?;
    Ok((scale, first_client))
}

/// Prints the plan of the demonstration.
fn announce(arguments: &Arguments, output: &mut Output) -> Result<()> {
    let processes = arguments.processes as usize;
    let sync = (0..processes).filter(|&place| durability_of(place) == Durability::Sync).count();
    output.line(format_args!(
        "TPC-B for {} s: {sync} processes wait for the disk at each commit (sync), and {} do not wait (relaxed: on \
         disk within 100 ms; survives the death of every process, not a loss of power)",
        arguments.seconds.as_secs_f64(),
        processes - sync
    ))?;
    if !arguments.kill_every.is_zero() {
        let millis = arguments.kill_every.as_millis();
        output.line(format_args!("one of them is killed (kill -9) and replaced every {millis} ms"))?;
    }
    output.flush()
}

fn open(path: &Path, output: &Output) -> Result<Libtp> {
    let mut bar = None;
    let shown = output.may_draw();
    let bank = Libtp::open(path, Durability::Sync, Granularity::Record, &mut |now| {
        bar.get_or_insert_with(|| Progress::bytes(shown, now.step, now.total)).set(now.done);
    })?;
    Ok(bank)
}

fn write(output: &mut Output, report: &Report<'_>, scale: &Scale) -> Result<()> {
    output.line(format_args!(
        "audit: {}; {} balances and {} history records read one by one",
        report.audit,
        grouped(scale.total()),
        grouped(report.history)
    ))?;
    output.line(format_args!(
        "       {} acknowledged, {} lost; {} committed without acknowledgement because of a kill",
        grouped(report.acknowledged),
        grouped(report.lost),
        grouped(report.unacknowledged)
    ))?;
    let stalls = report.stalls;
    output.line(format_args!(
        "       {} kills, {} sessions repaired by others, {} rebuilds; another process committed within {} ms after half \
         of the kills, {} ms after 99 of 100, {} ms after all; every survivor had committed again within {} ms",
        report.kills,
        report.repairs,
        report.rebuilds,
        stalls.stall_p50_ms,
        stalls.stall_p99_ms,
        stalls.stall_max_ms,
        stalls.all_again_max_ms
    ))?;
    output.line(format_args!("sync    {}", report.rates.sync))?;
    output.line(format_args!("relaxed {}", report.rates.relaxed))?;
    output.line(format_args!(
        "the bank is in {0}; look at it: tp stat --env {0}; continue: tp demo --env {0}",
        report.env.display()
    ))
}

/// Describes the work of recovery.
fn describe(opened: &libtp::Opened) -> String {
    let how = json!(opened.how);
    let how = how.as_str().unwrap_or_default().to_string();
    format!(
        "{how}, {} bytes of log replayed, {} page changes repeated, {} transactions undone",
        grouped(opened.log_bytes),
        grouped(opened.redone),
        grouped(opened.undone)
    )
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

//! `tp demo`: a bank, a crash in the middle of its business, and the proof that nothing was lost.
//!
//! This process loads the bank and then only listens: the clients are threads of a second one ([`crate::demo_clients`]),
//! which tells of each transfer after its commit returned, and calls `abort()` when its time is up. Then the bank is
//! opened again, which recovers it, and every record is compared: balances with the history, the history with the list
//! of what was acknowledged.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use libtp_bench::engine_libtp::Libtp;
use libtp_bench::run::Before;
use libtp_bench::{Durability, Engine, Granularity, Scale, Table, Tally};
use serde::Serialize;
use serde_json::json;

use crate::acknowledgements::{Acknowledged, Difference, Receiver};
use crate::bank::{self, BankDirectory};
use crate::demo_clients::{self, durability_of};
use crate::failure::{Ending, Failure, Result};
use crate::live_rate::{LiveRate, Rates, Second};
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::{grouped, some_seconds};

/// Accounts, unless told otherwise: loaded in a moment.
const ACCOUNTS: u32 = 100_000;
/// The signal of `abort()`.
const SIGABRT: i32 = 6;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Where the bank is made, or goes on; without it a new directory.
    #[arg(long, value_name = "DIR")]
    env: Option<PathBuf>,
    /// Seconds of business before the crash.
    #[arg(long, default_value = "5", value_parser = some_seconds)]
    seconds: Duration,
    #[command(flatten)]
    size: bank::Size,
    /// Clients at work: every other one waits for the disk at each commit.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
}

/// What the clients did until the crash.
struct Business {
    acknowledged: Acknowledged,
    rates: Rates,
    time: Duration,
}

/// What was found after it.
struct Verdict {
    audit: String,
    history: u64,
    difference: Difference,
}

/// The result, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    workload: &'static str,
    engine: &'static str,
    env: &'a Path,
    accounts: u32,
    clients: u32,
    seconds: f64,
    acknowledged: u64,
    lost: u64,
    untold: u64,
    history: u64,
    audit: &'a str,
    #[serde(flatten)]
    rates: &'a Rates,
    recovery_ms: f64,
    recovery: &'a libtp::Opened,
}

/// Makes the bank, lets it crash, recovers and audits it; exit 1 if the audit disagrees.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let directory = BankDirectory::open(arguments.env.as_deref(), "libtp-demo")?;
    let path = directory.path();
    let (scale, first_client) = prepare(arguments, path, output)?;
    let business = do_business(arguments, path, &scale, first_client, output)?;
    output.line("crash: the clients' process called abort() in the middle of their transfers")?;
    output.flush()?;

    let begin = Instant::now();
    let bank = open(path, output)?;
    let recovery = begin.elapsed();
    let opened = bank.env().opened().clone();
    output.line(format_args!("recovered in {:.1} ms: {}", millis(recovery), told(&opened)))?;
    output.flush()?;
    let acknowledged = business.acknowledged.count();
    let verdict = audit(&bank, &scale, business.acknowledged, first_client, output)?;
    Box::new(bank).close()?;

    let report = Report {
        workload: "demo",
        engine: "libtp",
        env: path,
        accounts: scale.accounts,
        clients: arguments.clients,
        seconds: millis(business.time).round() / 1_000.0,
        acknowledged,
        lost: verdict.difference.lost,
        untold: verdict.difference.untold,
        history: verdict.history,
        audit: &verdict.audit,
        rates: &business.rates,
        recovery_ms: millis(recovery),
        recovery: &opened,
    };
    output.object(&report)?;
    write(output, &report, &scale)?;
    Ok(Ending::of(verdict.audit == "ok"))
}

/// Loads the bank and looks who has worked in it before.
fn prepare(arguments: &Arguments, path: &Path, output: &mut Output) -> Result<(Scale, u32)> {
    let bank = open(path, output)?;
    let loaded = bank::load(&bank, arguments.size, ACCOUNTS, output)?;
    let scale = loaded.scale;
    let first_client = Before::look(&bank)?.first_client;
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
        None => output.line(format_args!("{what}, which was there"))?,
    }
    output.flush()?;
    Ok((scale, first_client))
}

/// Starts the clients, listens until they are dead, and shows how they fare.
fn do_business(
    arguments: &Arguments,
    path: &Path,
    scale: &Scale,
    first_client: u32,
    output: &mut Output,
) -> Result<Business> {
    let sync = (0..arguments.clients).filter(|&place| durability_of(place) == Durability::Sync).count();
    output.line(format_args!(
        "TPC-B for {} s: {sync} clients wait for the disk at each commit (sync), {} for shared memory only (relaxed: on \
         disk within 100 ms; survives every process, not the loss of power)",
        arguments.seconds.as_secs_f64(),
        arguments.clients as usize - sync
    ))?;
    output.flush()?;
    let words =
        demo_clients::Arguments::new(path.to_path_buf(), scale, arguments.clients, first_client, arguments.seconds);
    let mut clients = start(&words)?;
    let business = listen(&mut clients, arguments.seconds, output);
    // Without this process listening the clients end by themselves; waiting tells how they ended.
    drop(clients.stdout.take());
    let ended = clients.wait().map_err(Failure::doing("wait for the clients"))?;
    let business = business?;
    check_crash(ended)?;
    Ok(business)
}

fn start(arguments: &demo_clients::Arguments) -> Result<Child> {
    let program = std::env::current_exe().map_err(Failure::doing("find this program's own file"))?;
    let mut command = Command::new(program);
    command.args(arguments.words()).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().map_err(Failure::doing("start the clients"))
}

fn listen(clients: &mut Child, time: Duration, output: &mut Output) -> Result<Business> {
    let pipe = clients.stdout.take().expect("the clients were started with a pipe");
    let mut receiver = Receiver::new(pipe);
    let bar = Progress::clock(output.may_draw(), time);
    let mut acknowledged = Acknowledged::default();
    let mut live: Option<(Instant, LiveRate)> = None;
    let mut last = Instant::now();
    while receiver.receive(&mut |told| {
        let now = Instant::now();
        acknowledged.note(&told);
        // The clients' first answer begins the first second: opening the bank is not part of its business.
        live.get_or_insert_with(|| (now, LiveRate::begin(now))).1.note(&told);
        last = now;
    })? {
        let Some((begin, live)) = live.as_mut() else { continue };
        bar.set(u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX));
        if let Some(second) = live.tick(last) {
            bar.say(format!(
                "{} transactions a second, {} acknowledged",
                grouped(second.rates.tps),
                grouped(acknowledged.count())
            ));
            bar.aside(|| show(output, &second))?;
        }
    }
    let Some((begin, mut live)) = live else {
        return Err(Failure::Failed("the clients ended before their first commit".to_string()));
    };
    if let Some(second) = live.last_tick(last) {
        bar.aside(|| show(output, &second))?;
    }
    Ok(Business { acknowledged, rates: live.finish(last), time: last - begin })
}

fn show(output: &mut Output, second: &Second) -> Result<()> {
    output.object(second)?;
    let Rates { sync, relaxed, .. } = &second.rates;
    output.line(format_args!("{:>4} s  sync {sync}  relaxed {relaxed}", second.second))?;
    output.flush()
}

/// The clients must have died of the crash they were asked for, and of nothing else.
fn check_crash(ended: ExitStatus) -> Result<()> {
    if ended.signal() == Some(SIGABRT) {
        return Ok(());
    }
    Err(Failure::Failed(format!("the clients were to call abort(), but ended by themselves ({ended})")))
}

fn open(path: &Path, output: &Output) -> Result<Libtp> {
    let mut bar = None;
    let shown = output.may_draw();
    let bank = Libtp::open(path, Durability::Sync, Granularity::Record, &mut |what, done, total| {
        bar.get_or_insert_with(|| Progress::bytes(shown, what, total)).set(done);
    })?;
    Ok(bank)
}

/// Reads every record once: balances beside the history, the history beside the list of acknowledgements.
fn audit(
    bank: &Libtp,
    scale: &Scale,
    acknowledged: Acknowledged,
    first_client: u32,
    output: &Output,
) -> Result<Verdict> {
    let bar = Progress::endless(output.may_draw(), "records audited:");
    let mut tally = Tally::new(*scale);
    let mut seen = 0;
    let mut count = || {
        seen += 1;
        if seen % 4096 == 0 {
            bar.set(seen);
        }
    };
    for table in Table::BALANCES {
        bank.walk(table, &mut |id, record| {
            count();
            tally.see_balance(table, id, record);
        })?;
    }
    let mut comparison = acknowledged.compare();
    bank.walk(Table::History, &mut |_, record| {
        count();
        tally.see_history(record);
        comparison.see(record, first_client);
    })?;
    let (audit, difference) = (tally.finish(), comparison.finish());
    let mut said = difference.faults.clone();
    let books = audit.verdict(audit.history_count);
    if books != "ok" {
        said.push(books);
    }
    let audit_said = if said.is_empty() { "ok".to_string() } else { said.join("; ") };
    Ok(Verdict { audit: audit_said, history: audit.history_count, difference })
}

fn write(output: &mut Output, report: &Report<'_>, scale: &Scale) -> Result<()> {
    output.line(format_args!(
        "audit: {}; {} balances and {} history records read one by one",
        report.audit,
        grouped(scale.total()),
        grouped(report.history)
    ))?;
    output.line(format_args!(
        "       {} acknowledged, {} lost; {} committed whose acknowledgement the crash cut off",
        grouped(report.acknowledged),
        grouped(report.lost),
        grouped(report.untold)
    ))?;
    output.line(format_args!("sync    {}", report.rates.sync))?;
    output.line(format_args!("relaxed {}", report.rates.relaxed))?;
    output.line(format_args!(
        "the bank is in {0}; look at it: tp stat --env {0}; go on: tp demo --env {0}",
        report.env.display()
    ))
}

/// What recovery did, in words.
fn told(opened: &libtp::Opened) -> String {
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

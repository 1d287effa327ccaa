//! TPC-B by 1 to 64 processes: the paper's figures 7, 8 and 9, group commit beside Berkeley DB, and deadlocks:
//! `cargo xtask bench processes`.
//!
//! Each point has a bank of its own, made anew, used by the given number of processes, and audited. All series of a
//! table take turns at one number of processes before the next, and the whole is done in rounds. The tables show the
//! median of the rounds, and its share of the series' best. A virtual machine's processors may be moved apart: if a
//! cache line took more than twice the shortest time seen from processor to processor, the point is measured anew,
//! three times at most. The last column shows the cache line's time. Processes are this program again, with `client` as
//! its first word.
#![forbid(unsafe_code)]

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use libtp_bench::paper::Contender;
use libtp_bench::{
    line_transfer, run_processes, serve_client, Durability, Error, Granularity, Report, Result, RunSettings, Scale,
};

/// A contender that is measured at every number of processes.
#[derive(Clone, Copy)]
struct Series {
    name: &'static str,
    is_bdb: bool,
    durability: Durability,
    granularity: Granularity,
    reads_first: bool,
    read_only: bool,
    reversed_one_in: u32,
    /// `None`: the number from the command line, by default a million.
    accounts: Option<u32>,
    branches: u32,
}

/// Full TPC-B on the small bank, no sync.
const SMALL: Series = Series {
    name: "record locks",
    is_bdb: false,
    durability: Durability::Relaxed,
    granularity: Granularity::Record,
    reads_first: false,
    read_only: false,
    reversed_one_in: 0,
    accounts: Some(1000),
    branches: 10,
};
/// The same on the large bank, and durable.
const DURABLE: Series = Series { name: "libtp", durability: Durability::Sync, accounts: None, ..SMALL };
/// Locks as the paper's programs did: pages, first shared and then upgraded to exclusive.
const PAPER: Series =
    Series { name: "page locks, read first", granularity: Granularity::Page, reads_first: true, ..SMALL };

/// Word on the command line, title, and series of each table.
#[rustfmt::skip]
const TABLES: [(&str, &str, &[Series]); 4] = [
    ("figure8", "Figure 8: small bank, no sync", &[
        Series { name: "read only", read_only: true, ..SMALL },
        SMALL,
        Series { name: "page locks", granularity: Granularity::Page, ..SMALL },
        PAPER,
    ]),
    ("figure9", "Figure 9: aborts of 1,000, as the paper locked", &[
        Series { name: "small bank", ..PAPER },
        Series { name: "large bank", durability: Durability::Sync, accounts: None, ..PAPER },
    ]),
    ("sync", "Figure 7 and group commit: large bank, sync", &[DURABLE, Series { name: "bdb", is_bdb: true, ..DURABLE }]),
    ("deadlocks", "Deadlocks: 4 branches, no sync", &[
        Series { name: "none in reverse", branches: 4, ..SMALL },
        Series { name: "one of 16 in reverse", branches: 4, reversed_one_in: 16, ..SMALL },
        Series { name: "all read first", branches: 4, reads_first: true, ..SMALL },
    ]),
];

struct Arguments {
    tables: Vec<String>,
    processes: Vec<u32>,
    accounts: u32,
    seconds: f64,
    rounds: u32,
    json: bool,
    directory: PathBuf,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.split_first() {
        Some((first, rest)) if first == "client" => client(rest).map(|()| true),
        _ => match parse(&words) {
            Some(arguments) => run(&arguments),
            None => {
                let tables = TABLES.map(|(word, ..)| word).join("|");
                eprintln!("usage: processes [{tables}]... [--processes 1,2,4,8,16,64] [--accounts N] [--seconds S]");
                eprintln!("                 [--rounds R] [--env DIR] [--json]");
                return ExitCode::from(2);
            }
        },
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Option<Arguments> {
    let directory = std::env::temp_dir().join(format!("libtp-processes-{}", std::process::id()));
    let processes = vec![1, 2, 4, 8, 16, 64];
    let mut arguments = Arguments {
        tables: Vec::new(),
        processes,
        accounts: 1_000_000,
        seconds: 3.0,
        rounds: 3,
        json: false,
        directory,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--processes" => {
                arguments.processes = words.next()?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
            }
            "--accounts" => arguments.accounts = words.next()?.parse().ok()?,
            "--seconds" => arguments.seconds = words.next()?.parse().ok()?,
            "--rounds" => arguments.rounds = words.next()?.parse().ok()?,
            "--env" => arguments.directory = words.next()?.into(),
            "--json" => arguments.json = true,
            table if TABLES.iter().any(|(word, ..)| *word == table) => arguments.tables.push(table.to_string()),
            _ => return None,
        }
    }
    Some(arguments)
}

fn run(arguments: &Arguments) -> Result<bool> {
    let mut good = true;
    for (word, title, series) in TABLES {
        if arguments.tables.is_empty() || arguments.tables.iter().any(|asked| asked == word) {
            good &= table(arguments, word, title, series)?;
        }
    }
    Ok(good)
}

/// Measures and prints one table. Returns whether every bank added up.
fn table(arguments: &Arguments, word: &str, title: &str, all: &[Series]) -> Result<bool> {
    // By series, then by number of processes: one report for each round.
    let mut nearest = line_transfer();
    let mut reports: Vec<Vec<Vec<Point>>> = vec![vec![Vec::new(); arguments.processes.len()]; all.len()];
    for round in 1..=arguments.rounds {
        for (at, &processes) in arguments.processes.iter().enumerate() {
            for (series, reports) in all.iter().zip(&mut reports) {
                let mut point = measured(arguments, *series, processes, &mut nearest)?;
                for _ in 0..MOVED_MAX {
                    if processes == 1 || point.line <= nearest * 2 || !point.report.audit_is_ok() {
                        break;
                    }
                    point = measured(arguments, *series, processes, &mut nearest)?;
                }
                let report = &point.report;
                eprintln!(
                    "{word}, round {round} of {}: {processes} processes, {}: {} a second, {} aborts of 1,000, audit {}, a line {} ns",
                    arguments.rounds, series.name, report.tps, report.aborts_per_1000, report.audit, point.line.as_nanos()
                );
                reports[at].push(point);
            }
        }
    }
    for points in &mut reports {
        points.iter_mut().for_each(|rounds| rounds.sort_by_key(|point| point.report.tps));
    }
    show(arguments, word, title, all, &reports);
    Ok(reports.iter().flatten().flatten().all(|point| point.report.audit_is_ok()))
}

/// A report, with the longer of a cache line's times before and after it.
#[derive(Clone)]
struct Point {
    report: Report,
    line: Duration,
}

/// Most repetitions of a point because the processors were moved apart.
const MOVED_MAX: u32 = 3;

fn measured(arguments: &Arguments, series: Series, processes: u32, nearest: &mut Duration) -> Result<Point> {
    let before = line_transfer();
    let report = point(arguments, series, processes)?;
    let after = line_transfer();
    *nearest = (*nearest).min(before).min(after);
    Ok(Point { report, line: before.max(after) })
}

fn show(arguments: &Arguments, word: &str, title: &str, all: &[Series], reports: &[Vec<Vec<Point>>]) {
    if !arguments.json {
        println!("\n{title}");
        println!(
            "{:<26} {:>9} {:>10} {:>8} {:>10} {:>10} {:>10} {:>8}",
            "", "processes", "a second", "of best", "p50 us", "p99 us", "aborts/1k", "line ns"
        );
    }
    for (series, points) in all.iter().zip(reports) {
        let medians: Vec<&Point> = points.iter().map(|rounds| &rounds[rounds.len() / 2]).collect();
        let best = medians.iter().map(|point| point.report.tps).max().unwrap_or(1).max(1);
        for (Point { report, line }, rounds) in medians.iter().zip(points) {
            let line = line.as_nanos();
            #[allow(clippy::cast_precision_loss, reason = "rates are far below 2^53")]
            let of_best = report.tps as f64 / best as f64;
            if arguments.json {
                let object = serde_json::json!({
                    "table": word, "series": series.name, "processes": report.clients, "tps": report.tps,
                    "of_best": of_best, "all_tps": rounds.iter().map(|point| point.report.tps).collect::<Vec<_>>(),
                    "p50_us": report.p50_us, "p99_us": report.p99_us, "max_us": report.max_us,
                    "aborts_per_1000": report.aborts_per_1000, "audit": report.audit, "line_ns": line,
                });
                println!("{object}");
            } else {
                println!(
                    "{:<26} {:>9} {:>10} {of_best:>8.2} {:>10.1} {:>10.1} {:>10.3} {line:>8}",
                    series.name, report.clients, report.tps, report.p50_us, report.p99_us, report.aborts_per_1000
                );
            }
        }
    }
}

/// Makes a bank, runs the clients, audits the bank and removes it.
fn point(arguments: &Arguments, series: Series, processes: u32) -> Result<Report> {
    let directory = &arguments.directory;
    let failed =
        |what: &str, error: &std::io::Error| Error::Settings(format!("{} {what}: {error}", directory.display()));
    std::fs::create_dir_all(directory).map_err(|error| failed("cannot be made", &error))?;
    let scale =
        Scale { branches: series.branches, ..Scale::with_accounts(series.accounts.unwrap_or(arguments.accounts)) };
    let contender = series.contender();
    let engine = contender.open(directory, false)?;
    engine.load(&scale, &mut |_| {})?;
    let settings = RunSettings {
        scale,
        clients: processes,
        read_only: series.read_only,
        durability: series.durability,
        warmup: Duration::from_millis(500),
        measured: Duration::from_secs_f64(arguments.seconds),
        ..RunSettings::default()
    };
    let program = std::env::current_exe()
        .map_err(|error| Error::Settings(format!("this program's own file cannot be found: {error}")))?;
    let mut again = |_| client_of(&contender, &program, directory);
    let report = run_processes(engine.as_ref(), &settings, &mut again, &mut |_| {})?;
    engine.close()?;
    std::fs::remove_dir_all(directory).map_err(|error| failed("cannot be removed", &error))?;
    Ok(report)
}

impl Series {
    fn contender(self) -> Contender {
        let Series { granularity, reads_first, reversed_one_in: reversing_one_in, .. } = self;
        let engine = Contender::of(if self.is_bdb { "bdb" } else { "libtp" }, self.durability).shared();
        Contender { granularity, reads_first, reversing_one_in, ..engine }
    }
}

/// Returns the command that runs this program as one client.
fn client_of(contender: &Contender, program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    let contender = serde_json::to_string(contender).expect("names and switches are text");
    command.arg("client").arg(directory).arg(contender);
    command
}

/// Does the work of a client process. `words` are those of [`client_of`].
fn client(words: &[String]) -> Result<()> {
    let by_this_program = || Error::Settings("a client is started by this program only".to_owned());
    let [directory, contender] = words else { return Err(by_this_program()) };
    let contender: Contender = serde_json::from_str(contender).map_err(|_| by_this_program())?;
    let engine = contender.open(Path::new(directory), true)?;
    serve_client(engine.as_ref(), &mut BufReader::new(std::io::stdin()), &mut std::io::stdout())?;
    engine.close()
}

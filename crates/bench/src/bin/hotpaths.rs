//! TPC-B, reads and synced commits, with the peers or a bare loop in the same run: `cargo xtask bench`.
//!
//! Absolute figures on a shared machine mean little, so everything is measured in turns of short slices (A B A B) and
//! read as a ratio. `--accounts N` and `--seconds S` (per engine and row) make it smaller; `--json` prints one object a
//! row.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use libtp_bench::{
    engine_libtp::Libtp, open_engine, BareDisk, Durability, Engine, EngineKind, Error, Granularity, OpenSettings,
    Result, RunSettings, Scale, Sharing, Turns,
};

/// Slices of each contender in a row.
const SLICES: u32 = 10;

/// Client numbers kept free between two runs on one bank: more than all slices of a run use.
const CLIENTS_APART: u32 = 1000;

/// The options of the command line.
struct Arguments {
    accounts: u32,
    seconds: f64,
    json: bool,
    directory: PathBuf,
}

/// One contender's figure in a row.
struct Figure {
    name: String,
    per_second: u64,
    p50_us: f64,
    audit: String,
}

fn main() -> ExitCode {
    let Some(arguments) = parse() else {
        eprintln!("usage: hotpaths [--accounts N] [--seconds S] [--env DIR] [--json]");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Option<Arguments> {
    let directory = std::env::temp_dir().join(format!("libtp-hotpaths-{}", std::process::id()));
    let mut arguments = Arguments { accounts: 1_000_000, seconds: 3.0, json: false, directory };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--accounts" => arguments.accounts = words.next()?.parse().ok()?,
            "--seconds" => arguments.seconds = words.next()?.parse().ok()?,
            "--env" => arguments.directory = words.next()?.into(),
            "--json" => arguments.json = true,
            _ => return None,
        }
    }
    Some(arguments)
}

fn run(arguments: &Arguments) -> Result<bool> {
    let scale = Scale::with_accounts(arguments.accounts);
    make_directory(&arguments.directory)?;
    let mut good = relaxed_rows(arguments, scale)?;
    good &= sync_rows(arguments, scale)?;
    if let Err(error) = std::fs::remove_dir_all(&arguments.directory) {
        eprintln!("{} stays: {error}", arguments.directory.display());
    }
    Ok(good)
}

fn make_directory(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::Settings(format!("{} cannot be made: {error}", path.display()));
    std::fs::create_dir_all(path).map_err(failed)
}

/// Makes a loaded bank of an engine in its own directory.
fn bank(
    arguments: &Arguments,
    kind: Option<EngineKind>,
    durability: Durability,
    scale: Scale,
) -> Result<Box<dyn Engine>> {
    let name = format!("{}-{}", kind.map_or("libtp", EngineKind::name), durability.name());
    let directory = arguments.directory.join(name);
    make_directory(&directory)?;
    let engine: Box<dyn Engine> = match kind {
        None => Box::new(Libtp::open(&directory, durability, Granularity::Record, &mut |_| {})?),
        Some(kind) => open_engine(kind, &OpenSettings { directory: &directory, durability, sharing: Sharing::Alone })?,
    };
    eprintln!("loading {} records into {}", scale.total(), directory.display());
    engine.load(&scale, &mut |_| {})?;
    Ok(engine)
}

fn relaxed_rows(arguments: &Arguments, scale: Scale) -> Result<bool> {
    let kinds = [None, Some(EngineKind::Lmdb), Some(EngineKind::Bdb), Some(EngineKind::BTreeMap)];
    let banks = kinds
        .into_iter()
        .map(|kind| bank(arguments, kind, Durability::Relaxed, scale))
        .collect::<Result<Vec<Box<dyn Engine>>>>()?;
    let all: Vec<&dyn Engine> = banks.iter().map(|bank| &**bank).collect();
    let settings = |clients, read_only| RunSettings {
        scale,
        clients,
        read_only,
        durability: Durability::Relaxed,
        warmup: Duration::from_millis(500),
        ..RunSettings::default()
    };
    let mut good = row(arguments, "TPC-B, relaxed, one client", &all, &[settings(1, false)])?;
    good &= row(
        arguments,
        "TPC-B, relaxed, libtp with one and two clients",
        &all[..1],
        &[settings(1, false), settings(2, false)],
    )?;
    good &= row(arguments, "three gets, one client", &all, &[settings(1, true)])?;
    good &= row(
        arguments,
        "three gets, libtp with one and two clients",
        &all[..1],
        &[settings(1, true), settings(2, true)],
    )?;
    Ok(good)
}

/// Measures one row: every engine at every setting, in turns.
fn row(arguments: &Arguments, title: &str, engines: &[&dyn Engine], settings: &[RunSettings]) -> Result<bool> {
    let mut banks = Vec::new();
    for engine in engines {
        let mut turns = Vec::new();
        for (setting, place) in settings.iter().zip(0..) {
            let turn = Turns::new(*engine, setting)?.leaving_clients(place * CLIENTS_APART);
            turns.push((format!("{} x{}", engine.name(), setting.clients), turn));
        }
        banks.push(turns);
    }
    for _ in 0..SLICES {
        for (_, turn) in banks.iter_mut().flatten() {
            turn.run_for(slice(arguments), &mut |_| {})?;
        }
    }
    let mut figures = Vec::new();
    for turns in &banks {
        figures.extend(audited(turns)?);
    }
    show(arguments, title, &figures);
    Ok(figures.iter().all(|figure| figure.audit == "ok"))
}

/// Returns the figures of all contenders on one bank, each with the audit's verdict about the bank.
fn audited(turns: &[(String, Turns<'_>)]) -> Result<Vec<Figure>> {
    let written: u64 = turns.iter().map(|(_, turn)| turn.written()).sum();
    let figure = |(name, turn): &(String, Turns<'_>)| {
        let report = turn.report_beside(written - turn.written())?;
        Ok(Figure { name: name.clone(), per_second: report.tps, p50_us: report.p50_us, audit: report.audit })
    };
    turns.iter().map(figure).collect()
}

fn slice(arguments: &Arguments) -> Duration {
    Duration::from_secs_f64(arguments.seconds / f64::from(SLICES))
}

fn sync_rows(arguments: &Arguments, scale: Scale) -> Result<bool> {
    let bank = bank(arguments, None, Durability::Sync, scale)?;
    let settings = |clients| RunSettings {
        scale,
        clients,
        durability: Durability::Sync,
        warmup: Duration::from_millis(100),
        ..RunSettings::default()
    };
    let (one, many) = (settings(1), settings(16));
    let mut turns = [
        ("libtp x1".to_owned(), Turns::new(&*bank, &one)?),
        ("libtp x16".to_owned(), Turns::new(&*bank, &many)?.leaving_clients(CLIENTS_APART)),
    ];
    let mut disk = BareDisk::create(&arguments.directory)?;
    for _ in 0..SLICES {
        disk.run_for(slice(arguments))?;
        for (_, turn) in &mut turns {
            turn.run_for(slice(arguments), &mut |_| {})?;
        }
    }
    let bare = disk.report();
    let mut figures = vec![Figure {
        name: "bare write + fdatasync".into(),
        per_second: bare.ops_per_second,
        p50_us: bare.p50_us,
        audit: "ok".into(),
    }];
    figures.extend(audited(&turns)?);
    show(arguments, "TPC-B, sync, beside the bare disk", &figures);
    Ok(figures.iter().all(|figure| figure.audit == "ok"))
}

/// Prints a row: figures, and their ratios to the first.
fn show(arguments: &Arguments, title: &str, figures: &[Figure]) {
    let first = figures.first().map_or(1, |figure| figure.per_second.max(1));
    if arguments.json {
        for figure in figures {
            let line = serde_json::json!({
                "row": title, "contender": figure.name, "per_second": figure.per_second,
                "p50_us": figure.p50_us, "audit": figure.audit,
            });
            println!("{line}");
        }
        return;
    }
    println!("\n{title}");
    println!("{:<26} {:>12} {:>10} {:>14} {:>8}", "", "per second", "p50 us", "of the first", "audit");
    for figure in figures {
        let ratio = ratio(figure.per_second, first);
        println!(
            "{:<26} {:>12} {:>10.2} {ratio:>14.2} {:>8}",
            figure.name, figure.per_second, figure.p50_us, figure.audit
        );
    }
}

#[allow(clippy::cast_precision_loss)] // rates are far below 2^53
fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other as f64
}

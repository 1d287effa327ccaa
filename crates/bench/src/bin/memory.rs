//! The synthetic benchmark of recoverable memory by the size of a transaction, the paper's figures 5a and 6a (Rio
//! Vista, section 5.3): `cargo xtask bench memory`.
//!
//! `--seconds S` for each point, `--disk DIR` for RVM's log (a directory is made there and removed), `--rounds N`,
//! whose median is shown, `--svg FILE` draws the table. The rounds of each series take turns with bare work in the same
//! run; the bare write and sync beside RVM is a series of its own, from the same rounds.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use libtp_bench::memory::LOG_BYTES;
use libtp_bench::{median, run_memory, Error, MemoryEngine, MemoryReport, MemorySettings, Result, Workload};

const SIZES: [u64; 6] = [8, 64, 1024, 4096, 65_536, 1_048_576];
const MEMORY: &str = "/dev/shm";

/// Name, engine, colour, and whether the series shows the bare write and sync of the engine's runs.
const SERIES: [(&str, MemoryEngine, &str, bool); 7] = [
    ("Vista", MemoryEngine::Vista, "#1a7f37", false),
    ("RVM on Rio, groups of 64", MemoryEngine::RvmRio { group: 64 }, "#a475f9", false),
    ("RVM on Rio", MemoryEngine::RvmRio { group: 1 }, "#6639ba", false),
    ("RVM, groups of 64", MemoryEngine::Rvm { group: 64 }, "#fb8f44", false),
    ("RVM, groups of 8", MemoryEngine::Rvm { group: 8 }, "#e16f24", false),
    ("RVM", MemoryEngine::Rvm { group: 1 }, "#bc4c00", false),
    ("bare write and fdatasync", MemoryEngine::Rvm { group: 1 }, "#6e7781", true),
];

struct Wanted {
    time: Duration,
    rounds: usize,
    disk: PathBuf,
    svg: Option<PathBuf>,
}

fn main() -> ExitCode {
    match wanted(std::env::args().skip(1)).and_then(|wanted| run(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory: {error}");
            ExitCode::from(1)
        }
    }
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<Wanted> {
    let mut wanted = Wanted { time: Duration::from_secs(1), rounds: 1, disk: PathBuf::from("."), svg: None };
    let refused =
        |word: &str| Error::Settings(format!("{word}: --seconds S, --rounds N, --disk DIR and --svg FILE are known"));
    while let Some(word) = arguments.next() {
        let value = arguments.next().ok_or_else(|| refused(&word))?;
        let seconds = || value.parse().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
        match word.as_str() {
            "--seconds" => wanted.time = seconds().ok_or_else(|| refused(&value))?,
            "--rounds" => wanted.rounds = value.parse().map_err(|_| refused(&value))?,
            "--disk" => wanted.disk = PathBuf::from(value),
            "--svg" => wanted.svg = Some(PathBuf::from(value)),
            _ => return Err(refused(&word)),
        }
    }
    Ok(wanted)
}

fn run(wanted: &Wanted) -> Result<()> {
    // By series and size: the rounds' overheads over the bare work, in nanoseconds.
    let mut figures = vec![vec![Vec::new(); SIZES.len()]; SERIES.len()];
    for round in 0..wanted.rounds.max(1) {
        for (nth, bytes) in SIZES.into_iter().enumerate() {
            for (series, (name, engine, ..)) in SERIES.iter().enumerate().filter(|(_, series)| !series.3) {
                let report = point(wanted, *engine, bytes)?;
                if report.audit != "ok" {
                    return Err(Error::Settings(format!("{name}, {bytes} bytes: {}", report.audit)));
                }
                figures[series][nth].push(report.overhead_ns);
                let is_beside = |it: &(&str, MemoryEngine, &str, bool)| it.3 && it.1 == *engine;
                if let (Some(beside), Some(bare)) = (SERIES.iter().position(is_beside), &report.bare_sync) {
                    figures[beside][nth].push(bare.median_ns);
                }
                eprintln!("{round}: {name}, {bytes} bytes: {:.0} ns", report.overhead_ns);
            }
        }
    }
    let medians: Vec<Vec<f64>> =
        figures.into_iter().map(|row| row.into_iter().map(|one| median(one).unwrap_or(0.0)).collect()).collect();
    println!("Microseconds a transaction, over the bare stores.\n");
    println!("| bytes | {} |", SERIES.map(|series| series.0).join(" | "));
    println!("|---|{}", "---|".repeat(SERIES.len()));
    for (nth, bytes) in SIZES.into_iter().enumerate() {
        let row: Vec<String> = medians.iter().map(|row| micros(row[nth])).collect();
        println!("| {bytes} | {} |", row.join(" | "));
    }
    match &wanted.svg {
        Some(file) => std::fs::write(file, drawn(&medians)).map_err(Error::file("write", file)),
        None => Ok(()),
    }
}

fn point(wanted: &Wanted, engine: MemoryEngine, bytes: u64) -> Result<MemoryReport> {
    let parent = if matches!(engine, MemoryEngine::RvmRio { .. }) { Path::new(MEMORY) } else { &wanted.disk };
    let directory = parent.join(format!("libtp-bench-memory-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Error::file("make", &directory))?;
    let report = run_memory(&MemorySettings {
        workload: Workload::Synthetic { bytes, is_hot: false },
        engine,
        memory: PathBuf::from(MEMORY),
        directory: directory.clone(),
        log_bytes: LOG_BYTES,
        write_back: false,
        threads: 1,
        is_striped: false,
        times_responses: false,
        time: wanted.time,
    });
    std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
    report
}

fn micros(ns: f64) -> String {
    let us = ns / 1000.0;
    if us.abs() < 10.0 {
        format!("{us:.3}")
    } else {
        format!("{us:.0}")
    }
}

/// Draws both axes by powers of ten. A figure below a nanosecond is drawn as one nanosecond.
fn drawn(medians: &[Vec<f64>]) -> String {
    const WIDTH: f64 = 760.0;
    const HEIGHT: f64 = 460.0;
    let across = |bytes: f64| 70.0 + (bytes.log2() - 3.0) / 17.0 * (WIDTH - 290.0);
    // From 1 ns to 100 ms.
    let down = |ns: f64| HEIGHT - 50.0 - ns.max(1.0).log10() / 8.0 * (HEIGHT - 80.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"70\" y=\"18\">Synthetic, 50 MB: time of a transaction over the bare stores, by its size</text>\n"
    );
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(svg, "{line}").expect("a string takes everything");
    for (power, label) in
        (0_i32..).zip(["1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms"])
    {
        let (y, right) = (down(10_f64.powi(power)), across(1_048_576.0));
        put(format_args!("<path d=\"M70 {y:.1}H{right:.1}\" stroke=\"#d0d7de\"/><text x=\"62\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", y + 4.0));
    }
    for (bytes, label) in
        [(8.0, "8"), (64.0, "64"), (1024.0, "1 Ki"), (4096.0, "4 Ki"), (65_536.0, "64 Ki"), (1_048_576.0, "1 Mi")]
    {
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{label}</text>",
            across(bytes),
            HEIGHT - 30.0
        ));
    }
    put(format_args!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">bytes</text>",
        across(4096.0),
        HEIGHT - 10.0
    ));
    let mut label = f64::INFINITY;
    // From the bottom up, so that names do not overlap.
    for ((name, _, colour, is_bare), row) in SERIES.iter().zip(medians) {
        let points: Vec<String> = [8.0, 64.0, 1024.0, 4096.0, 65_536.0, 1_048_576.0]
            .into_iter()
            .zip(row)
            .map(|(bytes, ns)| format!("{:.1},{:.1}", across(bytes), down(*ns)))
            .collect();
        let dashes = if *is_bare { " stroke-dasharray=\"5 4\"" } else { "" };
        label = row.last().map_or(label, |ns| down(*ns) + 4.0).min(label - 15.0);
        put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            points.join(" ")
        ));
        put(format_args!(
            "<text x=\"{:.1}\" y=\"{label:.1}\" fill=\"{colour}\">{name}</text>",
            across(1_048_576.0) + 10.0
        ));
    }
    svg + "</svg>\n"
}

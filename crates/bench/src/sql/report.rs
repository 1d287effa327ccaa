//! Makes all measurements of SQL, and writes their report with pictures.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use super::bulk::{self, Step};
use super::shared::{self, Case, Done};
use super::{Side, Work};
use crate::engine::Durability;
use crate::error::{Error, Result};
use crate::median::median;
use crate::paper::{line_of_run, spelled, table, write_files, Axis, Build, By, Figure, Machine, Place, Point, Series};

/// The settings of a run.
pub struct SqlSettings<'s> {
    /// Directory for the databases.
    pub directory: PathBuf,
    /// Directory for `report.md` and the pictures; `None` for no report.
    pub out: Option<PathBuf>,
    /// The kinds of work of several processes.
    pub works: Vec<Work>,
    /// The numbers of processes.
    pub processes: Vec<u32>,
    /// The durabilities.
    pub durabilities: Vec<Durability>,
    /// Duration of each measurement.
    pub time: Duration,
    /// Number of rows for the work of one process; zero: leave that work out.
    pub rows: u32,
    /// Number of rounds. Each round measures both sides.
    pub rounds: u32,
    /// The command line, for the report.
    pub command: String,
    /// The program's source and compiler, for the report.
    pub build: Build,
    /// Returns the command that starts a process that calls [`shared::client`].
    pub client: &'s dyn Fn(&Case, &std::path::Path, u32) -> Command,
}

/// The results of a run.
#[derive(Debug, Default, serde::Serialize)]
pub struct SqlOutcome {
    /// The work of several processes.
    pub shared: Vec<SharedRow>,
    /// The work of one process.
    pub bulk: Vec<BulkRow>,
}

/// The result of a kind of work with a number of processes.
#[derive(Debug, serde::Serialize)]
pub struct SharedRow {
    /// The kind of work.
    pub work: Work,
    /// The durability.
    pub durability: Durability,
    /// The number of processes.
    pub processes: u32,
    /// Steps per second, of libtp and of SQLite: medians over the rounds.
    pub per_second: [f64; 2],
    /// The longest step in all rounds, in milliseconds, of libtp and of SQLite.
    pub longest_ms: [f64; 2],
    /// Number of errors that the program saw in all rounds, of libtp and of SQLite.
    pub errors: [u64; 2],
    /// Libtp's steps per second as a multiple of SQLite's: the median of the rounds' ratios.
    pub ratio: f64,
}

/// The result of a step of one process.
#[derive(Debug, serde::Serialize)]
pub struct BulkRow {
    /// The step.
    pub step: Step,
    /// Microseconds of processor time per row, of libtp and of SQLite: medians over the rounds.
    pub micros: [f64; 2],
    /// Libtp's time as a multiple of SQLite's: the median of the rounds' ratios.
    pub ratio: f64,
}

/// Makes all measurements. The two sides alternate, and each side is first in every other round. `progress` gets the
/// name of the current measurement.
///
/// # Errors
/// The errors of [`shared::measure`] and [`bulk::measure`]; `File` if the report cannot be written.
pub fn run_sql(settings: &SqlSettings<'_>, progress: &mut dyn FnMut(&str)) -> Result<SqlOutcome> {
    let (begun, machine) = (Instant::now(), Machine::look(&settings.directory));
    let mut outcome = SqlOutcome::default();
    let mut figures = Vec::new();
    for durability in &settings.durabilities {
        for work in &settings.works {
            let mut series = Side::BOTH.map(|side| Series { name: side.name().to_owned(), points: Vec::new() });
            for processes in &settings.processes {
                progress(&format!("{}, {}, {processes} processes", work.name(), word(*durability)));
                let case = |side| Case {
                    side,
                    work: *work,
                    durability: *durability,
                    processes: *processes,
                    time: settings.time,
                };
                let rounds = in_turns(settings, |side, directory| {
                    shared::measure(&case(side), directory, &|case, number| (settings.client)(case, directory, number))
                })?;
                let row = shared_row(&case(Side::Libtp), &rounds);
                for (series, side) in series.iter_mut().zip(0..) {
                    let samples = rounds.iter().map(|round| round[side].per_second()).collect();
                    series.points.push(Point { x: Place::Number(f64::from(*processes)), samples, refused: None });
                }
                outcome.shared.push(row);
            }
            figures.push(figure(*work, *durability, series.into()));
        }
    }
    if settings.rows > 0 {
        progress("the work of one process");
        let rounds = in_turns(settings, |side, directory| bulk::measure(side, directory, settings.rows))?;
        outcome.bulk = bulk_rows(&rounds, settings.rows);
    }
    if let Some(out) = &settings.out {
        std::fs::create_dir_all(out).map_err(Error::file("make", out))?;
        let head =
            line_of_run(&settings.command, begun.elapsed().as_secs_f64(), &machine, &settings.build, &machine.load);
        write_files(out, figures.iter(), &markdown(&head, &outcome, &figures))?;
    }
    Ok(outcome)
}

/// Measures both sides in each round, each time in a new directory.
fn in_turns<T>(
    settings: &SqlSettings<'_>,
    measure: impl Fn(Side, &std::path::Path) -> Result<T>,
) -> Result<Vec<[T; 2]>> {
    let one = |side| {
        let directory = settings.directory.join("turn");
        let measured = measure(side, &directory);
        std::fs::remove_dir_all(&directory).map_err(Error::file("remove", &directory))?;
        measured
    };
    let round = |round| {
        let (first, second) = if round % 2 == 0 { (Side::Libtp, Side::File) } else { (Side::File, Side::Libtp) };
        let (first, second) = (one(first)?, one(second)?);
        Ok(if round % 2 == 0 { [first, second] } else { [second, first] })
    };
    (0..settings.rounds).map(round).collect()
}

fn shared_row(case: &Case, rounds: &[[Done; 2]]) -> SharedRow {
    let sides = [0, 1];
    let rates = |side: usize| median(rounds.iter().map(|round| round[side].per_second())).unwrap_or_default();
    SharedRow {
        work: case.work,
        durability: case.durability,
        processes: case.processes,
        per_second: sides.map(rates),
        longest_ms: sides.map(|side| rounds.iter().map(|round| round[side].longest_ms()).fold(0.0, f64::max)),
        errors: sides.map(|side| rounds.iter().map(|round| round[side].errors).sum()),
        ratio: median(rounds.iter().map(|[ours, theirs]| ours.per_second() / theirs.per_second())).unwrap_or_default(),
    }
}

fn bulk_rows(rounds: &[[Vec<(Step, Duration)>; 2]], rows: u32) -> Vec<BulkRow> {
    let row = |(nth, step): (usize, Step)| {
        let micros =
            |round: &[Vec<(Step, Duration)>; 2], side: usize| round[side][nth].1.as_secs_f64() * 1e6 / f64::from(rows);
        BulkRow {
            step,
            micros: [0, 1].map(|side| median(rounds.iter().map(|round| micros(round, side))).unwrap_or_default()),
            ratio: median(rounds.iter().map(|round| micros(round, 0) / micros(round, 1))).unwrap_or_default(),
        }
    };
    Step::ALL.into_iter().enumerate().map(row).collect()
}

/// Returns the setting of SQLite that asks for this durability.
fn word(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "synchronous FULL",
        _ => "synchronous OFF",
    }
}

fn figure(work: Work, durability: Durability, series: Vec<Series>) -> Figure {
    Figure {
        id: format!("sql-{}-{}", work.name(), if durability == Durability::Sync { "full" } else { "off" }),
        title: format!("{}, {}", work.name(), word(durability)),
        paper: String::new(),
        here: work.about().to_owned(),
        x: Axis::logarithmic("processes"),
        y: Axis::linear("steps per second"),
        series,
        notes: Vec::new(),
    }
}

fn markdown(head: &str, outcome: &SqlOutcome, figures: &[Figure]) -> String {
    let mut text = format!(
        "# SQL of several processes\n\n{head}Both sides are this build of SQLite: on an environment of libtp, and on a \
         file in WAL mode. Their measurements alternate. Each value is a median over the rounds. Each ratio is the \
         median of the rounds' ratios. The results of every database were checked.\n\n## Several processes\n\n{}",
        shared_table(&outcome.shared)
    );
    if !outcome.bulk.is_empty() {
        let _ = write!(text, "\n## One process, processor time\n\n{}", bulk_table(&outcome.bulk));
    }
    for figure in figures {
        let _ = writeln!(text, "\n## {}\n\n{}.\n", figure.title, figure.here);
        table(figure, By::Series, &mut text);
        let _ = writeln!(text, "\n![{}]({}.svg)", figure.title, figure.id);
    }
    text
}

/// Returns a table in Markdown of the work of several processes.
pub fn shared_table(rows: &[SharedRow]) -> String {
    let mut text = String::from(
        "| work | synchronous | processes | libtp, steps/s | SQLite, steps/s | ratio | libtp, longest step, ms | \
         SQLite, longest step, ms | errors seen: libtp, SQLite |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let durability = if row.durability == Durability::Sync { "FULL" } else { "OFF" };
        let [ours, theirs] = row.per_second.map(|rate| format!("{rate:.0}"));
        let [long, longer] = row.longest_ms.map(spelled);
        let [errors, their_errors] = row.errors;
        let (work, processes, ratio) = (row.work.name(), row.processes, spelled(row.ratio));
        let _ = writeln!(
            text,
            "| {work} | {durability} | {processes} | {ours} | {theirs} | **{ratio}** | {long} | {longer} | {errors}, {their_errors} |"
        );
    }
    text
}

/// Returns a table in Markdown of the work of one process.
pub fn bulk_table(rows: &[BulkRow]) -> String {
    let mut text = String::from("| step | libtp, us per row | SQLite, us per row | ratio |\n|---|---|---|---|\n");
    for row in rows {
        let [ours, theirs] = row.micros.map(spelled);
        let _ = writeln!(text, "| {} | {ours} | {theirs} | **{}** |", row.step.name(), spelled(row.ratio));
    }
    text
}

//! The parts of every report: the line about the run, the tables of figures, and the files.

use std::fmt::Write as _;
use std::path::Path;

use super::build::Build;
use super::draw::svg;
use super::figure::{spelled, Figure, Point};
use super::machine::Machine;
use crate::error::{Error, Result};

/// The meaning of a table's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A row for each series, a column for each place.
    Series,
    /// A row for each place, a column for each series.
    Place,
}

/// Writes `report.md` and a picture of each figure into `directory`.
///
/// # Errors
/// `File` if a file cannot be written.
pub(crate) fn write_files<'f>(directory: &Path, figures: impl Iterator<Item = &'f Figure>, report: &str) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(Error::file("write", &path))
    };
    for figure in figures {
        write(&format!("{}.svg", figure.id), &svg(figure)?)?;
    }
    write("report.md", report)
}

/// Returns the line about a run: its command, its machine, and the program.
pub(crate) fn line_of_run(command: &str, seconds: f64, machine: &Machine, build: &Build, load: &str) -> String {
    format!(
        "`{command}` ({seconds:.0} s). {} x {}, {} GiB, {}, Linux {}, {}{}; load before the run {load}. libtp {}, commit {}, {}.\n\n",
        machine.processors,
        machine.processor,
        machine.memory_gib,
        machine.system,
        machine.kernel,
        machine.filesystem,
        machine.disk(),
        machine.libtp,
        build.commit,
        build.compiler,
    )
}

/// Writes the table of a figure, and after it the reasons why points were not measured.
pub(crate) fn table(figure: &Figure, by: By, text: &mut String) {
    let places = figure.places();
    let places_named: Vec<String> = places.iter().map(ToString::to_string).collect();
    let names: Vec<String> = figure.series.iter().map(|series| series.name.clone()).collect();
    let mut refused: Vec<String> = Vec::new();
    let mut cells: Vec<Vec<String>> = Vec::new();
    for series in &figure.series {
        let row = places.iter().map(|place| {
            let point = series.points.iter().find(|point| point.x == *place);
            if let Some(why) = point.and_then(|point| point.refused.as_ref()) {
                refused.push(format!("{}, {place}: not measured: {why}", series.name));
            }
            cell(point)
        });
        cells.push(row.collect());
    }
    let (head, columns, rows, cells) = match by {
        By::Series => (format!("{} by {}", figure.y.name, figure.x.name), places_named, names, cells),
        By::Place => {
            let turned = (0..places.len()).map(|at| cells.iter().map(|row| row[at].clone()).collect()).collect();
            (figure.x.name.clone(), names, places_named, turned)
        }
    };
    let _ = writeln!(text, "| {head} | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
    for (name, row) in rows.iter().zip(&cells) {
        let _ = writeln!(text, "| {name} | {} |", row.join(" | "));
    }
    if !refused.is_empty() {
        text.push('\n');
    }
    refused.iter().for_each(|why| {
        let _ = writeln!(text, "* {why}");
    });
}

fn cell(point: Option<&Point>) -> String {
    let Some(point) = point else { return String::new() };
    match (point.median(), point.spread()) {
        _ if point.refused.is_some() => "not measured".to_owned(),
        (Some(median), Some((least, greatest))) if point.samples.len() > 1 => {
            format!("{} ({} to {})", spelled(median), spelled(least), spelled(greatest))
        }
        (Some(median), _) => spelled(median),
        (None, _) => "-".to_owned(),
    }
}

//! docs/testing.md: a row for each suite, with its doubt, the faults that it must catch, and its time at each size.
//!
//! `cargo xtask test --record` writes the times of `test`; `cargo xtask test --deep --record` writes the times of
//! `--deep`; `cargo xtask soak` writes the times of `soak`. The texts of a row come from the tables of the suites.

use crate::outcome::Outcome;
use std::fs;
use std::path::Path;

const DOCUMENT: &str = "docs/testing.md";
const BEGIN: &str = "<!-- suites: begin -->";
const END: &str = "<!-- suites: end -->";
const HEAD: &str = "| suite | doubt | must catch | test, s | deep, s | soak, s |\n|---|---|---|---|---|---|\n";
/// The text of a cell for a size that was not measured yet.
const UNKNOWN: &str = "-";

/// A column of seconds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Column {
    /// `cargo xtask test`
    Test,
    /// `cargo xtask test --deep`
    Deep,
    /// `cargo xtask soak`
    Soak,
}

/// The texts of a row.
pub struct Words {
    /// The name of the suite or step.
    pub name: &'static str,
    /// The doubt that it answers.
    pub doubt: &'static str,
    /// The faults that it must catch.
    pub catches: &'static str,
}

/// Writes the times of these outcomes into one column. The other times stay.
///
/// # Errors
/// When the document cannot be read or written, or has lost its markers.
pub fn record(root: &Path, rows: &[Words], column: Column, outcomes: &[Outcome]) -> Result<(), String> {
    let path = root.join(DOCUMENT);
    let document = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT} cannot be read: {error}"))?;
    let times: Vec<(&str, u64)> =
        outcomes.iter().map(|outcome| (outcome.name.as_str(), outcome.elapsed.as_secs())).collect();
    let changed = with_times(&document, rows, column, &times)?;
    fs::write(&path, changed).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))
}

/// Returns the recorded seconds of a suite under `test`; 0 if they are not known.
pub fn seconds(root: &Path, name: &str) -> u64 {
    let document = fs::read_to_string(root.join(DOCUMENT)).unwrap_or_default();
    known_times(&document, name)[0].parse().unwrap_or(0)
}

fn with_times(document: &str, rows: &[Words], column: Column, times: &[(&str, u64)]) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has lost its markers {BEGIN} and {END}: put them back");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    let mut table = String::from(HEAD);
    for Words { name, doubt, catches } in rows {
        let mut seconds = known_times(document, name);
        if let Some((_, time)) = times.iter().find(|(timed, _)| timed == name) {
            seconds[column as usize] = time.to_string();
        }
        table += &format!("| {name} | {doubt} | {catches} | {} |\n", seconds.join(" | "));
    }
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// Returns the three times in the row with this name.
fn known_times(document: &str, name: &str) -> [String; 3] {
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let row = document.lines().map(cells).find(|cells| cells.get(1).is_some_and(|first| first == name));
    let time = |at: usize| row.as_ref().and_then(|row| row.get(at)).cloned().unwrap_or_else(|| UNKNOWN.to_owned());
    [time(4), time(5), time(6)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_test::rows;

    #[test]
    fn one_column_changes_and_the_other_columns_stay() {
        let document = format!("# T\n{BEGIN}\n{HEAD}| crash | ? | a | 70 | 80 | 90 |\n{END}\nend\n");
        let changed = with_times(&document, &rows(), Column::Deep, &[("crash", 81), ("gone", 1)]).unwrap();
        assert_eq!(known_times(&changed, "crash"), ["70", "81", "90"]);
        assert_eq!(known_times(&changed, "fmt"), [UNKNOWN; 3]);
        assert!(!changed.contains("gone") && changed.ends_with(&format!("{END}\nend\n")));
    }

    #[test]
    fn the_document_has_the_words_of_every_suite() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(DOCUMENT);
        let document = fs::read_to_string(path).unwrap();
        let same = with_times(&document, &rows(), Column::Test, &[]).unwrap();
        assert!(document == same, "`cargo xtask test --record tidy` rewrites {DOCUMENT}");
    }
}

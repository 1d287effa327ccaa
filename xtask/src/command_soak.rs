//! `cargo xtask soak`: the heavy suites at their full size, and their table in docs/reliability.md.
//!
//! With `--hours` the suites run in rounds. Each round has its own `LIBTP_TEST_SEED`, the source of all randomness of
//! the suites. So the seed is enough to repeat a failed round.

use crate::command_test::{logs, rows, run_suite};
use crate::lanes::measured;
use crate::litter::Litter;
use crate::outcome::{clock, table, Outcome};
use crate::programs::{self, Profile, Program};
use crate::setup;
use crate::suites::{Build, Suite, SUITES};
use crate::testing_page;
use crate::workspace::Workspace;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const DOCUMENT: &str = "docs/reliability.md";
const BEGIN: &str = "<!-- soak: begin -->";
const END: &str = "<!-- soak: end -->";
const HEAD: &str = "| suite | size | rounds | time | passed | failed | figures of the last round | day, commit |\n|---|---|---|---|---|---|---|---|\n";

/// The text before the seed of a failed round, among the figures.
const RED: &str = "FAILED with LIBTP_TEST_SEED=";

/// Longest time of one suite in a round.
const ROUND_LIMIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Soaks one suite or all of them.
///
/// # Errors
/// When the suite does not exist, or the document cannot be written.
pub fn soak(workspace: &Workspace, chosen: Option<&str>, hours: Option<f64>) -> Result<ExitCode, String> {
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| chosen.is_none_or(|name| suite.name == name)).collect();
    if suites.is_empty() {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        return Err(match chosen {
            Some(name) => format!("there is no suite {name:?} to soak; there are: {}", names.join(", ")),
            None => "there is no heavy suite yet: nothing to soak".into(),
        });
    }
    let time_wanted = Duration::try_from_secs_f64(hours.unwrap_or(0.0) * 3600.0)
        .map_err(|error| format!("--hours must be a length of time: {error}"))?;
    setup::packages(&logs(workspace)).map_err(|error| error.to_string())?;
    let programs = built(workspace, &suites)?;

    let start = Instant::now();
    let mut totals: Vec<Outcome> = Vec::new();
    let mut rounds = 0_u64;
    while rounds == 0 || start.elapsed() < time_wanted {
        let _litter = Litter::begin().map_err(|error| error.to_string())?;
        round(workspace, (&suites, &programs), hours.map(|_| rounds), &mut totals);
        rounds += 1;
        // The results are recorded after every round, so that an interrupted soak keeps the results of its complete
        // rounds.
        record(&workspace.root, &suites, &totals, rounds)?;
    }
    print!("\n{}", table(&totals, start.elapsed(), ""));
    if rounds == 1 {
        testing_page::record(&workspace.root, &rows(), testing_page::Column::Soak, &totals)?;
    }
    let failed = totals.iter().any(|outcome| outcome.counts.failed > 0);
    Ok(ExitCode::from(u8::from(failed)))
}

/// Returns the test programs of these suites, optimised.
fn built(workspace: &Workspace, suites: &[&Suite]) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for build in [Build::ForTests, Build::ForUsers] {
        if suites.iter().any(|suite| suite.is_cargos() && suite.build == build) {
            let built = programs::build_suites(suites, build, Profile::Suite, &logs(workspace));
            let built = built.map_err(|error| error.to_string())?;
            programs.extend(built.ok_or("cargo could not build the suites; its messages are above")?);
        }
    }
    Ok(programs)
}

/// Runs every suite once and adds its outcome to `totals`.
fn round(
    workspace: &Workspace,
    (suites, programs): (&[&Suite], &[Program]),
    seed: Option<u64>,
    totals: &mut Vec<Outcome>,
) {
    let seed = seed.map(|number| number.to_string());
    for (index, suite) in suites.iter().enumerate() {
        let mut env = suite.soak_env.to_vec();
        if let Some(seed) = &seed {
            println!("round with LIBTP_TEST_SEED={seed}");
            env.push(("LIBTP_TEST_SEED", seed));
        }
        let mut outcome = measured(suite.name, || run_suite(workspace, suite, programs, &env, ROUND_LIMIT));
        if let (Some(seed), true) = (&seed, outcome.counts.failed > 0) {
            outcome.figures.insert(0, format!("{RED}{seed}"));
        }
        match totals.get_mut(index) {
            None => totals.push(outcome),
            Some(total) => add(total, outcome),
        }
    }
}

/// Adds counts and times. Keeps the figures of the last round, and every failed seed.
fn add(total: &mut Outcome, outcome: Outcome) {
    total.elapsed += outcome.elapsed;
    total.counts += outcome.counts;
    total.figures.retain(|figures| figures.starts_with(RED));
    total.figures.extend(outcome.figures);
}

/// Writes the rows of these suites into the document; rows of other suites stay.
fn record(root: &Path, suites: &[&Suite], totals: &[Outcome], rounds: u64) -> Result<(), String> {
    let path = root.join(DOCUMENT);
    let document = fs::read_to_string(&path).map_err(|error| format!("{DOCUMENT} cannot be read: {error}"))?;
    let stamp =
        format!("{}, {}", output_of("date", &["-u", "+%F"]), output_of("git", &["rev-parse", "--short", "HEAD"]));
    let rows: Vec<String> = suites.iter().zip(totals).map(|(suite, total)| row(suite, total, rounds, &stamp)).collect();
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    let changed = with_rows(&document, &rows, &known)?;
    fs::write(&path, changed).map_err(|error| format!("{DOCUMENT} cannot be written: {error}"))
}

fn row(suite: &Suite, total: &Outcome, rounds: u64, stamp: &str) -> String {
    let size: Vec<String> = suite.soak_env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!(
        "| {} | {} | {rounds} | {} | {} | {} | {} | {stamp} |",
        suite.name,
        size.join(" "),
        clock(total.elapsed),
        total.counts.passed,
        total.counts.failed,
        total.figures.join("; "),
    )
}

/// Returns the document with `rows` between its markers, in the order of `known`. Drops rows of unknown suites.
fn with_rows(document: &str, rows: &[String], known: &[&str]) -> Result<String, String> {
    let missing = || format!("{DOCUMENT} has lost its markers {BEGIN} and {END}: put them back");
    let (before, rest) = document.split_once(BEGIN).ok_or_else(missing)?;
    let (old, after) = rest.split_once(END).ok_or_else(missing)?;
    let name_of = |row: &str| row.split('|').nth(1).unwrap_or("").trim().to_owned();
    let mut table = String::from(HEAD);
    for name in known {
        let fresh = rows.iter().map(String::as_str).find(|row| name_of(row) == *name);
        let kept = || old.lines().find(|row| name_of(row) == *name);
        if let Some(row) = fresh.or_else(kept) {
            table += row;
            table.push('\n');
        }
    }
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Counts;

    const KNOWN: [&str; 2] = ["crash", "kill"];

    #[test]
    fn a_new_row_replaces_the_old_row_and_leaves_the_other_rows() {
        let document = format!("# R\n{BEGIN}\n{HEAD}| crash | old |\n| kill | old |\n| gone | old |\n{END}\nend\n");
        let changed = with_rows(&document, &["| crash | new |".into()], &KNOWN).expect("it has the markers");
        assert_eq!(changed, format!("# R\n{BEGIN}\n{HEAD}| crash | new |\n| kill | old |\n{END}\nend\n"));
    }

    #[test]
    fn a_failed_seed_is_kept_over_later_rounds() {
        let round = |counts, figures: &[&str]| Outcome {
            name: "crash".into(),
            elapsed: Duration::from_secs(1),
            counts,
            figures: figures.iter().map(|one| (*one).to_owned()).collect(),
        };
        let red = format!("{RED}1");
        let mut total = round(Counts::ONE_FAILED, &[&red, "7 states"]);
        add(&mut total, round(Counts::ONE_PASSED, &["9 states"]));
        assert_eq!(total.figures, [red.as_str(), "9 states"]);
        assert_eq!((total.counts.passed, total.counts.failed, total.elapsed.as_secs()), (1, 1, 2));
    }

    #[test]
    fn rows_enter_an_empty_table_in_the_order_of_the_suites() {
        let document = format!("{BEGIN}\n{END}");
        let rows = ["| kill | 1 |".to_owned(), "| crash | 1 |".to_owned()];
        let changed = with_rows(&document, &rows, &KNOWN).expect("it has the markers");
        assert_eq!(changed, format!("{BEGIN}\n{HEAD}| crash | 1 |\n| kill | 1 |\n{END}"));
    }

    #[test]
    fn a_document_without_markers_is_refused_and_not_overwritten() {
        assert!(with_rows("# nothing", &[], &KNOWN).is_err());
    }
}

//! `cargo xtask bench WORKLOAD`: `tp-bench WORKLOAD`, built in release with the peers that it needs; `cargo xtask bench
//! counts`: instructions of every hot path, compared with the kept counts.
//!
//! A few names stand for figures of the report `paper`. For such a name, the report is written to a directory in
//! `target/bench`, unless `--out` names a directory.

use crate::peers::{values, Peers};
use crate::workspace::{cargo, Workspace};
use crate::{command_test, counts, paper};
use std::process::ExitCode;

const PACKAGE: &str = "libtp-bench";
const PROGRAM: &str = "tp-bench";
/// The name for the counts of instructions. It is no workload: it runs another program, under callgrind.
const COUNTS: &str = "counts";
/// The name for the report of all figures.
const PAPER: &str = "paper";
/// The workload that needs SQLite on libtp.
const SQL: &str = "sql";
/// The workload for a command line without a workload.
const HOT_PATHS: &str = "hotpaths";
/// Names for figures of the report, each with the beginnings of the figures' names and its peers.
const FIGURES: [(&str, &str, &str); 4] = [
    (HOT_PATHS, "peers-memory,peers-disk", "all"),
    ("processes", "libtp-7,libtp-8,libtp-9,libtp-deadlocks", "all"),
    ("memory", "vista-5,vista-6", "none"),
    ("rows", "peers-rows", "light"),
];

/// Builds the benchmark in release and runs it.
///
/// # Errors
/// When cargo or apt-get cannot be started, or a build fails.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let (first, rest) = match arguments.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => (HOT_PATHS, arguments),
    };
    if first == COUNTS {
        return counts::counts(workspace, rest);
    }
    if let Some(figures) = FIGURES.into_iter().find(|(name, ..)| *name == first) {
        return paper::paper(workspace, &of_figures(workspace, figures, rest));
    }
    if first == PAPER {
        return paper::paper(workspace, rest);
    }
    if !workspace.has_target(PACKAGE, "bin", PROGRAM) {
        return Err(format!("package {PACKAGE} has no program {PROGRAM}: nothing to measure"));
    }
    // Only the bank's workloads run on peers.
    let peers = match values(rest, "--engine").any(|engine| engine != "libtp") {
        true => Peers::All,
        false => Peers::None,
    };
    peers.install(&command_test::logs(workspace)).map_err(|error| error.to_string())?;
    let features = if first == SQL { &["--features", SQL] } else { peers.features() };
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE, "--bin", PROGRAM])
        .args(features)
        .args(["--", first])
        .args(rest)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Returns the arguments of the report for some figures. Options of the command line come first and take precedence.
fn of_figures(workspace: &Workspace, (name, only, peers): (&str, &str, &str), rest: &[String]) -> Vec<String> {
    let mut all = rest.to_vec();
    let out = workspace.target.join("bench").join(name).display().to_string();
    for (option, value) in [("--only", only), ("--peers", peers), ("--out", &out)] {
        if values(rest, option).next().is_none() {
            all.extend([option.to_owned(), value.to_owned()]);
        }
    }
    all
}

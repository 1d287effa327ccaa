//! `cargo xtask bench`: TPC-B, reads and synced commits beside the peers; `cargo xtask bench recovery`: sizes, and
//! opening after a crash; `cargo xtask bench processes`: TPC-B by 1 to 64 processes; `cargo xtask bench memory`:
//! recoverable memory by the size of a transaction; `cargo xtask bench snapshots`: the cost of snapshots for readers
//! and writers; `cargo xtask bench rows`: plain records beside the peers; `cargo xtask bench paper`: the papers'
//! figures and the peers, as a report; `cargo xtask bench counts`: instructions of every hot path beside those kept.

use crate::peers::Peers;
use crate::workspace::{cargo, Workspace};
use crate::{command_test, counts, paper, setup};
use std::process::ExitCode;

const PACKAGE: &str = "libtp-bench";
/// The default benchmark; it needs the peers.
const HOT_PATHS: &str = "hotpaths";
const RECOVERY: &str = "recovery";
const PROCESSES: &str = "processes";
const MEMORY: &str = "memory";
const SNAPSHOTS: &str = "snapshots";
const ROWS: &str = "rows";
/// Not a benchmark's binary, but a program under callgrind.
const COUNTS: &str = "counts";
/// A command of `tp`.
const PAPER: &str = "paper";

/// Builds the benchmark in release and runs it.
///
/// # Errors
/// When cargo cannot be started.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some((COUNTS, rest)) => return counts::counts(workspace, rest),
        Some((PAPER, rest)) => return paper::paper(workspace, rest),
        _ => {}
    }
    let (binary, features, arguments) = match arguments.split_first() {
        Some((first, rest)) if first == RECOVERY => (RECOVERY, &[][..], rest),
        Some((first, rest)) if first == MEMORY => (MEMORY, &[][..], rest),
        Some((first, rest)) if first == SNAPSHOTS => (SNAPSHOTS, &[][..], rest),
        Some((first, rest)) if first == PROCESSES => (PROCESSES, &["--features", "peers-all"][..], rest),
        Some((first, rest)) if first == ROWS => (ROWS, Peers::of(rest).features(), rest),
        _ => (HOT_PATHS, &["--features", "peers-all"][..], arguments),
    };
    if !workspace.has_target(PACKAGE, "bin", binary) {
        eprintln!("xtask: package {PACKAGE} has no binary {binary} yet: nothing to measure");
        return Ok(ExitCode::from(2));
    }
    let logs = command_test::logs(workspace);
    let installed = match binary {
        RECOVERY | MEMORY | SNAPSHOTS => Ok(()),
        ROWS => Peers::of(arguments).install(&logs),
        _ => setup::packages(&logs).map(drop),
    };
    installed.map_err(|error| error.to_string())?;
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE, "--bin", binary])
        .args(features)
        .arg("--")
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

//! `cargo xtask bench`: every hot path beside its budget.

use crate::workspace::{cargo, Workspace};
use crate::{command_test, setup};
use std::process::ExitCode;

const PACKAGE: &str = "libtp-bench";
const BINARY: &str = "hotpaths";

/// Builds the benchmark in release with the peers, and runs it.
///
/// # Errors
/// When cargo cannot be started.
pub fn bench(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    if !workspace.has_target(PACKAGE, "bin", BINARY) {
        eprintln!("xtask: package {PACKAGE} has no binary {BINARY} yet: nothing to measure");
        return Ok(ExitCode::from(2));
    }
    setup::packages(&command_test::logs(workspace)).map_err(|error| error.to_string())?;
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE, "--features", "peers", "--bin", BINARY, "--"])
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

//! `cargo xtask bench paper`: `tp bench paper`, built with the peers that it is asked for, whose packages are installed.

use crate::command_test;
use crate::peers::Peers;
use crate::workspace::{cargo, Workspace};
use std::process::ExitCode;

const PACKAGE: &str = "libtp-cli";

/// Builds `tp` in release and measures.
///
/// # Errors
/// When cargo or apt-get cannot be started.
pub fn paper(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let peers = Peers::of(arguments);
    peers.install(&command_test::logs(workspace)).map_err(|error| error.to_string())?;
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE])
        .args(peers.features())
        .args(["--", "bench", "paper"])
        .args(arguments)
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

//! `cargo xtask bench paper`: `tp bench paper`, built with the chosen peers, whose packages are installed. A second
//! build has latches that can be made to call the kernel, for the figure that measures them.

use crate::command_test;
use crate::peers::{values, Peers};
use crate::workspace::{cargo, Workspace};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

const PACKAGE: &str = "libtp-cli";
/// The variable that names the second build to `tp`.
const KERNEL_LATCHES: &str = "LIBTP_KERNEL_LATCHES";
/// The variable with the command line that the report shows.
const COMMAND: &str = "LIBTP_BENCH_COMMAND";
/// The figure that needs the second build.
const FIGURE: &str = "libtp-5";

/// Builds `tp` in release and measures.
///
/// # Errors
/// When cargo or apt-get cannot be started, or the second build fails.
pub fn paper(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let peers = Peers::of(arguments);
    peers.install(&command_test::logs(workspace)).map_err(|error| error.to_string())?;
    let kernel_latches = if wants(arguments, FIGURE) { Some(with_kernel_latches(workspace)?) } else { None };
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE])
        .args(peers.features())
        .args(["--", "bench", "paper"])
        .args(arguments)
        .env(
            COMMAND,
            ["cargo xtask bench paper"]
                .into_iter()
                .chain(arguments.iter().map(String::as_str))
                .collect::<Vec<_>>()
                .join(" "),
        )
        .envs(kernel_latches.map(|program| (KERNEL_LATCHES, program)))
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Builds `tp` with latches that can be made to call the kernel, and without peers, and returns its path. It is a
/// separate program because each of its latches checks whether it has to call, which would slow all other figures.
fn with_kernel_latches(workspace: &Workspace) -> Result<PathBuf, String> {
    let status = cargo()
        .args(["build", "--release", "--package", PACKAGE, "--features", "kernel-latches"])
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("{PACKAGE} cannot be built with kernel-latches, see above"));
    }
    // Moved, because the other build's program has the same name. A program that still runs keeps its old file.
    let directory = command_test::logs(workspace);
    let program = directory.join("tp-kernel-latches");
    let moved = fs::create_dir_all(&directory).and_then(|()| fs::rename(workspace.target.join("release/tp"), &program));
    moved.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// Returns whether a figure is among the chosen ones.
fn wants(arguments: &[String], figure: &str) -> bool {
    let mut names = values(arguments, "--only").flat_map(|names| names.split(',')).peekable();
    names.peek().is_none() || names.any(|name| figure.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_build_is_for_who_asks_for_its_figure() {
        let wants = |line: &str| wants(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), FIGURE);
        assert!(wants("--out d --quick"));
        assert!(wants("--only libtp --out d") && wants("--only=vista,libtp-5") && wants("--only vista --only libtp-5"));
        assert!(!wants("--only libtp-6 --out libtp-5") && !wants("--only=vista"));
    }
}

//! `cargo xtask bench paper`: `tp bench paper`, built with the chosen peers, whose packages are installed. A second
//! build has latches that can be made to call the kernel, for the figure that measures them.

use crate::command_test;
use crate::peers::{values, Peers};
use crate::workspace::{cargo, Workspace};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

const PACKAGE: &str = "libtp-bench";
const PROGRAM: &str = "tp-bench";
/// The variable that names the second build to `tp-bench`.
const KERNEL_LATCHES: &str = "LIBTP_KERNEL_LATCHES";
/// The variable with the command line that the report shows.
const COMMAND: &str = "LIBTP_BENCH_COMMAND";
/// The figure that needs the second build.
const FIGURE: &str = "libtp-5";

/// Builds `tp-bench` in release, and also `tp`, because one figure measures the shell of `tp`. Then measures.
///
/// # Errors
/// When cargo or apt-get cannot be started, or a build fails.
pub fn paper(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let peers = Peers::of(arguments);
    peers.install(&command_test::logs(workspace)).map_err(|error| error.to_string())?;
    build(&["--package", "libtp-cli", "--bin", "tp"])?;
    let kernel_latches = if wants(arguments, FIGURE) { Some(with_kernel_latches(workspace)?) } else { None };
    let status = cargo()
        .args(["run", "--release", "--package", PACKAGE, "--bin", PROGRAM])
        .args(peers.features())
        .args(["--", "paper"])
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

/// Builds `tp-bench` with latches that can be made to call the kernel, and without peers, and returns its path. It is a
/// separate program because each of its latches checks whether it must call the kernel. In the other figures, this
/// check would make the measured operations slower.
fn with_kernel_latches(workspace: &Workspace) -> Result<PathBuf, String> {
    build(&["--package", PACKAGE, "--bin", PROGRAM, "--features", "kernel-latches"])?;
    // The program is moved, because the other build's program has the same name. A program that still runs keeps its
    // old file.
    let directory = command_test::logs(workspace);
    let program = directory.join("tp-bench-kernel-latches");
    let moved =
        fs::create_dir_all(&directory).and_then(|()| fs::rename(workspace.target.join("release/tp-bench"), &program));
    moved.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(program)
}

/// Builds a program in release.
fn build(words: &[&str]) -> Result<(), String> {
    let status = cargo().args(["build", "--release"]).args(words).status();
    match status.map_err(|error| format!("cargo cannot be started: {error}"))?.success() {
        true => Ok(()),
        false => Err(format!("cargo build {} failed, see above", words.join(" "))),
    }
}

/// Returns whether a figure is among the chosen figures.
fn wants(arguments: &[String], figure: &str) -> bool {
    let mut names = values(arguments, "--only").flat_map(|names| names.split(',')).peekable();
    names.peek().is_none() || names.any(|name| figure.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_build_is_made_only_for_its_figure() {
        let wants = |line: &str| wants(&line.split(' ').map(str::to_owned).collect::<Vec<_>>(), FIGURE);
        assert!(wants("--out d --quick"));
        assert!(wants("--only libtp --out d") && wants("--only=vista,libtp-5") && wants("--only vista --only libtp-5"));
        assert!(!wants("--only libtp-6 --out libtp-5") && !wants("--only=vista"));
    }
}

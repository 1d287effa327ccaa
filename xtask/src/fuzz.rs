//! libFuzzer on the entry points of `libtp-fuzz`: the part of the suite `fuzz` that only a soak runs.
//!
//! It needs neither another toolchain nor cargo-fuzz: `RUSTC_BOOTSTRAP` allows the compiler the features of nightly,
//! `sancov-module` makes the code record its coverage, and AddressSanitizer watches the memory. libFuzzer itself is C++
//! that `libfuzzer-sys` compiles. So the package is outside the workspace, and without a C++ compiler the suite
//! reports that it skips this part.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child;
use crate::outcome::Counts;
use crate::setup;
use crate::workspace::{cargo, Workspace};

/// The seconds for each target, set by a suite (`suites`). The environment's value has precedence.
const SECONDS: &str = "LIBTP_FUZZ_SECONDS";
const MANIFEST: &str = "tests/fuzz/libfuzzer/Cargo.toml";
const CORPUS: &str = "tests/fuzz/corpus";
const HOST: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address";
/// Limits that no input reaches, even on a busy machine with the sanitizer: seconds, memory and input size.
const LIMITS: [&str; 4] = ["-timeout=30", "-rss_limit_mb=4096", "-malloc_limit_mb=512", "-max_len=5000"];
/// An interrupted operation may leak memory.
const ASAN: &str = "detect_leaks=0:quarantine_size_mb=16";
/// Longest time of the build, and of a target beyond its set time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Fuzzes each target, if `env` sets a time.
///
/// # Errors
/// When a process cannot be started.
pub fn suite(workspace: &Workspace, env: &[(&str, &str)], logs: &Path) -> io::Result<(Counts, Vec<String>)> {
    let Some(seconds) = seconds(env) else { return Ok((Counts::default(), Vec::new())) };
    if !has_compiler() {
        println!("  SKIPPED: there is no C++ compiler (g++), so nothing was fuzzed with libFuzzer");
        let counts = if setup::in_ci() { Counts::ONE_FAILED } else { Counts::ONE_SKIPPED };
        return Ok((counts, Vec::new()));
    }
    let folder = workspace.target.join("libfuzzer");
    if !child::run_within("fuzz", &mut build(workspace, &folder), logs, PATIENCE)?.success {
        return Ok((Counts::ONE_FAILED, Vec::new()));
    }
    let (mut counts, mut told) = (Counts::default(), Vec::new());
    for target in names(&workspace.root.join(CORPUS))? {
        let (fuzzed, figures) = fuzz_one(workspace, &folder, (&target, seconds), logs)?;
        counts += fuzzed;
        told.push(figures);
    }
    let figures = format!(
        "libFuzzer with AddressSanitizer, {seconds} s a target, {} findings: {}",
        counts.failed,
        told.join(", ")
    );
    Ok((counts, vec![figures]))
}

fn seconds(env: &[(&str, &str)]) -> Option<u64> {
    let said = env.iter().find(|(name, _)| *name == SECONDS).map(|(_, value)| (*value).to_owned())?;
    std::env::var(SECONDS).unwrap_or(said).parse().ok()
}

fn has_compiler() -> bool {
    let mut command = Command::new("c++");
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn build(workspace: &Workspace, folder: &Path) -> Command {
    let mut command = cargo();
    command.args(["build", "--release", "--locked", "--target", HOST, "--manifest-path"]);
    command.arg(workspace.root.join(MANIFEST)).arg("--target-dir").arg(folder);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS);
    command
}

/// Returns the names of the folders in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Fuzzes one target and returns its counts and figures.
fn fuzz_one(
    workspace: &Workspace,
    folder: &Path,
    (target, seconds): (&str, u64),
    logs: &Path,
) -> io::Result<(Counts, String)> {
    let (found, findings) = (folder.join("corpus").join(target), folder.join("findings").join(target));
    let _ = fs::remove_dir_all(&findings);
    fs::create_dir_all(&found)?;
    fs::create_dir_all(&findings)?;
    let mut command = Command::new(folder.join(HOST).join("release/libtp-libfuzzer"));
    command.arg(&found).arg(workspace.root.join(CORPUS).join(target)).args(LIMITS);
    command.arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
    command.arg(format!("-artifact_prefix={}/", findings.display()));
    command.env("LIBTP_FUZZ_TARGET", target).env("ASAN_OPTIONS", ASAN);
    let limit = Duration::from_secs(seconds) + PATIENCE;
    let ended = child::run_within("fuzz", &mut command, logs, limit)?;
    let kept: Vec<PathBuf> = files(&findings)?;
    for finding in &kept {
        println!("  {target}: {}: when the fault is fixed, keep the input in {CORPUS}/{target}", finding.display());
    }
    let executions = executions(&ended.output);
    let is_good = ended.success && kept.is_empty() && executions > 0;
    let counts = if is_good { Counts::ONE_PASSED } else { Counts::ONE_FAILED };
    Ok((counts, format!("{target} {executions} executions, corpus {}", files(&found)?.len())))
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let named = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(|name| !name.starts_with('.'));
    Ok(fs::read_dir(folder)?.flatten().map(|entry| entry.path()).filter(named).collect())
}

/// Returns libFuzzer's number of executions.
fn executions(output: &str) -> u64 {
    let count = output.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executions_are_read_from_the_statistics() {
        let output = "#12 NEW cov: 3\nDone 4711 runs in 2 second(s)\nstat::number_of_executed_units: 4711\nstat::peak_rss_mb: 3\n";
        assert_eq!(executions(output), 4711);
        assert_eq!(executions("nothing"), 0);
    }

    #[test]
    fn nothing_is_fuzzed_without_a_given_time() {
        assert_eq!(seconds(&[("LIBTP_TEST_FUZZ_MILLIS", "500")]), None);
    }
}

//! The suite `sanitizers`, which only a soak runs: finds undefined behaviour and data races.
//!
//! ThreadSanitizer watches the tests of the crates whose threads share memory. It needs no other toolchain
//! (`RUSTC_BOOTSTRAP` allows the compiler the features of nightly). ThreadSanitizer does not see inside the standard
//! library, which is not built again; `sanitizers.supp` names the false reports that this causes. Each test runs in a
//! separate process: ThreadSanitizer does not see mappings made by system calls, so it would mistake memory of one test
//! for memory of the next test at the same address.
//!
//! Miri runs tests that touch neither files nor mapped memory, if a nightly toolchain has it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::child;
use crate::libtest;
use crate::outcome::Counts;
use crate::programs::{self, Program};
use crate::suites::LOOM_TESTS;
use crate::workspace::{cargo, Workspace};

/// The variable by which a soak switches the sanitizers on (`suites`).
const WATCHED: &str = "LIBTP_TEST_WATCHED";
const HOST: &str = "x86_64-unknown-linux-gnu";
const FLAGS: &str = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
const SUPPRESSED: &str = "xtask/src/sanitizers.supp";
/// The option for the exit code of a program with reports.
const REPORTED: &str = "exitcode=66";
/// The packages whose threads share memory. `vista` is left out, because its segments are at addresses that
/// ThreadSanitizer reserves for itself. `libtp` is left out, because each of its handles has a `Mutex`.
const SHARING: [&str; 7] =
    ["libtp-rio", "libtp-process", "libtp-lock", "libtp-buffer", "libtp-log", "libtp-txn", "libtp-record"];
/// Tests that ThreadSanitizer breaks: it reserves signal stacks for itself, and does not know loom's stacks.
const LEFT_OUT: [&str; 2] = ["guard::", LOOM_TESTS];
/// Tests that use only ordinary memory: their packages, and the beginnings of their names.
const IN_MEMORY: [&str; 4] = ["libtp-record", "libtp-buffer", "libtp-lock", "libtp-log"];
const NAMES: [&str; 14] = [
    "key_range::",
    "duplicates::",
    "hash::geometry::",
    "key_hash::",
    "order::",
    "recno::page::",
    "list::entries::",
    "btree::difference::",
    "btree::filling::",
    "link::",
    "page_header::",
    "mode::",
    "record::",
    "incarnation::",
];
/// Everything is many times slower under the sanitizers.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// Runs ThreadSanitizer and Miri, if `env` asks for them.
///
/// # Errors
/// When a process cannot be started.
pub fn suite(workspace: &Workspace, env: &[(&str, &str)], logs: &Path) -> io::Result<(Counts, Vec<String>)> {
    if !env.iter().any(|(name, _)| *name == WATCHED) {
        println!("  only a soak runs this: cargo xtask soak sanitizers");
        return Ok((Counts::default(), Vec::new()));
    }
    let (mut counts, mut figures) = threads(workspace, logs)?;
    let (more, said) = miri(workspace, logs)?;
    counts += more;
    figures.push(said);
    Ok((counts, figures))
}

fn threads(workspace: &Workspace, logs: &Path) -> io::Result<(Counts, Vec<String>)> {
    let folder = workspace.target.join("sanitizers");
    let reports = folder.join("reports");
    let _ = fs::remove_dir_all(&reports);
    fs::create_dir_all(&reports)?;
    let mut build = cargo();
    build.args([
        "test",
        "--no-run",
        "--target",
        HOST,
        "--lib",
        "--tests",
        "--message-format",
        "json-render-diagnostics",
    ]);
    build.args(SHARING.iter().flat_map(|name| ["-p", name])).arg("--target-dir").arg(&folder);
    build.current_dir(&workspace.root).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS);
    let built = child::run_within("sanitizers", &mut build, logs, PATIENCE)?;
    if !built.success {
        return Ok((Counts::ONE_FAILED, Vec::new()));
    }
    let suppressed = workspace.root.join(SUPPRESSED);
    let options = format!("suppressions={}:log_path={}/report:{REPORTED}", suppressed.display(), reports.display());
    let mut counts = Counts::default();
    for Program { path: program, home, .. } in programs::named(&built.output) {
        for test in names(&program)? {
            if LEFT_OUT.iter().any(|part| test.contains(part)) {
                continue;
            }
            let mut command = Command::new(&program);
            command.args(["--exact", &test]).current_dir(&home).env("TSAN_OPTIONS", &options);
            let ended = child::run_within("sanitizers", &mut command, logs, PATIENCE)?;
            let passed = ended.success && libtest::counts(&ended.output).passed == 1;
            if !passed {
                println!("  {} {test} has reports, or failed", program.display());
            }
            counts += if passed { Counts::ONE_PASSED } else { Counts::ONE_FAILED };
        }
    }
    let reported = reports_in(&reports)?;
    reported.iter().for_each(|line| println!("  {line}"));
    let tests = counts.passed + counts.failed;
    let figures = format!("ThreadSanitizer: {tests} tests of {} packages, {} reports", SHARING.len(), reported.len());
    if tests == 0 {
        counts.failed = 1;
    }
    Ok((counts, vec![figures]))
}

/// Returns the tests of a program.
fn names(program: &Path) -> io::Result<Vec<String>> {
    let listed = Command::new(program).args(["--list", "--format", "terse"]).stdin(Stdio::null()).output()?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    Ok(listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}

/// Returns the last line of each report: its kind and place.
fn reports_in(reports: &Path) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(reports)? {
        lines.extend(summaries(&fs::read_to_string(entry?.path())?));
    }
    Ok(lines)
}

fn summaries(reports: &str) -> Vec<String> {
    reports.lines().filter(|line| line.starts_with("SUMMARY: ThreadSanitizer")).map(str::to_owned).collect()
}

fn miri(workspace: &Workspace, logs: &Path) -> io::Result<(Counts, String)> {
    if !has_miri() {
        println!("  SKIPPED: there is no Miri. Install it: rustup toolchain install nightly --component miri,rust-src");
        return Ok((Counts::ONE_SKIPPED, "Miri: SKIPPED, it is not installed".into()));
    }
    let mut command = nightly();
    command.args(["test", "--lib"]).args(IN_MEMORY.iter().flat_map(|name| ["-p", name]));
    command.arg("--target-dir").arg(workspace.target.join("miri")).arg("--").args(NAMES);
    command.current_dir(&workspace.root);
    let ended = child::run_within("sanitizers", &mut command, logs, PATIENCE)?;
    let mut counts = libtest::counts(&ended.output);
    if !ended.success || counts.passed == 0 {
        counts.failed = counts.failed.max(1);
    }
    Ok((counts, format!("Miri: {} tests", counts.passed)))
}

fn nightly() -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "miri"]);
    command
}

/// Returns whether Miri is installed. A search in `PATH` would not tell, because `rustup` always has a proxy for it.
fn has_miri() -> bool {
    let mut command = nightly();
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sanitizer_runs_without_its_variable() {
        let workspace = Workspace { root: "/".into(), target: "/".into(), packages: Vec::new() };
        let (counts, figures) = suite(&workspace, &[("LIBTP_TEST_SEEDS", "1")], Path::new("/")).unwrap();
        assert_eq!((counts.passed, counts.failed, figures.len()), (0, 0, 0));
    }

    #[test]
    fn each_report_is_one_line() {
        let report =
            "==\nWARNING: ThreadSanitizer: data race (pid=1)\n  #0 x\nSUMMARY: ThreadSanitizer: data race x.rs:1\n==\n";
        assert_eq!(summaries(&report.repeat(2)).len(), 2);
    }
}

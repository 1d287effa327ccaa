//! `cargo xtask test`: every suite in order, all of them even after a failure, then the table.

use crate::outcome::{clock, table, Counts, Outcome};
use crate::suites::{Suite, FUZZ, LAB, SUITES, WATCHERS};
use crate::workspace::{cargo, Workspace};
use crate::{child, fuzz, lab, libtest, sanitizers, setup, tidy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// A suite that is not one integration test: it runs whatever its function runs.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> io::Result<Counts>,
}

/// In the order in which they run: the cheap ones that fail most often first.
const STEPS: &[Step] = &[
    Step { name: "packages", run: |workspace| setup::packages(&logs(workspace)) },
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "docs", run: docs },
    Step { name: "tidy", run: |workspace| Ok(tidy::suite(workspace).counts) },
    Step { name: "unit tests", run: unit_tests },
    Step { name: "peers", run: peers },
    Step { name: "doc tests", run: doc_tests },
    Step { name: "loom", run: loom },
];

/// Prints the names that `cargo xtask test` takes.
pub fn list() {
    let names = STEPS.iter().map(|step| step.name).chain(SUITES.iter().map(|suite| suite.name));
    names.for_each(|name| println!("{name}"));
}

/// Runs the suites named, or all, and prints the table.
///
/// # Errors
/// When a name is none of ours.
pub fn test(workspace: &Workspace, chosen: &[String]) -> Result<ExitCode, String> {
    let known =
        |name: &String| STEPS.iter().any(|step| step.name == name) || SUITES.iter().any(|suite| suite.name == name);
    if let Some(unknown) = chosen.iter().find(|name| !known(name)) {
        return Err(format!("there is no suite {unknown:?}; `cargo xtask test --list` names them"));
    }
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|one| one == name);
    let _ = fs::remove_dir_all(logs(workspace));

    let mut outcomes = Vec::new();
    for step in STEPS.iter().filter(|step| wanted(step.name)) {
        outcomes.push(measured(step.name, || Ok(((step.run)(workspace)?, Vec::new()))));
    }
    for suite in SUITES.iter().filter(|suite| wanted(suite.name)) {
        outcomes.push(measured(suite.name, || run_suite(workspace, suite, suite.test_env, child::LIMIT)));
    }
    let mut failed = false;
    for outcome in outcomes.iter().filter(|outcome| outcome.counts.failed > 0) {
        failed = true;
        tell_failures(&outcome.name, &logs(workspace));
    }
    print!("\n{}", table(&outcomes));
    Ok(ExitCode::from(u8::from(failed)))
}

/// What failed, once more and shortly: between it and the table there may be thousands of lines.
fn tell_failures(name: &str, logs: &Path) {
    let output = fs::read_to_string(child::log_path(name, logs)).unwrap_or_default();
    println!("\nfailed in {name}:");
    libtest::failures(&output).iter().for_each(|line| println!("  {line}"));
}

/// Runs one suite, says so before and after, and turns an error into a failure.
pub fn measured(name: &str, run: impl FnOnce() -> io::Result<(Counts, Vec<String>)>) -> Outcome {
    println!("{name} ...");
    let start = Instant::now();
    let (counts, figures) = run().unwrap_or_else(|error| {
        println!("  {name} could not run: {error}");
        (Counts::ONE_FAILED, Vec::new())
    });
    let outcome = Outcome { name: name.to_owned(), elapsed: start.elapsed(), counts, figures };
    outcome.figures.iter().for_each(|figures| println!("  {figures}"));
    let verdict = if counts.failed > 0 { "FAILED" } else { "ok" };
    println!("  {verdict}: {counts} in {}", clock(outcome.elapsed));
    outcome
}

/// Runs one heavy suite in release at the size that `env` tells, for at most `limit`.
///
/// # Errors
/// When cargo cannot be started.
pub fn run_suite(
    workspace: &Workspace,
    suite: &Suite,
    env: &[(&str, &str)],
    limit: Duration,
) -> io::Result<(Counts, Vec<String>)> {
    if suite.package == LAB {
        return lab::suite(workspace, env);
    }
    if suite.package == WATCHERS {
        return sanitizers::suite(workspace, env, &logs(workspace));
    }
    if !workspace.has_target(suite.package, "test", suite.target) {
        println!("  package {} has no integration test {}: mend xtask/src/suites.rs", suite.package, suite.target);
        return Ok((Counts::ONE_FAILED, Vec::new()));
    }
    let mut command = cargo();
    command.args(["test", "--profile", "suite", "--no-fail-fast", "--package", suite.package, "--test", suite.target]);
    if !suite.features.is_empty() {
        command.args(["--features", &suite.features.join(",")]);
    }
    if !suite.only.is_empty() {
        command.arg(suite.only);
    }
    command.args(["--", "--nocapture"]).envs(env.iter().copied());
    for apart in suite.apart() {
        command.args(["--skip", apart]);
    }
    let ended = child::run_within(suite.name, &mut command, &logs(workspace), limit)?;
    let mut counts = count(&ended);
    if counts.passed + counts.failed == 0 {
        println!("  no test of {} ran", suite.target);
        counts.failed += 1;
    }
    let mut figures = libtest::figures(&ended.output);
    if suite.name == FUZZ {
        let (fuzzed, said) = fuzz::suite(workspace, env, &logs(workspace))?;
        counts += fuzzed;
        figures.extend(said);
    }
    Ok((counts, figures))
}

/// Where the output of the suites is kept.
pub fn logs(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask")
}

fn fmt(workspace: &Workspace) -> io::Result<Counts> {
    setup::component("fmt", "rustfmt");
    check("fmt", workspace, cargo().args(["fmt", "--all", "--check"]))
}

/// Lints the tree as users build it, then with every feature on (planted bugs, peers).
fn clippy(workspace: &Workspace) -> io::Result<Counts> {
    const LINT: [&str; 3] = ["clippy", "--workspace", "--all-targets"];
    const DENY: [&str; 3] = ["--", "-D", "warnings"];
    setup::component("clippy", "clippy");
    let mut counts = check("clippy", workspace, cargo().args(LINT).args(DENY))?;
    if workspace.packages.iter().any(|package| !package.features.is_empty()) {
        counts += if setup::packages_present() {
            check("clippy", workspace, cargo().args(LINT).arg("--all-features").args(DENY))?
        } else {
            println!("  with all features: skipped, the packages named above are missing");
            Counts::ONE_SKIPPED
        };
    }
    Ok(counts)
}

fn docs(workspace: &Workspace) -> io::Result<Counts> {
    let mut command = cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings");
    check("docs", workspace, &mut command)
}

/// Unit tests, and the integration tests that are not heavy suites, in the dev profile with its assertions.
fn unit_tests(workspace: &Workspace) -> io::Result<Counts> {
    let mut command = cargo();
    command.args(["test", "--workspace", "--no-fail-fast", "--lib", "--bins"]);
    for test in workspace.integration_tests() {
        if !SUITES.iter().any(|suite| suite.target == test) {
            command.args(["--test", test]);
        }
    }
    counted("unit tests", workspace, &mut command)
}

/// What the unit tests leave out because they are built as users build: the peers, and latches that can be made to call the kernel.
fn peers(workspace: &Workspace) -> io::Result<Counts> {
    const BUILD: &str = "libtp-bench/peers-all,libtp-cli/peers-all,libtp-cli/kernel-latches";
    const OF_PEERS: &[&str] = &["--test=peers"];
    // Of the others those that are different in such a build.
    const DIFFERENT: &[&str] = &[
        "--lib",
        "--test=bench_paper",
        "--test=bench_memory",
        "--test=demo_and_bench",
        "--",
        "peer",
        "pmemobj",
        "version",
        "kernel",
    ];
    if !setup::packages_present() {
        println!("  skipped, the packages named above are missing");
        return Ok(Counts::ONE_SKIPPED);
    }
    let mut counts = Counts::default();
    for tests in [OF_PEERS, DIFFERENT] {
        let mut command = cargo();
        command
            .args(["test", "--no-fail-fast", "-p", "libtp-bench", "-p", "libtp-cli", "--features", BUILD])
            .args(tests);
        counts += counted("peers", workspace, &mut command)?;
    }
    Ok(counts)
}

fn doc_tests(workspace: &Workspace) -> io::Result<Counts> {
    counted("doc tests", workspace, cargo().args(["test", "--workspace", "--no-fail-fast", "--doc"]))
}

/// Every interleaving of the small primitives. Built apart: `--cfg loom` changes what an atomic is.
fn loom(workspace: &Workspace) -> io::Result<Counts> {
    let mut command = cargo();
    command
        .args(["test", "--profile", "suite", "--no-fail-fast", "--package", "libtp-process", "--package", "libtp-log"])
        .arg("--target-dir")
        .arg(workspace.target.join("loom"))
        .arg("loom")
        .env("RUSTFLAGS", "--cfg loom");
    counted("loom", workspace, &mut command)
}

/// A command that is one check.
fn check(name: &str, workspace: &Workspace, command: &mut Command) -> io::Result<Counts> {
    let ended = child::run(name, command, &logs(workspace))?;
    Ok(if ended.success { Counts::ONE_PASSED } else { Counts::ONE_FAILED })
}

/// A command that is many tests.
fn counted(name: &str, workspace: &Workspace, command: &mut Command) -> io::Result<Counts> {
    Ok(count(&child::run(name, command, &logs(workspace))?))
}

/// A run that failed without naming a failed test (it did not compile, or it aborted) is one failure.
fn count(ended: &child::Ended) -> Counts {
    let mut counts = libtest::counts(&ended.output);
    if !ended.success && counts.failed == 0 {
        counts.failed = 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_dies_without_a_result_line_is_one_failure() {
        let output = "test result: ok. 2 passed; 0 failed; 0 ignored\nprocess didn't exit successfully".to_owned();
        let ended = child::Ended { success: false, output };
        assert_eq!(count(&ended), Counts { passed: 2, failed: 1, skipped: 0 });
    }

    #[test]
    fn an_error_before_the_suite_ran_is_a_failure_and_not_the_end() {
        let outcome = measured("broken", || Err(io::Error::other("no cargo")));
        assert_eq!(outcome.counts, Counts::ONE_FAILED);
    }
}

//! `cargo xtask test`: runs all suites, even if one fails, and then prints the table.
//!
//! One build with every feature makes all test programs. Then two groups of commands run in parallel: the test
//! programs, a few at a time, since many of them sleep or sync; and the commands that compile (lints, documents, and
//! under `--deep` the suites that are built as users build the library).

use crate::lanes::{self, measured, Job, JobResult};
use crate::litter::Litter;
use crate::outcome::{table, Counts, Outcome};
use crate::programs::{self, Profile, Program};
use crate::suites::{
    Build, Suite, FUZZ, LAB, LOOM, LOOM_DOUBT, LOOM_TESTS, SUITES, UNIT_TESTS, UNIT_TESTS_DOUBT, WATCHERS,
};
use crate::testing_page::Words;
use crate::workspace::{cargo, niced_cargo, Workspace};
use crate::{child, fuzz, lab, libtest, release, sanitizers, setup, testing_page, tidy};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The options of `cargo xtask test`.
pub struct Options {
    /// The suites to run; empty for all.
    pub chosen: Vec<String>,
    /// The larger sizes, optimised.
    pub deep: bool,
    /// Write the times to docs/testing.md.
    pub record: bool,
}

/// Whether the benchmarks' peers are built, too. Only a deep run builds the peers, which take as long to build as the
/// library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    LeftOut,
    Built,
}

/// A suite that is not one integration test.
struct Step {
    /// The step's name in `cargo xtask test NAME` and in the tables.
    name: &'static str,
    /// The doubt that the step answers.
    doubt: &'static str,
    run: fn(&Workspace, Peers) -> io::Result<Counts>,
}

/// The steps that run first, one after another: each takes seconds.
const FIRST: &[Step] = &[
    Step { name: "packages", doubt: "Is everything installed that the tests need?", run: packages },
    Step { name: "fmt", doubt: "Is the code formatted?", run: fmt },
    Step { name: "tidy", doubt: "Does the text of the tree keep its rules?", run: |it, _| Ok(tidy::suite(it).counts) },
];
/// The steps that compile, one after another, while the tests run.
const COMPILING: &[Step] = &[
    Step { name: "clippy", doubt: "Do the lints pass, with all features and with none?", run: clippy },
    Step { name: "docs", doubt: "Does the documentation build without warnings?", run: docs },
    Step { name: "doc tests", doubt: "Do the examples in the documentation run?", run: doc_tests },
];
/// The steps before a release: only under `--deep`, or if they are chosen by name.
const COMPILING_DEEP: &[Step] = &[
    Step {
        name: "package",
        doubt: "Can the crates be published?",
        run: |workspace, _| release::package(workspace, &logs(workspace)),
    },
    Step {
        name: "deny",
        doubt: "Are the licences, versions and origins of all dependencies allowed?",
        run: |workspace, _| release::deny(workspace, &logs(workspace)),
    },
];
/// The packages that have tests for loom.
const LOOMS_PACKAGES: [&str; 2] = ["libtp-process", "libtp-log"];

/// Packages that are no library for users.
const UNDOCUMENTED: [&str; 8] =
    ["libtp-bank", "libtp-bench", "libtp-cli", "libtp-console", "libtp-fuzz", "libtp-sql", "libtp-tests", "xtask"];
/// Number of test programs that run in parallel with the steps that compile. When these steps are done, one more test
/// program runs. Most test programs have several threads or processes.
const LANES: usize = 2;
/// Suites that pass control between threads or processes at every step. They run at normal priority, and all other test
/// programs run at lower priority.
const HANDING_OVER: [&str; 1] = ["schedules"];
/// Longest time of one suite under `test`, on a busy machine, and under `--deep`.
const LIMIT: Duration = Duration::from_secs(30 * 60);
const LIMIT_DEEP: Duration = Duration::from_secs(45 * 60);
/// Longest time of one program of unit tests under `test`: the longest takes 40 seconds.
const LIMIT_UNIT: Duration = Duration::from_secs(8 * 60);
/// The first seed of every random test.
const SEED: &str = "LIBTP_TEST_SEED";
/// When set, unit tests run all their cases; otherwise each day's run takes some of the cases.
const DEEP: &str = "LIBTP_TEST_DEEP";
/// Preemptions in the largest of loom's tests.
const PREEMPTIONS: &str = "LIBTP_TEST_PREEMPTIONS";

/// The rows of docs/testing.md.
pub fn rows() -> Vec<Words> {
    let steps = FIRST.iter().chain(COMPILING).chain(COMPILING_DEEP);
    let steps = steps.map(|step| Words { name: step.name, doubt: step.doubt, catches: "" });
    let units = [(LOOM, LOOM_DOUBT), (UNIT_TESTS, UNIT_TESTS_DOUBT)];
    let units = units.map(|(name, doubt)| Words { name, doubt, catches: "" });
    let suites = SUITES.iter().map(|suite| Words { name: suite.name, doubt: suite.doubt, catches: suite.catches });
    steps.chain(units).chain(suites).collect()
}

/// Prints the names that `cargo xtask test` takes.
pub fn list() {
    names().for_each(|name| println!("{name}"));
}

fn names() -> impl Iterator<Item = &'static str> {
    rows().into_iter().map(|row| row.name)
}

/// Runs the suites named, or all, and prints the table.
///
/// # Errors
/// When a name is not the name of a suite, or docs/testing.md cannot be written.
pub fn test(workspace: &Workspace, options: &Options) -> Result<ExitCode, String> {
    if let Some(unknown) = options.chosen.iter().find(|chosen| !names().any(|name| name == chosen.as_str())) {
        return Err(format!("there is no suite {unknown:?}; `cargo xtask test --list` names them"));
    }
    let start = Instant::now();
    let _litter = Litter::begin().map_err(|error| error.to_string())?;
    let peers = if options.deep { Peers::Built } else { Peers::LeftOut };
    let run = Run { workspace, options, logs: logs(workspace), peers };
    let _ = fs::remove_dir_all(&run.logs);
    let seed = seed_of_today();
    println!("{SEED}={seed} (a new seed each day; to repeat a run, set the variable)");
    // Every command below inherits the seed.
    std::env::set_var(SEED, &seed);
    if options.deep {
        std::env::set_var(DEEP, "1");
        std::env::set_var(PREEMPTIONS, "3");
    }

    let mut outcomes: Vec<Outcome> =
        FIRST.iter().filter(|step| run.wants(step.name)).map(|step| run.step(step)).collect();
    outcomes.extend(run.side_by_side());
    let place = |outcome: &Outcome| names().position(|name| name == outcome.name);
    outcomes.sort_by_key(place);

    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.counts.failed > 0).collect();
    let failures: String = failed.iter().map(|outcome| failures_of(&outcome.name, &run.logs)).collect();
    print!("\n{}", table(&outcomes, start.elapsed(), &failures));
    if options.record {
        let column = if options.deep { testing_page::Column::Deep } else { testing_page::Column::Test };
        testing_page::record(&workspace.root, &rows(), column, &outcomes)?;
    }
    Ok(ExitCode::from(u8::from(!failed.is_empty())))
}

/// Returns the seed that the environment sets. If it sets no seed, returns the number of days since 1970: a new seed
/// each day.
fn seed_of_today() -> String {
    let days = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs() / (24 * 60 * 60));
    std::env::var(SEED).unwrap_or_else(|_| days.to_string())
}

/// Returns the failures of a suite in a few lines. They are printed at the end of the output, because every viewer of
/// logs shows the end.
fn failures_of(name: &str, logs: &Path) -> String {
    let output = fs::read_to_string(child::log_path(name, logs)).unwrap_or_default();
    let lines: String = libtest::failures(&output).iter().map(|line| format!("  {line}\n")).collect();
    format!("failed in {name}:\n{lines}")
}

/// One run of `cargo xtask test`.
struct Run<'a> {
    workspace: &'a Workspace,
    options: &'a Options,
    logs: PathBuf,
    peers: Peers,
}

impl Run<'_> {
    fn wants(&self, name: &str) -> bool {
        self.options.chosen.is_empty() || self.options.chosen.iter().any(|one| one == name)
    }

    fn step(&self, step: &Step) -> Outcome {
        measured(step.name, || Ok(((step.run)(self.workspace, self.peers)?, Vec::new())))
    }

    /// Returns the suites of this run with this build. Only a deep run builds the library as users do.
    fn suites(&self, build: Build) -> Vec<&'static Suite> {
        let built_as = |suite: &Suite| if self.options.deep { suite.build } else { Build::ForTests };
        SUITES.iter().filter(|suite| self.wants(suite.name) && built_as(suite) == build).collect()
    }

    /// Builds the test programs, then runs them in parallel with the commands that compile.
    fn side_by_side(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let programs = self.programs().unwrap_or_else(|reason| {
            println!("FAILED build: {reason}");
            let counts = Counts::ONE_FAILED;
            outcomes.push(Outcome { name: "build".into(), elapsed: Duration::ZERO, counts, figures: Vec::new() });
            Vec::new()
        });
        let is_built = outcomes.is_empty();
        let jobs = if is_built { self.jobs(&programs) } else { Vec::new() };
        outcomes.extend(unit_tests_as_one(lanes::run(jobs, LANES, || self.compile())));
        if is_built && self.wants(UNIT_TESTS) && !outcomes.iter().any(|outcome| outcome.name == UNIT_TESTS) {
            println!("FAILED {UNIT_TESTS}: cargo has built no program with unit tests");
            let counts = Counts::ONE_FAILED;
            outcomes.push(Outcome { name: UNIT_TESTS.into(), elapsed: Duration::ZERO, counts, figures: Vec::new() });
        }
        outcomes
    }

    /// Returns the test programs of this run.
    fn programs(&self) -> Result<Vec<Program>, String> {
        let built = |programs: io::Result<Option<Vec<Program>>>| match programs {
            Ok(Some(programs)) => Ok(programs),
            Ok(None) => Err("cargo could not build the tests; its messages are above".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let suites: Vec<&Suite> = self.suites(Build::ForTests).into_iter().filter(|suite| suite.is_cargos()).collect();
        let mut programs = Vec::new();
        if self.wants(UNIT_TESTS) || self.wants(LOOM) || (!suites.is_empty() && !self.options.deep) {
            programs = built(programs::build_all(self.workspace, has_peers(self.peers), &self.logs))?;
        }
        if self.options.deep && !suites.is_empty() {
            programs.retain(|program| !SUITES.iter().any(|suite| program.is_of(suite)));
            programs.extend(built(programs::build_suites(&suites, Build::ForTests, Profile::Suite, &self.logs))?);
        }
        Ok(programs)
    }

    /// Runs the steps that compile, and the suites for which the library is built as users build it.
    fn compile(&self) -> Vec<Outcome> {
        let mut outcomes = Vec::new();
        let suites = self.suites(Build::ForUsers);
        if !suites.is_empty() {
            let programs = programs::build_suites(&suites, Build::ForUsers, Profile::Suite, &self.logs);
            let programs = programs.ok().flatten().unwrap_or_default();
            outcomes.extend(suites.iter().map(|suite| measured(suite.name, || self.suite(suite, &programs))));
        }
        let of_deep = COMPILING_DEEP.iter().filter(|_| self.options.deep || !self.options.chosen.is_empty());
        let wanted = COMPILING.iter().chain(of_deep).filter(|step| self.wants(step.name));
        outcomes.extend(wanted.map(|step| self.step(step)));
        outcomes
    }

    /// Returns the jobs that run in parallel, the longest first.
    fn jobs<'b>(&'b self, programs: &'b [Program]) -> Vec<Job<'b>> {
        let suites = self.suites(Build::ForTests);
        let mut longest_first: Vec<&Suite> = suites;
        longest_first.sort_by_key(|suite| std::cmp::Reverse(testing_page::seconds(&self.workspace.root, suite.name)));
        let mut jobs: Vec<Job<'b>> =
            longest_first.into_iter().map(|suite| Job::new(suite.name, move || self.suite(suite, programs))).collect();
        if self.wants(LOOM) {
            jobs.push(Job::new(LOOM, || self.loom(programs)));
        }
        if self.wants(UNIT_TESTS) {
            let units = programs.iter().filter(|program| !SUITES.iter().any(|suite| program.is_of(suite)));
            jobs.extend(units.map(|program| Job::new(&program.name(), || self.unit_tests(program))));
        }
        jobs
    }

    fn suite(&self, suite: &Suite, programs: &[Program]) -> JobResult {
        let (env, limit) = if self.options.deep { (suite.deep_env, LIMIT_DEEP) } else { (suite.test_env, LIMIT) };
        run_suite(self.workspace, suite, programs, env, limit)
    }

    fn unit_tests(&self, program: &Program) -> JobResult {
        let mut command = program.command(false);
        command.args(["--skip", LOOM_TESTS]);
        let limit = if self.options.deep { LIMIT } else { LIMIT_UNIT };
        let ended = child::run_within(UNIT_TESTS, &mut command, &self.logs, limit)?;
        Ok((count(&ended), Vec::new()))
    }

    /// Runs loom: every interleaving of the small primitives.
    fn loom(&self, programs: &[Program]) -> JobResult {
        let mut counts = Counts::default();
        for package in LOOMS_PACKAGES {
            let is_its = |program: &&Program| program.package == package && program.target.0 == "lib";
            let Some(program) = programs.iter().find(is_its) else { continue };
            let mut command = program.command(false);
            // One test at a time: each execution maps new stacks, and threads of one process contend for that.
            command.args([LOOM_TESTS, "--test-threads=1"]);
            let ended = child::run_within(LOOM, &mut command, &self.logs, LIMIT)?;
            counts += count(&ended);
        }
        if counts.passed + counts.failed == 0 {
            println!("  no test of loom ran");
            counts.failed += 1;
        }
        Ok((counts, Vec::new()))
    }
}

/// Merges the outcomes of all unit test programs into one, with the slowest programs as figures.
fn unit_tests_as_one(outcomes: Vec<Outcome>) -> Vec<Outcome> {
    const SLOWEST: usize = 5;
    let is_known = |outcome: &Outcome| names().any(|name| name == outcome.name);
    let (mut known, mut units): (Vec<Outcome>, Vec<Outcome>) = outcomes.into_iter().partition(is_known);
    if units.is_empty() {
        return known;
    }
    let mut counts = Counts::default();
    units.iter().for_each(|unit| counts += unit.counts);
    let elapsed = units.iter().map(|unit| unit.elapsed).sum();
    units.sort_by_key(|unit| std::cmp::Reverse(unit.elapsed));
    let slowest = units.iter().take(SLOWEST).map(|unit| format!("{} {} s", unit.name, unit.elapsed.as_secs()));
    let figures = vec![format!("{} programs; slowest: {}", units.len(), slowest.collect::<Vec<_>>().join(", "))];
    known.push(Outcome { name: UNIT_TESTS.into(), elapsed, counts, figures });
    known
}

/// Runs one suite at the size that `env` sets, for at most `limit`.
///
/// # Errors
/// When its program cannot be started.
pub fn run_suite(
    workspace: &Workspace,
    suite: &Suite,
    programs: &[Program],
    env: &[(&str, &str)],
    limit: Duration,
) -> JobResult {
    let logs = logs(workspace);
    if suite.package == WATCHERS {
        return sanitizers::suite(workspace, env, &logs);
    }
    let Some(program) = programs.iter().find(|program| program.is_of(suite)) else {
        println!("  no integration test {} of package {} was built", suite.target, suite.package);
        return Ok((Counts::ONE_FAILED, Vec::new()));
    };
    if suite.name == LAB {
        return lab::suite(workspace, &program.path, env);
    }
    let mut command = program.command(HANDING_OVER.contains(&suite.name));
    if !suite.only.is_empty() {
        command.arg(suite.only);
    }
    command.arg("--nocapture").envs(env.iter().copied());
    for apart in suite.apart() {
        command.args(["--skip", apart]);
    }
    let ended = child::run_within(suite.name, &mut command, &logs, limit)?;
    let mut counts = count(&ended);
    if counts.passed + counts.failed == 0 {
        println!("  no test of {} ran", suite.target);
        counts.failed += 1;
    }
    let mut figures = libtest::figures(&ended.output);
    if suite.name == FUZZ {
        let (fuzzed, said) = fuzz::suite(workspace, env, &logs)?;
        counts += fuzzed;
        figures.extend(said);
    }
    Ok((counts, figures))
}

/// Returns the directory of the suites' output.
pub fn logs(workspace: &Workspace) -> PathBuf {
    workspace.target.join("xtask")
}

/// Returns whether the peers can be built. Their missing packages were reported before.
fn has_peers(peers: Peers) -> bool {
    peers == Peers::Built && setup::packages_of_all_peers_present()
}

fn packages(workspace: &Workspace, peers: Peers) -> io::Result<Counts> {
    let mut counts = setup::packages(&logs(workspace))?;
    if peers == Peers::Built {
        counts += setup::packages_for_all_peers(&logs(workspace))?;
    }
    counts += setup::packages_for_lab(&logs(workspace))?;
    Ok(counts)
}

fn fmt(workspace: &Workspace, _: Peers) -> io::Result<Counts> {
    setup::component("fmt", "rustfmt");
    check("fmt", workspace, cargo().args(["fmt", "--all", "--check"]))
}

/// Lints everything with every feature on, then the libraries and programs as users build them.
fn clippy(workspace: &Workspace, peers: Peers) -> io::Result<Counts> {
    const DENY: [&str; 3] = ["--", "-D", "warnings"];
    setup::component("clippy", "clippy");
    let mut counts = check(
        "clippy",
        workspace,
        // All libraries that users build are dependencies of these two packages.
        niced_cargo().args(["clippy", "--package", "libtp-capi", "--package", "libtp-cli"]).args(DENY),
    )?;
    let mut everything = niced_cargo();
    everything.args(["clippy", "--workspace", "--all-targets"]).args(programs::features(workspace, has_peers(peers)));
    counts += check("clippy", workspace, everything.args(DENY))?;
    Ok(counts)
}

fn docs(workspace: &Workspace, _: Peers) -> io::Result<Counts> {
    let mut command = niced_cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-Dwarnings");
    command.args(UNDOCUMENTED.iter().flat_map(|package| ["--exclude", package]));
    check("docs", workspace, &mut command)
}

fn doc_tests(workspace: &Workspace, peers: Peers) -> io::Result<Counts> {
    let mut command = niced_cargo();
    command.args(["test", "--workspace", "--no-fail-fast", "--doc"]);
    // With these features the libraries are built already.
    command.args(programs::features(workspace, has_peers(peers)));
    counted("doc tests", workspace, &mut command)
}

/// Runs a command that is one check.
fn check(name: &str, workspace: &Workspace, command: &mut Command) -> io::Result<Counts> {
    let ended = child::run(name, command, &logs(workspace))?;
    Ok(if ended.success { Counts::ONE_PASSED } else { Counts::ONE_FAILED })
}

/// Runs a command that is many tests.
fn counted(name: &str, workspace: &Workspace, command: &mut Command) -> io::Result<Counts> {
    Ok(count(&child::run(name, command, &logs(workspace))?))
}

/// Counts the tests. A failed run without a failed test (it did not compile, or it aborted) is one failure.
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
    fn programs_of_unit_tests_are_one_row_that_names_the_slowest_program() {
        let outcome = |name: &str, seconds, counts| Outcome {
            name: name.into(),
            elapsed: Duration::from_secs(seconds),
            counts,
            figures: Vec::new(),
        };
        let units = vec![
            outcome("rio lib", 2, Counts::ONE_PASSED),
            outcome("crash", 9, Counts::ONE_PASSED),
            outcome("libtp lib", 5, Counts::ONE_FAILED),
        ];
        let rows = unit_tests_as_one(units);
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["crash", UNIT_TESTS]);
        assert_eq!(rows[1].counts, Counts { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(rows[1].figures, ["2 programs; slowest: libtp lib 5 s, rio lib 2 s"]);
    }
}

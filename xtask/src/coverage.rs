//! `cargo xtask coverage`: the branches of recovery, the log and the latches that no test takes.
//!
//! If a side of a branch is taken by no test and has no reason in docs/coverage.md, the verb fails. The compiled code
//! counts both sides of each branch. (`RUSTC_BOOTSTRAP` allows the compiler the features of nightly.) The counts are in
//! mapped files, so that the branches of a killed process are counted, too. LLVM's tools, from a Debian package, add
//! the counts up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::child;
use crate::command_test::logs;
use crate::setup;
use crate::suites::LOOM_TESTS;
use crate::workspace::{cargo, Workspace};

const DOCUMENT: &str = "docs/coverage.md";
/// The beginnings of the paths of the covered files.
const LOOKED_AT: [&str; 3] = ["crates/log/src/", "crates/txn/src/recovery", "crates/process/src/latch"];
const FLAGS: &str = "-Cinstrument-coverage -Zcoverage-options=branch -Cllvm-args=-runtime-counter-relocation";
/// The suites to run, in addition to the tests of the crates.
const SUITES: [&str; 9] =
    ["backup", "bad_input", "crash", "damage", "failpoints", "kills", "lived", "multiprocess", "warm"];
const CRATES: [&str; 3] = ["libtp-log", "libtp-process", "libtp-txn"];
/// The longest time of the run: counting makes the tests slow, and everything is rebuilt.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);
/// LLVM's versions that can read the compiler's output, the newest first.
const VERSIONS: [u32; 5] = [23, 22, 21, 20, 19];

/// One side of a branch: the file, the condition's text, and the condition's value on this side.
type Side = (String, String, bool);

/// Runs the tests and compares.
///
/// # Errors
/// When a command cannot be run, or the document cannot be read.
pub fn coverage(workspace: &Workspace) -> Result<ExitCode, String> {
    let said = |error: io::Error| error.to_string();
    setup::packages(&logs(workspace)).map_err(said)?;
    setup::packages_for_coverage(&logs(workspace)).map_err(said)?;
    let Some(version) = VERSIONS.into_iter().find(|version| is_there(*version)) else {
        println!("SKIPPED: there is no llvm-cov of version {} or above, so no branch was checked", VERSIONS[4]);
        return Ok(ExitCode::from(u8::from(setup::in_ci())));
    };
    let folder = workspace.target.join("coverage");
    let counts = folder.join("counts");
    let _ = fs::remove_dir_all(&counts);
    fs::create_dir_all(&counts).map_err(said)?;
    let programs = run(workspace, &folder, &counts)?;
    let found = branches(&workspace.root, &export(version, &folder, &counts, &programs)?)?;
    judge(&workspace.root, &found)
}

fn is_there(version: u32) -> bool {
    let mut command = Command::new(format!("llvm-cov-{version}"));
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs all tests and returns the programs that wrote counts. One command builds all of them with the same features: if
/// a function were built twice, only the counts of one build would be kept.
fn run(workspace: &Workspace, folder: &Path, counts: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let mut command = cargo();
    command.args(["test", "--profile", "suite", "--no-fail-fast", "--message-format", "json-render-diagnostics"]);
    command.args(["--features", "libtp-tests/failpoints,libtp-tests/planted", "-p", "libtp-tests", "--lib"]);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    command.args(SUITES.iter().flat_map(|name| ["--test", name]));
    command.arg("--target-dir").arg(folder).args(["--", "--skip", LOOM_TESTS]).current_dir(&workspace.root);
    command.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", FLAGS);
    command.env("LLVM_PROFILE_FILE", counts.join("%c%m.profraw"));
    let ended = child::run_within("coverage", &mut command, &logs(workspace), PATIENCE);
    let ended = ended.map_err(|error| error.to_string())?;
    if !ended.success {
        return Err("a test failed, so the counts of branches are not complete".into());
    }
    let said = ended.output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(said.filter_map(|line| Some(PathBuf::from(line.get("executable")?.as_str()?))).collect())
}

/// Returns LLVM's export of the counts.
fn export(version: u32, folder: &Path, counts: &Path, programs: &BTreeSet<PathBuf>) -> Result<Value, String> {
    let all = folder.join("all.profdata");
    let mut merge = Command::new(format!("llvm-profdata-{version}"));
    merge.args(["merge", "-sparse", "-o"]).arg(&all);
    for entry in fs::read_dir(counts).map_err(|error| error.to_string())?.flatten() {
        merge.arg(entry.path());
    }
    succeed(&mut merge)?;
    let mut export = Command::new(format!("llvm-cov-{version}"));
    export.args(["export", "-format=text", "-instr-profile"]).arg(&all);
    for (nth, program) in programs.iter().enumerate() {
        if nth > 0 {
            export.arg("-object");
        }
        export.arg(program);
    }
    serde_json::from_slice(&succeed(&mut export)?).map_err(|error| format!("llvm-cov: {error}"))
}

fn succeed(command: &mut Command) -> Result<Vec<u8>, String> {
    let ended = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    match ended.status.success() {
        true => Ok(ended.stdout),
        false => Err(String::from_utf8_lossy(&ended.stderr).into_owned()),
    }
}

/// Returns how often each side of each covered branch was taken, over all tests.
fn branches(root: &Path, exported: &Value) -> Result<BTreeMap<Side, u64>, String> {
    let mut found = BTreeMap::new();
    let files = exported["data"][0]["files"].as_array().ok_or("the output of llvm-cov names no files")?;
    for file in files {
        let path = Path::new(file["filename"].as_str().unwrap_or(""));
        let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) else { continue };
        if !LOOKED_AT.iter().any(|begins| name.starts_with(begins)) || name.contains("/tests") {
            continue;
        }
        let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let of_tests = text.lines().position(|line| line == "mod tests {").unwrap_or(usize::MAX);
        let mut counted: BTreeMap<[usize; 4], [u64; 2]> = BTreeMap::new();
        for branch in file["branches"].as_array().into_iter().flatten() {
            let count = |nth: usize| branch[nth].as_u64().unwrap_or(0);
            let place = [0, 1, 2, 3].map(|nth| usize::try_from(count(nth)).unwrap_or(0));
            if place[0] <= of_tests {
                // A branch appears once for each program and each type that it is compiled for.
                let sides = counted.entry(place).or_default();
                *sides = [sides[0] + count(4), sides[1] + count(5)];
            }
        }
        let mut same: BTreeMap<String, u32> = BTreeMap::new();
        for (place, sides) in counted {
            let text = condition(&text, place);
            let nth = same.entry(text.clone()).and_modify(|nth| *nth += 1).or_insert(1);
            let named = if *nth == 1 { text } else { format!("{text} #{nth}") };
            found.insert((name.to_owned(), named.clone(), true), sides[0]);
            found.insert((name.to_owned(), named, false), sides[1]);
        }
    }
    Ok(found)
}

/// Returns the text between two places, joined into one line. A place is a line and a column, both counted from 1.
fn condition(text: &str, [first, from, last, to]: [usize; 4]) -> String {
    let lines = text.lines().enumerate().skip(first.saturating_sub(1)).take((last + 1).saturating_sub(first));
    let parts = lines.map(|(nth, line)| {
        let end = if nth + 1 == last { (to - 1).min(line.len()) } else { line.len() };
        let begin = if nth + 1 == first { (from - 1).min(end) } else { 0 };
        line.get(begin..end).unwrap_or(line).trim()
    });
    parts.collect::<Vec<_>>().join(" ")
}

/// Compares the sides that no test took with the reasons in the document, and prints the sides without a reason.
fn judge(root: &Path, found: &BTreeMap<Side, u64>) -> Result<ExitCode, String> {
    let document = fs::read_to_string(root.join(DOCUMENT)).map_err(|error| format!("{DOCUMENT}: {error}"))?;
    let reasons = reasons(&document);
    let untaken: Vec<&Side> = found.iter().filter(|(_, count)| **count == 0).map(|(side, _)| side).collect();
    let missing: Vec<&&Side> = untaken.iter().filter(|side| !reasons.contains(side)).collect();
    for (file, condition, is) in &missing {
        println!("| {file} | `{}` | {is} | |", condition.replace('|', "\\|"));
    }
    for (file, condition, is) in reasons.iter().filter(|side| found.get(side) != Some(&0)) {
        println!(
            "the document names a branch that a test took, or a branch that does not exist: {file}: `{condition}` {is}"
        );
    }
    println!(
        "{} sides of branches, {} not taken, {} of them without a reason in {DOCUMENT}",
        found.len(),
        untaken.len(),
        missing.len()
    );
    Ok(ExitCode::from(u8::from(!missing.is_empty() || found.is_empty())))
}

/// Returns the sides that have a reason in the document. Each row has a file, a condition, the value that the condition
/// never has, and the reason.
fn reasons(document: &str) -> BTreeSet<Side> {
    let rows = document.lines().filter(|line| line.starts_with("| crates/"));
    rows.filter_map(|row| {
        let cells = row.replace("\\|", "\u{1}");
        let mut cells = cells.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
        let (file, condition, is, why) = (cells.next()?, cells.next()?, cells.next()?, cells.next()?);
        let condition = condition.trim_matches('`').to_owned();
        (!why.is_empty()).then_some((file, condition, is == "true"))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_identified_by_its_text() {
        let text = "fn f() {\n    if a.b()\n        && c {\n";
        assert_eq!(condition(text, [2, 8, 2, 13]), "a.b()");
        assert_eq!(condition(text, [2, 8, 3, 13]), "a.b() && c");
        assert_eq!(condition(text, [9, 1, 9, 2]), "");
    }

    #[test]
    fn a_reason_counts_only_if_its_text_is_not_empty() {
        let document = "| file | condition |\n| crates/log/src/a.rs | `x \\| y` | true | cannot be |\n| crates/log/src/a.rs | `z` | false | |\n";
        let expected = ("crates/log/src/a.rs".to_owned(), "x | y".to_owned(), true);
        assert_eq!(reasons(document), BTreeSet::from([expected]));
    }

    #[test]
    fn sides_are_added_up_over_the_programs() {
        let directory = std::env::temp_dir().join(format!("libtp-coverage-{}", std::process::id()));
        let file = directory.join("crates/log/src/a.rs");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "fn f() {\n    if x {\n    if x {\n").unwrap();
        let branch = |line: u64, taken: u64, other: u64| serde_json::json!([line, 8, line, 9, taken, other, 0, 0, 4]);
        let files =
            serde_json::json!([{"filename": file, "branches": [branch(2, 0, 1), branch(3, 0, 5), branch(2, 2, 0)]}]);
        let found = branches(&directory, &serde_json::json!({"data": [{"files": files}]})).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let side = |name: &str, is| ("crates/log/src/a.rs".to_owned(), name.to_owned(), is);
        let expected = [(side("x", true), 2), (side("x", false), 1), (side("x #2", true), 0), (side("x #2", false), 5)];
        assert_eq!(found, BTreeMap::from(expected));
    }
}

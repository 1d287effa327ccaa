//! `cargo xtask bench counts`: instructions of every hot path, under callgrind, compared with the figures kept in
//! docs/instructions.md.
//!
//! Times on a shared machine vary by half. Instruction counts hardly vary, so any machine shows a change that makes a
//! path a few percent longer. The program crates/bench/examples/instructions runs the paths; only instructions of the
//! function [`COUNTED`], on the thread that calls it, are counted. Callgrind's files stay in `target/xtask/counts`, one
//! for each path.

mod kept;

use crate::workspace::{cargo, Workspace};
use crate::{command_test, setup};
use clap::Parser;
use kept::{Count, Kept};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const PACKAGE: &str = "libtp-bench";
const EXAMPLE: &str = "instructions";
/// The function whose instructions are counted.
const COUNTED: &str = "instructions::counted_operations";
/// The empty path: the cost of counting itself.
const NOTHING: &str = "nothing";
/// A difference of this number of instructions is ignored: in a path of thirty instructions, two are already 7 percent.
const SLACK: f64 = 2.0;

/// Count the instructions of every hot path, and compare them with docs/instructions.md; exits with 1 if a path has
/// more instructions, or is missing
#[derive(Parser)]
#[command(name = "cargo xtask bench counts")]
struct Arguments {
    /// Only paths with this text in their name
    #[arg(default_value = "")]
    part: String,
    /// Largest increase over the kept figure, in percent
    #[arg(long, default_value_t = 3.0)]
    limit: f64,
    /// Write the new counts to the document
    #[arg(long)]
    bless: bool,
}

/// Counts, compares, and keeps the counts if asked to.
///
/// # Errors
/// When the program cannot be built or run, callgrind's files cannot be parsed, or the document cannot be read or
/// written.
pub fn counts(workspace: &Workspace, arguments: &[String]) -> Result<ExitCode, String> {
    let words = std::iter::once("counts".to_owned()).chain(arguments.iter().cloned());
    let arguments = Arguments::try_parse_from(words).unwrap_or_else(|error| error.exit());
    let logs = command_test::logs(workspace);
    setup::packages_for_counts(&logs).map_err(|error| error.to_string())?;
    let program = build(workspace)?;
    let now = count(&program, &arguments.part, &logs.join("counts"))?;
    let with = counted_with();
    let kept = Kept::read(&workspace.root)?;
    let is_alike = kept.with == with;
    let worse = show(&kept, &now, arguments.limit);
    let gone = gone(&kept, &now, &arguments.part);
    gone.iter().for_each(|name| println!("{name:<48} is in the document, and was not counted"));
    println!("\nBy function: callgrind_annotate --auto=no --threshold=100 {}/PATH", logs.join("counts").display());
    if arguments.bless {
        kept.blessed(&now, &with, arguments.part.is_empty()).write(&workspace.root)?;
        println!("kept in {}", kept::DOCUMENT);
        return Ok(ExitCode::SUCCESS);
    }
    if !gone.is_empty() {
        println!("If these paths were removed on purpose: cargo xtask bench counts --bless");
        return Ok(ExitCode::FAILURE);
    }
    if !is_alike {
        println!("The kept figures were counted with {}, the new figures with {with}: differences are printed, but not judged.", kept.with);
        return Ok(ExitCode::SUCCESS);
    }
    if worse > 0 {
        println!(
            "{worse} of {} paths have more than {} % more instructions than the kept figures.",
            now.len(),
            arguments.limit
        );
        println!("If the increase is intended: cargo xtask bench counts --bless");
    }
    Ok(ExitCode::from(u8::from(worse > 0)))
}

/// Builds the program with the settings with which users build programs, and returns its path.
fn build(workspace: &Workspace) -> Result<PathBuf, String> {
    let status = cargo()
        .args(["build", "--release", "--package", PACKAGE, "--example", EXAMPLE])
        .status()
        .map_err(|error| format!("cargo cannot be started: {error}"))?;
    if !status.success() {
        return Err(format!("{EXAMPLE} cannot be built, see above"));
    }
    Ok(workspace.target.join("release/examples").join(EXAMPLE))
}

/// Runs the program under callgrind, which writes one file for each path into `directory`.
fn count(program: &Path, part: &str, directory: &Path) -> Result<Vec<Count>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", directory.display());
    let _ = fs::remove_dir_all(directory);
    fs::create_dir_all(directory).map_err(failed)?;
    eprintln!("counting (half a minute)");
    let output = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .args([format!("--toggle-collect={COUNTED}"), format!("--dump-after={COUNTED}")])
        .arg(format!("--callgrind-out-file={}/out", directory.display()))
        .arg(program)
        .arg(part)
        .output()
        .map_err(|error| format!("valgrind cannot be started: {error}"))?;
    if !output.status.success() {
        return Err(format!("{EXAMPLE} under valgrind: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut parts = Vec::new();
    for (line, number) in String::from_utf8_lossy(&output.stdout).lines().zip(1..) {
        let mut part = Part::said(line).ok_or_else(|| format!("{EXAMPLE} said {line:?}"))?;
        let dump = directory.join(format!("out.{number}"));
        let text = fs::read_to_string(&dump).map_err(failed)?;
        part.instructions = in_dump(&text).ok_or_else(|| format!("{} has no count", dump.display()))?;
        fs::rename(&dump, directory.join(file_name(&part.name))).map_err(failed)?;
        parts.push(part);
    }
    without_counting(&parts)
}

/// The counts of one path.
struct Part {
    name: String,
    calls: f64,
    operations: f64,
    instructions: f64,
}

impl Part {
    /// Parses one line of the program's output.
    fn said(line: &str) -> Option<Part> {
        let mut words = line.split('\t');
        let (name, calls, operations) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Part { name: name.into(), calls, operations, instructions: 0.0 })
    }
}

/// Subtracts the cost of counting.
fn without_counting(parts: &[Part]) -> Result<Vec<Count>, String> {
    let Some((nothing, parts)) = parts.split_first().filter(|(first, _)| first.name == NOTHING) else {
        return Err(format!("{EXAMPLE} did not begin with {NOTHING:?}"));
    };
    let call = nothing.instructions / nothing.calls;
    let of = |part: &Part| (part.instructions - call * part.calls).max(0.0) / part.operations;
    Ok(parts.iter().map(|part| Count { name: part.name.clone(), instructions: of(part) }).collect())
}

/// Returns the instructions in one of callgrind's files.
fn in_dump(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("totals:"))?.trim().parse().ok()
}

fn file_name(path: &str) -> String {
    path.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// Prints the comparison and returns the number of paths with too many instructions.
fn show(kept: &Kept, now: &[Count], limit: f64) -> usize {
    println!("{:<48} {:>10} {:>10} {:>8}", "instructions", "kept", "now", "ratio");
    let mut worse = 0;
    for count in now {
        let Some(before) = kept.of(&count.name) else {
            println!("{:<48} {:>10} {:>10.1}", count.name, "", count.instructions);
            continue;
        };
        let is_worse = is_worse(before, count.instructions, limit);
        worse += usize::from(is_worse);
        let verdict = if is_worse { "  MORE" } else { "" };
        let ratio = count.instructions / before;
        println!("{:<48} {before:>10.1} {:>10.1} {ratio:>8.3}{verdict}", count.name, count.instructions);
    }
    worse
}

/// Returns the kept paths that were asked for and not counted. A removed path must be removed from the document, too.
fn gone<'k>(kept: &'k Kept, now: &[Count], part: &str) -> Vec<&'k str> {
    let is_counted = |name: &str| now.iter().any(|count| count.name == name);
    kept.names().filter(|name| name.contains(part) && !is_counted(name)).collect()
}

fn is_worse(before: f64, now: f64, limit: f64) -> bool {
    now > before * (1.0 + limit / 100.0) + SLACK
}

/// Returns all that a count depends on besides the source: the compiler, valgrind (which reports the processor's
/// features to the program), and the C library, whose copying is counted.
fn counted_with() -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().next().unwrap_or("").trim().to_owned()
    };
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    [said(&rustc, &["--version"]), said("valgrind", &["--version"]), said("ldd", &["--version"])].join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_the_table_that_was_not_counted_is_reported() {
        let table = "<!-- counts: begin -->\n| path | instructions |\n|---|---|\n| get | 5.0 |\n| put | 6.0 |\n<!-- counts: end -->";
        let kept = Kept::parse(table).unwrap();
        let now = [Count { name: "put".into(), instructions: 6.0 }];
        assert_eq!(gone(&kept, &now, ""), ["get"]);
        assert!(gone(&kept, &now, "pu").is_empty(), "the path was not asked for");
    }

    #[test]
    fn the_total_of_a_dump_is_read() {
        let dump = "version: 1\ncreator: callgrind-3.24.0\npart: 1\nevents: Ir\nsummary: 30020\n\nfn=(1) a\n0 12\n\ntotals: 30020\n";
        assert_eq!(in_dump(dump), Some(30_020.0));
        assert_eq!(in_dump("version: 1\n"), None);
    }

    #[test]
    fn the_cost_of_counting_is_subtracted() {
        let part = |line, instructions| Part {
            instructions,
            ..Part::said(line).expect("a line in the form that the program prints")
        };
        let parts = [part("nothing\t100\t100", 600.0), part("get\t10\t100", 10_060.0)];
        assert_eq!(without_counting(&parts), Ok(vec![Count { name: "get".into(), instructions: 100.0 }]));
        assert!(without_counting(&parts[1..]).is_err(), "the cost of a call is unknown");
        assert!(Part::said("loading").is_none());
    }

    #[test]
    fn a_path_is_worse_if_it_exceeds_the_limit_by_more_than_two_instructions() {
        assert!(is_worse(1000.0, 1033.0, 3.0));
        assert!(!is_worse(1000.0, 1031.0, 3.0));
        assert!(!is_worse(30.0, 32.0, 3.0));
        assert!(is_worse(30.0, 34.0, 3.0));
        assert!(!is_worse(1000.0, 500.0, 3.0));
    }
}

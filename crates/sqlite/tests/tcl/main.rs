//! Runs SQLite's own test scripts with stock SQLite on files and with this library on environments, and compares the
//! outcomes of their test cases.
//!
//! The scripts and SQLite's test program come from Debian's source package of SQLite (`source.rs`). The test program is
//! built twice (`fixture.rs`): with the stock amalgamation, and with the varied amalgamation and libtp. Both run the
//! same script (`script.rs`); for the second program `LIBTP_SQLITE` makes an environment of each database. A case that
//! passes with stock SQLite and not here is an exception. `exceptions.txt` lists all exceptions with their reasons
//! (`exceptions.rs`). The test fails if a case that is not in the list fails, and if no case fails that an item of the
//! list names.
//!
//! `LIBTP_TEST_SCRIPTS` is `few` (default), `listed` (the scripts of `scripts.txt`, whose exceptions are listed), `all`,
//! or names of scripts with commas between them. If the source cannot be fetched, the test is skipped with a conspicuous
//! message, in CI, too: a mirror may have no sources.
#![allow(clippy::unwrap_used)] // The whole program is a test.

mod exceptions;
mod fixture;
mod script;
mod source;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use exceptions::Exceptions;
use fixture::{Fixture, Kind};
use script::{Exception, Outcome};

/// The scripts of a short run: statements of each kind, in a few seconds.
const FEW: [&str; 14] = [
    "select1", "select6", "select7", "insert2", "insert3", "insert4", "insert5", "update2", "delete2", "fkey1",
    "fkey3", "trans3", "trigger3", "trigger5",
];

/// The names of the scripts whose exceptions are listed, with white space between them.
const LISTED: &str = include_str!("scripts.txt");

/// The test cases of all scripts of a run.
#[derive(Default)]
struct Sum {
    scripts: usize,
    passed_by_stock: usize,
    passed: usize,
    by_kind: BTreeMap<String, usize>,
}

fn skipped(what: &str) {
    // `eprintln!` would be captured, and not shown for a test that passes. So the message is written to the descriptor.
    let message = format!("\n!!! SKIPPED: SQLite's test scripts were not run: {what} !!!\n");
    let _ = std::io::stderr().write_all(message.as_bytes());
    println!("figures: SKIPPED: {what}");
}

#[test]
fn environments_pass_the_test_cases_that_files_pass() {
    for program in ["apt-get", "tclsh", "gcc"] {
        if !source::is_installed(program) {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "{program} is not installed");
            return skipped(&format!("{program} is not installed"));
        }
    }
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqlite-tests");
    std::fs::create_dir_all(&kept).unwrap();
    let source = match source::fetched(&kept) {
        Ok(source) => source,
        Err(source::Missing::Unfetched(why)) => return skipped(&format!("their source cannot be had: {why}")),
        Err(source::Missing::Broken(why)) => panic!("the source of SQLite's tests: {why}"),
    };
    let fixtures = [Kind::Stock, Kind::Environments].map(|kind| fixture::built(kind, &source, &kept).unwrap());
    let exceptions = Exceptions::read(include_str!("exceptions.txt")).unwrap();
    let scripts = chosen(&source, &exceptions);
    let (sum, faults) = compared(&scripts, &fixtures, &exceptions);
    println!("figures: {}", figures(&sum));
    assert!(sum.passed_by_stock > 100, "stock SQLite passes only {} test cases", sum.passed_by_stock);
    assert!(faults.is_empty(), "{faults}");
}

/// Returns the scripts of this run.
fn chosen(source: &Path, exceptions: &Exceptions) -> Vec<PathBuf> {
    let size = std::env::var("LIBTP_TEST_SCRIPTS").unwrap_or_else(|_| "few".into());
    let all = source::scripts(source);
    let is_chosen = |path: &PathBuf| {
        let name = script::name(path);
        match size.as_str() {
            "few" => FEW.contains(&name.as_str()),
            "listed" => LISTED.split_whitespace().any(|listed| listed == name),
            "all" => !exceptions.leaves_out(&name),
            names => names.split(',').any(|chosen| chosen == name),
        }
    };
    let chosen: Vec<PathBuf> = all.into_iter().filter(is_chosen).collect();
    assert!(!chosen.is_empty(), "LIBTP_TEST_SCRIPTS={size} names no script");
    chosen
}

/// Runs all scripts with both programs. Returns the sum, and a text with all failures that `exceptions` does not explain.
fn compared(scripts: &[PathBuf], fixtures: &[Fixture; 2], exceptions: &Exceptions) -> (Sum, String) {
    let (next, ended) = (AtomicUsize::new(0), Mutex::new((Sum::default(), String::new())));
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(path) = scripts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let [stock, ours] = fixtures.each_ref().map(|fixture| script::run(fixture, path));
                    let (sum, faults) = &mut *ended.lock().unwrap();
                    judge(&script::name(path), (&stock, &ours), exceptions, (sum, faults));
                }
            });
        }
    });
    ended.into_inner().unwrap()
}

/// Adds the outcome of a script to the sum, and writes the failures that the list does not explain.
fn judge(name: &str, (stock, ours): (&Outcome, &Outcome), exceptions: &Exceptions, into: (&mut Sum, &mut String)) {
    let (sum, faults) = into;
    let found: Vec<Exception> = script::compare(stock, ours);
    sum.scripts += 1;
    sum.passed_by_stock += stock.passed();
    sum.passed += stock.passed() - found.iter().map(|exception| exception.count).sum::<usize>();
    for exception in &found {
        match exceptions.kind(name, &exception.case) {
            Some(kind) => *sum.by_kind.entry(kind.to_owned()).or_default() += exception.count,
            None => {
                let _ = writeln!(faults, "{name} {}: {}", exception.case, exception.text);
            }
        }
    }
    for item in exceptions.of(name) {
        if !item.is_sometimes && !found.iter().any(|exception| item.names(&exception.case)) {
            let _ = writeln!(faults, "{name} {}: passes now; take it out of exceptions.txt", item.pattern);
        }
    }
}

fn figures(sum: &Sum) -> String {
    let kinds: Vec<String> = sum.by_kind.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    format!(
        "{} scripts, {} test cases pass with stock SQLite, {} of them here; exceptions: {}",
        sum.scripts,
        sum.passed_by_stock,
        sum.passed,
        kinds.join(", ")
    )
}

//! Runs a test script of SQLite, and reads the outcomes of its test cases.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, Kind};

/// A script that uses more processor time, in seconds, is stopped. Its later cases count as failed.
const PROCESSOR_LIMIT: u32 = 200;
/// A script that takes longer is stopped, too: it may wait for a lock for ever.
const LIMIT: Duration = Duration::from_secs(1800);
/// The names of databases that are environments, in the script's directory.
const DATABASES: [&str; 2] = ["*.db", "*.db[0-9]"];

/// The outcomes of a script.
pub struct Outcome {
    cases: BTreeMap<String, Case>,
    /// Why the script ended early.
    broken: Option<String>,
}

/// The outcomes of all test cases with the same name.
#[derive(Default)]
struct Case {
    passed: usize,
    /// The text of the first failure.
    failure: Option<String>,
}

/// Test cases of one name that pass with stock SQLite and not here.
pub struct Exception {
    pub case: String,
    pub count: usize,
    /// The expected and the actual result, or why there is no result.
    pub text: String,
}

/// Returns a script's name: the name of its file without the ending.
pub fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the cases that `stock` passes and `ours` does not.
pub fn compare(stock: &Outcome, ours: &Outcome) -> Vec<Exception> {
    let mut exceptions = Vec::new();
    for (name, case) in &stock.cases {
        let here = ours.cases.get(name);
        let count = case.passed.saturating_sub(here.map_or(0, |here| here.passed));
        if count > 0 {
            let missing = || format!("did not run: {}", ours.broken.as_deref().unwrap_or("the script leaves it out"));
            let text = here.and_then(|here| here.failure.clone()).unwrap_or_else(missing);
            exceptions.push(Exception { case: name.clone(), count, text });
        }
    }
    exceptions
}

impl Outcome {
    /// Returns the number of cases that passed.
    pub fn passed(&self) -> usize {
        self.cases.values().map(|case| case.passed).sum()
    }
}

/// Runs a script in an empty directory.
pub fn run(fixture: &Fixture, script: &Path) -> Outcome {
    // A commit of an environment waits for the disk, and a file of the test program does not. In memory neither waits.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("libtp-tcl-").tempdir_in(place).unwrap();
    let cases = folder.path().join("cases");
    let output = fs::File::create(folder.path().join("output")).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -t {PROCESSOR_LIMIT}; exec \"$0\" \"$1\"")).arg(&fixture.program);
    command.arg(script).current_dir(folder.path()).env("TP_CASES", &cases).env("LC_ALL", "C.UTF-8");
    command.env_remove("LIBTP_SQLITE");
    if fixture.kind == Kind::Environments {
        let list = DATABASES.map(|name| folder.path().join("testdir").join(name).display().to_string());
        command.env("LIBTP_SQLITE", list.join(":"));
    }
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output).process_group(0);
    let broken = ended(&mut command.spawn().unwrap());
    let text = fs::read(&cases).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last_words = || {
        let output = fs::read(folder.path().join("output")).unwrap_or_default();
        String::from_utf8_lossy(&output).lines().rev().take(4).collect::<Vec<_>>().join(" < ")
    };
    let is_whole = text.lines().any(|line| line == "end");
    let broken = broken.or_else(|| (!is_whole).then(last_words));
    Outcome { cases: read(&text), broken }
}

/// Waits for the program, and stops it with its children if it runs too long. Returns why it was stopped.
fn ended(child: &mut Child) -> Option<String> {
    let begin = Instant::now();
    while begin.elapsed() < LIMIT {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let group = format!("-{}", child.id());
    let _ = Command::new("kill").args(["-9", "--", &group]).status();
    child.wait().unwrap();
    Some(format!("the script was stopped after {} seconds", LIMIT.as_secs()))
}

fn read(text: &str) -> BTreeMap<String, Case> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(3, '\t');
        match (words.next(), words.next()) {
            (Some("pass"), Some(name)) => cases.entry(name.into()).or_default().passed += 1,
            (Some("fail"), Some(name)) => {
                let case = cases.entry(name.into()).or_default();
                case.failure.get_or_insert_with(|| words.next().unwrap_or("").trim().to_owned());
            }
            _ => {}
        }
    }
    cases
}

#[test]
fn a_case_that_only_stock_sqlite_passes_is_an_exception() {
    let outcome = |text: &str| Outcome { cases: read(text), broken: None };
    let stock = outcome("pass\ta\npass\tb\npass\tb\nfail\tc\tx\npass\td\nend\n");
    let ours = outcome("pass\ta\npass\tb\nfail\tb\tgot 1\npass\tc\nend\n");
    let found: Vec<(String, usize, String)> =
        compare(&stock, &ours).into_iter().map(|it| (it.case, it.count, it.text)).collect();
    assert_eq!(stock.passed(), 4);
    assert_eq!(found[0], ("b".into(), 1, "got 1".into()));
    assert_eq!(found[1], ("d".into(), 1, "did not run: the script leaves it out".into()));
    assert_eq!(found.len(), 2);
}

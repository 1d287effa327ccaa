//! Failpoints: a test can kill the process in every function that changes shared memory, and check the repair.

use super::sizes::functions;
use super::source::{code, line_of, word_places, File};

/// The crates that change shared memory.
const CRATES: [&str; 8] = ["rio", "process", "log", "buffer", "lock", "txn", "record", "libtp"];
/// Calls that open a section, or append to the log.
const CHANGES: [&str; 8] = [
    ".section()",
    "Change::open(",
    ".log_entry(",
    ".log_buffer(",
    ".log.log(",
    ".change.apply(",
    ".apply_redo_only(",
    ".compensate(",
];
/// The names of functions that only forward one of these calls.
const FORWARDERS: [&str; 4] = ["section", "open", "log", "log_entry"];

/// Returns functions that open a section or append to the log and have no failpoint.
pub fn missing(files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files.iter().filter(|file| is_ours(&file.path)) {
        let code = code(&file.text);
        let before_tests = code.split("#[cfg(test)]\nmod ").next().unwrap_or(&code);
        let lines: Vec<&str> = before_tests.lines().collect();
        for (name, first, length) in functions(before_tests) {
            let body = lines[first - 1..first - 1 + length].concat();
            let change = CHANGES.iter().find(|call| body.contains(*call));
            if let Some(call) = change.filter(|_| !body.contains("failpoint(") && !FORWARDERS.contains(&name.as_str()))
            {
                let place = format!("{}:{first}: fn {name}", file.path);
                complaints
                    .push(format!("{place} calls `{call}` and has no failpoint; add one between two valid states"));
            }
        }
    }
    complaints
}

/// Returns every failpoint with its place.
pub fn list(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|file| is_ours(&file.path)) {
        for place in word_places(&file.text, "failpoint") {
            let call = file.text[place..].strip_prefix("failpoint(\"").and_then(|rest| rest.split_once('"'));
            if let Some((name, _)) = call {
                found.push(format!("{name:60} {}:{}", file.path, line_of(&file.text, place)));
            }
        }
    }
    found
}

fn is_ours(path: &str) -> bool {
    let source = CRATES.iter().any(|name| path.starts_with(&format!("crates/{name}/src/")));
    source && path.ends_with(".rs") && !path.ends_with("tests.rs") && !path.contains("/tests/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_opens_a_section_without_a_failpoint_is_named() {
        let file = |text: &str| File { path: "crates/lock/src/a.rs".into(), text: text.into() };
        let without = "fn b(s: &S) {\n    let c = Change::open(s);\n}\n";
        let with = "fn b(s: &S) {\n    let c = Change::open(s);\n    failpoint(\"lock: b\");\n}\n";
        assert_eq!(missing(&[file(without)]).len(), 1);
        assert_eq!(missing(&[file(with)]).len(), 0);
        assert_eq!(missing(&[file("fn section(&self) -> Section { self.undo().section() }\n")]).len(), 0);
        assert_eq!(list(&[file(with)]), [format!("{:60} crates/lock/src/a.rs:3", "lock: b")]);
    }
}

//! A test of `tp bench sql`: both sides (an environment and a file) are measured, and their audits find no fault.
#![cfg(feature = "sql")]
#![allow(clippy::unwrap_used)] // The whole file is tests.

use std::process::Command;

use serde_json::Value;

#[test]
fn both_sides_do_all_kinds_of_work_and_agree_with_their_audits() {
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    let words = ["--json", "sql", "--processes", "1,2", "--seconds", "0.05", "--rounds", "1", "--rows", "300"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp-bench"));
    let ran = command.args(words).arg("--out").arg(&report).arg("--dir").arg(directory.path()).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let outcome: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = outcome["shared"].as_array().unwrap();
    assert_eq!(rows.len(), 5 * 2 * 2, "five kinds of work, two durabilities, one and two processes");
    for row in rows {
        assert!(row["per_second"].as_array().unwrap().iter().all(|rate| rate.as_f64().unwrap() > 0.0), "{row}");
    }
    assert_eq!(outcome["bulk"].as_array().unwrap().len(), 8);
    let text = std::fs::read_to_string(report.join("report.md")).unwrap();
    assert!(text.contains("| queue | FULL | 2 |") && text.contains("| DELETE of all |"), "{text}");
    assert!(report.join("sql-update-off.svg").is_file());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["report"], "the run left more than its report");
}

//! Tests of `tp bench growth`: its report, its messages, and the removal of its databases.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_bench;

use std::path::Path;

use tempfile::tempdir;
use tp_bench::{tp_bench, Finished};

fn growth(out: &Path, dir: &Path, words: &[&str]) -> Finished {
    let (out, dir) = (out.to_str().unwrap(), dir.to_str().unwrap());
    tp_bench(&[&["growth", "--quick", "--out", out, "--dir", dir], words].concat())
}

#[test]
fn a_report_a_picture_and_all_samples_are_written_and_the_databases_are_removed() {
    let (out, dir) = (tempdir().unwrap(), tempdir().unwrap());
    let words = ["--only", "growth-records", "--records", "1000,3000", "--json"];
    let result = growth(out.path(), dir.path(), &words).result();
    assert_eq!((&result["figures"][0], &result["steps"]), (&"growth-records".into(), &5.into()), "{result}");
    assert!(result["cliffs"].is_array(), "{result}");
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    for words in ["`tp bench growth --quick --out", "| 1,000 |", "| 3,000 |", "## Cliffs", "get, 1,000 to 3,000: "] {
        assert!(report.contains(words), "{words}: {report}");
    }
    let picture = std::fs::read_to_string(out.path().join("growth-records.svg")).unwrap();
    assert!(picture.contains("By records") && picture.contains("scan of 100"), "{picture}");
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    let samples = raw.lines().filter(|line| line.contains("\"round\"")).count();
    // There are three rounds and two sizes. Each size has five operations and three kinds of work without the library.
    assert_eq!(samples, 3 * 2 * 8, "{raw}");
}

#[test]
fn the_error_for_an_unknown_figure_lists_the_figures() {
    let (out, dir) = (tempdir().unwrap(), tempdir().unwrap());
    let message = growth(out.path(), dir.path(), &["--only", "libtp-6"]);
    assert_ne!(message.code, Some(0));
    assert!(
        message.err.contains("there are growth-records, growth-cache, growth-values, growth-processes"),
        "{}",
        message.err
    );
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none());
}

//! Tests of `tp bench paper`: its report has a row for every chosen engine.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_bench;

use std::path::Path;

use tempfile::{tempdir_in, TempDir};
use tp_bench::{command, run, Finished};

/// Measures some figures in the smallest run, with `--peers PEERS`, or without that option if `peers` is empty. Returns
/// the output, and the directory of the report.
fn paper(only: &str, peers: &str) -> (Finished, TempDir) {
    paper_with(only, peers, &[])
}

/// Measures as [`paper`] does, with environment variables.
fn paper_with(only: &str, peers: &str, variables: &[(&str, &Path)]) -> (Finished, TempDir) {
    let (out, disk, memory) =
        (tempdir_in("/var/tmp").unwrap(), tempdir_in("/var/tmp").unwrap(), tempdir_in("/dev/shm").unwrap());
    let mut command = command();
    command.env_remove("LIBTP_KERNEL_LATCHES").envs(variables.iter().copied());
    command.args(["paper", "--tiny", "--only", only, "--out"]).arg(out.path());
    if !peers.is_empty() {
        command.args(["--peers", peers]);
    }
    command.arg("--dir").arg(disk.path()).arg("--memory").arg(memory.path());
    let message = run(command, b"");
    for directory in [&disk, &memory] {
        assert!(std::fs::read_dir(directory.path()).unwrap().next().is_none(), "the run left files");
    }
    (message, out)
}

#[test]
fn a_report_without_peers_has_samples_and_pictures() {
    let (message, out) = paper("peers-memory,peers-rows", "none");
    message.text();
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(report.contains("| libtp |") && !report.contains("not measured:"), "{report}");
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    assert!(raw.contains("peers-memory-tpcb"), "{raw}");
    for words in ["## peers-rows:", "## peers-rows-bytes:", "| dense |", "| btreemap |"] {
        assert!(report.contains(words), "{words}: {report}");
    }
    assert!(out.path().join("peers-memory-tpcb.svg").is_file());
}

#[test]
fn every_figure_of_the_libtp_paper_is_measured_without_peers() {
    let all = "libtp-4 libtp-6 libtp-7 libtp-7-syncs libtp-8 libtp-deadlocks libtp-deadlocks-victims libtp-4.2 libtp-4.2-syncs \
               libtp-order";
    let raw = all_are_measured("libtp-4,libtp-6,libtp-7,libtp-8,libtp-deadlocks,libtp-order", all);
    let mut commits = raw.lines().filter(|line| line.contains("\"figure\":\"libtp-7\""));
    assert!(commits.all(|line| line.contains("\"log_syncs\":") && !line.contains("\"log_syncs\":null")), "{raw}");
}

/// Databases of the paper's size take most of a minute, so `cargo xtask test` measures them every third day, and
/// `cargo xtask test --deep` measures them each time.
#[test]
fn every_figure_of_the_vista_paper_is_measured_without_peers() {
    let seed = std::env::var("LIBTP_TEST_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    if std::env::var_os("LIBTP_TEST_DEEP").is_none() && seed.is_some_and(|seed| seed % 3 != 0) {
        println!("SKIPPED: this test runs every third day, and with LIBTP_TEST_DEEP");
        return;
    }
    let all = "vista-5a vista-5-swap vista-5b vista-5c vista-5-factors vista-6a-response vista-6a vista-6a-4096-response \
               vista-6a-4096 vista-6a-65536-response vista-6a-65536 vista-6b-response vista-6b vista-6c-response vista-6c";
    all_are_measured("vista", all);
}

/// Measures the figures `only`, and asserts that the report has exactly the figures `all`, and that all are measured.
/// Returns the text of the file of samples.
fn all_are_measured(only: &str, all: &str) -> String {
    let (message, out) = paper(only, "none");
    message.text();
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    let figures: Vec<&str> =
        report.lines().filter_map(|line| line.strip_prefix("## ")?.split_once(':')).map(|it| it.0).collect();
    assert_eq!(figures.join(" "), all);
    // One goal needs four processes, which the smallest run does not measure.
    let missing: Vec<&str> =
        report.lines().filter(|line| line.contains("not measured") && !line.contains("four processes")).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    let banks = raw.matches("\"audited\":").count();
    assert_eq!(banks, raw.matches("\"verdict\":\"ok\"").count(), "{raw}");
    // A run of recoverable memory has no bank, but each of its samples has an audit.
    assert!(banks > 0 || raw.contains("\"audit\":\"ok\""), "{raw}");
    raw
}

#[cfg(not(feature = "peers"))]
#[test]
fn a_program_without_peers_measures_libtp_alone_with_a_message() {
    let (message, out) = paper("peers-recovery", "");
    assert!(message.err.contains("this program was built without peers"), "{}", message.err);
    message.text();
    assert!(out.path().join("report.md").is_file());
}

#[test]
fn the_large_bank_of_figure_9_waits_for_its_disk_and_the_report_has_the_build() {
    let (message, out) = paper("libtp-7,libtp-9", "none");
    message.text();
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    let samples = |series: &str| {
        let series = format!("\"figure\":\"libtp-9\",\"series\":\"{series}\"");
        raw.lines().filter(|line| line.contains(&series)).map(str::to_owned).collect::<Vec<_>>()
    };
    for (series, durability) in [("LARGE", "sync"), ("SMALL", "relaxed")] {
        let samples = samples(series);
        assert_eq!(samples.len(), 2, "{raw}");
        let durability = format!("\"durability\":\"{durability}\"");
        assert!(samples.iter().all(|line| line.contains(&durability)), "{samples:?}");
    }
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    // The smallest run does not measure four processes, so the goal for four processes is not measured.
    assert!(report.contains("| libtp-7 | one process | 1 | not measured |"), "{report}");
    assert!(report.contains("commit ") && report.contains("rustc 1."), "{report}");
    for words in ["\"commit\":\"", "\"compiler\":\"rustc 1.", "\"stolen_percent\":", "\"load\":\""] {
        assert!(raw.contains(words), "{words}: {raw}");
    }
}

#[test]
fn the_commits_in_the_log_of_a_killed_process_are_counted_and_audited() {
    let (message, out) = paper("peers-recovery", "none");
    message.text();
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    let sample = raw.lines().find(|line| line.contains("\"figure\":\"peers-recovery\"")).unwrap();
    let sample: serde_json::Value = serde_json::from_str(sample).unwrap();
    let number = |name: &str| sample["report"][name].as_f64().unwrap();
    // In the smallest run the process commits 100 transactions before it is killed, and all of them are found.
    assert_eq!(number("found"), 100.0, "{sample}");
    assert!(sample["value"].as_f64().unwrap() * number("seconds") - number("found") < 1.0, "{sample}");
}

/// Returns the value of `--peers` that chooses all peers of this build, and the names of these peers.
#[cfg(feature = "peers")]
fn everybody() -> (&'static str, Vec<&'static str>) {
    let light = vec!["sqlite", "lmdb", "redb", "fjall"];
    match cfg!(feature = "peers-all") {
        true => ("all", [light, vec!["rocksdb", "bdb"]].concat()),
        false => ("light", light),
    }
}

#[cfg(feature = "peers")]
#[test]
fn every_peer_has_a_row_in_oo1_with_all_operations() {
    let (asked, peers) = everybody();
    let (message, out) = paper("libtp-oo1", asked);
    message.text();
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    assert!(!report.contains("not measured"), "{report}");
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    for peer in ["libtp", "libtp hash", "libtp links"].into_iter().chain(peers) {
        assert!(report.contains(&format!("\n| {peer} | ")), "{peer}: {report}");
        // There are four operations, cold and warm, in three rounds.
        let samples = format!("\"figure\":\"libtp-oo1-20000\",\"series\":\"{peer}\"");
        assert_eq!(raw.matches(&samples).count(), 24, "{peer}: {raw}");
    }
}

#[cfg(not(feature = "peers"))]
#[test]
fn the_error_for_peers_that_are_not_built_in_names_the_command_that_builds_them() {
    for (peers, command) in
        [("light", "`cargo xtask bench paper --out DIR`"), ("all", "`cargo xtask bench paper --peers all --out DIR`")]
    {
        let (message, out) = paper("peers-memory", peers);
        assert!(message.refused(2).contains(command), "{}", message.err);
        assert!(!out.path().join("report.md").exists());
    }
}

#[cfg(feature = "peers")]
#[test]
fn every_figure_has_a_row_for_each_peer_with_values_or_the_reason_for_missing_values() {
    let (asked, peers) = everybody();
    let (message, out) = paper("peers,libtp-order", asked);
    message.text();
    let report = std::fs::read_to_string(out.path().join("report.md")).unwrap();
    let figures: Vec<&str> = report.split("\n## ").skip(1).collect();
    assert_eq!(figures.len(), 10, "{report}");
    for peer in std::iter::once(&"libtp").chain(&peers) {
        for figure in &figures {
            assert!(figure.contains(&format!("\n| {peer} |")), "{peer}: {figure}");
        }
        let row = report.lines().find(|line| line.starts_with(&format!("| {peer} |")) && line.contains(';'));
        let has_version = row.is_some_and(|row| row.contains(|letter: char| letter.is_ascii_digit()));
        assert!(*peer == "libtp" || has_version, "{peer}: {report}");
    }
    for refused in figures.iter().flat_map(|figure| figure.lines()).filter(|line| line.contains(": not measured:")) {
        assert!(refused.contains("serves one process only") || refused.contains("it has no log"), "{refused}");
    }
    for peer in ["fjall", "rocksdb"].iter().filter(|peer| peers.contains(peer)) {
        let rows = format!("* {peer}, 2: not measured: {peer} serves one process only");
        assert_eq!(report.matches(&rows).count(), 2, "{report}");
    }
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    for name in ["tpcb", "processes", "read-only", "read-only-processes", "contended"] {
        assert!(out.path().join(format!("peers-memory-{name}.svg")).is_file(), "{name}");
        assert!(raw.contains(&format!("\"figure\":\"peers-memory-{name}\",\"series\":\"sqlite\"")), "{name}: {raw}");
    }
}

/// Measures figure 5. Returns the report and, from raw.jsonl, each bar's rate in percent of the rate in user space.
fn figure_5(variables: &[(&str, &Path)]) -> (String, Vec<Option<f64>>) {
    let (message, out) = paper_with("libtp-5", "none", variables);
    message.text();
    let raw = std::fs::read_to_string(out.path().join("raw.jsonl")).unwrap();
    let lines = raw.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let left = lines.filter(|line| line["figure"] == "libtp-5").map(|line| line["value"].as_f64()).collect();
    (std::fs::read_to_string(out.path().join("report.md")).unwrap(), left)
}

#[cfg(feature = "kernel-latches")]
#[test]
fn latches_that_call_the_kernel_are_measured() {
    let (report, left) = figure_5(&[]);
    assert!(!report.contains("not measured:"), "{report}");
    // The slices of this run are too short for a meaningful rate.
    assert_eq!(left.iter().flatten().count(), 3, "{left:?}");
}

/// A script in the place of a build whose latches can call the kernel. It records the contenders that it gets, and runs
/// this build with `calls_kernel` false.
#[cfg(not(feature = "kernel-latches"))]
const STAND_IN: &str = r#"#!/bin/sh
printf '%s\n' "$3" >>"$0.asked"
exec "$TP" "$1" "$2" "$(printf '%s' "$3" | sed 's/"calls_kernel":true/"calls_kernel":false/')" "$4" "$5"
"#;

#[cfg(not(feature = "kernel-latches"))]
#[test]
fn latches_that_call_the_kernel_are_measured_in_the_named_build_or_reported_as_missing() {
    use std::os::unix::fs::PermissionsExt;

    let (report, left) = figure_5(&[]);
    assert_eq!((report.matches("set LIBTP_KERNEL_LATCHES").count(), left), (3, vec![None; 3]), "{report}");
    let directory = tempdir_in("/var/tmp").unwrap();
    let program = directory.path().join("stand-in");
    std::fs::write(&program, STAND_IN).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (report, left) =
        figure_5(&[("LIBTP_KERNEL_LATCHES", program.as_path()), ("TP", Path::new(env!("CARGO_BIN_EXE_tp-bench")))]);
    assert!(!report.contains("not measured:") && left.iter().flatten().count() == 3, "{report}");
    let asked = std::fs::read_to_string(directory.path().join("stand-in.asked")).unwrap();
    let with_kernel_latches = asked.lines().map(|contender| contender.contains("\"calls_kernel\":true"));
    let mut with_kernel_latches: Vec<bool> = with_kernel_latches.collect();
    // On a busy machine, a slice without a commit is repeated with more time.
    with_kernel_latches.dedup();
    assert_eq!(with_kernel_latches, [false, true].repeat(3), "{asked}");
}

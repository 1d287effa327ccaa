//! Tests of `tp bench synthetic|swap|debit-credit|order-entry`: their fields of JSON, their defaults, and the removal
//! of their files.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_bench;

use std::path::Path;

use serde_json::{json, Value};
use tempfile::{tempdir_in, TempDir};
use tp_bench::{command, run, tp_bench, Finished};

/// Makes two new directories: one in memory, for segments, and one on a disk.
fn places() -> (TempDir, TempDir) {
    (tempdir_in("/dev/shm").unwrap(), tempdir_in("/var/tmp").unwrap())
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// Runs a benchmark for a short time, with JSON. The first of `words` is the benchmark.
fn bench(words: &[&str], memory: &Path, disk: &Path) -> Finished {
    let mut command = command();
    command.args(words).args(["--seconds", "0.05", "--json", "--memory"]).arg(memory).env("TMPDIR", disk);
    run(command, b"")
}

fn number(result: &Value, name: &str) -> f64 {
    result[name].as_f64().unwrap_or_else(|| panic!("{name} is {}", result[name]))
}

#[test]
fn each_benchmark_has_all_documented_fields_and_leaves_no_files() {
    let (memory, disk) = places();
    let engines = [(None, "vista"), (Some("rvm"), "rvm"), (Some("rvm-rio"), "rvm-rio"), (Some("none"), "none")];
    for workload in ["synthetic", "swap", "debit-credit", "order-entry"] {
        // Each benchmark runs on at least one engine, and each engine runs at least one benchmark.
        for (asked, engine) in engines.into_iter().filter(|(_, engine)| *engine == "vista" || workload == "synthetic") {
            let words = asked.map_or(vec![workload], |asked| vec![workload, "--engine", asked]);
            let message = bench(&words, memory.path(), disk.path());
            let result = message.result();
            assert_eq!(message.json().len(), 1, "the output is not one object");
            let fixed = ["workload", "engine", "audit", "threads", "write_back"].map(|name| result[name].clone());
            assert_eq!(fixed, [json!(workload), json!(engine), json!("ok"), json!(1), json!(false)]);
            let bytes = if workload == "synthetic" { json!(8) } else { Value::Null };
            assert_eq!(
                (&result["bytes"], &result["is_hot"]),
                (&bytes, &json!(false)),
                "the defaults are not the paper's"
            );
            let group = if engine.starts_with("rvm") { json!(1) } else { Value::Null };
            assert_eq!((&result["group"], result["log_on"].is_string()), (&group, engine.starts_with("rvm")));
            assert!(number(&result, "overhead_ns").is_finite() && number(&result, "overhead_ratio").is_finite());
            let (with, without) = (number(&result["with"], "median_ns"), number(&result["without"], "median_ns"));
            assert!(with > 0.0 && without > 0.0, "{result}");
            assert!((number(&result, "tps") * with / 1e9 - 1.0).abs() < 1e-6, "{result}");
            assert!(result["transactions"].as_u64() > Some(0) && result["rounds"].as_u64() >= Some(5), "{result}");
            assert!(is_empty(memory.path()) && is_empty(disk.path()), "{workload} on {engine} left files");
        }
    }
}

#[test]
fn any_number_of_bytes_up_to_the_papers_maximum_can_be_changed() {
    let (memory, disk) = places();
    for bytes in ["1", "100", "1000000", "1048576"] {
        let result = bench(&["synthetic", "--bytes", bytes], memory.path(), disk.path()).result();
        assert_eq!((result["bytes"].to_string().as_str(), &result["audit"]), (bytes, &json!("ok")));
    }
    for bytes in ["0", "1048577", "-8", "many"] {
        let refused = tp_bench(&["synthetic", &format!("--bytes={bytes}")]);
        assert!(refused.refused(2).contains("--bytes"), "{}", refused.err);
    }
}

#[test]
fn rvm_uses_the_given_directory_and_accepts_a_group() {
    let (memory, disk) = places();
    let env = disk.path().join("rvm");
    let words = ["synthetic", "--engine", "rvm", "--group", "64", "--env", env.to_str().unwrap()];
    let result = bench(&words, memory.path(), disk.path()).result();
    assert_eq!((&result["group"], &result["audit"]), (&json!(64), &json!("ok")));
    assert!(!is_empty(&env), "the named directory was emptied");
    assert!(is_empty(memory.path()));
}

#[test]
fn the_help_shows_the_defaults() {
    let message = tp_bench(&["debit-credit", "--help"]).text();
    for (option, default) in
        [("--seconds", "5"), ("--engine", "vista"), ("--group", "1"), ("--threads", "1"), ("--memory", "/dev/shm")]
    {
        let rest = message.split_once(option).unwrap_or_else(|| panic!("{option}: {message}")).1;
        let help = rest.split("\n      --").next().unwrap();
        assert!(help.contains(&format!("[default: {default}]")), "{option}: {help}");
    }
    let message = tp_bench(&["synthetic", "--help"]).text();
    assert!(message.contains("[default: 8]"), "{message}");
}

/// The two names are `pmemobj`, the name in reports, and `pmdk`, the name of the project that has libpmemobj.
#[test]
fn libpmemobj_has_two_names() {
    let (memory, disk) = places();
    for name in ["pmemobj", "pmdk"] {
        let message = bench(&["debit-credit", "--engine", name], memory.path(), disk.path());
        if cfg!(feature = "peers-all") {
            let result = message.result();
            assert_eq!((&result["engine"], &result["audit"]), (&json!("pmemobj"), &json!("ok")));
        } else {
            assert!(message.refused(2).contains("libpmemobj was not built in"), "{}", message.err);
        }
        assert!(is_empty(memory.path()) && is_empty(disk.path()));
    }
}

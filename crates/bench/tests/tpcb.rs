//! Tests of `tp bench tpcb`: the fields of its result, its clients, its audit, and wrong usage.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_bench;

use libtp_bank::{Durability, Granularity, Libtp};
use serde_json::{json, Value};
use tempfile::tempdir;
use tp_bench::{command, run, tp_bench, tpcb};

/// Asserts that each named field is a whole number.
fn assert_counts(result: &Value, names: &[&str]) {
    for name in names {
        assert!(result[name].is_u64(), "{name} is {}", result[name]);
    }
}

#[test]
fn the_result_has_all_documented_fields_and_the_benchmark_removes_its_directory() {
    let parent = tempdir().unwrap();
    let mut command = command();
    command.args(["tpcb", "--accounts", "1000", "--seconds", "0.5", "--warmup", "0.1", "--json"]);
    command.arg("--durability=relaxed").env("TMPDIR", parent.path());
    let message = run(command, b"");
    let result = message.result();
    assert_eq!(message.json().len(), 1);
    let fixed = ["workload", "engine", "durability", "granularity", "as", "audit"].map(|name| result[name].clone());
    assert_eq!(fixed, ["tpcb", "libtp", "relaxed", "record", "threads", "ok"].map(|value| json!(value)));
    assert_counts(&result, &["clients", "tps", "aborts", "committed", "accounts", "branches"]);
    assert!(result["aborts_per_1000"].is_f64(), "{result}");
    assert!(result["p50_us"].is_f64() && result["p99_us"].is_f64());
    assert!(result["committed"].as_u64() > Some(0));
    assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
}

#[test]
fn clients_may_be_processes_and_locks_may_be_on_pages() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let common = ["--seconds", "0.5", "--warmup", "0.1", "--clients", "2", "--json"];
    let with = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend(common);
        tpcb(&env, &all).result()
    };
    let threads = with(&["--accounts", "1000", "--granularity", "page", "--durability", "relaxed"]);
    assert_eq!((&threads["granularity"], &threads["audit"]), (&json!("page"), &json!("ok")));
    let processes = with(&["--as", "processes", "--durability", "relaxed"]);
    assert_eq!((&processes["as"], &processes["audit"]), (&json!("processes"), &json!("ok")));
    assert_eq!(processes["accounts"], 1000);
    let reading = with(&["--read-only"]);
    assert_eq!((&reading["workload"], &reading["audit"]), (&json!("tpcb-read-only"), &json!("ok")));
    assert!(env.is_dir());
}

#[cfg(not(feature = "peers"))]
#[test]
fn a_peer_that_is_not_built_in_is_wrong_usage_and_no_directory_is_made() {
    let parent = tempdir().unwrap();
    for engine in ["lmdb", "bdb"] {
        let env = parent.path().join(engine);
        let refused = tpcb(&env, &["--engine", engine, "--json"]);
        assert!(refused.refused(2).contains("--features peers"), "{}", refused.err);
        assert!(!env.exists());
    }
    assert!(tp_bench(&[]).refused(2).contains("tpcb"));
}

#[cfg(feature = "peers")]
#[test]
fn the_peers_run_the_same_workload() {
    let parent = tempdir().unwrap();
    let heavy = ["rocksdb", "bdb"].into_iter().filter(|_| cfg!(feature = "peers-all"));
    for engine in ["sqlite", "lmdb", "redb", "fjall"].into_iter().chain(heavy) {
        let words = ["--engine", engine, "--accounts", "1000", "--seconds", "0.3", "--durability", "relaxed", "--json"];
        let result = tpcb(&parent.path().join(engine), &words).result();
        assert_eq!((&result["engine"], &result["audit"]), (&json!(engine), &json!("ok")));
    }
    assert!(tp_bench(&[]).refused(2).contains("tpcb"));
}

#[test]
fn processes_that_deadlock_report_the_number_of_aborts() {
    for granularity in ["record", "page"] {
        let parent = tempdir().unwrap();
        let env = parent.path().join("bank");
        let words = ["--as", "processes", "--clients", "4", "--accounts", "100", "--branches", "1", "--read-first"];
        let rest = ["--durability", "relaxed", "--seconds", "1", "--warmup", "0.1", "--granularity", granularity];
        let words = [words.as_slice(), &rest].concat();
        let run = || tpcb(&env, &[words.as_slice(), &["--json"]].concat()).result();
        // On a busy machine the clients may run one after the other, without a deadlock. Then the run is repeated.
        let mut runs = std::iter::repeat_with(run).take(20);
        let result = runs.find(|result| result["aborts"] != json!(0));
        let result =
            result.expect("twenty runs had no deadlock, although each client reads and then locks the only branch");
        let fixed = ["as", "granularity", "audit", "reads_first", "branches"].map(|name| result[name].clone());
        assert_eq!(fixed, [json!("processes"), json!(granularity), json!("ok"), json!(true), json!(1)]);
        let count = |name: &str| result[name].as_u64().unwrap();
        let rate = count("aborts") as f64 * 1_000.0 / count("committed") as f64;
        assert!((result["aborts_per_1000"].as_f64().unwrap() - rate).abs() < 0.001, "{result}");
        let text = tpcb(&env, &words).text();
        assert!(text.contains(" per 1,000)") && text.contains("read before the change"), "{text}");
    }
}

#[test]
fn sixty_four_processes_use_one_bank() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let words = ["--as", "processes", "--clients", "64", "--accounts", "1000", "--branches", "10", "--json"];
    let rest = ["--durability", "relaxed", "--seconds", "0.5", "--warmup", "0"];
    let result = tpcb(&env, &[words.as_slice(), &rest].concat()).result();
    assert_eq!((&result["clients"], &result["audit"]), (&json!(64), &json!("ok")), "{result}");
}

#[test]
fn a_benchmark_whose_audit_fails_exits_with_one_and_names_the_wrong_record() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let words = ["--accounts", "100", "--seconds", "0.1", "--warmup", "0", "--durability", "relaxed", "--json"];
    tpcb(&env, &words).result();
    let bank = Libtp::open(&env, Durability::Relaxed, Granularity::Record, &mut |_| {}).unwrap();
    let accounts = bank.env().btree("account").unwrap();
    let robbed = |record: &mut [u8]| record[10] ^= 0xff;
    bank.env().run(|txn| accounts.update_with(txn, &7_u32.to_be_bytes(), robbed)).unwrap();
    drop((accounts, bank));
    let message = tpcb(&env, &words);
    assert_eq!(message.code, Some(1), "{}", message.err);
    let result = message.json().pop().unwrap();
    let audit = result["audit"].as_str().unwrap();
    assert!(audit.contains("account record 7 has balance"), "{audit}");
}

#[test]
fn wrong_usage_ends_with_exit_code_two() {
    for words in [
        &["fly"][..],
        &["tpcb", "--engine", "oracle"],
        &["tpcb", "--durability", "eternal"],
        &["tpcb", "--accounts", "0"],
        &["tpcb", "--clients", "0"],
        &["tpcb", "--seconds", "0"],
    ] {
        let refused = tp_bench(words);
        assert!(!refused.refused(2).is_empty(), "{words:?}");
        assert!(refused.out.is_empty(), "{words:?}");
    }
    assert!(tp_bench(&["--help"]).text().contains("order-entry"));
    assert!(tp_bench(&["--version"]).text().starts_with("tp-bench "));
}

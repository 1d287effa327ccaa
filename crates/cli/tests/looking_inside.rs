//! `stat`, `locks`, `txns`, `snapshots`, `printlog`, `checkpoint`, `recover`, `verify`: their JSON, and its agreement
//! with the work that was done.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;

use libtp::Env;
use serde_json::{json, Value};
use tempfile::{tempdir, TempDir};
use tp::tp;

fn environment() -> TempDir {
    let directory = tempdir().unwrap();
    for n in 0..20 {
        tp("put", directory.path(), &["stock", &format!("item {n}"), "1"]).text();
    }
    directory
}

fn lines(verb: &str, env: &Path, words: &[&str]) -> (Vec<Value>, Value) {
    let mut all = words.to_vec();
    all.push("--json");
    let message = tp(verb, env, &all);
    let result = message.result();
    let mut lines = message.json();
    lines.pop();
    (lines, result)
}

#[test]
fn stat_names_the_databases_and_the_librarys_own_figures() {
    let env = environment();
    let (_, stat) = lines("stat", env.path(), &[]);
    assert_eq!(stat["databases"][0]["name"], "stock", "{stat}");
    assert!(stat["opened"]["how"].is_string(), "{stat}");
    assert!(stat["log_tail"].is_u64() && stat["region_allocated"].is_u64(), "{stat}");
    let text = tp("stat", env.path(), &[]).text();
    assert!(text.lines().any(|line| line.starts_with("databases.stock.file")), "{text}");
}

#[test]
fn another_process_sees_locks_and_transactions_while_they_are_held() {
    let directory = environment();
    let env = Env::open_or_create(directory.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let (none, result) = lines("locks", directory.path(), &[]);
    assert_eq!((none.len(), &result["locks"]), (0, &json!(0)));
    let txn = env.begin().unwrap();
    stock.put(&txn, b"item 3", b"2").unwrap();
    let (locks, result) = lines("locks", directory.path(), &[]);
    assert!(!locks.is_empty() && result["locks"] == locks.len(), "{result}");
    assert!(tp("locks", directory.path(), &[]).text().lines().count() == locks.len());
    let held = |lock: &Value| lock["object"] == "record" && lock["held"] == "X" && lock["database"] == "stock";
    assert!(locks.iter().any(held), "{locks:?}");
    let (txns, result) = lines("txns", directory.path(), &[]);
    assert_eq!((&result["transactions"], &txns[0]["txn"]), (&json!(1), &json!(txn.id())), "{txns:?}");
    txn.commit().unwrap();
    let (txns, result) = lines("txns", directory.path(), &[]);
    assert_eq!((txns.len(), &result["transactions"]), (0, &json!(0)));
}

#[test]
fn the_holder_of_a_snapshot_is_listed() {
    let directory = tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let snapshot = env.snapshot().unwrap();
    let (snapshots, result) = lines("snapshots", directory.path(), &[]);
    assert_eq!((snapshots.len(), &result["snapshots"]), (1, &json!(1)));
    assert_eq!(snapshots[0]["pid"], std::process::id());
    assert_eq!((&snapshots[0]["lsn"], &snapshots[0]["kept"]), (&json!(snapshot.lsn()), &json!(true)));
    drop(snapshot);
    let (snapshots, _) = lines("snapshots", directory.path(), &[]);
    assert_eq!(snapshots, Vec::<serde_json::Value>::new());
}

#[test]
fn printlog_has_every_record_in_order() {
    let env = tempdir().unwrap();
    // While a process is attached, the log is kept. When the last process closes in good order, only a checkpoint is
    // left.
    let _attached = Env::open_or_create(env.path()).unwrap();
    for n in 0..20 {
        tp("put", env.path(), &["stock", &format!("item {n}"), "1"]).text();
    }
    let (records, result) = lines("printlog", env.path(), &[]);
    assert_eq!(result["records"], records.len());
    let lsns: Vec<u64> = records.iter().map(|record| record["lsn"].as_u64().unwrap()).collect();
    assert!(lsns.windows(2).all(|pair| pair[0] < pair[1]), "{lsns:?}");
    assert!(records.len() >= 20, "there were twenty transactions: {records:?}");
    let from = lsns[lsns.len() / 2].to_string();
    let (later, _) = lines("printlog", env.path(), &["--from", &from, "--limit", "2"]);
    assert_eq!(later.len(), 2);
    assert_eq!(later[0]["lsn"].to_string(), from);
    let txn = records.iter().find_map(|record| record["txn"].as_u64().filter(|txn| *txn != 0)).unwrap();
    let (of_txn, _) = lines("printlog", env.path(), &["--txn", &txn.to_string()]);
    assert!(!of_txn.is_empty() && of_txn.iter().all(|record| record["txn"] == txn));
}

#[test]
fn checkpoint_and_recover_report_their_result() {
    let env = environment();
    let (_, result) = lines("checkpoint", env.path(), &[]);
    assert_eq!(result, json!({ "checkpoint": true }));
    let (_, opened) = lines("recover", env.path(), &[]);
    assert_eq!(opened["how"], "clean", "each earlier process closed the environment in good order: {opened}");
    assert!(opened["millis"].is_u64());
}

#[test]
fn verify_finds_nothing_in_a_sound_environment() {
    let env = environment();
    let (findings, result) = lines("verify", env.path(), &[]);
    assert_eq!((findings.len(), result), (0, json!({ "databases": 1, "records": 20, "findings": 0 })));
    assert!(tp("verify", env.path(), &["other"]).refused(1).contains("other"));
}

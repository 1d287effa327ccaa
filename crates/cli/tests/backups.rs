//! `backup`, `restore`, `salvage`, `archive`, `upgrade`: their output, also when they fail.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;

use libtp::Env;
use serde_json::json;
use tempfile::tempdir;
use tp::{tp, tp_words};

fn put(env: &Path, key: &str, value: &str) {
    tp("put", env, &["stock", key, value]).text();
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_backup_is_extended_checked_and_restored_to_an_lsn() {
    let directory = tempdir().unwrap();
    let [env, backup, restored, earlier] =
        ["env", "backup", "restored", "earlier"].map(|name| directory.path().join(name));
    std::fs::create_dir(&env).unwrap();
    std::fs::write(env.join("libtp.toml"), "keep_log = \"1MiB\"\n").unwrap();
    put(&env, "apples", "1");
    let first = tp("backup", &env, &[text(&backup), "--json"]).result();
    assert_eq!((&first["files"], &first["earliest"]), (&json!(1), &first["end"]), "{first}");
    put(&env, "apples", "2");
    put(&env, "pears", "3");
    let more = tp("backup", &env, &[text(&backup), "--incremental", "--json"]).result();
    assert_eq!(more["earliest"], first["end"]);
    let checked = tp_words(&["backup", "--check", text(&backup), "--json"], b"").result();
    assert_eq!((&checked["end"], &checked["files"]), (&more["end"], &json!(1)));
    let done = tp("restore", &restored, &[text(&backup), "--json"]).result();
    assert_eq!(done["end"], more["end"]);
    assert_eq!(tp("get", &restored, &["stock", "pears"]).text().trim(), "3");
    let place = first["end"].to_string();
    let done = tp("restore", &earlier, &[text(&backup), "--until", &place]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(tp("get", &earlier, &["stock", "apples"]).text().trim(), "1");
    // The commands refuse to overwrite existing files, and to restore a state that the backup does not have.
    assert_eq!(tp("restore", &earlier, &[text(&backup)]).code, Some(1));
    assert_eq!(tp("backup", &env, &[text(&backup)]).code, Some(1));
    assert_eq!(tp("restore", &directory.path().join("new"), &[text(&backup), "--until", "2030-01-01"]).code, Some(1));
    assert_eq!(tp("restore", &directory.path().join("new"), &[text(&backup), "--until", "soon"]).code, Some(2));
    let file = backup.join("stock.tp");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[9000] ^= 4;
    std::fs::write(&file, bytes).unwrap();
    let damaged = tp_words(&["backup", "--check", text(&backup)], b"");
    assert!(damaged.code == Some(1) && damaged.err.contains("stock.tp"), "{}", damaged.err);
}

#[test]
fn the_losses_of_a_damaged_file_are_listed() {
    let directory = tempdir().unwrap();
    let [env, other] = ["env", "other"].map(|name| directory.path().join(name));
    {
        let env = Env::open_or_create(&env).unwrap();
        let stock = env.btree("stock").unwrap();
        let put = |key: u32| env.run(|txn| stock.put(txn, &key.to_be_bytes(), &[7; 100]));
        (0..500).for_each(|key| put(key).unwrap());
    }
    let file = env.join("stock.tp");
    let whole = tp("salvage", &other, &[text(&file), "whole", "--json"]);
    assert_eq!((&whole.result()["records"], whole.code), (&json!(500), Some(0)));
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[3 * 8192 + 4000] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let message = tp("salvage", &other, &[text(&file), "part", "--json"]);
    let (lines, code) = (message.json(), message.code);
    assert_eq!((&lines[0]["page"], code), (&json!(3), Some(1)), "{lines:?}");
    let records = lines.last().unwrap()["records"].as_u64().unwrap();
    assert!((1..500).contains(&records), "{records}");
    assert!(tp("verify", &other, &["part"]).text().contains("0 findings"));
    assert_eq!(tp("salvage", &other, &[text(&file), "part"]).code, Some(1), "the database exists already");
}

#[test]
fn log_files_that_are_not_needed_are_listed_copied_and_removed() {
    let directory = tempdir().unwrap();
    let [env, archive] = ["env", "archive"].map(|name| directory.path().join(name));
    std::fs::create_dir(&env).unwrap();
    let settings = "keep_log = \"64MiB\"\nlog_segment_first = \"16KiB\"\nlog_segment_max = \"16KiB\"\n";
    std::fs::write(env.join("libtp.toml"), settings).unwrap();
    let value = "x".repeat(6000);
    (0..10).for_each(|key| put(&env, &format!("key {key}"), &value));
    tp("checkpoint", &env, &[]).text();
    let count = |words: &[&str]| tp("archive", &env, words).result()["files"].as_u64().unwrap();
    let old = count(&["--json"]);
    assert!(old > 2 && count(&["--all", "--json"]) > old, "{old}");
    assert_eq!(count(&["--to", text(&archive), "--json"]), old);
    assert_eq!(count(&["--to", text(&archive), "--json"]), 0, "the files are in the archive already");
    assert_eq!(std::fs::read_dir(&archive).unwrap().count() as u64, old);
    tp("archive", &env, &["--remove"]).text();
    assert_eq!(count(&["--json"]), 0);
    assert_eq!(tp("get", &env, &["stock", "key 3"]).text().trim().len(), 6000);
}

/// The removal takes a checkpoint, after which further log files are not needed. Those further files have no copy, so
/// they must stay.
#[test]
fn log_files_without_a_copy_are_not_removed() {
    let directory = tempdir().unwrap();
    let [env, archive] = ["env", "archive"].map(|name| directory.path().join(name));
    std::fs::create_dir(&env).unwrap();
    // This process keeps the environment open and takes no checkpoint.
    let settings =
        "keep_log = \"64MiB\"\nlog_segment_first = \"16KiB\"\nlog_segment_max = \"16KiB\"\nno_background = true\n";
    std::fs::write(env.join("libtp.toml"), settings).unwrap();
    let opened = libtp::Env::open_or_create(&env).unwrap();
    let stock = opened.btree("stock").unwrap();
    let names = || opened.log_files().unwrap().into_iter().map(|file| file.name).collect::<Vec<_>>();
    let mut all = names();
    for round in 0..3 {
        for key in 0..10 {
            let value = format!("{round}{}", "x".repeat(6000));
            opened.run(|txn| stock.put(txn, format!("key {key}").as_bytes(), value.as_bytes())).unwrap();
        }
        all.extend(names());
        all.sort();
        all.dedup();
        let copied = tp("archive", &env, &["--to", text(&archive), "--remove", "--json"]).result()["files"].clone();
        let left = names();
        let is_kept = |name: &String| left.contains(name) || archive.join(name).exists();
        let lost: Vec<_> = all.iter().filter(|name| !is_kept(name)).collect();
        assert!(lost.is_empty(), "neither copied nor in the environment: {lost:?}");
        let removed = all.iter().filter(|name| !left.contains(name)).count();
        assert!(copied.as_u64().unwrap() > 2 && removed > 2 * (round + 1), "{copied} copied, {left:?} left");
    }
}

#[test]
fn versions_are_listed_and_an_unknown_version_comes_with_a_remedy() {
    let directory = tempdir().unwrap();
    put(directory.path(), "apples", "1");
    let told = tp("upgrade", directory.path(), &["--json"]);
    assert_eq!((told.code, &told.result()["not_read"]), (Some(0), &json!(0)));
    let file = directory.path().join("stock.tp");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[40] = 9;
    std::fs::write(&file, bytes).unwrap();
    let told = tp("upgrade", directory.path(), &[]);
    let text = String::from_utf8(told.out).unwrap();
    assert!(told.code == Some(1) && text.contains("tp dump") && text.contains("version 9"), "{text}");
}

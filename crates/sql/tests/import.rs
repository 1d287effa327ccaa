//! Does an import copy the whole database, or change nothing?
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp_sql;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{kill_process, Pid, Signal};
use tempfile::tempdir;
use tp_sql::{command, open, rows, sql, EVERYTHING};

/// Creates the SQLite file `app.db` in a journal mode.
fn file(directory: &Path, mode: &str) {
    let connection = open(directory, "app.db");
    connection.execute_batch(&format!("PRAGMA journal_mode = {mode}; {EVERYTHING}")).unwrap();
}

/// Returns the names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn an_import_and_an_export_copy_the_whole_database() {
    for mode in ["DELETE", "WAL"] {
        let home = tempdir().unwrap();
        file(home.path(), mode);
        let before = sql(home.path(), &["app.db", ".dump"]).text();
        let outcome = sql(home.path(), &["--import", "app.db"]).text();
        assert!(outcome.contains("app.tp has the ") && outcome.contains("app.db.imported"), "{outcome}");
        assert_eq!(names(home.path()), ["app.db.imported", "app.tp"]);
        assert_eq!(sql(home.path(), &["app.tp", ".dump"]).text(), before);
        assert_eq!(sql(home.path(), &["app.db.imported", ".dump"]).text(), before);
        let imported = open(home.path(), "app.tp");
        assert_eq!(rows(&imported, "PRAGMA integrity_check"), [["ok".to_owned().into()]]);
        assert_eq!(rows(&imported, "PRAGMA user_version"), [[7.into()]]);
        assert_eq!(rows(&imported, "PRAGMA application_id"), [[99.into()]]);
        assert_eq!(rows(&imported, "SELECT rowid FROM words WHERE words MATCH 'hello'"), [[1.into()]]);
        let outcome = sql(home.path(), &["--json", "--export", "app.tp", "back.db"]);
        assert_eq!(outcome.result()["exported"], "back.db");
        assert_eq!(sql(home.path(), &["back.db", ".dump"]).text(), before);
        assert_eq!(names(home.path()), ["app.db.imported", "app.tp", "back.db"]);
        // The number 3 of a deleted row is not used again.
        imported.execute_batch("INSERT INTO auto(name) VALUES ('d'); INSERT INTO plain VALUES (1, 2)").unwrap();
        assert_eq!(rows(&imported, "SELECT max(id) FROM auto"), [[4.into()]]);
        assert_eq!(rows(&imported, "SELECT max(rowid) FROM plain"), [[93.into()]]);
    }
}

#[test]
fn text_in_utf_16_stays_in_utf_16() {
    let home = tempdir().unwrap();
    open(home.path(), "app.db")
        .execute_batch("PRAGMA encoding = 'UTF-16le'; CREATE TABLE t(v); INSERT INTO t VALUES ('é雪')")
        .unwrap();
    sql(home.path(), &["--import", "app.db", "shop"]).text();
    assert_eq!(sql(home.path(), &["shop", "PRAGMA encoding; SELECT v FROM t"]).text(), "UTF-16le\né雪\n");
}

#[test]
fn an_environment_may_take_the_name_of_its_file() {
    let home = tempdir().unwrap();
    file(home.path(), "DELETE");
    sql(home.path(), &["--import", "app.db", "app.db"]).text();
    assert_eq!(names(home.path()), ["app.db", "app.db.imported"]);
    assert!(home.path().join("app.db").is_dir());
    assert_eq!(sql(home.path(), &["app.db", "SELECT count(*) FROM strict"]).text(), "1\n");
}

#[test]
fn a_name_exists_at_all_times_while_an_environment_replaces_its_file() {
    let home = tempdir().unwrap();
    file(home.path(), "DELETE");
    let name = home.path().join("app.db");
    let mut child = command(home.path(), &["--import", "app.db", "app.db"]).stdout(Stdio::null()).spawn().unwrap();
    let mut looks = 0_u64;
    while child.try_wait().unwrap().is_none() {
        for _ in 0..1_000 {
            assert!(fs::symlink_metadata(&name).is_ok(), "the name is missing");
            looks += 1;
        }
    }
    assert!(child.wait().unwrap().success() && name.is_dir() && looks > 0);
}

#[test]
fn a_signal_ends_the_wait_for_a_file_in_use() {
    let home = tempdir().unwrap();
    file(home.path(), "DELETE");
    let user = open(home.path(), "app.db");
    user.execute_batch("BEGIN IMMEDIATE").unwrap();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut child =
            command(home.path(), &["--wait", "600", "--import", "app.db"]).stderr(Stdio::piped()).spawn().unwrap();
        // Before the program has installed its signal handler, a signal ends it without an exit code.
        std::thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait().unwrap();
        assert!(ended.code().is_none_or(|ended| ended == code), "{ended:?}");
        assert_eq!(names(home.path()).iter().filter(|name| !name.starts_with("app.db")).count(), 0);
    }
}

#[test]
fn a_file_in_use_is_refused_and_its_users_continue() {
    for (mode, use_of_it) in
        [("DELETE", "BEGIN IMMEDIATE;"), ("WAL", "BEGIN IMMEDIATE;"), ("WAL", "SELECT 1 FROM strict;")]
    {
        let home = tempdir().unwrap();
        file(home.path(), mode);
        let mut user = command(home.path(), &["app.db"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut input, mut output) = (user.stdin.take().unwrap(), BufReader::new(user.stdout.take().unwrap()));
        writeln!(input, "{use_of_it} SELECT 'ready';").unwrap();
        let mut line = String::new();
        while line.trim() != "ready" {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0);
        }
        let outcome = sql(home.path(), &["--wait", "0.2", "--import", "app.db"]);
        assert!(
            outcome.refused(1).contains("Stop the programs that use the file"),
            "{mode}, {use_of_it}: {}",
            outcome.err
        );
        assert!(!names(home.path()).iter().any(|name| name.starts_with("app.tp") || name.ends_with("imported")));
        writeln!(input, "INSERT INTO strict VALUES (5, 'later'); END;").unwrap_or_default();
        drop(input);
        user.wait().unwrap();
    }
}

#[test]
fn a_failed_import_leaves_all_files_unchanged() {
    let home = tempdir().unwrap();
    file(home.path(), "DELETE");
    let refused = |words: &[&str], why: &str| {
        let before = names(home.path());
        let bytes = fs::read(home.path().join("app.db")).unwrap();
        let outcome = sql(home.path(), words);
        assert!(outcome.refused(1).contains(why), "{}", outcome.err);
        assert_eq!(names(home.path()), before);
        assert!(fs::read(home.path().join("app.db")).unwrap() == bytes, "the file is unchanged");
    };
    fs::create_dir(home.path().join("taken.tp")).unwrap();
    refused(&["--import", "app.db", "taken.tp"], "taken.tp exists; nothing was changed");
    refused(&["--import", "missing.db"], "missing.db");
    refused(&["--import", "taken.tp"], "not an SQLite file");
    fs::write(home.path().join("text.db"), "some text, no database").unwrap();
    refused(&["--import", "text.db"], "not a database");
    refused(&["--export", "missing.tp", "out.db"], "missing.tp");
    open(home.path(), "app.db")
        .execute_batch("CREATE INDEX long ON plain(b); INSERT INTO plain VALUES (1, hex(zeroblob(100000)))")
        .unwrap();
    // The new row's key is too long for an index of an environment.
    refused(&["--import", "app.db"], "plain_b: ");
}

#[test]
fn an_interrupted_import_leaves_the_file_unchanged() {
    let home = tempdir().unwrap();
    open(home.path(), "app.db")
        .execute_batch(
            "CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
            INSERT INTO t SELECT i, hex(zeroblob(20)) FROM n",
        )
        .unwrap();
    let bytes = fs::read(home.path().join("app.db")).unwrap();
    let has_begun = || names(home.path()).iter().any(|name| name.contains(".importing-"));
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut child = command(home.path(), &["--import", "app.db"]).stderr(Stdio::piped()).spawn().unwrap();
        while !has_begun() {
            assert!(child.try_wait().unwrap().is_none(), "the import ended before its temporary environment was seen");
        }
        // A signal before the first statement interrupts nothing, so the signal is repeated.
        while child.try_wait().unwrap().is_none() {
            kill_process(Pid::from_child(&child), signal).unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let ended = child.wait_with_output().unwrap();
        if signal == Signal::KILL {
            assert!(has_begun(), "a killed process removes nothing");
        } else {
            assert_eq!(ended.status.code(), Some(1));
            assert!(String::from_utf8(ended.stderr).unwrap().contains("interrupted"));
            assert_eq!(names(home.path()), ["app.db"]);
        }
        assert!(fs::read(home.path().join("app.db")).unwrap() == bytes, "the file is unchanged");
    }
    // The next import removes the remains.
    sql(home.path(), &["--import", "app.db"]).text();
    assert_eq!(names(home.path()), ["app.db.imported", "app.tp"]);
    assert_eq!(sql(home.path(), &["app.tp", "SELECT count(*), sum(a) FROM t"]).text(), "100000|5000050000\n");
}

//! Tests of the examples of the crate's front page: they do what they promise.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

#[allow(dead_code)]
#[path = "../examples/bank.rs"]
mod bank;
#[allow(dead_code)]
#[path = "../examples/from_sqlite.rs"]
mod from_sqlite;
#[allow(dead_code)]
#[path = "../examples/job_queue.rs"]
mod job_queue;
#[allow(dead_code)]
#[path = "../examples/session_cache.rs"]
mod session_cache;

/// The environment variable that makes this program a worker of the queue in the directory that the variable names.
const QUEUE: &str = "LIBTP_TEST_JOB_QUEUE";

fn text(shown: Vec<u8>) -> String {
    String::from_utf8(shown).unwrap()
}

#[test]
fn each_job_is_done_once_though_workers_are_killed() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("queue");
    let worker = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", "a_worker_of_the_queue"]).env(QUEUE, &path).stdout(std::process::Stdio::null());
        Ok(command)
    };
    let mut shown = Vec::new();
    job_queue::show(&path, &worker, &mut shown).unwrap();
    assert_eq!(text(shown), "3 workers were killed; 300 of 300 jobs are done, 0 are left\n");
}

/// Works on the queue if the test of the queue has started this process as a worker; does nothing otherwise.
#[test]
fn a_worker_of_the_queue() {
    if let Some(path) = std::env::var_os(QUEUE) {
        job_queue::work(Path::new(&path)).unwrap();
    }
}

#[test]
fn sessions_are_found_by_token_and_ended_by_time_and_user() {
    let home = tempfile::tempdir().unwrap();
    let mut shown = Vec::new();
    session_cache::show(&home.path().join("sessions"), &mut shown).unwrap();
    let expected =
        "t1 at 15: Some(\"ada\"), at 25: None\nswept at 25: 1\nlogged out: 1\nt2: None, t3: Some(\"alan\")\n";
    assert_eq!(text(shown), expected);
}

#[test]
fn the_bank_loses_no_cent() {
    let home = tempfile::tempdir().unwrap();
    let mut shown = Vec::new();
    bank::show(&home.path().join("bank"), &mut shown).unwrap();
    let expected = "audit: 2000 cents in 20 accounts\n1 cents from 1 to 99: there is no account 99\n\
                    1000000 cents from 2 to 3: the account\n";
    assert_eq!(text(shown), expected);
}

#[test]
fn rows_of_sqlite_become_a_table_with_an_index() {
    let home = tempfile::tempdir().unwrap();
    let mut shown = Vec::new();
    let rows = "-1\x1fa \"screw\"\x1f5\x1e2\x1fa hinge,\nof steel\x1f700\x1e3\x1fa saw\x1f1500\x1e";
    from_sqlite::migrate(rows, &home.path().join("shop"), &mut shown).unwrap();
    assert_eq!(text(shown), "3 products\na saw: 1500\na hinge,\nof steel: 700\n");
    let torn = from_sqlite::migrate("1\x1fa screw\x1e", &home.path().join("torn"), &mut Vec::new()).unwrap_err();
    assert_eq!(torn.to_string(), "a row of 2 columns");
    assert!(!home.path().join("torn").exists());
}

//! Verbs that wait for a lock that another process holds and keeps.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{kill_process, Pid, Signal};
use tempfile::tempdir;
use tp::tp;

/// A `tp shell` that has put a record and not committed.
struct Holder {
    child: Child,
    orders: ChildStdin,
    txn: String,
}

impl Holder {
    fn new(env: &Path, put: &str) -> Holder {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
        command.args(["shell", "--env"]).arg(env).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut orders, mut message) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut answer = |order: &str| {
            writeln!(orders, "{order}").unwrap();
            orders.flush().unwrap();
            let mut line = String::new();
            message.read_line(&mut line).unwrap();
            line.trim().to_owned()
        };
        let txn = answer("begin");
        assert_eq!(answer(put), "put");
        Holder { child, orders, txn }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // A process that has already ended need not be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_verb_ends_within_its_wait_and_names_the_stopped_process_the_transaction_and_the_key() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["stock", "apples", "3"]).text();
    tp("put", env.path(), &["stock", "pears", "3"]).text();
    let holder = Holder::new(env.path(), "put stock apples 4");
    holder.signal(Signal::STOP);
    let blocker = format!("{} of process {}, which is stopped, is in the way", holder.txn, holder.child.id());
    let verbs: [(&str, &[&str]); 6] = [
        ("get", &["stock", "apples"]),
        ("put", &["stock", "apples", "5"]),
        ("del", &["stock", "apples"]),
        ("scan", &["stock"]),
        ("dump", &["stock"]),
        ("load", &["stock"]),
    ];
    for (verb, words) in verbs {
        let words = [words, &["--wait", "0.3"]].concat();
        let dump = b"VERSION=3\nformat=print\ntype=btree\nHEADER=END\n apples\n 6\nDATA=END\n";
        let message = tp::tp_reading(verb, env.path(), &words, dump);
        if matches!(verb, "scan" | "dump") && message.code == Some(0) {
            // A verb that reads in a snapshot waits for no lock.
            continue;
        }
        let text = message.refused(1);
        assert!(text.contains(&blocker), "{verb}: {text}");
        assert!(text.contains("stock") && text.contains("within 300ms"), "{verb}: {text}");
        let names_key = text.contains("the record \"apples\"");
        assert!(names_key || !matches!(verb, "get" | "put" | "del"), "{verb}: {text}");
    }
    for (verb, words) in [("drop", &["stock"][..]), ("rename", &["stock", "store"]), ("empty", &["stock"])] {
        let message = tp(verb, env.path(), &[words, &["--wait", "0.3"]].concat());
        let text = message.refused(1);
        assert!(text.contains(&blocker) && text.contains("within 300ms"), "{verb}: {text}");
    }
    // All these verbs end: a verb that needs a lock of the holder waits at most for the time in `--wait`.
    for verb in ["list", "stat", "locks", "txns", "sessions", "verify", "checkpoint", "archive"] {
        let message = tp(verb, env.path(), &["--wait", "0.3"]);
        assert!(matches!(message.code, Some(0 | 1)), "{verb}: {:?}, {}", message.code, message.err);
    }
    let message = tp("compact", env.path(), &["stock", "--wait", "0.3"]);
    assert!(matches!(message.code, Some(0 | 1)), "compact: {:?}, {}", message.code, message.err);
    let copies = tempdir().unwrap();
    tp("backup", env.path(), &[copies.path().join("copy").to_str().unwrap()]).text();
    let at_once = tp("put", env.path(), &["stock", "apples", "5", "--wait", "0"]);
    assert!(at_once.refused(1).contains(&blocker), "{}", at_once.err);
    holder.signal(Signal::CONT);
    // The holder does not block other records. The holder is continued first: a process that is stopped while it syncs
    // the log for all sessions makes the others wait for their commits.
    tp("put", env.path(), &["stock", "pears", "5"]).text();
    drop(holder);
    tp("put", env.path(), &["stock", "apples", "7"]).text();
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "7\n");
}

#[test]
fn the_wait_is_a_number_of_seconds() {
    let env = tempdir().unwrap();
    for wrong in ["-1", "soon", "NaN", "1e9"] {
        let message = tp("put", env.path(), &["stock", "apples", "3", &format!("--wait={wrong}")]);
        assert!(message.refused(2).contains("a number of seconds from 0 to 86400"), "{wrong}: {}", message.err);
    }
}

#[test]
fn ctrl_c_ends_a_verb_that_waits() {
    use std::os::unix::process::ExitStatusExt;
    let env = tempdir().unwrap();
    tp("put", env.path(), &["stock", "apples", "3"]).text();
    let mut holder = Holder::new(env.path(), "put stock apples 4");
    // A background process of a shell ignores the signal, and its children inherit that setting.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", env!("CARGO_BIN_EXE_tp")]);
    // This wait is longer than any test.
    command.args(["put", "--env"]).arg(env.path()).args(["stock", "apples", "5", "--wait", "86400"]);
    let mut waits = command.stdout(Stdio::null()).spawn().unwrap();
    while !tp("sessions", env.path(), &[]).text().contains("waits") {}
    kill_process(Pid::from_child(&waits), Signal::INT).unwrap();
    let ended = waits.wait().unwrap();
    assert_eq!(ended.signal(), Some(Signal::INT.as_raw()), "{ended}");
    writeln!(holder.orders, "commit").unwrap();
    holder.orders.flush().unwrap();
    while tp("get", env.path(), &["stock", "apples"]).text() != "4\n" {}
}

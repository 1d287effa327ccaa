//! Verbs that wait for a process that is stopped: the process holds a lock, or it writes the log for all processes.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

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

    /// Returns whether the stopped holder is writing the log: the signal may have come during a flush in the background.
    fn writes_the_log(&self, env: &Path) -> bool {
        tp("sessions", env, &[]).text().contains(&while_writing(self.child.id()))
    }
}

/// The words of `tp sessions` about a process that is stopped in a flush.
fn while_writing(pid: u32) -> String {
    format!("process {pid} is stopped while it writes the log")
}

/// A `tp shell` that puts a record again and again, and commits each time.
struct Writer {
    child: Child,
}

impl Writer {
    fn new(env: &Path) -> Writer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
        command.args(["shell", "--env"]).arg(env).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut orders = child.stdin.take().unwrap();
        // The thread ends when the shell has ended and its pipe is closed.
        std::thread::spawn(move || {
            let mut count = 0_u64;
            while writeln!(orders, "put stock written {count}").is_ok() {
                count += 1;
            }
        });
        let begun = Instant::now();
        // Until then the shell may be opening the environment.
        while tp("get", env, &["stock", "written"]).code != Some(0) {
            assert!(begun.elapsed() < HANG, "the shell has put nothing");
        }
        Writer { child }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the process while it writes the log.
    fn stop_in_a_flush(&self, env: &Path) {
        let words = while_writing(self.child.id());
        let begun = Instant::now();
        loop {
            self.signal(Signal::STOP);
            if tp("sessions", env, &[]).text().contains(&words) {
                return;
            }
            assert!(begun.elapsed() < HANG, "the process is never stopped in a flush");
            self.signal(Signal::CONT);
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A process that has already ended need not be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No step of these tests takes this long.
const HANG: Duration = Duration::from_secs(120);

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
    let copy = tp("backup", env.path(), &[copies.path().join("copy").to_str().unwrap()]);
    // The holder does not block other records.
    let other = tp("put", env.path(), &["stock", "pears", "5", "--wait", "0.3"]);
    if holder.writes_the_log(env.path()) {
        for waited in [copy, other] {
            let text = waited.refused(1);
            assert!(text.contains("is writing the log, and it is stopped"), "{text}");
        }
    } else {
        copy.text();
        other.text();
    }
    let at_once = tp("put", env.path(), &["stock", "apples", "5", "--wait", "0"]);
    assert!(at_once.refused(1).contains(&blocker), "{}", at_once.err);
    holder.signal(Signal::CONT);
    tp("put", env.path(), &["stock", "pears", "6"]).text();
    drop(holder);
    tp("put", env.path(), &["stock", "apples", "7"]).text();
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "7\n");
}

#[test]
fn a_verb_ends_within_its_wait_and_names_the_stopped_process_that_writes_the_log() {
    let env = tempdir().unwrap();
    tp("put", env.path(), &["stock", "apples", "3"]).text();
    tp("put", env.path(), &["unwanted", "apples", "3"]).text();
    let writer = Writer::new(env.path());
    writer.stop_in_a_flush(env.path());
    let pid = writer.child.id();
    let told = format!("process {pid} is writing the log, and it is stopped. `kill -CONT {pid}` or `kill -KILL {pid}`");
    let verbs: [(&str, &[&str]); 4] = [
        ("put", &["stock", "apples", "5"]),
        ("del", &["stock", "pears"]),
        ("checkpoint", &[]),
        ("drop", &["unwanted"]),
    ];
    for (verb, words) in verbs {
        let begun = Instant::now();
        let ended = tp(verb, env.path(), &[words, &["--wait", "0.3"]].concat());
        assert!(begun.elapsed() < HANG / 4, "{verb} has taken {:?}", begun.elapsed());
        let text = ended.refused(1);
        assert!(text.contains(&told) && text.contains("not known to be on disk"), "{verb}: {text}");
        let is_unknown = text.contains("it is unknown whether the commit is kept");
        assert!(is_unknown || !matches!(verb, "put" | "drop"), "{verb}: {text}");
    }
    // A verb that waits longer ends when the process continues.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["put", "--env"]).arg(env.path()).args(["stock", "apples", "6", "--wait", "86400"]);
    let mut waits = command.stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(600));
    assert!(waits.try_wait().unwrap().is_none(), "the verb did not wait");
    writer.signal(Signal::CONT);
    assert!(waits.wait().unwrap().success());
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "6\n");
    // The death of the process frees the waiters, too.
    writer.stop_in_a_flush(env.path());
    drop(writer);
    tp("put", env.path(), &["stock", "apples", "7"]).text();
    assert_eq!(tp("get", env.path(), &["stock", "apples"]).text(), "7\n");
    tp("get", env.path(), &["unwanted", "apples"]).refused(1);
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

//! `sessions`, `locks --wait-for`, `deadlock`: a process sees the sessions and waits of other processes, and breaks a
//! deadlock.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use libtp::{Env, Error, Settings};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};
use tempfile::tempdir;
use tp::tp;

/// The longest time that a test waits for an awaited answer.
const HANG: Duration = Duration::from_secs(30);

/// Returns the lines that a verb prints before its result, and the result.
fn lines(verb: &str, env: &Path, words: &[&str]) -> (Vec<Value>, Value) {
    let message = tp(verb, env, &[words, &["--json"]].concat());
    let result = message.result();
    let mut lines = message.json();
    lines.pop();
    (lines, result)
}

/// Repeats `ask` until `is_awaited` accepts the answer.
fn until<T>(mut ask: impl FnMut() -> T, is_awaited: impl Fn(&T) -> bool) -> T {
    let deadline = Instant::now() + HANG;
    loop {
        let answer = ask();
        if is_awaited(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "the awaited answer has not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Opens an environment whose waiting transactions search for deadlocks only after an hour.
fn patient(directory: &Path) -> Env {
    let settings = Settings { deadlock_period_millis: Some(3_600_000), ..Settings::default() };
    Env::builder().settings(settings).open(directory).unwrap()
}

#[test]
fn a_waiter_is_listed_with_its_lock_and_the_holder() {
    let directory = tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    assert_eq!(lines("locks", directory.path(), &["--wait-for"]), (Vec::new(), json!({ "waits": 0 })));
    let holder = env.begin().unwrap();
    stock.put(&holder, b"item", b"1").unwrap();
    let sessions = || lines("sessions", directory.path(), &[]);
    let (all, result) = sessions();
    assert_eq!((&result["sessions"], &result["stopped"], &result["dead"]), (&json!(all.len()), &json!(0), &json!(0)));
    let own = all.iter().find(|session| session["txn"] == holder.id()).unwrap();
    let fixed = ["pid", "process_state", "txn_state", "latches", "waits_for"].map(|name| own[name].clone());
    assert_eq!(fixed, [json!(std::process::id()), json!("alive"), json!("running"), json!(0), Value::Null]);

    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        let (env, stock) = (&env, &stock);
        scope.spawn(move || {
            let waiter = env.begin().unwrap();
            tell.send(waiter.id()).unwrap();
            stock.put(&waiter, b"item", b"2").unwrap();
            waiter.commit().unwrap();
        });
        let waiter = told.recv().unwrap();
        let waits = |(all, _): &(Vec<Value>, Value)| all.iter().any(|session| session["waits_ms"].is_u64());
        let (all, _) = until(sessions, waits);
        let waiting = all.iter().find(|session| session["waits_ms"].is_u64()).unwrap();
        assert_eq!((&waiting["txn"], &waiting["wanted"]), (&json!(waiter), &json!("X")));
        assert!(waiting["waits_for"].as_str().unwrap().ends_with(" of stock"), "{waiting}");

        let (edges, result) = lines("locks", directory.path(), &["--wait-for"]);
        assert_eq!((edges.len(), &result["waits"]), (1, &json!(1)), "{edges:?}");
        let edge = &edges[0];
        assert_eq!((&edge["waiter"]["txn"], &edge["holder"]["txn"]), (&json!(waiter), &json!(holder.id())));
        let fixed = ["database", "object", "wanted"].map(|name| edge[name].clone());
        assert_eq!(fixed, ["stock", "record", "X"].map(|value| json!(value)));
        assert_eq!(edge["waiter"]["pid"], std::process::id());

        let text = tp("locks", directory.path(), &["--wait-for"]).text();
        let (waiter, holder_id) =
            (format!("txn {waiter} (process "), format!("waits for txn {} (process ", holder.id()));
        assert!(text.starts_with(&waiter) && text.contains(&holder_id) && text.ends_with(" of stock\n"), "{text}");
        let dot = tp("locks", directory.path(), &["--wait-for", "--dot"]).text();
        let (from, to) = (&edge["waiter"]["locker"], &edge["holder"]["locker"]);
        assert!(dot.starts_with("digraph waits_for {\n") && dot.ends_with("}\n"), "{dot}");
        assert!(dot.contains(&format!("  locker{from} -> locker{to} [label=\"X on record ")), "{dot}");
        assert!(dot.contains(&format!("  locker{to} [label=\"txn {} (process ", holder.id())), "{dot}");
        holder.commit().unwrap();
    });
    assert_eq!(lines("locks", directory.path(), &["--wait-for"]).1, json!({ "waits": 0 }));
    assert!(tp("locks", directory.path(), &["--dot"]).refused(2).contains("--wait-for"));
    assert!(tp("locks", directory.path(), &["--wait-for", "--dot", "--json"]).refused(2).contains("--json"));
}

#[test]
fn tp_deadlock_finds_a_cycle_and_breaks_it() {
    let directory = tempdir().unwrap();
    let env = patient(directory.path());
    let stock = env.btree("stock").unwrap();
    assert_eq!(lines("deadlock", directory.path(), &[]), (Vec::new(), json!({ "deadlocks": 0 })));
    let (tell, told) = mpsc::channel();
    let both_hold = std::sync::Barrier::new(2);
    let client = |own: &[u8], other: &[u8]| {
        let txn = env.begin().unwrap();
        stock.put(&txn, own, b"1").unwrap();
        tell.send(txn.id()).unwrap();
        both_hold.wait();
        let put = stock.put(&txn, other, b"2");
        match put {
            Ok(()) => txn.commit().map(|()| None).unwrap(),
            Err(Error::Deadlock) => {
                let id = txn.id();
                txn.abort().unwrap();
                Some(id)
            }
            Err(error) => panic!("{error}"),
        }
    };
    std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(|| client(b"a", b"b")), scope.spawn(|| client(b"b", b"a")));
        let both = [told.recv().unwrap(), told.recv().unwrap()];
        until(|| lines("locks", directory.path(), &["--wait-for"]).1, |result| *result == json!({ "waits": 2 }));
        let (circles, result) = lines("deadlock", directory.path(), &[]);
        assert_eq!((circles.len(), &result["deadlocks"]), (1, &json!(1)), "{circles:?}");
        let members = circles[0]["members"].as_array().unwrap();
        let mut txns: Vec<u64> = members.iter().map(|member| member["txn"].as_u64().unwrap()).collect();
        txns.sort_unstable();
        let mut expected = both.to_vec();
        expected.sort_unstable();
        assert_eq!(txns, expected, "{circles:?}");
        assert!(members.iter().all(|member| member["wanted"] == "X"), "{circles:?}");
        let victims: Vec<u64> = [one, two].into_iter().filter_map(|client| client.join().unwrap()).collect();
        assert_eq!((&circles[0]["victim"]["txn"], &circles[0]["was_known"]), (&json!(victims[0]), &json!(false)));
        assert_eq!(victims.len(), 1);
    });
    assert_eq!(tp("deadlock", directory.path(), &[]).text(), "no deadlock\n");
}

/// A process that has the environment open until it is killed: a shell that waits for input.
struct Reader(Child);

impl Reader {
    fn start(directory: &Path) -> Reader {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
        // The shell has the environment open until its input ends.
        command.args(["shell", "--env"]).arg(directory);
        Reader(command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_stopped_process_is_distinguished_from_a_running_process() {
    let directory = tempdir().unwrap();
    let _env = Env::open_or_create(directory.path()).unwrap();
    let reader = Reader::start(directory.path());
    let lives = || {
        let (all, result) = lines("sessions", directory.path(), &[]);
        let of_reader = all.into_iter().filter(|session| session["pid"] == reader.0.id());
        (of_reader.map(|session| session["process_state"].clone()).collect::<Vec<_>>(), result)
    };
    let (before, _) = until(lives, |(lives, _)| !lives.is_empty());
    assert!(before.iter().all(|life| life == "alive"), "{before:?}");
    reader.signal(Signal::STOP);
    let all_stopped = |lives: &[Value]| !lives.is_empty() && lives.iter().all(|life| life == "stopped");
    let (_, result) = until(lives, |(lives, _)| all_stopped(lives));
    assert!(result["stopped"].as_u64() > Some(0) && result["dead"] == 0, "{result}");
    reader.signal(Signal::CONT);
    until(lives, |(lives, _)| lives.iter().all(|life| life == "alive"));
}

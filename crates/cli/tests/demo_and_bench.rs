//! `demo` and `bench tpcb`: the fields of their results, their audits, and that the demonstration's crash is real.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use serde_json::{json, Value};
use tempfile::tempdir;
use tp::{tp, tp_words};

/// Asserts that each named field is a whole number.
fn assert_counts(result: &Value, names: &[&str]) {
    for name in names {
        assert!(result[name].is_u64(), "{name} is {}", result[name]);
    }
}

#[test]
fn a_demo_kills_processes_recovers_and_loses_nothing_and_goes_on_another_time() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let words = ["--seconds", "2", "--accounts", "2000", "--processes", "4", "--kill-every", "100ms", "--json"];
    let message = tp("demo", &env, &words);
    let first = message.result();
    assert_eq!((&first["workload"], &first["audit"], &first["lost"]), (&json!("demo"), &json!("ok"), &json!(0)));
    let counts = ["acknowledged", "lost", "unacknowledged", "tps", "history", "processes", "accounts", "branches"];
    assert_counts(&first, &counts);
    assert_counts(&first, &["kills", "repairs", "rebuilds"]);
    let count = |result: &Value, name: &str| result[name].as_u64().unwrap();
    assert!(count(&first, "acknowledged") > 0);
    assert_eq!(count(&first, "history"), count(&first, "acknowledged") + count(&first, "unacknowledged"));
    for kind in ["sync", "relaxed"] {
        assert!(
            first[kind]["tps"].is_u64() && first[kind]["p50_us"].is_f64() && first[kind]["p99_us"].is_f64(),
            "{first}"
        );
    }
    assert!(count(&first, "kills") > 1 && count(&first, "repairs") > 0, "{first}");
    assert_eq!(first["rebuilds"], 0);
    let millis = |name: &str| first[name].as_f64().unwrap();
    for (small, large) in [
        ("stall_p50_ms", "stall_p99_ms"),
        ("stall_p99_ms", "stall_max_ms"),
        ("stall_max_ms", "all_again_max_ms"),
        ("all_again_p50_ms", "all_again_p99_ms"),
    ] {
        assert!(millis(small) > 0.0 && millis(small) <= millis(large), "{first}");
    }
    assert_eq!(first["recovery"]["how"], "repaired", "somebody survived the crash");
    let seconds: Vec<_> = message.json().iter().filter_map(|line| line["second"].as_u64()).collect();
    assert!(seconds.starts_with(&[1]), "{seconds:?}");
    let second = &message.json()[0];
    assert!(second["kills"].is_u64() && second["repairs"].is_u64() && second["stall_max_ms"].is_f64(), "{second}");

    // The bank is kept. A second demonstration works in it, and audits the records of both.
    let second = tp("demo", &env, &["--seconds", "1", "--kill-every", "0", "--json"]).result();
    assert_eq!((&second["audit"], &second["accounts"]), (&json!("ok"), &json!(2000)));
    assert_eq!((&second["kills"], &second["stall_max_ms"]), (&json!(0), &json!(0.0)));
    assert!(count(&second, "history") >= count(&first, "history") + count(&second, "acknowledged"));
    assert!(tp("demo", &env, &["--accounts", "7"]).refused(2).contains("2000 accounts already"));
    assert!(tp("demo", &env, &["--kill-every", "100"]).refused(2).contains("ms or s"));
    let stat = tp("stat", &env, &["--json"]).result();
    let names: Vec<_> = stat["databases"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    for name in ["account", "branch", "history", "teller"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
}

#[test]
fn a_process_of_a_demo_that_is_killed_by_others_is_no_part_of_the_show() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["demo", "--accounts", "100", "--seconds", "60", "--kill-every", "0", "--processes", "2", "--env"]);
    command.arg(&env);
    let of_worker = |pid: i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"demo-worker")
    };
    let stranger = std::thread::spawn({
        let env = env.clone();
        move || loop {
            let lines = tp("sessions", &env, &["--json"]).json();
            let pids = lines.iter().filter_map(|line| i32::try_from(line["pid"].as_i64()?).ok());
            if let Some(pid) = pids.into_iter().find(|pid| of_worker(*pid)) {
                let pid = rustix::process::Pid::from_raw(pid).unwrap();
                return rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            }
        }
    });
    let message = tp::run(command, b"");
    stranger.join().unwrap();
    assert!(message.refused(1).contains("ended by itself"), "{}", message.err);
    // No session is left.
    assert_eq!(tp("sessions", &env, &["--json"]).result()["sessions"], 0);
}

#[test]
fn an_audit_that_disagrees_ends_with_one_and_says_what_disagrees() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let bench = ["--accounts", "100", "--seconds", "0.1", "--warmup", "0", "--durability", "relaxed", "--json"];
    tp("bench tpcb", &env, &bench).result();
    let account = tp("get", &env, &["account", "--hex", "00000007", "--json"]).result();
    let honest = account["value_hex"].as_str().unwrap();
    let robbed = format!("{}ff{}", &honest[..20], &honest[22..]);
    tp("put", &env, &["account", "--hex", "00000007", &robbed]).text();
    for (verb, words) in [("bench tpcb", bench.as_slice()), ("demo", &["--seconds", "0.3", "--json"])] {
        let message = tp(verb, &env, words);
        assert_eq!(message.code, Some(1), "{verb}: {}", message.err);
        let result = message.json().pop().unwrap();
        let audit = result["audit"].as_str().unwrap();
        assert!(audit.contains("account record 7 has balance"), "{verb}: {audit}");
    }
    tp("put", &env, &["account", "--hex", "00000007", honest]).text();
    tp("del", &env, &["history", "3"]).text();
    let message = tp("demo", &env, &["--seconds", "0.3"]);
    assert!(message.code == Some(1) && String::from_utf8_lossy(&message.out).contains("amounts in the history"));
}

#[test]
fn a_demo_in_text_says_what_was_lost_and_where_the_bank_lies() {
    let parent = tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["demo", "--seconds", "1", "--accounts", "500", "--processes", "2"]).env("TMPDIR", parent.path());
    let text = tp::run(command, b"").text();
    let bank = parent.path().join("libtp-demo-1");
    assert!(text.contains(" 0 lost") && text.contains("audit: ok"), "{text}");
    assert!(text.contains(&format!("the bank is in {}", bank.display())) && bank.is_dir(), "{text}");
    assert!(text.contains("sync ") && text.contains("relaxed ") && text.contains(" kills, "), "{text}");
}

#[test]
fn a_benchmark_has_the_promised_fields_and_removes_its_directory() {
    let parent = tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["bench", "tpcb", "--accounts", "1000", "--seconds", "0.5", "--warmup", "0.1", "--json"]);
    command.arg("--durability=relaxed").env("TMPDIR", parent.path());
    let message = tp::run(command, b"");
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
        tp("bench tpcb", &env, &all).result()
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
fn a_peer_that_was_left_out_is_wrong_usage_and_makes_nothing() {
    let parent = tempdir().unwrap();
    for engine in ["lmdb", "bdb"] {
        let env = parent.path().join(engine);
        let refused = tp("bench tpcb", &env, &["--engine", engine, "--json"]);
        assert!(refused.refused(2).contains("--features peers"), "{}", refused.err);
        assert!(!env.exists());
    }
    assert!(tp_words(&["bench"], b"").refused(2).contains("tpcb"));
}

#[cfg(feature = "peers")]
#[test]
fn the_peers_run_the_same_workload() {
    let parent = tempdir().unwrap();
    let heavy = ["rocksdb", "bdb"].into_iter().filter(|_| cfg!(feature = "peers-all"));
    for engine in ["sqlite", "lmdb", "redb", "fjall"].into_iter().chain(heavy) {
        let words = ["--engine", engine, "--accounts", "1000", "--seconds", "0.3", "--durability", "relaxed", "--json"];
        let result = tp("bench tpcb", &parent.path().join(engine), &words).result();
        assert_eq!((&result["engine"], &result["audit"]), (&json!(engine), &json!("ok")));
    }
    assert!(tp_words(&["bench"], b"").refused(2).contains("tpcb"));
}

#[test]
fn clients_that_are_processes_meet_and_say_how_often_one_gave_way() {
    for granularity in ["record", "page"] {
        let parent = tempdir().unwrap();
        let env = parent.path().join("bank");
        let words = ["--as", "processes", "--clients", "4", "--accounts", "100", "--branches", "1", "--read-first"];
        let rest = ["--durability", "relaxed", "--seconds", "1", "--warmup", "0.1", "--granularity", granularity];
        let words = [words.as_slice(), &rest].concat();
        let result = tp("bench tpcb", &env, &[words.as_slice(), &["--json"]].concat()).result();
        let fixed = ["as", "granularity", "audit", "reads_first", "branches"].map(|name| result[name].clone());
        assert_eq!(fixed, [json!("processes"), json!(granularity), json!("ok"), json!(true), json!(1)]);
        let count = |name: &str| result[name].as_u64().unwrap();
        assert!(count("aborts") > 0, "everybody reads the one branch and then wants it: {result}");
        let rate = count("aborts") as f64 * 1_000.0 / count("committed") as f64;
        assert!((result["aborts_per_1000"].as_f64().unwrap() - rate).abs() < 0.001, "{result}");
        let text = tp("bench tpcb", &env, &words).text();
        assert!(text.contains(" of 1,000)") && text.contains("read before the change"), "{text}");
    }
}

#[test]
fn sixty_four_processes_work_in_one_bank() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let words = ["--as", "processes", "--clients", "64", "--accounts", "1000", "--branches", "10", "--json"];
    let rest = ["--durability", "relaxed", "--seconds", "0.5", "--warmup", "0"];
    let result = tp("bench tpcb", &env, &[words.as_slice(), &rest].concat()).result();
    assert_eq!((&result["clients"], &result["audit"]), (&json!(64), &json!("ok")), "{result}");
}

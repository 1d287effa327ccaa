//! `demo`: the fields of its result, its audit, and a check that its crash is real.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use serde_json::{json, Value};
use tempfile::tempdir;
use tp::tp;

/// Asserts that each named field is a whole number.
fn assert_counts(result: &Value, names: &[&str]) {
    for name in names {
        assert!(result[name].is_u64(), "{name} is {}", result[name]);
    }
}

#[test]
fn a_demo_kills_processes_and_loses_nothing_and_a_second_demo_continues_in_the_same_bank() {
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
    assert_eq!(first["recovery"]["how"], "repaired", "a process survived the crash");
    let seconds: Vec<_> = message.json().iter().filter_map(|line| line["second"].as_u64()).collect();
    assert!(seconds.starts_with(&[1]), "{seconds:?}");
    let second = &message.json()[0];
    assert!(second["kills"].is_u64() && second["repairs"].is_u64() && second["stall_max_ms"].is_f64(), "{second}");

    // The bank is kept. A second demonstration works in it, and audits the records of both demonstrations.
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
fn a_demo_fails_if_another_program_kills_one_of_its_processes() {
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
    assert!(message.refused(1).contains("ended without a kill"), "{}", message.err);
    // No session is left.
    assert_eq!(tp("sessions", &env, &["--json"]).result()["sessions"], 0);
}

#[test]
fn a_demo_whose_audit_fails_exits_with_one_and_names_the_wrong_record() {
    let parent = tempdir().unwrap();
    let env = parent.path().join("bank");
    let short = ["--seconds", "0.3", "--json"];
    tp("demo", &env, &[&["--accounts", "100"], &short[..]].concat()).result();
    let account = tp("get", &env, &["account", "--hex", "00000007", "--json"]).result();
    let honest = account["value_hex"].as_str().unwrap();
    let other = if &honest[20..22] == "ff" { "00" } else { "ff" };
    let robbed = format!("{}{other}{}", &honest[..20], &honest[22..]);
    tp("put", &env, &["account", "--hex", "00000007", &robbed]).text();
    let message = tp("demo", &env, &short);
    assert_eq!(message.code, Some(1), "{}", message.err);
    let result = message.json().pop().unwrap();
    let audit = result["audit"].as_str().unwrap();
    assert!(audit.contains("account record 7 has balance"), "{audit}");
    tp("put", &env, &["account", "--hex", "00000007", honest]).text();
    tp("del", &env, &["history", "3"]).text();
    let message = tp("demo", &env, &["--seconds", "0.3"]);
    assert!(message.code == Some(1) && String::from_utf8_lossy(&message.out).contains("amounts in the history"));
}

#[test]
fn the_text_of_a_demo_has_the_losses_and_the_banks_directory() {
    let parent = tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["demo", "--seconds", "1", "--accounts", "500", "--processes", "2"]).env("TMPDIR", parent.path());
    let text = tp::run(command, b"").text();
    let bank = parent.path().join("libtp-demo-1");
    assert!(text.contains(" 0 lost") && text.contains("audit: ok"), "{text}");
    assert!(text.contains(&format!("the bank is in {}", bank.display())) && bank.is_dir(), "{text}");
    assert!(text.contains("sync ") && text.contains("relaxed ") && text.contains(" kills, "), "{text}");
}

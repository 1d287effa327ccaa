//! `tp top`: one frame as text, an object for each interval, and the screen on a terminal.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use libtp::Env;
use serde_json::Value;
use tempfile::tempdir;
use tp::tp;

#[test]
fn one_frame_is_printed_as_text() {
    let directory = tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let txn = env.begin().unwrap();
    stock.put(&txn, b"item", b"1").unwrap();
    for words in [&["--once", "--interval", "0.05"][..], &["--interval", "0.05"]] {
        let text = tp("top", directory.path(), words).text();
        assert!(text.starts_with(&format!("Environment {}\n", directory.path().display())), "{text}");
        for part in ["commits, ", "\nSessions\n", "no transaction waits for another", "no snapshot is held"] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(text.contains(&format!("{} running", txn.id())) && !text.contains('\u{1b}'), "{text}");
    }
    txn.commit().unwrap();
}

#[test]
fn an_environment_that_no_process_has_open_is_not_opened() {
    let directory = tempdir().unwrap();
    tp("put", directory.path(), &["stock", "item", "1"]).text();
    let before = std::fs::metadata(directory.path().join("control")).unwrap().modified().unwrap();
    let text = tp("top", directory.path(), &["--once", "--interval", "0.05"]).text();
    assert!(text.contains("no process has the environment open"), "{text}");
    assert_eq!(std::fs::metadata(directory.path().join("control")).unwrap().modified().unwrap(), before);
    let missing = directory.path().join("missing");
    assert!(!tp("top", &missing, &["--once"]).refused(1).is_empty());
    assert!(!missing.exists());
}

#[test]
fn an_object_with_the_rates_is_printed_for_each_interval() {
    let directory = tempdir().unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    let once = tp("top", directory.path(), &["-j", "--once", "--interval", "0.05"]);
    assert_eq!((once.json().len(), &once.result()["is_open"]), (1, &Value::Bool(true)));

    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["top", "-j", "--interval", "0.05", "--env"]).arg(directory.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap() };
    assert!(next()["sessions"].as_array().is_some_and(|sessions| !sessions.is_empty()));
    let mut number = 0_u64;
    loop {
        number += 1;
        env.run(|txn| stock.put(txn, b"item", &number.to_le_bytes())).unwrap();
        let seen = next();
        if seen["commits_per_second"].as_u64() > Some(0) && seen["log_syncs_per_second"].as_u64() > Some(0) {
            break;
        }
    }
    drop(lines);
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(141), ""));
}

/// Runs `tp top` on a terminal, which `script` makes, and presses keys. Returns the bytes that the terminal got, or
/// `None` if `script` is not installed.
fn on_a_terminal(directory: &Path, keys: &[u8]) -> Option<String> {
    let mut command = Command::new("script");
    let tp = format!("stty rows 40 cols 120; exec {} top --interval 0.1", env!("CARGO_BIN_EXE_tp"));
    command.args(["-qec", &tp, "/dev/null"]).env("TP_ENV", directory).env("TERM", "xterm");
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.ok()?;
    let (mut keyboard, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut seen = Vec::new();
    // Before the first frame, the terminal itself would handle Ctrl-C.
    while !String::from_utf8_lossy(&seen).contains("Snapshots") {
        let mut part = [0; 4096];
        let length = screen.read(&mut part).unwrap();
        assert!(length > 0, "no frame: {:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..length]);
    }
    keyboard.write_all(keys).unwrap();
    screen.read_to_end(&mut seen).unwrap();
    assert!(child.wait().unwrap().success());
    Some(String::from_utf8_lossy(&seen).into_owned())
}

#[test]
fn the_screen_of_a_terminal_is_restored_when_a_key_ends_the_command() {
    let directory = tempdir().unwrap();
    let _env = Env::open_or_create(directory.path()).unwrap();
    // The key `q`, and Ctrl-C.
    for keys in [b"q", b"\x03"] {
        let Some(seen) = on_a_terminal(directory.path(), keys) else { return };
        let (begin, end) = (seen.find("\u{1b}[?1049h"), seen.rfind("\u{1b}[?1049l"));
        assert!(begin.is_some() && begin < end, "{seen:?}");
        assert!(seen.contains("Sessions") && seen.contains("Commits"), "{seen:?}");
    }
}

//! Everyone is killed, and the log files lose what shared memory knows to be in them: opening refuses to guess, and the
//! two commands that its message names do what they say.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use tempfile::{tempdir, TempDir};
use tp::tp;

/// A bank whose only process was killed, and whose log files end a little before they should.
fn disagreement() -> TempDir {
    let directory = tempdir().unwrap();
    let env = directory.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(["bench", "tpcb", "--accounts", "500", "--seconds", "600", "--env"]).arg(env);
    let mut victim = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log_bytes = || tp("stat", env, &["--json"]).json().pop().and_then(|stat| stat["log_tail"].as_u64());
    while victim.try_wait().unwrap().is_none() && log_bytes().unwrap_or(0) < 300_000 {
        std::thread::yield_now();
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    cut_off(env);
    directory
}

/// Takes the last bytes away that the log files have.
fn cut_off(env: &Path) {
    let names = std::fs::read_dir(env).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = names.filter(|path| path.to_string_lossy().contains("log.0")).collect();
    segments.sort();
    for segment in segments.iter().rev() {
        let mut bytes = std::fs::read(segment).unwrap();
        // Behind the header's block.
        let Some(last) = bytes[4096..].iter().rposition(|&byte| byte != 0) else { continue };
        let end = 4096 + last + 1;
        bytes[(end - 1500).max(4096)..end].fill(0);
        std::fs::write(segment, bytes).unwrap();
        return;
    }
    panic!("there is no log");
}

fn assert_sound(env: &Path) {
    for database in ["account", "teller", "branch", "history"] {
        tp("verify", env, &[database]).text();
    }
}

#[test]
fn shared_memory_and_files_that_disagree_are_left_to_whoever_may_decide() {
    let directory = disagreement();
    let env = directory.path();
    for _ in 0..2 {
        let refused = tp("recover", env, &[]);
        let why = refused.refused(1);
        assert!(why.contains("--keep-files") && why.contains("--keep-region"), "{why}");
    }
    tp("recover", env, &["--keep-files", "--keep-region"]).refused(2);
    assert_eq!(tp("recover", env, &["--keep-region", "--json"]).result()["how"], json!("repaired"));
    assert_sound(env);
    assert_eq!(tp("recover", env, &["--json"]).result()["how"], json!("clean"));
}

#[test]
fn keeping_the_files_forgets_the_memory_and_replays_the_log() {
    let directory = disagreement();
    let env = directory.path();
    assert_eq!(tp("recover", env, &["--keep-files", "--json"]).result()["how"], json!("restarted"));
    assert_sound(env);
}

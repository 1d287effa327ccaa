//! All processes are killed, and the log files lose bytes that, according to the shared memory, are in them. The next
//! opening refuses to guess, and the two commands in its message resolve the disagreement.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtp_bank::{Durability, Engine, Granularity, Libtp, Scale, Session, Transfers};
use serde_json::json;
use tempfile::{tempdir, TempDir};
use tp::tp;

/// Makes a bank whose only process was killed, and whose log files end a few bytes too early.
fn disagreement() -> TempDir {
    let directory = tempdir().unwrap();
    let env = directory.path();
    work_and_die(env, 300_000);
    cut_off(env);
    directory
}

/// The environment variables that make this program act as the process at work: the environment's directory, and the
/// durability of commits.
const VICTIM: [&str; 2] = ["LIBTP_TEST_VICTIM", "LIBTP_TEST_VICTIM_DURABILITY"];

/// Starts this program again, as a process that makes a bank and then makes transfers in it.
fn at_work(env: &Path, durability: Durability) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_process_at_work"]).env(VICTIM[0], env).env(VICTIM[1], durability.name());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Not a test, but the process at work, which runs until it is killed.
#[test]
fn a_process_at_work() {
    let Some(env) = std::env::var_os(VICTIM[0]) else { return };
    let durability: Durability = std::env::var(VICTIM[1]).unwrap().parse().unwrap();
    let bank = Libtp::open(Path::new(&env), durability, Granularity::Record, &mut |_| {}).unwrap();
    let scale = Scale::with_accounts(500);
    bank.load(&scale, &mut |_| {}).unwrap();
    let mut session = bank.session_at(durability);
    let mut transfers = Transfers::new(scale, 1, 0);
    loop {
        session.transact(&transfers.next_transfer()).unwrap();
    }
}

/// Lets a process work in a bank until the log has `log_bytes_min` bytes, and kills it.
fn work_and_die(env: &Path, log_bytes_min: u64) {
    let mut victim = at_work(env, Durability::Sync);
    let log_bytes = || tp("stat", env, &["--json"]).json().pop().and_then(|stat| stat["log_tail"].as_u64());
    while victim.try_wait().unwrap().is_none() && log_bytes().unwrap_or(0) < log_bytes_min {
        std::thread::yield_now();
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

/// Overwrites the last bytes of the log with zeros.
fn cut_off(env: &Path) {
    let names = std::fs::read_dir(env).unwrap().map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = names.filter(|path| path.to_string_lossy().contains("log.0")).collect();
    segments.sort();
    for segment in segments.iter().rev() {
        let mut bytes = std::fs::read(segment).unwrap();
        // The log's bytes begin after the block of the header.
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
fn if_memory_and_files_disagree_the_user_must_decide() {
    let directory = disagreement();
    let env = directory.path();
    for _ in 0..2 {
        let refused = tp("recover", env, &[]);
        let why = refused.refused(1);
        assert!(why.contains("--keep-files") && why.contains("--keep-region"), "{why}");
    }
    tp("recover", env, &["--keep-files", "--keep-region"]).refused(2);
    assert_eq!(tp("recover", env, &["--keep-region", "--json"]).result()["how"], json!("restarted"));
    assert_sound(env);
    assert_eq!(tp("recover", env, &["--json"]).result()["how"], json!("clean"));
}

#[test]
fn keeping_the_files_drops_the_memory_and_replays_the_log() {
    let directory = disagreement();
    let env = directory.path();
    assert_eq!(tp("recover", env, &["--keep-files", "--json"]).result()["how"], json!("restarted"));
    assert_sound(env);
}

#[test]
fn a_backup_in_the_place_of_deleted_files_is_opened_only_after_the_user_has_decided() {
    let (homes, memory) = (tempdir().unwrap(), tempdir().unwrap());
    let (env, backup) = (&homes.path().join("env"), &homes.path().join("backup"));
    std::fs::create_dir(env).unwrap();
    // The region gets a separate directory: any process that opens an environment may remove memory whose environment
    // is gone.
    let settings = format!("region_directory = \"{}\"\n", memory.path().display());
    std::fs::write(env.join("libtp.toml"), settings).unwrap();
    tp("put", env, &["names", "key", "value"]).text();
    copy(env, backup);
    work_and_die(env, 50_000);
    std::fs::remove_dir_all(env).unwrap();
    copy(backup, env);
    for verb in ["recover", "stat", "sessions"] {
        let refused = tp(verb, env, &[]);
        let why = refused.refused(1);
        assert!(why.contains("--keep-files") && why.contains("--keep-region"), "{verb}: {why}");
    }
    let refused = tp("recover", env, &["--keep-region"]);
    let why = refused.refused(1);
    assert!(
        why.contains(".tp is missing") && why.contains("nothing was changed"),
        "the backup lacks the files of the bank: {why}"
    );
    tp("recover", env, &["--keep-files"]).text();
    assert_eq!(tp("get", env, &["names", "key"]).text().trim(), "value");
    assert_eq!(tp("recover", env, &["--json"]).result()["how"], json!("clean"));
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0, "no trace of the decision stays");
}

#[test]
fn memory_without_an_environment_is_shown_with_the_command_that_removes_it() {
    let (homes, memory) = (tempdir().unwrap(), tempdir().unwrap());
    let settings = format!("region_directory = \"{}\"\nrelaxed_millis = 3600000\n", memory.path().display());
    let (old, new, other) = (homes.path().join("old"), homes.path().join("new"), homes.path().join("other"));
    for env in [&old, &other] {
        std::fs::create_dir(env).unwrap();
        std::fs::write(env.join("libtp.toml"), &settings).unwrap();
    }
    tp("put", &other, &["names", "key", "value"]).text();
    let mut victim = at_work(&old, Durability::Relaxed);
    let ahead = |stat: &serde_json::Value| stat["log_tail"].as_u64() > stat["log_durable"].as_u64();
    while victim.try_wait().unwrap().is_none()
        && !tp("stat", &old, &["--json"])
            .json()
            .pop()
            .is_some_and(|stat| ahead(&stat) && stat["databases"][3].is_object())
    {
        std::thread::yield_now();
    }
    // `tp stat` flushed the log when it left, so the process at work must commit some more.
    std::thread::sleep(Duration::from_millis(200));
    victim.kill().unwrap();
    victim.wait().unwrap();
    std::fs::rename(&old, &new).unwrap();
    let left = &tp("stat", &other, &["--json"]).result()["memory_left"];
    assert_eq!(left.as_array().map(Vec::len), Some(1), "{left}");
    let remove = left[0]["remove"].as_str().unwrap();
    assert!(tp("stat", &other, &[]).text().contains(remove), "the text output shows the command, too");
    assert_eq!(tp("recover", &new, &["--json"]).result()["how"], json!("repaired"));
    assert_eq!(tp("stat", &other, &["--json"]).result()["memory_left"], json!([]));
    // The command in the message removes the memory of a deleted environment.
    assert!(remove.starts_with("rm ") && remove.contains(&memory.path().display().to_string()), "{remove}");
}

#[test]
fn the_memory_of_a_deleted_environment_is_removed_by_stat() {
    let (homes, memory) = (tempdir().unwrap(), tempdir().unwrap());
    let settings = format!("region_directory = \"{}\"\n", memory.path().display());
    let (gone, there, other) = (homes.path().join("gone"), homes.path().join("there"), homes.path().join("other"));
    for env in [&there, &other] {
        std::fs::create_dir(env).unwrap();
        std::fs::write(env.join("libtp.toml"), &settings).unwrap();
    }
    let regions = || std::fs::read_dir(memory.path()).unwrap().count();
    // The environment is held open, so that `tp stat` attaches to its region and makes no new region.
    let at_work = libtp::Env::open_or_create(&other).unwrap();
    work_and_die(&there, 50_000);
    // If the process dies during a commit, it may leave records that are not on disk. Then its memory is kept, and the
    // test tries again.
    let is_swept = (0..20).any(|_| {
        std::fs::create_dir(&gone).unwrap();
        std::fs::write(gone.join("libtp.toml"), &settings).unwrap();
        work_and_die(&gone, 50_000);
        assert_eq!(regions(), 3);
        std::fs::remove_dir_all(&gone).unwrap();
        let stat = tp("stat", &other, &["--json"]).result();
        assert_eq!(stat["opened"]["how"], json!("joined"));
        let left = stat["memory_left"].as_array().unwrap();
        for kept in left {
            assert!(kept["why"].as_str().unwrap().contains("not on disk"), "{kept}");
            std::fs::remove_file(kept["file"].as_str().unwrap()).unwrap();
        }
        assert_eq!(regions(), 2, "the memory of the deleted environment was not removed");
        left.is_empty()
    });
    assert!(is_swept, "memory whose commits are on disk was kept");
    assert_eq!(tp("recover", &there, &["--json"]).result()["how"], json!("repaired"));
    drop(at_work);
}

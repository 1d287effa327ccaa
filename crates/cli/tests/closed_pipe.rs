//! If the reader closes the pipe, the command ends without a message, as by SIGPIPE.
#![allow(clippy::unwrap_used)] // The whole file is tests.

mod tp;

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

use tempfile::{tempdir, TempDir};
use tp::{tp, tp_reading};

/// The exit code that a shell shows for a program that SIGPIPE has ended.
const SIGPIPE_CODE: i32 = 141;

/// Makes an environment with more records than a pipe and a program's buffer have room for.
fn environment() -> TempDir {
    let env = tempdir().unwrap();
    let mut dump = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n".to_string();
    (0..20_000).for_each(|n| dump.push_str(&format!(" {n:06}\n {n}\n")));
    dump.push_str("DATA=END\n");
    tp_reading("load", env.path(), &["many"], dump.as_bytes()).text();
    env
}

/// Returns a pipe whose reader has ended.
fn pipe_without_reader() -> Stdio {
    let mut ended = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = ended.stdin.take().unwrap();
    ended.wait().unwrap();
    Stdio::from(pipe)
}

/// Starts `tp` in the environment's directory.
fn start(env: &TempDir, words: &[impl AsRef<OsStr>], out: Stdio, err: Stdio) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(words).current_dir(env.path()).env_remove("TP_ENV").stdin(Stdio::null());
    command.stdout(out).stderr(err).spawn().unwrap()
}

#[test]
fn a_verb_whose_output_pipe_is_closed_ends_without_a_message() {
    let env = environment();
    for words in [
        &["scan", "many"][..],
        &["scan", "many", "-j"],
        &["scan", "many", "--reverse", "--limit", "1"],
        &["dump", "many"],
        &["dump", "many", "-j"],
        &["list"],
        &["list", "-j"],
        &["get", "many", "000001"],
        &["printlog", "-j"],
        &["stat"],
        &["locks"],
        &["txns"],
        &["sessions"],
        &["snapshots"],
        &["verify"],
        &["recover"],
        &["upgrade"],
        &["archive", "--all"],
    ] {
        let ended = start(&env, words, pipe_without_reader(), Stdio::piped()).wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*error), (Some(SIGPIPE_CODE), ""), "{words:?}");
    }
    let help = start(&env, &["--help"], pipe_without_reader(), Stdio::piped()).wait_with_output().unwrap();
    assert_eq!((help.status.code(), help.stderr), (Some(0), Vec::new()));
    assert_eq!(tp("verify", env.path(), &["-j"]).result()["findings"], 0, "the environment is closed in good order");
}

#[test]
fn a_closed_pipe_for_errors_changes_no_exit_code() {
    let env = environment();
    for (words, code) in [(&["get", "many", "missing"][..], 1), (&["get", "other", "key"], 1), (&["fly"], 2)] {
        let ended = start(&env, words, Stdio::null(), pipe_without_reader()).wait().unwrap();
        assert_eq!(ended.code(), Some(code), "{words:?}");
    }
}

#[test]
fn a_pipeline_prints_its_first_line_and_nothing_else() {
    let env = environment();
    for verb in ["scan", "dump"] {
        let mut shell = Command::new("sh");
        let script = r#""$1" "$2" --env "$3" many | head -n 1"#;
        shell.args(["-c", script, "sh", env!("CARGO_BIN_EXE_tp"), verb]).arg(env.path());
        let said = tp::run(shell, b"");
        let first = if verb == "scan" { "000000\t0\n" } else { "VERSION=3\n" };
        assert_eq!((said.out.as_slice(), said.err.as_str()), (first.as_bytes(), ""));
    }
}

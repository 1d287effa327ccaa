//! Runs the real `tp` and checks its output and its exit code.
#![allow(dead_code)] // Every file of tests is a separate program, and uses only a part of this module.

mod finished;

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

pub use finished::{run, Finished};

/// Runs `tp VERB --env DIR WORDS..`, with nothing on standard input.
pub fn tp(verb: &str, env: &Path, words: &[&str]) -> Finished {
    tp_reading(verb, env, words, b"")
}

/// Runs `tp VERB --env DIR WORDS..`, with `input` on standard input.
pub fn tp_reading(verb: &str, env: &Path, words: &[&str], input: &[u8]) -> Finished {
    let mut all: Vec<&OsStr> = verb.split(' ').map(OsStr::new).collect();
    all.extend([OsStr::new("--env"), env.as_os_str()]);
    all.extend(words.iter().map(OsStr::new));
    tp_words(&all, input)
}

/// Runs `tp` with any words.
pub fn tp_words<S: AsRef<OsStr>>(words: &[S], input: &[u8]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(words).env_remove("TP_ENV");
    run(command, input)
}

/// Runs `tp` with any words in a directory, with `TP_ENV` set to `variable`.
pub fn tp_in<S: AsRef<OsStr>>(directory: &Path, variable: Option<&OsStr>, words: &[S]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tp"));
    command.args(words).current_dir(directory).env_remove("TP_ENV").envs(variable.map(|value| ("TP_ENV", value)));
    run(command, b"")
}

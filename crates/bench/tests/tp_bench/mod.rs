//! Runs the program `tp-bench`, and checks its output and its exit code.
#![allow(dead_code)] // Each file of tests is a separate program, and uses only a part of this module.

#[path = "../../../cli/tests/tp/finished.rs"]
mod finished;

use std::path::Path;
use std::process::Command;

pub use finished::{run, Finished};

/// Returns the command of `tp-bench`.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tp-bench"))
}

/// Runs `tp-bench WORDS..`.
pub fn tp_bench(words: &[&str]) -> Finished {
    let mut command = command();
    command.args(words);
    run(command, b"")
}

/// Runs `tp-bench tpcb --env DIR WORDS..`.
pub fn tpcb(env: &Path, words: &[&str]) -> Finished {
    let mut command = command();
    command.args(["tpcb", "--env"]).arg(env).args(words);
    run(command, b"")
}

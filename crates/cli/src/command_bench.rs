//! `tp bench`: starts `tp-bench`, the program that has the benchmarks.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::failure::{Ending, Failure, Result};
use crate::output::Output;

/// The program's name.
const PROGRAM: &str = "tp-bench";

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Words for tp-bench: a workload and its options; `tp bench --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Replaces this process by `tp-bench`. Returns only on failure.
pub fn run(arguments: &Arguments, output: &Output) -> Result<Ending> {
    let mut command = Command::new(beside_this_program().unwrap_or_else(|| PROGRAM.into()));
    command.args(output.is_json().then_some("--json")).args(&arguments.words);
    let error = command.exec();
    if error.kind() != ErrorKind::NotFound {
        return Err(Failure::doing(format!("start {PROGRAM}"))(error));
    }
    Err(Failure::Failed(format!(
        "the program {PROGRAM}, which runs the benchmarks, is neither beside tp nor in a directory of PATH. Run `cargo xtask install --prefix DIR` in libtp's source, which installs both"
    )))
}

/// Returns the path of `tp-bench` in the directory of this program, if the file exists.
fn beside_this_program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    beside.exists().then_some(beside)
}

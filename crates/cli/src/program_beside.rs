//! Separate programs that a verb starts: `tp-bench` and `tp-sql`. `tp` is built without the dependencies of these
//! programs.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Ending, Failure, Result};
use crate::output::Output;

/// Replaces this process by a program. `task` describes the program in an error. Returns only on failure.
pub fn start(program: &str, task: &str, words: &[OsString], output: &Output) -> Result<Ending> {
    let mut command = Command::new(beside_this_program(program).unwrap_or_else(|| program.into()));
    command.args(output.is_json().then_some("--json")).args(words);
    let error = command.exec();
    if error.kind() != ErrorKind::NotFound {
        return Err(Failure::doing(format!("start {program}"))(error));
    }
    Err(Failure::Failed(format!(
        "the program {program}, which {task}, is neither in the directory of tp nor in a directory of PATH. Run `cargo xtask install --prefix DIR` in libtp's source, which installs both programs"
    )))
}

/// Returns the path of a program in the directory of this program, if the file exists.
fn beside_this_program(program: &str) -> Option<PathBuf> {
    let beside = std::env::current_exe().ok()?.with_file_name(program);
    beside.exists().then_some(beside)
}

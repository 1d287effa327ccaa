//! `tp bench`: starts `tp-bench`, the program that has the benchmarks.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::program_beside;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Arguments of tp-bench: a workload and its options; `tp bench --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Replaces this process by `tp-bench`. Returns only on failure.
pub fn run(arguments: &Arguments, output: &Output) -> Result<Ending> {
    program_beside::start("tp-bench", "runs the benchmarks", &arguments.words, output)
}

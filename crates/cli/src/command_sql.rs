//! `tp sql`: starts `tp-sql`, the program that contains SQLite on libtp, and a shell for it.

use std::ffi::OsString;

use clap::Args;

use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::program_beside;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// Arguments of tp-sql: a name, statements and options; `tp sql --help` lists them.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    words: Vec<OsString>,
}

/// Replaces this process by `tp-sql`. Returns only on failure.
pub fn run(arguments: &Arguments, output: &Output) -> Result<Ending> {
    program_beside::start("tp-sql", "has SQL", &arguments.words, output)
}

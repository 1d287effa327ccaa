//! `tp archive`: the files of the log that nobody needs any more.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::facts::write_line;
use crate::failure::{Ending, Result};
use crate::output::Output;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// List the files that are needed, too.
    #[arg(long)]
    all: bool,
    /// Copy those that are not needed to this directory, and list what was copied.
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    to: Option<PathBuf>,
    /// Remove those that are not needed (with --to, when they are copied).
    #[arg(long)]
    remove: bool,
}

/// Prints a line for each file.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let files = match &arguments.to {
        Some(to) => env.archive_log(to)?,
        None => env.log_files()?.into_iter().filter(|file| arguments.all || !file.is_needed).collect(),
    };
    for file in &files {
        write_line(output, file)?;
    }
    if arguments.remove {
        env.remove_old_log()?;
    }
    output.object(&json!({ "files": files.len() }))?;
    Ok(Ending::Done)
}

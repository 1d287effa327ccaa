//! `tp archive`: lists, copies or removes the log files that are no longer needed.

use std::path::{Path, PathBuf};

use clap::Args;
use libtp::{Env, LogFile};
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
    /// List all log files, also the files that are still needed.
    #[arg(long)]
    all: bool,
    /// Copy the files that are not needed to this directory, and list the copied files.
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    to: Option<PathBuf>,
    /// Take a checkpoint and remove the files that are not needed (with --to, only those that are copied).
    #[arg(long)]
    remove: bool,
}

/// Prints a line for each file.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let files = match &arguments.to {
        Some(to) => archive(&env, to, arguments.remove)?,
        None => env.log_files()?.into_iter().filter(|file| arguments.all || !file.is_needed).collect(),
    };
    for file in &files {
        write_line(output, file)?;
    }
    if arguments.remove && arguments.to.is_none() {
        env.remove_old_log()?;
    }
    if files.is_empty() {
        output.line("no log files: all of them are still needed")?;
    }
    output.object(&json!({ "files": files.len() }))?;
    Ok(Ending::Done)
}

/// Copies the files that are not needed. With `is_removed`, then removes only the copied files. The removal takes a
/// checkpoint, after which further files may no longer be needed. Those further files have no copy, so they stay.
fn archive(env: &Env, to: &Path, is_removed: bool) -> Result<Vec<LogFile>> {
    // This call takes a checkpoint and removes no file. An ordinary checkpoint would remove the files that `keep_log`
    // does not protect.
    if let Some(first) = env.log_files()?.first().filter(|_| is_removed) {
        env.remove_log_below(first.start)?;
    }
    let old = env.log_files()?.into_iter().filter(|file| !file.is_needed);
    let end = old.map(|file| file.end).max();
    let copied = env.archive_log(to)?;
    if let Some(end) = end.filter(|_| is_removed) {
        env.remove_log_below(end)?;
    }
    Ok(copied)
}

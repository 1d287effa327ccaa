//! `tp files`: lists plain files whose committed change has not been carried out yet, or abandons such a change.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::{note, Output};

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Abandon the committed change of this file. Use this if the directory of the file will not exist again.
    #[arg(long, value_name = "PATH")]
    forget: Option<PathBuf>,
}

/// Lists the files, or abandons the change of one file.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    if let Some(path) = &arguments.forget {
        let is_forgotten = env.forget_file(path)?;
        output.object(&json!({ "path": path, "is_forgotten": is_forgotten }))?;
        match is_forgotten {
            true => output.line(format_args!("the change of {} is abandoned", path.display()))?,
            false => note(format_args!(
                "no change of {} is waiting; nothing was changed. `tp files` lists the changes that wait",
                path.display()
            )),
        }
        return Ok(Ending::of(is_forgotten));
    }
    let waiting = env.waiting_files()?;
    for file in &waiting {
        output.object(&json!({ "path": file.path, "txn": file.txn, "is_removed": file.is_removed }))?;
        let what = if file.is_removed { "to be removed" } else { "to be put in its place" };
        output.line(format_args!("{}: {what}, by transaction {}", file.path.display(), file.txn))?;
    }
    if waiting.is_empty() {
        output.line(format_args!("no change of a plain file is waiting"))?;
    }
    Ok(Ending::Done)
}

//! `tp recover`: opens the environment, which recovers it, and shows the work that was done.

use clap::Args;
use libtp::Keep;
use serde_json::Value;

use crate::environment::EnvironmentArgument;
use crate::facts::{facts, write_list};
use crate::failure::{Ending, Result};
use crate::output::Output;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// If shared memory and log files disagree, use the files and discard the memory: commits that are only in memory
    /// are lost.
    #[arg(long, conflicts_with = "keep_region")]
    keep_files: bool,
    /// If shared memory (the region) and log files disagree, write the memory's log to the files.
    #[arg(long)]
    keep_region: bool,
}

/// Opens the environment and prints how it was opened.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let keep = match (arguments.keep_files, arguments.keep_region) {
        (true, _) => Some(Keep::Files),
        (false, true) => Some(Keep::Region),
        (false, false) => None,
    };
    let env = arguments.environment.open_keeping(keep, output)?;
    if let Value::Object(object) = facts(env.opened())? {
        write_list(output, &object)?;
    }
    Ok(Ending::Done)
}

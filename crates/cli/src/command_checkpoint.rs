//! `tp checkpoint`: takes a checkpoint, at which the next restart begins.

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::Output;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
}

/// Takes a checkpoint, unless another process is taking one.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let taken = env.checkpoint()?;
    output.object(&json!({ "checkpoint": taken }))?;
    output.line(if taken { "checkpoint taken" } else { "another process is taking a checkpoint" })?;
    Ok(Ending::Done)
}

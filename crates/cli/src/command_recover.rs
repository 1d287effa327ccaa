//! `tp recover`: opening is recovering; this says what was done.

use clap::Args;
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
}

/// Opens the environment and says how.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    if let Value::Object(object) = facts(env.opened())? {
        write_list(output, &object)?;
    }
    Ok(Ending::Done)
}

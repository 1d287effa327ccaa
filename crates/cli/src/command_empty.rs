//! `tp empty`: removes all records of a database.

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// The database. Its indices are emptied with it.
    name: String,
}

/// Empties the database.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let removed = env.run(|txn| txn.empty_database(&arguments.name))?;
    output.object(&json!({ "emptied": arguments.name, "removed": removed }))?;
    output.line(format_args!("{} records of {} were removed", grouped(removed), arguments.name))?;
    Ok(Ending::Done)
}

//! `tp rename`: gives a database another name.

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
    /// The database.
    name: String,
    /// The database's new name, which no other database may have.
    new: String,
}

/// Renames the database.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let (name, new) = (&arguments.name, &arguments.new);
    env.run(|txn| txn.rename_database(name, new))?;
    output.object(&json!({ "renamed": name, "name": new }))?;
    output.line(format_args!("{name} is renamed to {new}"))?;
    Ok(Ending::Done)
}

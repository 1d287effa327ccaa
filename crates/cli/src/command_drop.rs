//! `tp drop`: drops a database. With `--missing`, drops a database whose file is lost.

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
    /// The database. Its indices are dropped with it.
    name: String,
    /// Drop a database whose file is missing. Its committed records are lost.
    #[arg(long)]
    missing: bool,
}

/// Drops the database.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    match arguments.missing {
        true => env.drop_missing(&arguments.name)?,
        false => env.run(|txn| txn.drop_database(&arguments.name))?,
    }
    output.object(&json!({ "dropped": arguments.name }))?;
    output.line(format!("{} is dropped", arguments.name))?;
    Ok(Ending::Done)
}

//! `tp abort`: aborts a transaction that a session has detached and that no session continues.

use clap::Args;
use libtp_console::numbers::whole_number;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::Output;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// The transaction's number, as `tp txns` shows it.
    #[arg(value_parser = whole_number::<u64>)]
    txn: u64,
}

/// Aborts the transaction; fails if no transaction with this number is detached.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    env.abort_detached(arguments.txn)?;
    output.object(&json!({ "aborted": arguments.txn }))?;
    output.line(format_args!("transaction {} was undone", arguments.txn))?;
    Ok(Ending::Done)
}

//! `tp txns`: lists the open transactions.

use clap::Args;
use serde::Serialize;
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
}

/// One transaction.
#[derive(Serialize)]
struct Transaction {
    txn: u64,
    state: String,
    session: u64,
    locker: u32,
    first_lsn: u64,
    last_lsn: u64,
    is_offered: bool,
}

/// Prints a line for each transaction, in all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open_to_look(output)?;
    let transactions = env.transactions();
    for transaction in &transactions {
        let shown = Transaction {
            txn: transaction.id,
            state: format!("{:?}", transaction.state).to_lowercase(),
            session: transaction.session.raw(),
            locker: transaction.locker,
            first_lsn: transaction.first_lsn,
            last_lsn: transaction.last_lsn,
            is_offered: transaction.is_offered,
        };
        write_line(output, &shown)?;
    }
    output.object(&json!({ "transactions": transactions.len() }))?;
    if transactions.is_empty() {
        output.line("no transaction is at work")?;
    }
    Ok(Ending::Done)
}

//! `tp printlog`: prints the log's records. The access method that wrote a record also describes it.

use clap::Args;
use libtp::LogRecord;
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
    /// Begin at the record with this LSN; 0 is the oldest record that is kept.
    #[arg(long, value_name = "LSN", default_value_t = 0, value_parser = whole_number::<u64>)]
    from: u64,
    /// Print only the records of this transaction.
    #[arg(long, value_name = "ID", value_parser = whole_number::<u64>)]
    txn: Option<u64>,
    /// Stop after this number of records. Default: print all.
    #[arg(long, value_name = "RECORDS", value_parser = whole_number::<u64>)]
    limit: Option<u64>,
}

/// Prints a line for each record: its LSN, its transaction, the transaction's previous record, its kind and its
/// contents.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut records = 0;
    let mut written = Ok(());
    env.log_records(arguments.from, |record| {
        if records == limit {
            return false;
        }
        if arguments.txn.is_none_or(|txn| txn == record.txn) {
            records += 1;
            written = write(output, &record);
        }
        written.is_ok()
    })?;
    written?;
    output.object(&json!({ "records": records }))?;
    Ok(Ending::Done)
}

fn write(output: &mut Output, record: &LogRecord) -> Result<()> {
    output.object(record)?;
    let undoes = if record.compensation { "undo: " } else { "" };
    output.line(format_args!(
        "{:>12}  txn {:<8} prev {:<12} {:<20} {undoes}{}",
        record.lsn, record.txn, record.prev, record.kind, record.text
    ))
}

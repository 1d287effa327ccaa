//! `tp list`: lists the databases of an environment.

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::{note, Output};
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Databases to list. Default: all.
    databases: Vec<String>,
    /// Do not count the records: a count takes as long as reading all records.
    #[arg(long)]
    no_count: bool,
}

/// Prints a line for each database.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let listed = match arguments.databases.is_empty() {
        true => env.list_databases()?,
        false => arguments.databases.iter().map(|name| env.list_database(name)).collect::<libtp::Result<_>>()?,
    };
    for database in listed {
        // A database whose file is missing or unreadable has no records to count.
        let counted = database.kind.filter(|_| !arguments.no_count).map(|_| env.count_records(&database.name));
        let records = match counted {
            None | Some(Err(libtp::Error::NoDatabase { .. } | libtp::Error::Dropped { .. })) => None,
            Some(counted) => counted?,
        };
        let absent = if database.fault.is_some() { "unreadable" } else { "missing" };
        let (name, kind, bytes) = (&database.name, database.kind.unwrap_or(absent), database.bytes);
        if let Some(fault) = &database.fault {
            note(format_args!("{name}: {fault}"));
        }
        output.object(&json!({ "name": name, "kind": kind, "bytes": bytes, "records": records }))?;
        let records = records.map_or_else(|| "-".into(), grouped);
        output.line(format_args!("{name}\t{kind}\t{}\t{records}", grouped(bytes)))?;
    }
    Ok(Ending::Done)
}

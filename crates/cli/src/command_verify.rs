//! `tp verify`: reads every page and checks every structure.

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::progress::Progress;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Database to verify. Default: all.
    database: Option<String>,
}

/// Prints a line for each fault; exit 1 if there is one. If all databases are verified, a database that cannot be opened
/// is a fault, too, and the other databases are verified.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let names = match &arguments.database {
        Some(name) => vec![name.clone()],
        None => env.databases()?,
    };
    let bar = Progress::count(output.may_draw(), "databases", names.len() as u64);
    let (mut found, mut records) = (0, 0);
    for (at, name) in names.iter().enumerate() {
        let verified = match env.verify(name) {
            Ok(verified) => verified,
            Err(error) if arguments.database.is_some() => return Err(error.into()),
            // Another process has dropped the database.
            Err(libtp::Error::NoDatabase { .. } | libtp::Error::Dropped { .. }) => continue,
            Err(error) => {
                found += 1;
                bar.aside(|| write(output, name, 0, &error.to_string()))?;
                continue;
            }
        };
        records += verified.records;
        found += verified.findings.len();
        for finding in &verified.findings {
            bar.aside(|| write(output, name, finding.page, &finding.what))?;
        }
        bar.set(at as u64 + 1);
    }
    drop(bar);
    output.object(&json!({ "databases": names.len(), "records": records, "findings": found }))?;
    output.line(format_args!("{} databases, {} records, {found} findings", names.len(), grouped(records)))?;
    Ok(Ending::of(found == 0))
}

fn write(output: &mut Output, name: &str, page: u32, what: &str) -> Result<()> {
    output.object(&json!({ "database": name, "page": page, "what": what }))?;
    match page {
        // Page 0: the finding is about the whole file, or about an index and its database.
        0 => output.line(format_args!("{name}: {what}")),
        _ => output.line(format_args!("{name} page {page}: {what}")),
    }
}

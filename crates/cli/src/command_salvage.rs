//! `tp salvage`: copies the readable records of a damaged database file into a new database.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::progress::Steps;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Damaged file, NAME.tp. It is only read, and no process may use it at the same time.
    file: PathBuf,
    /// Name of the new database. The environment is made if it is missing.
    database: String,
}

/// Salvages, and prints a line for each loss; exit 1 if there is one.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open_or_create(output)?;
    let mut steps = Steps::new(output.may_draw());
    let salvaged =
        env.salvage(&arguments.file, &arguments.database, &mut |now| steps.set(now.step, now.done, now.total))?;
    drop(steps);
    for lost in &salvaged.lost {
        output.object(&json!({ "page": lost.page, "what": lost.what }))?;
        output.line(format_args!("page {}: {}", lost.page, lost.what))?;
    }
    output.object(&salvaged.count())?;
    output.line(format_args!(
        "{} records salvaged, {}",
        grouped(salvaged.records),
        match salvaged.lost.len() {
            0 => "no losses found".to_string(),
            1 => "1 loss, listed above".to_string(),
            losses => format!("{losses} losses, listed above"),
        }
    ))?;
    Ok(Ending::of(salvaged.lost.is_empty()))
}

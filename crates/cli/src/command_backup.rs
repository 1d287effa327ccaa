//! `tp backup`: copies an environment in use, or adds the log since the last backup to an existing backup.

use std::path::PathBuf;

use clap::Args;
use libtp::Backup;
use serde_json::Value;

use crate::environment::EnvironmentArgument;
use crate::environment_directory::EnvironmentDirectory;
use crate::facts::{facts, write_list};
use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::progress::Steps;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// The environment's directory. Default: the directory in TP_ENV, else the current directory if it is an environment.
    #[arg(short = 'e', long, value_name = "DIR")]
    env: Option<PathBuf>,
    /// Directory of the backup: missing or empty; with --incremental or --check, an existing backup.
    directory: PathBuf,
    /// Add the log since the last backup to an existing backup: then every state up to now can be restored.
    #[arg(long)]
    incremental: bool,
    /// Read every page and log record of an existing backup, and change nothing. The backup alone is read, so --env
    /// cannot be given.
    #[arg(long, conflicts_with_all = ["incremental", "env"])]
    check: bool,
}

/// Copies or checks. Prints the amount copied, and the first and last LSN whose state can be restored.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let mut steps = Steps::new(output.may_draw());
    let watch = &mut |now: libtp::Progress| steps.set(now.step, now.done, now.total);
    let said = if arguments.check {
        facts(&Backup::open(&arguments.directory)?.check(watch)?)?
    } else {
        let directory = EnvironmentDirectory::find(arguments.env.as_deref())?;
        let env = EnvironmentArgument::at(directory.path()).open(output)?;
        match arguments.incremental {
            true => facts(&env.backup_more(&arguments.directory, watch)?)?,
            false => facts(&env.backup(&arguments.directory, watch)?)?,
        }
    };
    drop(steps);
    if let Value::Object(object) = said {
        write_list(output, &object)?;
    }
    Ok(Ending::Done)
}

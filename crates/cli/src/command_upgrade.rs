//! `tp upgrade`: shows the versions of an environment's files, and the remedy for versions that this build does not
//! read.

use clap::Args;
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

/// Prints a line for each file; exit 1 if this build does not read one of them.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let files = libtp::file_versions(arguments.environment.directory()?)?;
    for file in &files {
        write_line(output, file)?;
    }
    let other = files.iter().filter(|file| !file.is_read).count();
    output.object(&json!({ "files": files.len(), "not_read": other }))?;
    output.line(match other {
        0 => "this build reads and writes all of them: nothing was changed, and nothing needs to be changed",
        _ => "this build does not read all of them, and nothing was changed: dump each database with the build that wrote the files (`tp dump`), and load the dumps into a new environment with this build (`tp load`)",
    })?;
    Ok(Ending::of(other == 0))
}

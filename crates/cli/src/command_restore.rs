//! `tp restore`: an environment out of a backup.

use std::path::PathBuf;

use clap::Args;
use libtp::{Backup, Until};
use serde_json::Value;

use crate::facts::{facts, write_list};
use crate::failure::{Ending, Result};
use crate::output::Output;
use crate::progress::Steps;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    /// The backup's directory.
    backup: PathBuf,
    /// Where the new environment is to be: a directory that is made, or empty but for a `libtp.toml`.
    #[arg(long, value_name = "DIR")]
    env: PathBuf,
    /// Which state: that behind the log record at this LSN, as `tp printlog` shows it; the latest without it.
    #[arg(long, value_name = "LSN", value_parser = until)]
    until: Option<Until>,
}

/// Restores, and says where the log ends now.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let mut steps = Steps::new(output.may_draw());
    let backup = Backup::open(&arguments.backup)?;
    let until = arguments.until.unwrap_or(Until::End);
    let restored = backup.restore(&arguments.env, until, &mut |what, done, total| steps.set(what, done, total))?;
    drop(steps);
    if restored.settings_aside {
        eprintln!("tp: the backup's libtp.toml names directories, which belong to the other environment: it is put aside as libtp.toml.backup");
    }
    if let Value::Object(object) = facts(&restored)? {
        write_list(output, &object)?;
    }
    Ok(Ending::Done)
}

fn until(text: &str) -> std::result::Result<Until, String> {
    text.parse().map(Until::Lsn).map_err(|_| format!("`{text}` is no LSN"))
}

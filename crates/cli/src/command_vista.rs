//! `tp vista`: checks segments of recoverable memory. A segment is a file, which may belong to an environment.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use vista::{Options, Segment};

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
#[command(disable_help_subcommand = true)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Map a segment, and check its undo log and its heap. The mapping undoes unfinished transactions of the segment.
    Verify {
        /// The segment's file.
        file: PathBuf,
        /// Directory of the environment, if the segment belongs to one. The segment is locked during the check.
        #[arg(short = 'e', long, value_name = "DIR")]
        env: Option<PathBuf>,
    },
}

/// Prints the first fault found; exit 1 if there is one.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    match &arguments.verb {
        Verb::Verify { file, .. } if file.is_dir() => Err(Failure::Failed(format!(
            "{} is a directory, and a segment is a file; nothing was changed. Check the path",
            file.display()
        ))),
        Verb::Verify { file, .. } if !file.is_file() => {
            Err(Failure::Failed(format!("there is no segment {}; nothing was changed. Check the path", file.display())))
        }
        Verb::Verify { file, env: None } => verify_alone(file, output),
        Verb::Verify { file, env: Some(env) } => verify_joined(file, env, output),
    }
}

fn failed(error: vista::Error) -> Failure {
    let hint = match error {
        vista::Error::Belongs { .. } => " (here: `tp vista verify FILE --env DIR`)",
        _ => "",
    };
    Failure::Failed(format!("{error}{hint}"))
}

fn verify_alone(file: &Path, output: &mut Output) -> Result<Ending> {
    let segment = Options::new(0).anywhere().open(file).map_err(failed)?;
    let ending = say(&segment, output)?;
    if ending == Ending::Done {
        segment.close().map_err(failed)?;
    }
    Ok(ending)
}

/// Verifies a segment inside its environment, whose log decides about unfinished transactions. A transaction joins the
/// segment, so no other transaction changes the segment during the check.
fn verify_joined(file: &Path, env: &Path, output: &mut Output) -> Result<Ending> {
    let env = EnvironmentArgument::at(env).open(output)?;
    let segment = env.segment_at(file, &Options::new(0).anywhere())?;
    let txn = env.begin()?;
    let joined = txn.join(&segment)?;
    let ending = say(joined.segment(), output)?;
    drop(joined);
    txn.commit()?;
    Ok(ending)
}

/// Checks the whole segment and prints the result.
fn say(segment: &Segment, output: &mut Output) -> Result<Ending> {
    let (survives, rolled_back) = (segment.survives().to_string(), segment.rolled_back());
    let bytes = segment.bytes().len();
    match segment.verify() {
        Ok(usage) => {
            let (blocks, allocated, free) = (usage.blocks, usage.bytes, usage.free_bytes);
            output.object(&json!({
                "bytes": bytes, "blocks": blocks, "allocated": allocated, "free": free,
                "rolled_back": rolled_back, "survives": survives, "findings": 0
            }))?;
            output.line(format_args!(
                "{} bytes and {} blocks of {} bytes, {} bytes free; {rolled_back} ranges rolled back; survives {survives}; 0 findings",
                grouped(bytes as u64), grouped(blocks), grouped(allocated), grouped(free)
            ))?;
            Ok(Ending::Done)
        }
        Err(error) => {
            output.object(&json!({ "bytes": bytes, "findings": 1, "what": error.to_string() }))?;
            output.line(format_args!("{error}"))?;
            Ok(Ending::Disagrees)
        }
    }
}

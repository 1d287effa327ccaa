//! `tp vista`: what concerns segments of recoverable memory, which are files and no environment.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;
use vista::{Options, Segment};

use crate::failure::{Ending, Failure, Result};
use crate::output::Output;
use crate::spelling::grouped;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Map a segment, which takes back what was unfinished, and check its undo log and its heap.
    Verify {
        /// The segment's file.
        file: PathBuf,
    },
}

/// Says what is wrong; exit 1 if anything is.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    match &arguments.verb {
        Verb::Verify { file } => verify(file, output),
    }
}

fn verify(file: &Path, output: &mut Output) -> Result<Ending> {
    if !file.is_file() {
        return Err(Failure::Failed(format!("there is no segment {}", file.display())));
    }
    let failed = |error: vista::Error| Failure::Failed(error.to_string());
    let segment: Segment = Options::new(0).anywhere().open(file).map_err(failed)?;
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
                "{} bytes and {} blocks of {} bytes, {} bytes free; {rolled_back} ranges taken back; survives {survives}; 0 findings",
                grouped(bytes as u64), grouped(blocks), grouped(allocated), grouped(free)
            ))?;
            segment.close().map_err(failed)?;
            Ok(Ending::Done)
        }
        Err(error) => {
            output.object(&json!({ "bytes": bytes, "findings": 1, "what": error.to_string() }))?;
            output.line(format_args!("{error}"))?;
            Ok(Ending::Disagrees)
        }
    }
}

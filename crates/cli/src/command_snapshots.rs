//! `tp snapshots`: lists the snapshots: holder, age, and the log that is kept for each.

use std::time::SystemTime;

use clap::Args;
use libtp::HeldSnapshot;
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

/// One snapshot.
#[derive(Serialize)]
pub struct Snapshot {
    pub pid: u32,
    pub session: u64,
    pub held_ms: u64,
    pub lsn: Option<u64>,
    pub needs_from: u64,
    pub log_bytes: u64,
    pub kept: bool,
}

impl Snapshot {
    /// Converts a snapshot to its form for output.
    pub fn of(snapshot: &HeldSnapshot) -> Snapshot {
        let held = SystemTime::now().duration_since(snapshot.since).unwrap_or_default();
        Snapshot {
            pid: snapshot.pid,
            session: snapshot.session.raw(),
            held_ms: u64::try_from(held.as_millis()).unwrap_or(u64::MAX),
            lsn: snapshot.lsn,
            needs_from: snapshot.needs_from,
            log_bytes: snapshot.log_bytes,
            kept: snapshot.is_kept,
        }
    }
}

/// Prints a line for each snapshot, in all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open_to_look(output)?;
    let snapshots = env.snapshots();
    for snapshot in &snapshots {
        write_line(output, &Snapshot::of(snapshot))?;
    }
    output.object(&json!({ "snapshots": snapshots.len() }))?;
    if snapshots.is_empty() {
        output.line("no snapshot is held")?;
    }
    Ok(Ending::Done)
}

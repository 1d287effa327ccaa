//! `tp locks`: who holds which lock, and who waits for it.

use clap::Args;
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

/// One request for a lock: held, waited for, or both when it is to become stronger.
#[derive(Serialize)]
struct Lock {
    database: String,
    object: &'static str,
    /// A page's number, or the hash of a key or of a record's number.
    name: u64,
    locker: u32,
    session: u64,
    held: Option<String>,
    wanted: Option<String>,
}

/// Prints a line for each lock of each holder and waiter, in all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let databases = env.stats()?.databases;
    let locks = env.locks()?;
    for lock in &locks {
        let database = databases.iter().find(|database| database.file == lock.name.space);
        let shown = Lock {
            database: database.map_or_else(|| lock.name.space.to_string(), |database| database.name.clone()),
            object: kind_name(lock.name.kind),
            name: lock.name.hash,
            locker: lock.locker.0,
            session: lock.session.raw(),
            held: lock.granted.map(|mode| mode.to_string()),
            wanted: lock.wanted.map(|mode| mode.to_string()),
        };
        write_line(output, &shown)?;
    }
    output.object(&json!({ "locks": locks.len() }))?;
    if locks.is_empty() {
        output.line("no locks are held")?;
    }
    Ok(Ending::Done)
}

fn kind_name(kind: u32) -> &'static str {
    match kind {
        1 => "database",
        2 => "page",
        3 => "record",
        4 => "gap",
        _ => "other",
    }
}

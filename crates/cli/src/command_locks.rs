//! `tp locks`: lists the locks with their holders and waiters. With `--wait-for`, lists which transaction waits for
//! which.
//!
//! The lock table is read under its latches. If a stopped process holds these latches, the command names that process
//! instead of the locks.

use std::time::Duration;

use clap::Args;
use libtp::Env;
use serde::Serialize;
use serde_json::json;

use crate::command_sessions::stopped_at_work;
use crate::environment::EnvironmentArgument;
use crate::facts::write_line;
use crate::failure::{Ending, Failure, Result};
use crate::lock_names::{kind_name, LockNames};
use crate::output::Output;
use crate::wait_graph::{read_on_a_thread, WaitGraph};

/// Longest wait for the lock table.
const PATIENCE: Duration = Duration::from_secs(5);

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Instead of the locks, print a line for each transaction that waits for another transaction.
    #[arg(long)]
    wait_for: bool,
    /// Print the waits as a graph for Graphviz. Example: tp locks --wait-for --dot | dot -Tsvg > waits.svg
    #[arg(long, requires = "wait_for")]
    dot: bool,
}

/// One request for a lock: the lock is held, waited for, or both during an upgrade.
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

/// Prints the locks, or the waits, of all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    if arguments.dot && output.is_json() {
        return Err(Failure::Usage("--dot and --json are two forms of the output: choose one of them".to_string()));
    }
    if arguments.wait_for {
        let (graph, names) = read(arguments, output, |env| Ok((WaitGraph::look(env)?, LockNames::of(env)?)))?;
        if arguments.dot {
            output.line(graph.dot(&names))?;
        } else {
            write_waits(output, &graph, &names)?;
        }
    } else {
        let (locks, names) = read(arguments, output, |env| Ok((env.locks()?, LockNames::of(env)?)))?;
        write_locks(output, &locks, &names)?;
    }
    Ok(Ending::Done)
}

/// Reads the lock table within `PATIENCE`. If that is not possible, fails and names the process that blocks the
/// reading.
fn read<T: Send + 'static>(
    arguments: &Arguments,
    output: &Output,
    read: impl FnOnce(&Env) -> Result<T> + Send + 'static,
) -> Result<T> {
    let directory = arguments.environment.directory()?;
    let Some(look) = Env::builder().look(&directory)? else {
        // No process is at work, except perhaps a process that is recovering the environment, which may take long.
        return read(&arguments.environment.open(output)?);
    };
    let told = read_on_a_thread(directory, read);
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(kept_waiting(&look)))
}

fn kept_waiting(look: &Env) -> Failure {
    let stopped: Vec<String> =
        stopped_at_work(&look.sessions(), look.opening_process()).iter().map(ToString::to_string).collect();
    let cause = match &stopped[..] {
        [] => "no stopped process was found that could be the cause".to_string(),
        pids => format!("process {} is stopped in the middle of a change", pids.join(" and process ")),
    };
    let seconds = PATIENCE.as_secs();
    Failure::Failed(format!(
        "the lock table could not be read within {seconds} s: {cause}; nothing was changed. `tp sessions` lists the sessions, their locks and their waits"
    ))
}

/// Writes a line for each lock of each holder and waiter.
fn write_locks(output: &mut Output, locks: &[libtp::LockInfo], names: &LockNames) -> Result<()> {
    for lock in locks {
        let shown = Lock {
            database: names.database(lock.name),
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
    Ok(())
}

/// Writes a line for each pair of a waiter and a holder.
fn write_waits(output: &mut Output, graph: &WaitGraph, names: &LockNames) -> Result<()> {
    for wait in graph.waits(names) {
        output.object(&wait)?;
        output.line(wait)?;
    }
    output.object(&json!({ "waits": graph.edges().len() }))?;
    if graph.edges().is_empty() {
        output.line("no transaction waits")?;
    }
    Ok(())
}

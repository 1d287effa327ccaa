//! `tp locks`: who holds which lock, and who waits for it; with `--wait-for`, who waits for whom.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::facts::write_line;
use crate::failure::{Ending, Failure, Result};
use crate::lock_names::{kind_name, LockNames};
use crate::output::Output;
use crate::wait_graph::{Party, WaitGraph};

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Print who waits for whom instead: a line for each pair.
    #[arg(long)]
    wait_for: bool,
    /// Print it as a graph in Graphviz' language: tp locks --env DIR --wait-for --dot | dot -Tsvg.
    #[arg(long, requires = "wait_for")]
    dot: bool,
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

/// One transaction waits for another.
#[derive(Serialize)]
struct Wait {
    waiter: Party,
    holder: Party,
    database: String,
    object: &'static str,
    name: u64,
    wanted: String,
}

/// Prints what is held and waited for, in all processes.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    if arguments.dot && output.is_json() {
        return Err(Failure::Usage("--dot and --json are two languages: choose one".to_string()));
    }
    let env = arguments.environment.open(output)?;
    let names = LockNames::of(&env)?;
    if arguments.wait_for {
        let graph = WaitGraph::look(&env)?;
        if arguments.dot {
            output.line(graph.dot(&names))?;
        } else {
            write_waits(output, &graph, &names)?;
        }
    } else {
        write_locks(output, &env.locks()?, &names)?;
    }
    Ok(Ending::Done)
}

/// A line for each lock of each holder and waiter.
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

/// A line for each who waits, and each for whom it does.
fn write_waits(output: &mut Output, graph: &WaitGraph, names: &LockNames) -> Result<()> {
    for edge in graph.edges() {
        let wait = Wait {
            waiter: graph.party(edge.waiter),
            holder: graph.party(edge.holder),
            database: names.database(edge.name),
            object: kind_name(edge.name.kind),
            name: edge.name.hash,
            wanted: edge.wanted.to_string(),
        };
        output.object(&wait)?;
        let words = names.words(edge.name);
        output.line(format_args!("{} waits for {}: {} on {words}", wait.waiter, wait.holder, wait.wanted))?;
    }
    output.object(&json!({ "waits": graph.edges().len() }))?;
    if graph.edges().is_empty() {
        output.line("nobody waits")?;
    }
    Ok(())
}

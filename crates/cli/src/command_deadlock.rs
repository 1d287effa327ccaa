//! `tp deadlock`: searches once for circles of transactions that wait for each other.

use std::time::{Duration, Instant};

use clap::Args;
use libtp::{Deadlock, Env};
use serde::Serialize;
use serde_json::json;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::lock_names::LockNames;
use crate::output::Output;
use crate::wait_graph::{Party, WaitGraph};

/// The longest wait for another session's search. A search takes microseconds, unless the session's process was
/// stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
}

/// A circle of waiting transactions.
#[derive(Serialize)]
struct Circle {
    members: Vec<Member>,
    victim: Party,
    /// Whether an earlier search has chosen this victim, and the victim has not aborted yet.
    was_known: bool,
}

/// A transaction that waits for the next member of the circle.
#[derive(Serialize)]
struct Member {
    #[serde(flatten)]
    party: Party,
    waits_for: String,
    wanted: String,
}

/// Searches, chooses a victim in each circle, and prints the circles with their victims.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let env = arguments.environment.open(output)?;
    let names = LockNames::of(&env)?;
    let graph = WaitGraph::look(&env)?;
    let found = search(&env)?;
    for deadlock in &found {
        write(output, &circle(deadlock, &graph, &names))?;
    }
    output.object(&json!({ "deadlocks": found.len() }))?;
    if found.is_empty() {
        output.line("no deadlock")?;
    }
    Ok(Ending::Done)
}

/// Searches as soon as no other session is searching.
fn search(env: &Env) -> Result<Vec<Deadlock>> {
    let begin = Instant::now();
    loop {
        if let Some(found) = env.find_deadlocks()? {
            return Ok(found);
        }
        if begin.elapsed() > PATIENCE {
            let what = "another session has been searching for deadlocks for several seconds; nothing was changed. `tp sessions` shows whether its process is stopped: continue or end that process, and try again";
            return Err(Failure::Failed(what.to_string()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn circle(deadlock: &Deadlock, graph: &WaitGraph, names: &LockNames) -> Circle {
    let member = |edge: &libtp::Edge| Member {
        party: graph.party(edge.waiter),
        waits_for: names.words(edge.name),
        wanted: edge.wanted.to_string(),
    };
    Circle {
        members: deadlock.members.iter().map(member).collect(),
        victim: graph.party(deadlock.victim),
        was_known: deadlock.was_known,
    }
}

fn write(output: &mut Output, circle: &Circle) -> Result<()> {
    output.object(circle)?;
    output.line(format_args!("deadlock of {} transactions:", circle.members.len()))?;
    for (at, member) in circle.members.iter().enumerate() {
        let next = &circle.members[(at + 1) % circle.members.len()].party;
        output.line(format_args!("  {} waits for {next}: {} on {}", member.party, member.wanted, member.waits_for))?;
    }
    let chosen = if circle.was_known {
        "is the victim of an earlier search, and has not aborted yet"
    } else {
        "is chosen as the victim: its wait fails, and it must abort"
    };
    output.line(format_args!("  {} {chosen}", circle.victim))
}

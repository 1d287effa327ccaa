//! `tp top`: live figures of an environment in use: throughput, log, cache, sessions, waits, snapshots.
//!
//! The command reads the shared memory as `tp sessions` does: it has no session, takes no latch and changes nothing.
//! While a session waits for a lock, a separate thread also reads the lock table, as `tp locks` does. That thread has a
//! session and takes latches, so the command waits at most half a second for the thread.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use crate::environment::EnvironmentArgument;
use crate::failure::{Ending, Failure, Result};
use crate::live_terminal::LiveTerminal;
use crate::output::Output;
use crate::spelling::some_seconds;
use crate::top_frame::Frame;
use crate::top_sample::{Sample, Watcher};

/// The greatest number of rates in the curve: more than a terminal has columns.
const CURVE_MAX: usize = 1000;

/// The command line.
#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    environment: EnvironmentArgument,
    /// Time between two samples, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = some_seconds)]
    interval: Duration,
    /// Print one frame as text and end. This is the default if standard output is not a terminal.
    #[arg(long)]
    once: bool,
}

/// Shows frames until the user presses `q`. With `--once`, or if standard output is no terminal, prints one frame. With
/// `--json`, prints an object for each interval.
pub fn run(arguments: &Arguments, output: &mut Output) -> Result<Ending> {
    let directory = arguments.environment.directory()?;
    let mut watcher = Watcher::new(directory.clone());
    let first = watcher.look()?;
    if output.is_json() {
        print_objects(arguments, &mut watcher, first, output)?;
    } else if arguments.once || !output.is_terminal() {
        std::thread::sleep(arguments.interval);
        let frame = Frame::of(&directory, &VecDeque::new(), &first, &watcher.look()?);
        output.bytes(frame.text().as_bytes())?;
    } else {
        show(arguments.interval, &directory, &mut watcher, first)?;
    }
    Ok(Ending::Done)
}

/// Prints an object for each interval, as soon as the interval is over.
fn print_objects(arguments: &Arguments, watcher: &mut Watcher, first: Sample, output: &mut Output) -> Result<()> {
    let mut earlier = first;
    loop {
        std::thread::sleep(arguments.interval);
        let later = watcher.look()?;
        output.object(&later.since(&earlier))?;
        output.flush()?;
        if arguments.once {
            return Ok(());
        }
        earlier = later;
    }
}

/// Draws frames until the user ends the command. The first frame has no rates yet.
fn show(interval: Duration, directory: &Path, watcher: &mut Watcher, first: Sample) -> Result<()> {
    let mut terminal = LiveTerminal::open().map_err(Failure::doing("use the terminal"))?;
    let (mut earlier, mut commits) = (first, VecDeque::new());
    let mut frame = Frame::of(directory, &commits, &earlier, &earlier);
    while !terminal.show(&frame, Instant::now() + interval).map_err(Failure::doing("use the terminal"))? {
        let later = watcher.look()?;
        commits.push_back(later.since(&earlier).commits_per_second);
        if commits.len() > CURVE_MAX {
            commits.pop_front();
        }
        frame = Frame::of(directory, &commits, &earlier, &later);
        earlier = later;
    }
    Ok(())
}

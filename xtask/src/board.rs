//! The commands that run now, and the status line that names them: every ten seconds on a terminal, every half minute
//! elsewhere.
//!
//! Commands run in parallel. Each command is entered on the board, and one thread prints the status of all commands.

use crate::outcome::clock;
use std::io::{self, IsTerminal};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

const INTERVAL_ON_TERMINAL: Duration = Duration::from_secs(10);
const INTERVAL_ELSEWHERE: Duration = Duration::from_secs(30);
/// Characters shown of a command's last line.
const SHOWN_CHARACTERS: usize = 60;
/// Cargo's message while another cargo holds its lock.
const WAITS: &str = "Blocking waiting for file lock";

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());
static TICKER: Once = Once::new();

struct Running {
    name: String,
    start: Instant,
    last_line: String,
}

/// One command on the board, until it is dropped.
pub struct Entry {
    name: String,
    start: Instant,
}

/// Puts a command on the board.
pub fn enter(name: &str) -> Entry {
    TICKER.call_once(|| {
        std::thread::spawn(tick);
    });
    let start = Instant::now();
    change(|running| running.push(Running { name: name.to_owned(), start, last_line: String::new() }));
    Entry { name: name.to_owned(), start }
}

impl Entry {
    /// Notes a line that the command printed. A wait for cargo's lock is shown at once.
    pub fn line(&self, line: &str) {
        let line: String = line.trim().chars().take(SHOWN_CHARACTERS).collect();
        if line.is_empty() {
            return;
        }
        if line.contains(WAITS) {
            println!("  {}: {line}", self.name);
        }
        change(|running| {
            if let Some(entry) = running.iter_mut().find(|entry| self.is(entry)) {
                entry.last_line = line;
            }
        });
    }

    fn is(&self, running: &Running) -> bool {
        running.name == self.name && running.start == self.start
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        change(|running| running.retain(|entry| !self.is(entry)));
    }
}

fn change(how: impl FnOnce(&mut Vec<Running>)) {
    how(&mut RUNNING.lock().unwrap_or_else(PoisonError::into_inner));
}

fn tick() {
    let interval = if io::stdout().is_terminal() { INTERVAL_ON_TERMINAL } else { INTERVAL_ELSEWHERE };
    let begun = Instant::now();
    loop {
        std::thread::sleep(interval);
        let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if !running.is_empty() {
            println!("  [{}] {}", clock(begun.elapsed()), status(&running));
        }
    }
}

/// Returns each command with its time, and the last line of the command that began last.
fn status(running: &[Running]) -> String {
    let one = |entry: &Running| format!("{} {}", entry.name, clock(entry.start.elapsed()));
    let names: Vec<String> = running.iter().map(one).collect();
    let last = running.last().map(|entry| entry.last_line.as_str()).unwrap_or_default();
    format!("{}: {last}", names.join(", ")).trim_end_matches([' ', ':']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_every_command_and_the_last_line_of_the_newest_command() {
        let running = |name: &str, line: &str| Running {
            name: name.to_owned(),
            start: Instant::now(),
            last_line: line.to_owned(),
        };
        let text = status(&[running("clippy", "Checking rio"), running("crash", "")]);
        assert_eq!(text, "clippy 0:00, crash 0:00");
        let text = status(&[running("crash", ""), running("clippy", "Checking rio")]);
        assert_eq!(text, "crash 0:00, clippy 0:00: Checking rio");
    }

    #[test]
    fn a_command_leaves_the_board_at_its_end() {
        let entry = enter("a command of this test");
        entry.line("a line");
        drop(entry);
        change(|running| assert!(!running.iter().any(|entry| entry.name == "a command of this test")));
    }
}

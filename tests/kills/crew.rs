//! The workers, and the output of each.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libtp::Durability;
use libtp_tests::process::{now, Process};

use crate::worker::{DIRECTORY, DURABILITY, ENTRY, NUMBER, SEED};

/// The output of one worker.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// How the worker opened the environment, and the log's incarnation at that time.
    pub opened: Option<(String, u64)>,
    /// The times at which the worker's transfers were acknowledged, on the clock of all processes.
    pub acknowledged: Vec<u64>,
    /// The time at which the worker's last line was read.
    pub heard: u64,
    /// Whether the worker closed the environment cleanly.
    pub left: bool,
    /// The error that ended the worker, or a line that could not be parsed.
    pub failed: Option<String>,
}

impl Told {
    /// Reads a line of the worker.
    pub fn hear(&mut self, line: &str, at: u64) {
        self.heard = at;
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["opened", how, incarnation] => self.opened = Some((how.into(), incarnation.parse().unwrap_or(0))),
            ["ack", number, stamp] if number.parse() == Ok(self.acknowledged.len()) => {
                self.acknowledged.push(stamp.parse().unwrap_or(0));
            }
            ["left"] => self.left = true,
            _ => self.failed = Some(line.into()),
        }
    }
}

/// A worker as the driver sees it.
pub struct Worker {
    /// The worker's number.
    pub number: u64,
    /// The process.
    pub process: Process,
    /// The time at which the process was started.
    pub started: u64,
    told: Arc<Mutex<Told>>,
}

impl Worker {
    /// Starts a worker.
    pub fn start(directory: &Path, number: u64, seed: u64, durability: Option<Durability>) -> Worker {
        let told = Arc::new(Mutex::new(Told::default()));
        let theirs = Arc::clone(&told);
        let directory = PathBuf::from(directory).display().to_string();
        let mut variables =
            vec![(DIRECTORY, directory), (NUMBER, number.to_string()), (SEED, (seed << 20 | number).to_string())];
        variables.extend(durability.map(|durability| (DURABILITY, format!("{durability:?}"))));
        let process = Process::start_heard_by(ENTRY, &variables, move |line| {
            theirs.lock().unwrap_or_else(PoisonError::into_inner).hear(line, now());
        });
        Worker { number, process, started: now(), told }
    }

    /// Returns the worker's output so far.
    pub fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the worker has acknowledged a transfer.
    pub fn is_working(&self) -> bool {
        !self.told().acknowledged.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Told;

    #[test]
    fn lines_of_a_worker_are_parsed_and_invalid_lines_are_noticed() {
        let mut told = Told::default();
        for (line, at) in [("opened Joined 7", 1), ("ack 0 50", 2), ("ack 1 60", 3)] {
            told.hear(line, at);
        }
        assert_eq!((told.opened.clone(), &told.acknowledged[..]), (Some(("Joined".into(), 7)), &[50, 60][..]));
        assert_eq!((told.heard, told.failed.clone()), (3, None));
        told.hear("ack 3 70", 4);
        assert_eq!(told.failed.as_deref(), Some("ack 3 70"));
    }
}

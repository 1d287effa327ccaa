//! A process that a test starts: it runs transactions until it is stopped or dies, and reports each acknowledged
//! number.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use libtp_sim::Random;
use libtp_tests::process::{next_order, say, Process};

use crate::business::Business;

const DIRECTORY: &str = "LIBTP_TEST_JOINT_DIRECTORY";
const SEED: &str = "LIBTP_TEST_JOINT_SEED";
/// Longest wait for a line from a process.
pub const LONG: Duration = Duration::from_secs(20);

/// The entry of a child. In the run of all tests it does nothing.
#[test]
fn entry() {
    let (Some(directory), Ok(seed)) = (std::env::var_os(DIRECTORY), std::env::var(SEED)) else { return };
    let mut random = Random::new(seed.parse().unwrap());
    match Business::open(&PathBuf::from(directory)) {
        Ok(business) => serve(&business, &mut random),
        Err(error) => say(&format!("failed: {error}")),
    }
}

fn serve(business: &Business, random: &mut Random) {
    say("open");
    // `work N` runs N transactions; the other orders are below. An order is answered by `done`.
    while let Some(order) = next_order() {
        match order.as_str() {
            "checkpoint" => {
                business.env.checkpoint().map(|_| ()).unwrap_or_else(|error| say(&format!("failed: {error}")))
            }
            "note" => note(&business.env),
            "fill" => fill(&business.env.managers().region),
            "try" => say(&match business.both(random) {
                Ok(number) => number.to_string(),
                Err(error) => format!("{error:?}"),
            }),
            _ => match order.strip_prefix("arm ") {
                Some(name) => rio::failpoint::arm(name),
                None => work(business, random, &order),
            },
        }
        say("done");
    }
}

fn work(business: &Business, random: &mut Random, order: &str) {
    let count = order.strip_prefix("work ").and_then(|count| count.parse().ok()).unwrap_or(0);
    for _ in 0..count {
        match business.transact(random) {
            Ok(Some(number)) => say(&number.to_string()),
            Ok(None) => {}
            Err(error) => say(&format!("failed: {error}")),
        }
    }
}

/// Commits a record that no test reads, so that all earlier commits are on the disk.
fn note(env: &libtp::Env) {
    let notes = env.btree("notes").unwrap();
    env.run(|txn| notes.put(txn, b"key", b"value")).unwrap();
}

/// Fills the shared memory completely.
fn fill(region: &rio::Region) {
    let header = region.header();
    header.reserve.publish(header.size.load());
    for bytes in [1 << 16, 1 << 10, 64] {
        while region.allocate_bytes(bytes, 64).is_ok() {}
    }
}

/// A child and its output.
pub struct Child {
    pub process: Process,
    message: Receiver<String>,
    /// The last number that it acknowledged.
    pub told: u64,
}

impl Child {
    /// Starts a child that dies at `failpoint`, if that is not empty.
    pub fn start(directory: &Path, seed: u64, failpoint: &str) -> Child {
        let (tell, message) = channel();
        let variables = [
            (DIRECTORY, directory.display().to_string()),
            (SEED, seed.to_string()),
            ("LIBTP_FAILPOINT", failpoint.to_owned()),
        ];
        let process = Process::start("child::entry", &variables, move |line| {
            // The test may have stopped listening.
            let _ = tell.send(line.to_owned());
        });
        Child { process, message, told: 0 }
    }

    /// Reads lines until the child says `word`; false if it died before.
    pub fn says(&mut self, word: &str) -> bool {
        loop {
            match self.line() {
                Some(line) if line == word => return true,
                Some(line) => self.heard(&line),
                None => return false,
            }
        }
    }

    /// Returns the child's next line, or `None` if it has died.
    pub fn line(&mut self) -> Option<String> {
        match self.message.recv_timeout(LONG) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
            Err(_) => panic!("a process says nothing for {LONG:?}; its errors: {}", self.process.errors()),
        }
    }

    /// Sends an order and waits until it is done.
    pub fn does(&mut self, order: &str) {
        self.process.order(order);
        assert!(self.says("done"), "it has died of {order}: {}", self.process.errors());
    }

    /// Waits until the child is stopped.
    pub fn stops(&self) {
        let begun = std::time::Instant::now();
        while !self.is_stopped() {
            assert!(begun.elapsed() < LONG, "it does not stop: {}", self.process.errors());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn is_stopped(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.process.pid())).unwrap_or_default();
        // The state is behind the program's name, which is in parentheses.
        status.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
    }

    fn heard(&mut self, line: &str) {
        assert!(!line.starts_with("failed"), "a process {line}");
        if let Ok(number) = line.parse() {
            self.told = number;
        }
    }

    pub fn work(&mut self, count: u64) {
        self.process.order(&format!("work {count}"));
    }

    /// Waits until the child has ended. Returns whether a signal killed it.
    pub fn end(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let status = self.process.wait();
        while let Ok(line) = self.message.try_recv() {
            self.heard(&line);
        }
        status.signal().is_some()
    }
}

//! A process that a test starts: it runs transactions until it is stopped or dies, and reports the number of each
//! committed transaction.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtp_sim::Random;
use libtp_tests::process::{next_order, say, Heard, Process, FAILPOINT};

use crate::business::Business;

const DIRECTORY: &str = "LIBTP_TEST_JOINT_DIRECTORY";
const SEED: &str = "LIBTP_TEST_JOINT_SEED";

/// The entry of a child. In an ordinary test run this test does nothing.
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
    // Other orders than those below have the form `work N` and run N transactions. The child answers each order with
    // `done`.
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

/// A child and the last number that it acknowledged.
pub struct Child {
    process: Process,
    pub told: u64,
}

libtp_tests::is_a_process!(Child);

impl Child {
    /// Starts a child that dies at `failpoint`, or at no failpoint if the name is empty.
    pub fn start(directory: &Path, seed: u64, failpoint: &str) -> Child {
        let variables =
            [(DIRECTORY, directory.display().to_string()), (SEED, seed.to_string()), (FAILPOINT, failpoint.to_owned())];
        Child { process: Process::start("child::entry", &variables), told: 0 }
    }

    /// Reads lines until the child says `word`. Returns false if the child died before.
    pub fn says(&mut self, word: &str) -> bool {
        loop {
            match self.line() {
                Some(line) if line == word => return true,
                Some(line) => self.heard(&line),
                None => return false,
            }
        }
    }

    /// Sends an order and waits until it is done.
    pub fn does(&mut self, order: &str) {
        self.process.order(order);
        assert!(self.says("done"), "the child has died during {order}: {}", self.process.errors());
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
        let status = self.wait();
        while let Heard::Line(line) = self.hear_within(Duration::ZERO) {
            self.heard(&line);
        }
        status.signal().is_some()
    }
}

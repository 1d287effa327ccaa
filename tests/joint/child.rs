//! A process that a test starts: it transacts until it is stopped or dies, and tells each number that was acknowledged.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

use libtp_sim::Random;
use libtp_tests::process::{next_order, say, Process};

use crate::business::Business;

const DIRECTORY: &str = "LIBTP_TEST_JOINT_DIRECTORY";
const SEED: &str = "LIBTP_TEST_JOINT_SEED";
/// So long is waited for anything that a process is to say.
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
    // `work N`: so many transactions; then the next order.
    while let Some(order) = next_order() {
        let count = order.strip_prefix("work ").and_then(|count| count.parse().ok()).unwrap_or(0);
        for _ in 0..count {
            match business.transact(random) {
                Ok(Some(number)) => say(&number.to_string()),
                Ok(None) => {}
                Err(error) => say(&format!("failed: {error}")),
            }
        }
        say("done");
    }
}

/// A child and what it said.
pub struct Child {
    pub process: Process,
    said: Receiver<String>,
    /// The last number that it acknowledged.
    pub told: u64,
}

impl Child {
    /// Starts one that dies at `failpoint`, if that is not empty.
    pub fn start(directory: &Path, seed: u64, failpoint: &str) -> Child {
        let (tell, said) = channel();
        let variables = [
            (DIRECTORY, directory.display().to_string()),
            (SEED, seed.to_string()),
            ("LIBTP_FAILPOINT", failpoint.to_owned()),
        ];
        let process = Process::start("child::entry", &variables, move |line| {
            // The test may have stopped listening.
            let _ = tell.send(line.to_owned());
        });
        Child { process, said, told: 0 }
    }

    /// Listens until it says `word`; false if it died before.
    pub fn says(&mut self, word: &str) -> bool {
        loop {
            match self.said.recv_timeout(LONG) {
                Ok(line) if line == word => return true,
                Ok(line) => self.heard(&line),
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return false,
                Err(_) => panic!("a process says nothing for {LONG:?}; its errors: {}", self.process.errors()),
            }
        }
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

    /// Waits until it has ended; whether it was killed.
    pub fn end(&mut self) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let status = self.process.wait();
        while let Ok(line) = self.said.try_recv() {
            self.heard(&line);
        }
        status.signal().is_some()
    }
}

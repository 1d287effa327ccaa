//! The processes that a test has started: their orders and answers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

#[cfg(feature = "failpoints")]
use libtp_tests::process::hang;
use libtp_tests::process::{Heard, Process};
use libtp_tests::transfers::{acknowledgement, TransferId};

/// The environment's directory. Without this variable, the process is not a child.
pub const DIRECTORY: &str = "LIBTP_TEST_CHILD_DIRECTORY";
/// The child's number.
pub const NUMBER: &str = "LIBTP_TEST_CHILD_NUMBER";
/// The objects of locks: `page`, or `record`.
pub const GRANULARITY: &str = "LIBTP_TEST_CHILD_GRANULARITY";
/// The test that a child runs.
pub const ENTRY: &str = "child::entry";

/// Runs work that may wait for other processes, but must end in time.
///
/// # Panics
/// If the work does not end in time.
#[cfg(feature = "failpoints")]
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, done) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(send.send(work())));
    done.recv_timeout(hang()).unwrap_or_else(|error| panic!("{what} did not end in time: {error}"))
}

/// If an order has no answer after this time, the test assumes that the process waits.
const WAIT: Duration = Duration::from_millis(100);

/// A process that has the environment open.
pub struct Member {
    number: u64,
    process: Process,
    /// How the process opened the environment.
    pub how: String,
}

libtp_tests::is_a_process!(Member);

impl Member {
    /// Starts a process and waits until it has opened the environment.
    pub fn start(directory: &Path, number: u64) -> Member {
        Member::launch(directory, number).opened()
    }

    /// Starts a process and lets it make transfers, with synced commits if its number is even, otherwise with relaxed
    /// commits.
    pub fn working(directory: &Path, number: u64) -> Member {
        let mut member = Member::start(directory, number);
        assert_eq!(member.ask(if number % 2 == 0 { "work sync" } else { "work relaxed" }), "working");
        member
    }

    /// Starts a process whose locks are on the objects `granularity` (`record` or `page`), and waits until it has
    /// opened the environment.
    pub fn start_with(directory: &Path, number: u64, granularity: &str) -> Member {
        Member::launch_under(&[], directory, number, granularity).opened()
    }

    /// Starts a process and does not wait; [`Member::answer`] returns how it opened the environment.
    pub fn launch(directory: &Path, number: u64) -> Member {
        Member::launch_under(&[], directory, number, "record")
    }

    /// Starts a process that dies when it reaches the failpoint, and does not wait.
    #[cfg(feature = "failpoints")]
    pub fn launch_armed(directory: &Path, number: u64, point: &str) -> Member {
        let armed = format!("LIBTP_FAILPOINT={point}");
        Member::launch_under(&["env", &armed], directory, number, "record")
    }

    /// Starts a process by way of another program, and does not wait: `under` is that program and its arguments.
    pub fn launch_under(under: &[&str], directory: &Path, number: u64, granularity: &str) -> Member {
        let variables = [
            (DIRECTORY, directory.display().to_string()),
            (NUMBER, number.to_string()),
            (GRANULARITY, granularity.to_owned()),
        ];
        Member { number, process: Process::start_under(under, ENTRY, &variables), how: String::new() }
    }

    /// Waits until the process has opened the environment.
    pub fn opened(mut self) -> Member {
        self.how = self.answer();
        self
    }

    /// Waits for the next answer.
    #[track_caller]
    pub fn answer(&self) -> String {
        self.line().unwrap_or_else(|| panic!("process {} has ended: {}", self.number, self.errors()))
    }

    /// Gives an order and returns the answer, which must not report an error.
    #[track_caller]
    pub fn ask(&mut self, order: &str) -> String {
        self.order(order);
        let answer = self.answer();
        assert!(!answer.starts_with("failed"), "process {}: {order}: {answer}", self.number);
        answer
    }

    /// Gives an order that has to wait for another process.
    #[track_caller]
    pub fn waits(&mut self, order: &str) {
        self.order(order);
        let heard = self.hear_within(WAIT);
        assert_eq!(heard, Heard::Nothing, "process {}: {order} must wait", self.number);
    }

    /// Lets the process close the environment and end.
    #[track_caller]
    pub fn leave(mut self) {
        assert_eq!(self.ask("leave"), "left");
        let status = self.process.wait();
        assert!(status.success(), "process {}: {status}", self.number);
    }

    /// Returns an answer if it arrives within `time`.
    pub fn answer_within(&self, time: Duration) -> Option<String> {
        match self.hear_within(time) {
            Heard::Line(answer) => Some(answer),
            Heard::Nothing | Heard::End => None,
        }
    }

    /// Returns a message about a fault of the process, with its standard error. If `LIBTP_TEST_KEEP` is set, first
    /// waits an hour, so that a debugger can attach.
    pub fn fail_with_report(&self, what: &str) -> String {
        if std::env::var_os("LIBTP_TEST_KEEP").is_some() {
            println!("{what}: process {}", self.process.pid());
            std::thread::sleep(Duration::from_secs(3600));
        }
        format!("process {} {what}: {}", self.number, self.process.errors())
    }

    /// Waits until the process has ended, and returns the transfers that it reported before.
    pub fn acknowledged(mut self) -> BTreeSet<TransferId> {
        self.process.wait();
        self.acknowledged_so_far().into_iter().collect()
    }

    /// Returns the transfers that were reported and that no earlier call has returned.
    pub fn acknowledged_so_far(&self) -> Vec<TransferId> {
        self.lines_so_far().filter_map(|answer| acknowledgement(&answer)).collect()
    }

    /// Stops the process's work, and returns the transfers that it reported until then.
    pub fn acknowledged_until_it_stops(&mut self) -> BTreeSet<TransferId> {
        self.order("stop");
        let mut told = BTreeSet::new();
        loop {
            match self.answer() {
                answer if answer == "stopped" => return told,
                answer => told.extend(acknowledgement(&answer)),
            }
        }
    }
}

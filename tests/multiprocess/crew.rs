//! The test's end of the pipes to the processes it has started.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use libtp_tests::process::Process;
use libtp_tests::sizes;

use crate::bank::TransferId;
use crate::child::{DIRECTORY, ENTRY, GRANULARITY, NUMBER};

/// Returns the time after which an answer is given up; shorter where processes are expected to be stuck.
fn hang() -> Duration {
    Duration::from_secs(sizes::number("LIBTP_TEST_WATCHDOG", 20) * 3)
}
/// Does work that may wait for others, but must end.
///
/// # Panics
/// If the work does not end in time.
#[cfg(feature = "failpoints")]
pub fn in_time<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    std::thread::spawn(move || drop(tell.send(work())));
    told.recv_timeout(hang()).unwrap_or_else(|error| panic!("it waits for ever {what}: {error}"))
}

/// An order without an answer after this time counts as waiting.
const WAIT: Duration = Duration::from_millis(100);

/// A process that has the environment open.
pub struct Member {
    number: u64,
    process: Process,
    answers: Receiver<String>,
    /// How the process opened the environment.
    pub how: String,
}

impl Member {
    /// Starts a process and waits until it has opened the environment.
    pub fn start(directory: &Path, number: u64) -> Member {
        Member::launch(directory, number).opened()
    }

    /// As [`Member::start`], with locks on records or on pages (`record`, `page`).
    pub fn start_with(directory: &Path, number: u64, granularity: &str) -> Member {
        Member::launch_under(&[], directory, number, granularity).opened()
    }

    /// Starts a process and does not wait; [`Member::answer`] returns how it opened the environment.
    pub fn launch(directory: &Path, number: u64) -> Member {
        Member::launch_under(&[], directory, number, "record")
    }

    /// As [`Member::launch`]; the process dies at the failpoint.
    #[cfg(feature = "failpoints")]
    pub fn launch_armed(directory: &Path, number: u64, point: &str) -> Member {
        let armed = format!("LIBTP_FAILPOINT={point}");
        Member::launch_under(&["env", &armed], directory, number, "record")
    }

    /// As [`Member::launch`], but started by another program: `under` is that program and its arguments.
    pub fn launch_under(under: &[&str], directory: &Path, number: u64, granularity: &str) -> Member {
        let (answer, answers) = channel();
        let variables = [
            (DIRECTORY, directory.display().to_string()),
            (NUMBER, number.to_string()),
            (GRANULARITY, granularity.to_owned()),
        ];
        // If the test no longer listens, the test has ended.
        let listen = move |line: &str| drop(answer.send(line.to_owned()));
        Member { number, process: Process::start_under(under, ENTRY, &variables, listen), answers, how: String::new() }
    }

    /// Waits until the process has opened the environment.
    pub fn opened(mut self) -> Member {
        self.how = self.answer();
        self
    }

    /// Gives an order and does not wait for the answer.
    pub fn order(&mut self, order: &str) {
        self.process.order(order);
    }

    /// Waits for the next answer.
    #[track_caller]
    pub fn answer(&self) -> String {
        match self.answers.recv_timeout(hang()) {
            Ok(answer) => answer,
            Err(error) => panic!("process {}: no answer: {error}\n{}", self.number, self.process.errors()),
        }
    }

    /// Gives an order and returns the answer.
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
        match self.answers.recv_timeout(WAIT) {
            Err(RecvTimeoutError::Timeout) => {}
            answer => panic!("process {}: {order} should have waited: {answer:?}", self.number),
        }
    }

    /// Returns the process's pid.
    pub fn pid(&self) -> rustix::process::Pid {
        let pid = i32::try_from(self.process.pid()).expect("a pid is small");
        rustix::process::Pid::from_raw(pid).expect("a pid is not 0")
    }

    /// Lets the process close the environment and end.
    #[track_caller]
    pub fn leave(mut self) {
        assert_eq!(self.ask("leave"), "left");
        let status = self.process.wait();
        assert!(status.success(), "process {}: {status}", self.number);
    }

    /// Kills the process, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) {
        self.process.wait();
    }

    /// Stops the process where it is, until [`Member::resume`].
    pub fn stop(&self) {
        self.process.stop();
    }

    /// Lets the process go on.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// Returns an answer if it arrives within `time`.
    pub fn answer_within(&self, time: Duration) -> Option<String> {
        self.answers.recv_timeout(time).ok()
    }

    /// Describes what is wrong with the process, with its standard error. With `LIBTP_TEST_KEEP` it waits an hour
    /// first, so that a debugger can attach.
    pub fn fail_with_report(&self, what: &str) -> String {
        if std::env::var_os("LIBTP_TEST_KEEP").is_some() {
            println!("{what}: process {}", self.process.pid());
            std::thread::sleep(Duration::from_secs(3600));
        }
        format!("process {} {what}: {}", self.number, self.process.errors())
    }

    /// Returns the next answer; `None` after `time`; an error when the process has ended and all its answers were
    /// returned.
    pub fn hear(&self, time: Duration) -> std::result::Result<Option<String>, ()> {
        match self.answers.recv_timeout(time) {
            Ok(answer) => Ok(Some(answer)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    /// Waits until the process has ended, and returns the transfers that it reported before.
    pub fn acknowledged(mut self) -> BTreeSet<TransferId> {
        self.process.wait();
        // The listener has received all its output.
        self.answers.iter().filter_map(|answer| acknowledgement(&answer)).collect()
    }

    /// Returns the reported transfers that no call has returned yet.
    pub fn acknowledged_so_far(&mut self) -> Vec<TransferId> {
        self.answers.try_iter().filter_map(|answer| acknowledgement(&answer)).collect()
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

pub fn acknowledgement(answer: &str) -> Option<TransferId> {
    let (worker, number) = answer.strip_prefix("ack ")?.split_once(' ')?;
    Some((worker.parse().ok()?, number.parse().ok()?))
}

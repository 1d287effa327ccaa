//! The test's end of the pipes to the processes it has started.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::bank::TransferId;
use crate::child::{ANSWER, DIRECTORY, NUMBER};

/// An answer that has not come after this time never will.
const HANG: Duration = Duration::from_secs(60);
/// An order that has not been obeyed after this time waits.
const WAIT: Duration = Duration::from_millis(100);

/// A process that has the environment open.
pub struct Member {
    number: u64,
    child: Child,
    orders: Option<ChildStdin>,
    answers: Receiver<String>,
    /// How it opened the environment.
    pub how: String,
}

impl Member {
    /// Starts a process and waits until it has opened the environment.
    pub fn start(directory: &Path, number: u64) -> Member {
        let mut member = Member::launch(directory, number);
        member.how = member.answer();
        member
    }

    /// Starts a process and does not wait; [`Member::answer`] tells how it opened the environment.
    pub fn launch(directory: &Path, number: u64) -> Member {
        let program = std::env::current_exe().expect("a program knows its path");
        let mut child = Command::new(program)
            .args(["--exact", "child::entry", "--nocapture", "--test-threads", "1"])
            .env(DIRECTORY, directory)
            .env(NUMBER, number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let orders = child.stdin.take();
        let from = BufReader::new(child.stdout.take().expect("its output is a pipe"));
        let (answer, answers) = channel();
        std::thread::spawn(move || {
            for line in from.lines().map_while(Result::ok) {
                if let Some(text) = line.strip_prefix(ANSWER) {
                    if answer.send(text.to_owned()).is_err() {
                        return;
                    }
                }
            }
        });
        Member { number, child, orders, answers, how: String::new() }
    }

    /// Gives an order and does not wait for the answer.
    pub fn order(&mut self, order: &str) {
        let orders = self.orders.as_mut().expect("the process takes orders");
        writeln!(orders, "{order}").and_then(|()| orders.flush()).expect("the process takes orders");
    }

    /// The next answer.
    #[track_caller]
    pub fn answer(&self) -> String {
        match self.answers.recv_timeout(HANG) {
            Ok(answer) => answer,
            Err(error) => panic!("process {}: no answer: {error}", self.number),
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

    /// Lets it close the environment and end.
    #[track_caller]
    pub fn leave(mut self) {
        assert_eq!(self.ask("leave"), "left");
        let status = self.child.wait().expect("it can be waited for");
        assert!(status.success(), "process {}: {status}", self.number);
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&mut self) {
        self.child.kill().expect("it can be killed");
    }

    /// Waits until it has ended, and returns the transfers it told of before.
    pub fn acknowledged(mut self) -> BTreeSet<TransferId> {
        self.child.wait().expect("it can be waited for");
        // The pipe still holds what it said; then it is at its end.
        self.answers.iter().filter_map(|answer| acknowledgement(&answer)).collect()
    }

    /// Lets it work for a while, and returns the transfers it told of meanwhile.
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

impl Drop for Member {
    fn drop(&mut self) {
        // A test that fails must not leave processes behind; one that left has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn acknowledgement(answer: &str) -> Option<TransferId> {
    let (who, number) = answer.strip_prefix("ack ")?.split_once(' ')?;
    Some((who.parse().ok()?, number.parse().ok()?))
}

//! A child process that outlives its killed parent, made by fork, or by clone without the C library.

use std::time::Duration;

use rustix::process::{kill_process, Pid, Signal};

use crate::forking::{exit_now, make_child, ForkKind, Side};
use crate::process::Process;

/// The time after which an orphan ends by itself.
const LIFE: Duration = Duration::from_secs(600);

/// The living child of a dead parent. Killed when dropped.
pub struct Orphan(Pid);

impl Orphan {
    /// Starts this program in its test `entry`, which calls [`leave_a_child`] and writes the child's pid. Then kills
    /// the program, or gives the program `order`, during which the program is killed.
    ///
    /// # Panics
    /// If the program makes no child, or does not die.
    pub fn of(entry: &str, variables: &[(&str, String)], order: Option<&str>) -> Orphan {
        let mut parent = Process::start(entry, variables);
        let child = parent.line().unwrap_or_else(|| panic!("the parent makes no child: {}", parent.errors()));
        let orphan = Orphan::named(&child);
        match order {
            Some(order) => parent.order(order),
            None => parent.kill(),
        }
        // Waits for the end of the process, not for the end of its output: its child has the pipe open, too.
        let ended = loop {
            match parent.ended() {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(!ended.success(), "the parent was not killed: {}", parent.errors());
        orphan
    }

    /// Returns the orphan with this pid, in text.
    ///
    /// # Panics
    /// If the text is no pid.
    pub fn named(pid: &str) -> Orphan {
        let number = pid.parse().ok().and_then(Pid::from_raw);
        Orphan(number.unwrap_or_else(|| panic!("{pid:?} is not the pid of a child")))
    }

    /// Returns whether the orphan still lives.
    pub fn lives(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.as_raw_nonzero()));
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Kills the orphan, and waits until it has ended.
    pub fn end(self) {
        let _ = kill_process(self.0, Signal::KILL);
        while self.lives() {
            std::thread::yield_now();
        }
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Makes a child that does nothing for a while; returns the child's pid.
pub fn leave_a_child(how: ForkKind) -> i32 {
    match make_child(how) {
        Side::Child => {
            // The sleep is bounded: the test that would kill this process may have been killed itself.
            std::thread::sleep(LIFE);
            exit_now(0);
        }
        Side::Parent(child) => child,
    }
}

//! A child that outlives its killed parent: by fork, or by a clone that the C library does not know of.

use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{kill_process, Pid, Signal};

use crate::forking::{exit_now, make_child, How, Side};
use crate::process::{say, Process};

/// The longest that a test waits for a child, and that an orphan lives.
const LIFE: Duration = Duration::from_secs(600);

/// The living child of a dead parent. Killed when dropped.
pub struct Orphan(Pid);

impl Orphan {
    /// Starts this program in its test `entry`, which calls [`leave_a_child`]; then kills it, or gives it an order on
    /// which it dies.
    ///
    /// # Panics
    /// If the program makes no child, or does not die.
    pub fn of(entry: &str, variables: &[(&str, String)], order: Option<&str>) -> Orphan {
        let (tell, message) = channel();
        let mut parent = Process::start(entry, variables, move |line| _ = tell.send(line.to_owned()));
        let child = message.recv_timeout(LIFE).unwrap_or_else(|_| panic!("it makes no child: {}", parent.errors()));
        let pid = child.parse().ok().and_then(Pid::from_raw);
        let orphan = Orphan(pid.unwrap_or_else(|| panic!("it is to say the child's number, and says {child}")));
        match order {
            Some(order) => parent.order(order),
            None => parent.kill(),
        }
        // Not for the end of its output: its child holds the pipe, too.
        let ended = loop {
            match parent.ended() {
                Some(ended) => break ended,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(!ended.success(), "it is killed: {}", parent.errors());
        orphan
    }

    /// Returns whether the orphan still lives.
    pub fn lives(&self) -> bool {
        kill_process(self.0, Signal::CONT).is_ok()
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Makes a child that does nothing for a while, and reports the child's pid.
pub fn leave_a_child(how: How) {
    match make_child(how) {
        Side::Child => {
            // Not for ever: the test may have been killed itself.
            std::thread::sleep(LIFE);
            exit_now(0);
        }
        Side::Parent(child) => say(&child.to_string()),
    }
}

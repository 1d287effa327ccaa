//! The processes that a test has started: their orders, reports and deaths.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use libtp_tests::process::{Heard, Process, FAILPOINT};
use libtp_tests::transfers::{acknowledgement, TransferId};
use rustix::process::{pidfd_open, pidfd_send_signal, PidfdFlags, Signal};

use crate::child::{DIRECTORY, ENTRY, NUMBER, ROLE};
use crate::role::Role;
use crate::watchdog;

/// An answer counts as missing after the watchdog's time, multiplied by this number.
const HANG: u32 = 3;
/// The interval between two checks whether a process has ended.
const POLL: Duration = Duration::from_micros(200);

/// A process that has the environment open.
pub struct Member {
    pub number: u64,
    process: Process,
    hits: PathBuf,
    /// The transfers that the process has acknowledged.
    pub told: Vec<TransferId>,
    has_left: bool,
}

libtp_tests::is_a_process!(Member);

/// The end of a process at a failpoint.
#[derive(Clone, Debug)]
pub struct Death {
    /// The failpoint.
    pub point: String,
    /// The time, in nanoseconds of the clock that all processes share.
    pub at: u128,
}

impl Member {
    /// Starts a process, which dies at the failpoint `armed` unless this is empty. Does not wait until the process has
    /// opened the environment.
    pub fn launch(directory: &Path, number: u64, role: &Role, armed: &str) -> Member {
        let hits = directory.with_extension(format!("hits{number}"));
        let variables = [
            (DIRECTORY, directory.display().to_string()),
            (NUMBER, number.to_string()),
            (ROLE, role.text()),
            (FAILPOINT, armed.to_owned()),
            ("LIBTP_FAILPOINT_HITS", hits.display().to_string()),
        ];
        Member { number, process: Process::start(ENTRY, &variables), hits, told: Vec::new(), has_left: false }
    }

    /// Continues the process whenever it stops, until the guard is dropped.
    pub fn stays_awake(&self) -> Awake {
        let process = pidfd_open(self.kernel_pid(), PidfdFlags::empty()).expect("our child was not waited for");
        let (guard, ends) = channel();
        let wakes = move || {
            // A process that has ended needs no waking.
            while pidfd_send_signal(&process, Signal::CONT).is_ok() {
                if ends.recv_timeout(10 * POLL) == Err(RecvTimeoutError::Disconnected) {
                    return;
                }
            }
        };
        std::thread::spawn(wakes);
        Awake(guard)
    }

    /// Waits for at most `limit` until the process stops at a failpoint; returns whether it stopped.
    pub fn stops_within(&mut self, limit: Duration) -> bool {
        self.has_within(limit, "stopped ", 1)
    }

    /// Waits for at most `limit` until the process has panicked `count` times at failpoints; returns whether it has.
    pub fn panics_within(&mut self, limit: Duration, count: usize) -> bool {
        self.has_within(limit, "panicked ", count)
    }

    fn has_within(&self, limit: Duration, deed: &str, count: usize) -> bool {
        let start = Instant::now();
        while start.elapsed() < limit {
            let lines = std::fs::read_to_string(&self.hits).unwrap_or_default();
            if lines.lines().filter(|line| line.starts_with(deed)).count() >= count {
                return true;
            }
            std::thread::sleep(5 * POLL);
        }
        false
    }

    /// Waits for at most `limit` until the process reports an error; returns the error.
    pub fn fails_within(&mut self, limit: Duration) -> Option<String> {
        let start = Instant::now();
        while let Some(left) = limit.checked_sub(start.elapsed()) {
            let Heard::Line(answer) = self.hear_within(left) else { return None };
            if let Some(what) = answer.strip_prefix("failed: ") {
                return Some(what.to_owned());
            }
            self.hear(&answer);
        }
        None
    }

    /// Receives the process's lines so far; no line may be an error.
    #[track_caller]
    pub fn listen(&mut self) {
        while let Heard::Line(answer) = self.hear_within(Duration::ZERO) {
            self.hear(&answer);
        }
    }

    #[track_caller]
    fn hear(&mut self, answer: &str) {
        assert!(!answer.starts_with("failed"), "process {}: {answer}\n{}", self.number, self.errors());
        self.has_left |= answer == "left";
        self.told.extend(acknowledgement(answer));
    }

    /// Waits until the process has acknowledged more than `count` transfers. Returns false if it has not within
    /// `limit`.
    #[track_caller]
    pub fn acknowledges_more_than(&mut self, count: usize, limit: Duration) -> bool {
        let start = Instant::now();
        self.listen();
        while self.told.len() <= count {
            let Some(left) = limit.checked_sub(start.elapsed()) else { return false };
            match self.hear_within(left) {
                Heard::Line(answer) => self.hear(&answer),
                Heard::Nothing | Heard::End => return false,
            }
        }
        true
    }

    /// Orders the process to die when it next reaches a failpoint; waits until the process confirms the order, or ends.
    #[track_caller]
    pub fn arm(&mut self, point: &str) {
        self.order(&format!("arm {point}"));
        loop {
            match self.hear_within(HANG * watchdog()) {
                Heard::Line(answer) if answer == "armed" => return,
                Heard::Line(answer) => self.hear(&answer),
                // The process may have reached the failpoint at once.
                Heard::Nothing | Heard::End => {
                    return assert!(self.ends_within(HANG * watchdog()), "process {} does not obey", self.number)
                }
            }
        }
    }

    /// Kills the process, as `kill -9` does, and waits for its end.
    pub fn kill(&mut self) {
        self.process.kill();
        self.wait();
        self.listen();
    }

    /// Returns whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.ended().is_some()
    }

    /// Returns whether the process has reached the failpoint at which it dies.
    pub fn says_that_it_dies(&self) -> bool {
        std::thread::sleep(Duration::from_millis(2));
        let lines = std::fs::read_to_string(&self.hits).unwrap_or_default();
        lines.lines().any(|line| line.starts_with("died "))
    }

    /// Waits for at most `limit` until the process has ended; returns whether it has.
    pub fn ends_within(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while !self.has_ended() {
            if start.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(POLL);
        }
        true
    }

    /// Waits until a process that was ordered to leave has ended. If it does not end in the watchdog's time, fails with
    /// a description of its threads.
    ///
    /// # Panics
    /// If the process does not end.
    #[track_caller]
    pub fn leaves(&mut self, what: &str) {
        if !self.ends_within(watchdog()) {
            let number = self.number;
            panic!("process {number} does not leave {what}; its threads:\n{}", whereabouts(self.pid()));
        }
    }

    /// Returns the failpoint at which the ended process died; `None` if it left in good order.
    ///
    /// # Panics
    /// If the process ended in any other way.
    #[track_caller]
    pub fn death(&mut self) -> Option<Death> {
        let status = self.wait();
        self.listen();
        let lines = std::fs::read_to_string(&self.hits).unwrap_or_default();
        let died = lines.lines().find_map(|line| line.strip_prefix("died ")).and_then(|line| line.split_once(' '));
        match (died, status.signal()) {
            (Some((at, point)), Some(9)) => {
                Some(Death { point: point.into(), at: at.parse().expect("a time is a number") })
            }
            (None, None) if status.success() && self.has_left => None,
            _ => panic!(
                "process {} ended with {status}, and not at a failpoint: {died:?}\n{}",
                self.number,
                self.errors()
            ),
        }
    }

    /// Lets the process close the environment and end, in good order.
    #[track_caller]
    pub fn leave(&mut self) {
        self.order("stop");
        assert!(self.ends_within(HANG * watchdog()), "process {} does not leave", self.number);
        assert!(self.death().is_none(), "process {} died", self.number);
    }
}

/// While this guard lives, a thread continues the process whenever it stops. The drop of the sender ends the thread.
pub struct Awake(#[allow(dead_code)] Sender<()>);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.hits);
    }
}

/// Describes the state and the kernel's stack of each thread of a process, as far as `/proc` shows them.
pub fn whereabouts(process: u32) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lines = tasks.map(|task| {
        let read = |what: &str| std::fs::read_to_string(task.path().join(what)).unwrap_or_default();
        let stat = read("stat");
        let state = stat.rsplit_once(") ").map_or("?", |(_, rest)| rest.get(..1).unwrap_or("?"));
        let stack: String = read("stack").lines().map(|line| format!(" {}", line.trim())).collect();
        format!("{}: {state}, {}, {}{stack}\n", read("comm").trim(), read("wchan").trim(), read("syscall").trim())
    });
    lines.collect()
}

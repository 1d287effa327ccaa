//! Whether a process still runs (PROTOCOLS D9).
//!
//! A process is named by its pid and the time it started, so that a pid used again is not taken for it. Only what is
//! certain counts as death: a stopped process lives, and so does one we may not look at. Both sides are assumed to see
//! the same pids.

use rustix::process::{test_kill_process, Pid};

/// This process, as its sessions' slots name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: u32,
    /// In clock ticks after boot; zero where the kernel does not say.
    start_time: u64,
}

impl Process {
    /// The calling process.
    pub(crate) fn this() -> Process {
        let start_time = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Stat::parse(&stat));
        Process { pid: std::process::id(), start_time: start_time.map_or(0, |stat| stat.start_time) }
    }

    pub(crate) fn pid(self) -> u32 {
        self.pid
    }

    pub(crate) fn start_time(self) -> u64 {
        self.start_time
    }

    /// Whether this process is still the one it was when it attached: not so in the child of a fork.
    pub(crate) fn is_current(self) -> bool {
        self.pid == std::process::id()
    }

    /// Whether the process with that pid and start time (zero: not known) runs, as far as this one can see.
    pub(crate) fn sees_alive(self, pid: u32, start_time: u64) -> bool {
        if pid == self.pid {
            return start_time == 0 || self.start_time == 0 || start_time == self.start_time;
        }
        process_runs(pid, start_time)
    }
}

/// Whether a process of that pid runs that started then (zero: whenever).
pub(crate) fn process_runs(pid: u32, start_time: u64) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => match Stat::parse(&stat) {
            Some(stat) => !stat.has_ended && (start_time == 0 || stat.start_time == start_time),
            None => true,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => pid_exists(pid),
        // ESRCH: it ended between open and read.
        Err(error) => error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()),
    }
}

/// Asks without /proc, which may hide other users' processes or not be there at all.
fn pid_exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    has_ended: bool,
    start_time: u64,
}

impl Stat {
    /// Fields are counted behind the last parenthesis, because the command's name may contain anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
        // Fields 3 (state), 20 (threads) and 22 (start time) of proc(5). A zombie with other threads still runs.
        let threads: i64 = fields.get(17)?.parse().ok()?;
        let has_ended = matches!(*fields.first()?, "X" | "x") || (fields.first() == Some(&"Z") && threads <= 1);
        Some(Stat { has_ended, start_time: fields.get(19)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{process_runs, Process, Stat};

    #[test]
    fn a_process_lives_until_it_is_killed_even_if_nobody_has_waited_for_it() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let started = Stat::parse(&stat).expect("the kernel's own format").start_time;
        assert!(process_runs(child.id(), started));
        assert!(!process_runs(child.id(), started + 1), "another process with its pid");
        child.kill().expect("it is ours");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while process_runs(child.id(), started) {
            assert!(std::time::Instant::now() < deadline, "a zombie must count as dead");
            std::thread::yield_now();
        }
        child.wait().expect("it was killed");
        assert!(!process_runs(child.id(), started));
    }

    #[test]
    fn a_stopped_process_lives() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it is ours");
        assert!(process_runs(child.id(), 0));
        child.kill().expect("it is ours");
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_no_riddle() {
        let text = "7 (a) Z 1 (b) R 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 4711 1 1 1";
        let stat = Stat::parse(text).expect("well formed");
        assert_eq!((stat.start_time, stat.has_ended), (4711, false));
        assert!(Stat::parse("7 (a").is_none());
    }

    #[test]
    fn this_process_sees_itself_but_not_one_of_its_pid_that_started_earlier() {
        let this = Process::this();
        assert!(this.sees_alive(this.pid(), this.start_time()));
        assert!(!this.sees_alive(this.pid(), this.start_time() + 1));
    }
}

//! The check whether a process still runs (PROTOCOLS D9), by the kernel's table of processes.
//!
//! A process is identified by its pid, by its start time, and by the namespaces of both. The start time distinguishes
//! the process from a later process with the same pid. An observer in another pid namespace can learn nothing about the
//! process. Only certain evidence counts as death: a stopped process lives, and so does a process that we may not
//! inspect.
//!
//! `/proc` may belong to another pid namespace: if a process enters a new pid namespace and `/proc` is not mounted
//! again, the pids in `/proc` are those of the old namespace. Then the library asks the kernel only by pid, which the
//! kernel interprets in the caller's namespace.

use std::time::Duration;

use rio::planted;
use rustix::event::{poll, PollFd, PollFlags};
use rustix::process::{pidfd_open, test_kill_process, Pid, PidfdFlags};

use crate::os::{timespec, ForkMark};

/// Identifies a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) pid: u32,
    /// The start time, in clock ticks after boot; zero if the kernel does not report it.
    pub(crate) start_time: u64,
    /// The inode of the pid namespace; zero if the kernel does not report it.
    pub(crate) pid_namespace: u64,
    /// The inode of the time namespace to which the start time refers; zero if there are no time namespaces.
    pub(crate) time_namespace: u64,
}

/// The process that made this value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Process {
    identity: Identity,
    mark: ForkMark,
    /// Whether `/proc` belongs to this process's pid namespace.
    has_table: bool,
}

impl Process {
    /// Returns the calling process.
    pub(crate) fn this() -> Process {
        let start_time = std::fs::read_to_string("/proc/self/stat").ok().and_then(|stat| Stat::parse(&stat));
        let identity = Identity {
            pid: std::process::id(),
            start_time: start_time.map_or(0, |stat| stat.start_time),
            pid_namespace: namespace("pid"),
            time_namespace: namespace("time"),
        };
        let has_table = table_is_ours() || planted("process: the process table of another pid namespace is trusted");
        Process { identity, mark: ForkMark::of_this_process(), has_table }
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn mark(&self) -> ForkMark {
        self.mark
    }

    pub(crate) fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Returns whether the caller is the process that made this value, and not its child by a fork. Costs one load.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        self.mark.is_current()
    }

    /// Returns whether the process `other`, with all its threads, is seen to have ended.
    pub(crate) fn has_ended(&self, other: Identity) -> bool {
        let own = &self.identity;
        if !self.shares_pids_with(other)
            || planted("process: the attachment lock alone decides whether a process is dead")
        {
            return false;
        }
        // Start times of another time namespace are shifted against ours: then only an unused pid proves the end.
        let start_time = if other.time_namespace == own.time_namespace { other.start_time } else { 0 };
        if other.pid == own.pid {
            return start_time != 0 && own.start_time != 0 && start_time != own.start_time;
        }
        match self.has_table {
            true => !process_runs(other.pid, start_time),
            false => pid_has_ended(other.pid),
        }
    }

    /// Returns whether the other process is certainly stopped, by a signal or a debugger.
    pub(crate) fn sees_stopped(&self, other: Identity) -> bool {
        self.has_table && self.shares_pids_with(other) && process_is_stopped(other.pid)
    }

    /// Returns whether the other process can be seen to run: not stopped, not frozen with its container, not in an
    /// uninterruptible system call. False for a process that cannot be seen from here.
    pub(crate) fn sees_running(&self, other: Identity) -> bool {
        self.has_table && self.shares_pids_with(other) && process_is_running(other.pid)
    }

    /// Returns whether the pid of `other` means the same process in this process's pid namespace.
    pub(crate) fn shares_pids_with(&self, other: Identity) -> bool {
        other.pid != 0 && other.pid_namespace != 0 && other.pid_namespace == self.identity.pid_namespace
    }
}

/// Returns the inode of a namespace of this process, or zero.
fn namespace(kind: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |metadata| metadata.ino())
}

/// Returns whether `/proc` belongs to this process's pid namespace. If so, `/proc/self` names the pid that this process
/// has in its own namespace, and `NSpid` (since Linux 4.1) has only one pid. In `NSpid` the kernel lists a pid for each
/// namespace, from the namespace of `/proc` down to the namespace of the process.
fn table_is_ours() -> bool {
    let own = std::process::id().to_string();
    let is_named_so = std::fs::read_link("/proc/self").is_ok_and(|name| name.as_os_str() == own.as_str());
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    is_named_so && names_alone(&status, &own)
}

/// Returns whether the line `NSpid` of `status` names only `pid`.
fn names_alone(status: &str, pid: &str) -> bool {
    let names = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    names.is_none_or(|names| names.split_ascii_whitespace().eq([pid]))
}

/// Returns whether the process with that pid, with all its threads, has ended, without `/proc`. If another process
/// has the pid now, the answer is about that process.
fn pid_has_ended(pid: u32) -> bool {
    let Some(named) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    match pidfd_open(named, PidfdFlags::empty()) {
        Ok(descriptor) => {
            let mut polled = [PollFd::new(&descriptor, PollFlags::IN)];
            matches!(poll(&mut polled, Some(&timespec(Duration::ZERO))), Ok(1))
        }
        // The kernel or the sandbox does not support process descriptors, or this process has no free descriptor.
        Err(_) => !pid_exists(pid),
    }
}

/// Returns whether a process with that pid and that start time runs. Zero matches any start time.
fn process_runs(pid: u32, start_time: u64) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => match Stat::parse(&stat) {
            Some(stat) if stat.is_stopped && planted("process: a stopped process counts as dead") => false,
            Some(stat) => !stat.has_ended && (start_time == 0 || stat.start_time == start_time),
            None => true,
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => pid_exists(pid),
        // ESRCH: it ended between open and read.
        Err(error) => error.raw_os_error() != Some(rustix::io::Errno::SRCH.raw_os_error()),
    }
}

/// Returns whether a process with that pid is stopped, by a signal or a debugger.
fn process_is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.ok().and_then(|stat| Stat::parse(&stat)).is_some_and(|stat| stat.is_stopped)
}

/// Returns whether all threads of a process with that pid are seen to run. The process's `stat` describes only the
/// first thread: another thread may be writing to a file, and a process whose first thread is a zombie may have other
/// threads that run.
fn process_is_running(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let stats = threads.filter_map(Result::ok).filter_map(|thread| {
        // The thread may have ended since.
        std::fs::read_to_string(thread.path().join("stat")).ok()
    });
    all_run(stats) && !process_is_frozen(pid)
}

/// Returns whether, according to the `stat` lines of its threads, a process has at least one thread that has not ended,
/// and all such threads run.
fn all_run(stats: impl Iterator<Item = String>) -> bool {
    let living = stats.map(|stat| Stat::parse(&stat)).filter(|stat| !stat.as_ref().is_some_and(|stat| stat.is_over));
    let mut running = living.map(|stat| stat.is_some_and(|stat| stat.is_running)).peekable();
    running.peek().is_some() && running.all(|is_running| is_running)
}

/// Returns whether the process is in a frozen control group of version 2 (cgroups(7)). In a frozen group of version 1
/// the kernel reports the process as waiting for the disk.
fn process_is_frozen(pid: u32) -> bool {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return false };
    let events = std::fs::read_to_string(format!("/sys/fs/cgroup{group}/cgroup.events"));
    events.is_ok_and(|events| events.lines().any(|line| line == "frozen 1"))
}

/// Returns whether a process with that pid exists. Does not use `/proc`, which may hide other users' processes or be
/// missing.
fn pid_exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// The content of `/proc/PID/stat`.
struct Stat {
    has_ended: bool,
    /// Whether the thread has ended, if the line belongs to one thread.
    is_over: bool,
    is_stopped: bool,
    /// Whether it runs, or sleeps interruptibly.
    is_running: bool,
    start_time: u64,
}

impl Stat {
    /// Counts fields from the last parenthesis, because the command's name may contain anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
        // Fields 3 (state), 20 (threads) and 22 (start time) of proc(5). A zombie with other threads still runs.
        let threads: i64 = fields.get(17)?.parse().ok()?;
        let is_over = matches!(*fields.first()?, "X" | "x" | "Z");
        let has_ended = is_over && (fields.first() != Some(&"Z") || threads <= 1);
        let is_stopped = matches!(*fields.first()?, "T" | "t");
        let is_running = matches!(*fields.first()?, "R" | "S");
        Some(Stat { has_ended, is_over, is_stopped, is_running, start_time: fields.get(19)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{
        all_run, names_alone, pid_has_ended, process_is_running, process_is_stopped, process_runs, Identity, Process,
        Stat,
    };

    #[test]
    fn a_killed_process_counts_as_ended_even_as_a_zombie() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).expect("it runs");
        let started = Stat::parse(&stat).expect("the kernel's own format").start_time;
        assert!(process_runs(child.id(), started));
        assert!(!process_runs(child.id(), started + 1), "another process has its pid");
        child.kill().expect("the child is ours");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while process_runs(child.id(), started) {
            assert!(std::time::Instant::now() < deadline, "a zombie must count as dead");
            std::thread::yield_now();
        }
        child.wait().expect("the child was killed");
        assert!(!process_runs(child.id(), started));
    }

    #[test]
    fn without_proc_a_process_has_ended_when_the_kernel_reports_it() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let this = Process { has_table: false, ..Process::this() };
        // The start time is unknown: it may come from a table that is not ours.
        let other = Identity { pid: child.id(), start_time: 1, ..this.identity() };
        assert!(!this.has_ended(other) && !this.sees_running(other) && !this.sees_stopped(other));
        child.kill().expect("the child is ours");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !this.has_ended(other) {
            assert!(std::time::Instant::now() < deadline, "a zombie must count as dead");
            std::thread::yield_now();
        }
        child.wait().expect("the child was killed");
        assert!(this.has_ended(other) && pid_has_ended(other.pid), "no process has the pid");
    }

    #[test]
    fn a_process_table_is_of_our_namespace_if_it_lists_one_pid_for_us() {
        assert!(Process::this().has_table, "this test does not run in a pid namespace without a /proc of its own");
        assert!(names_alone("Name:\ta\nNSpid:\t7\nNSpgid:\t7\n", "7"));
        assert!(!names_alone("NSpid:\t7\t7\n", "7"), "both namespaces have the same pid for us by accident");
        assert!(names_alone("Name:\ta\n", "7"), "a kernel without NSpid");
    }

    #[test]
    fn a_stopped_process_lives() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep starts");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("the child is ours");
        assert!(process_runs(child.id(), 0));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !process_is_stopped(child.id()) {
            assert!(std::time::Instant::now() < deadline, "the process is not seen as stopped");
            std::thread::yield_now();
        }
        assert!(!process_is_running(child.id()));
        child.kill().expect("the child is ours");
        child.wait().expect("the child was killed");
    }

    #[test]
    fn a_process_with_a_blocked_or_stopped_thread_does_not_count_as_running() {
        let runs = |states: &[&str]| {
            let line = |state: &&str| format!("7 (a) {state} 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 4711 1 1 1");
            all_run(states.iter().map(line))
        };
        assert!(runs(&["S", "R", "S"]));
        assert!(!runs(&["S", "D"]) && !runs(&["R", "T"]) && !runs(&["t", "R"]) && !runs(&["S", "?"]));
        assert!(runs(&["Z", "S"]), "its first thread has ended, and it has another");
        assert!(!runs(&["Z"]) && !runs(&[]), "no thread is seen");
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_is_parsed() {
        let text = "7 (a) Z 1 (b) R 1 1 1 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 3 0 4711 1 1 1";
        let stat = Stat::parse(text).expect("well formed");
        assert_eq!((stat.start_time, stat.has_ended), (4711, false));
        assert!(Stat::parse("7 (a").is_none());
    }

    #[test]
    fn a_reused_pid_is_another_process_and_a_pid_of_another_namespace_proves_nothing() {
        let this = Process::this();
        let own = this.identity();
        assert!(!this.has_ended(own));
        assert!(this.has_ended(Identity { start_time: own.start_time + 1, ..own }), "our pid with another start time");
        let mut child = Command::new("true").stdin(Stdio::null()).spawn().expect("true starts");
        let gone = Identity { pid: child.id(), start_time: 0, ..own };
        child.wait().expect("it ends by itself");
        assert!(this.has_ended(gone));
        assert!(!this.has_ended(Identity { pid_namespace: own.pid_namespace + 1, ..gone }), "of another namespace");
        assert!(!this.has_ended(Identity { pid_namespace: 0, ..gone }), "of an unknown namespace");
        let shifted = Identity { start_time: own.start_time + 1, time_namespace: own.time_namespace + 1, ..own };
        assert!(!this.has_ended(shifted), "its start time is in another clock's time");
        // A thread of another test may be starting a program at the moment, and no signal ends that call.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !this.sees_running(own) {
            assert!(std::time::Instant::now() < deadline, "we run");
            std::thread::yield_now();
        }
        let elsewhere = Identity { pid_namespace: own.pid_namespace + 1, ..own };
        assert!(!this.sees_running(elsewhere), "a process in another container may be paused with the container");
    }
}

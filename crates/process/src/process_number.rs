//! A process as one number, small enough that a kernel lock can name it by the position of the locked byte.
//!
//! Processes may wait for a lock when there is no region yet, and so no word that names the holder. Therefore the
//! holder also locks the byte at the position of its own number. The kernel drops both locks together. A waiter learns
//! only the holder's pid and namespace.

use std::time::{Duration, Instant};

use crate::liveness::{Identity, Process};

/// How long to wait for a process that is stopped, or that has ended and left its lock to a child. A process that
/// resumes within that time was only slow.
const STUCK: Duration = Duration::from_secs(5);
/// How long to wait for a process that cannot be seen to run, for example in another container.
const UNSEEN: Duration = Duration::from_secs(30);
/// The time between two checks of the process.
const GLANCE: Duration = Duration::from_millis(50);

/// Bits of a pid (`PID_MAX_LIMIT` of the kernel is 2^22).
const PID_BITS: u32 = 22;
/// Inodes of namespaces have 32 bits.
const NAMESPACE_BITS: u32 = 32;

/// A process: its pid and the pid namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessNumber(u64);

impl ProcessNumber {
    /// The bound of the numbers: every number is smaller.
    pub const END: u64 = 1 << (PID_BITS + NAMESPACE_BITS);

    /// Returns the calling process.
    pub fn this() -> ProcessNumber {
        let own = Process::this().identity();
        let namespace = own.pid_namespace & ((1 << NAMESPACE_BITS) - 1);
        ProcessNumber(namespace << PID_BITS | u64::from(own.pid) & ((1 << PID_BITS) - 1))
    }

    /// Returns the process with that number.
    pub fn from_raw(raw: u64) -> ProcessNumber {
        ProcessNumber(raw % ProcessNumber::END)
    }

    /// Returns the process's number.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Returns the process's pid in its own pid namespace.
    pub fn pid(self) -> u32 {
        u32::try_from(self.0 & ((1 << PID_BITS) - 1)).expect("masked to fewer bits")
    }

    /// Returns whether the process is certainly stopped.
    pub fn is_stopped(self) -> bool {
        Process::this().sees_stopped(self.identity())
    }

    /// Returns whether the process can be seen to run.
    pub fn is_seen_running(self) -> bool {
        Process::this().sees_running(self.identity())
    }

    /// Returns whether the process has certainly ended: then a child of the process holds the lock.
    pub fn has_ended(self) -> bool {
        Process::this().has_ended(self.identity())
    }

    /// Returns a description of the process and its state for messages, as the subject of a sentence.
    pub fn describe(self) -> String {
        let pid = self.pid();
        match () {
            () if self.is_stopped() => format!("process {pid}, which is stopped,"),
            // A child made without our fork handlers holds the process's lock (PROTOCOLS D9).
            () if self.has_ended() => format!("a child of process {pid}, which itself has ended,"),
            () if self.is_seen_running() => format!("process {pid}"),
            () => format!("process {pid}, which cannot be seen to run from here,"),
        }
    }

    fn identity(self) -> Identity {
        // The start time is not known, so a later process with the same pid is taken for this process.
        Identity { pid: self.pid(), start_time: 0, pid_namespace: self.0 >> PID_BITS, time_namespace: 0 }
    }
}

/// The limit of a wait for another process. The wait has no limit while that process is seen to run.
#[derive(Debug)]
pub struct Patience {
    looked: Instant,
    not_stuck: Instant,
    seen_running: Instant,
}

impl Patience {
    /// Begins a wait.
    #[allow(clippy::new_without_default)] // The value depends on the time of the call.
    pub fn new() -> Patience {
        let now = Instant::now();
        Patience { looked: now, not_stuck: now, seen_running: now }
    }

    /// Returns whether the wait should end. `other` returns the awaited process. Called often.
    pub fn is_over(&mut self, other: impl FnOnce() -> Option<ProcessNumber>) -> bool {
        if self.looked.elapsed() < GLANCE {
            return false;
        }
        self.looked = Instant::now();
        let other = other();
        if other.is_some_and(ProcessNumber::is_seen_running) {
            self.seen_running = self.looked;
        }
        if !other.is_some_and(|other| other.is_stopped() || other.has_ended()) {
            self.not_stuck = self.looked;
        }
        self.not_stuck.elapsed() >= STUCK || self.seen_running.elapsed() >= UNSEEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_in_its_own_pid_namespace() {
        let this = ProcessNumber::this();
        assert!(this.raw() < ProcessNumber::END);
        assert_eq!(ProcessNumber::from_raw(this.raw()), this);
        assert_eq!(this.pid(), std::process::id());
        assert!(!this.is_stopped() && !this.has_ended());
        let elsewhere = ProcessNumber::from_raw(this.raw() ^ 1 << PID_BITS);
        assert_eq!(elsewhere.pid(), this.pid());
        assert!(!elsewhere.is_seen_running() && !elsewhere.is_stopped() && !elsewhere.has_ended());
    }
}

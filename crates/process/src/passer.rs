//! A process as one number: as much of it as a kernel lock can name by the byte that is locked.
//!
//! Who holds a lock that is waited for without a word in the region (there may be none yet) locks a byte of that number
//! beside it, and the kernel takes it back with the lock. What is known of the process then is what its pid says.

use std::time::{Duration, Instant};

use crate::liveness::{Identity, Process};

/// So long a process is waited for that is stopped, or has ended and left what it held to a child: whoever goes on within
/// that time was only slow.
const STUCK: Duration = Duration::from_secs(5);
/// So long if it cannot be seen to run, in another container say.
const UNSEEN: Duration = Duration::from_secs(30);
/// How often it is looked at.
const GLANCE: Duration = Duration::from_millis(50);

/// Bits of a pid (`PID_MAX_LIMIT` of the kernel is 2^22).
const PID_BITS: u32 = 22;
/// Inodes of namespaces have 32 bits.
const NAMESPACE_BITS: u32 = 32;

/// A process: its pid and the namespace that counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passer(u64);

impl Passer {
    /// Numbers are below this.
    pub const END: u64 = 1 << (PID_BITS + NAMESPACE_BITS);

    /// The calling process.
    pub fn this() -> Passer {
        let own = Process::this().identity();
        let namespace = own.pid_namespace & ((1 << NAMESPACE_BITS) - 1);
        Passer(namespace << PID_BITS | u64::from(own.pid) & ((1 << PID_BITS) - 1))
    }

    /// The one of that number.
    pub fn from_raw(raw: u64) -> Passer {
        Passer(raw % Passer::END)
    }

    /// Its number.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Its pid, as its own namespace counts.
    pub fn pid(self) -> u32 {
        u32::try_from(self.0 & ((1 << PID_BITS) - 1)).expect("masked to fewer bits")
    }

    /// Whether it is certainly stopped.
    pub fn is_stopped(self) -> bool {
        Process::this().sees_stopped(self.identity())
    }

    /// Whether it can be seen to run.
    pub fn is_seen_running(self) -> bool {
        Process::this().sees_running(self.identity())
    }

    /// Whether it has certainly ended: what it held is then held by a child of it.
    pub fn has_ended(self) -> bool {
        Process::this().has_ended(self.identity())
    }

    /// Itself and how it is, for people: before a verb.
    pub fn describe(self) -> String {
        let pid = self.pid();
        match () {
            () if self.is_stopped() => format!("process {pid}, which is stopped,"),
            // What it held is held by a child that fork did not tell us of (PROTOCOLS D9).
            () if self.has_ended() => format!("a child of process {pid}, which itself has ended,"),
            () if self.is_seen_running() => format!("process {pid}"),
            () => format!("process {pid}, which cannot be seen to run from here,"),
        }
    }

    fn identity(self) -> Identity {
        // When it started is not known, so another of its pid is taken for it.
        Identity { pid: self.pid(), start_time: 0, pid_namespace: self.0 >> PID_BITS, time_namespace: 0 }
    }
}

/// How long somebody is waited for: as long as it takes, if it is seen to run.
#[derive(Debug)]
pub struct Patience {
    looked: Instant,
    not_stuck: Instant,
    seen_running: Instant,
}

impl Patience {
    /// Begins now.
    #[allow(clippy::new_without_default)] // It is a moment, not a value.
    pub fn new() -> Patience {
        let now = Instant::now();
        Patience { looked: now, not_stuck: now, seen_running: now }
    }

    /// Whether it is over with who is waited for; asked often.
    pub fn is_over(&mut self, who: impl FnOnce() -> Option<Passer>) -> bool {
        if self.looked.elapsed() < GLANCE {
            return false;
        }
        self.looked = Instant::now();
        let who = who();
        if who.is_some_and(Passer::is_seen_running) {
            self.seen_running = self.looked;
        }
        if !who.is_some_and(|who| who.is_stopped() || who.has_ended()) {
            self.not_stuck = self.looked;
        }
        self.not_stuck.elapsed() >= STUCK || self.seen_running.elapsed() >= UNSEEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_where_its_pid_means_the_same() {
        let this = Passer::this();
        assert!(this.raw() < Passer::END);
        assert_eq!(Passer::from_raw(this.raw()), this);
        assert_eq!(this.pid(), std::process::id());
        assert!(!this.is_stopped() && !this.has_ended());
        let elsewhere = Passer::from_raw(this.raw() ^ 1 << PID_BITS);
        assert_eq!(elsewhere.pid(), this.pid());
        assert!(!elsewhere.is_seen_running() && !elsewhere.is_stopped() && !elsewhere.has_ended());
    }
}

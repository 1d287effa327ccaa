//! Background work that one process does for all processes, and the way in which the other processes notice that this
//! process has stopped.
//!
//! Each process has threads for the same work, so that any process may die. If all these threads checked for work every
//! few milliseconds, sixty processes would spend more time on checks than on work. So the threads share a word, the
//! time at which the last round began. The thread that began the last round *leads*: it also begins the next rounds.
//! The other threads check the word seldom, and one of them leads once the word is too old. It does not matter whether
//! the leader is dead, stopped or slow, and no thread checks which process leads.
//!
//! Invariant: correctness never needs exactly one leader. Two leaders at once do some work twice, or find a role taken.
//!
//! If we die here: the word becomes too old, and another thread leads.

use std::time::Duration;

use crate::{boot_micros, ProcessManager};

/// The word's value while there is no leader. This value is not compared as a time: shortly after the machine's start,
/// the time zero would count as recent.
const NOBODY: u64 = 0;
/// The number of kinds of work with a word.
pub(crate) const ROUNDS: usize = 3;

/// A kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Making relaxed commits durable.
    Log = 0,
    /// All other work that one process does for all processes.
    House = 1,
    /// The search for dead sessions by waiters for locks.
    Dead = 2,
}

/// One thread's part in the rounds of one kind of work.
#[derive(Debug)]
pub struct Rounds {
    work: Work,
    /// The word as this thread left it, if it leads.
    led: Option<u64>,
}

impl Rounds {
    /// Makes the part of a thread that does not lead.
    pub fn new(work: Work) -> Rounds {
        Rounds { work, led: None }
    }

    /// Begins the next round if this thread leads, or if the last round began at least `patience` ago. Returns
    /// whether a round began.
    pub fn begin(&mut self, processes: &ProcessManager, patience: Duration) -> bool {
        let word = &processes.0.header.rounds[self.work as usize];
        let (last, now) = (word.load(), boot_micros());
        let is_due = last == NOBODY || u128::from(now.abs_diff(last)) >= patience.as_micros();
        // Two words stored in one microsecond must differ. Otherwise two threads would lead.
        let now = if now == last { now + 1 } else { now };
        let is_ours = (self.led == Some(last) || is_due) && word.compare_exchange(last, now).is_ok();
        self.led = is_ours.then_some(now);
        is_ours
    }

    /// Leaves the next round to the first thread that checks the word.
    pub fn resign(&mut self, processes: &ProcessManager) {
        if let Some(led) = self.led.take() {
            // A failure means that another thread leads already.
            let _ = processes.0.header.rounds[self.work as usize].compare_exchange(led, NOBODY);
        }
    }

    /// Returns whether this thread began the last round.
    pub fn leads(&self) -> bool {
        self.led.is_some()
    }
}

impl ProcessManager {
    /// Begins a round if no thread has begun a round for `period`. Returns whether a round began.
    pub fn begin_if_due(&self, work: Work, period: Duration) -> bool {
        Rounds::new(work).begin(self, period)
    }
}

//! Background work that one process does for all, and how the others notice that it has stopped doing it.
//!
//! Each process has threads for the same work, so that any may die. If all of them looked every few milliseconds, sixty
//! processes would spend more on looking than on working. So they agree by a word, the time at which the last round began:
//! whoever began it *leads*, and goes on with the next rounds; the others look seldom, and one of them leads once the word
//! is too old. That a leader has died or is stopped, or that its round takes long, is all the same: nobody asks who it is.
//!
//! Invariant: nothing depends on there being one leader. Two that lead at once do some work twice, or find a role taken.
//!
//! If we die here: the word grows old.

use std::time::Duration;

use crate::{boot_micros, ProcessManager};

/// The word while nobody leads. It is not a time: shortly after the machine's start, zero would pass for a recent one.
const NOBODY: u64 = 0;
/// How many kinds of work have a word.
pub(crate) const ROUNDS: usize = 3;

/// A kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Making relaxed commits durable.
    Log = 0,
    /// Everything else that one process does for all.
    House = 1,
    /// Looking for the dead, by those who wait for locks.
    Dead = 2,
}

/// One thread's part in the rounds of one kind of work.
#[derive(Debug)]
pub struct Rounds {
    work: Work,
    /// The word as we left it, if we lead.
    led: Option<u64>,
}

impl Rounds {
    /// Begins as one of the others.
    pub fn new(work: Work) -> Rounds {
        Rounds { work, led: None }
    }

    /// Whether the next round is ours: we lead, or the last round began at least `patience` ago.
    pub fn begin(&mut self, processes: &ProcessManager, patience: Duration) -> bool {
        let word = &processes.0.header.rounds[self.work as usize];
        let (last, now) = (word.load(), boot_micros());
        let is_due = last == NOBODY || u128::from(now.abs_diff(last)) >= patience.as_micros();
        // Two words in one microsecond differ, or two would lead.
        let now = if now == last { now + 1 } else { now };
        let is_ours = (self.led == Some(last) || is_due) && word.compare_exchange(last, now).is_ok();
        self.led = is_ours.then_some(now);
        is_ours
    }

    /// Leaves the next round to whoever looks first.
    pub fn resign(&mut self, processes: &ProcessManager) {
        if let Some(led) = self.led.take() {
            // Refused means that another leads already.
            let _ = processes.0.header.rounds[self.work as usize].compare_exchange(led, NOBODY);
        }
    }

    /// Whether the last round was ours.
    pub fn leads(&self) -> bool {
        self.led.is_some()
    }
}

impl ProcessManager {
    /// Whether nobody has begun such a round for `period`; if so, one begins now.
    pub fn begin_if_due(&self, work: Work, period: Duration) -> bool {
        Rounds::new(work).begin(self, period)
    }
}

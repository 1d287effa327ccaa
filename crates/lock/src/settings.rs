//! The settings of the lock manager. No setting has to be chosen.

use std::time::Duration;

/// The lock manager's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Settings {
    /// When deadlocks are searched for.
    pub detect: Detect,
    /// The choice of a deadlock's victim.
    pub victim: Victim,
    /// The number of transactions that run at a time under contention; the number of processors if unset, 64 at most.
    pub lanes: Option<u32>,
}

/// When deadlocks are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// A waiter that has waited this long searches. The search begins with the waiter's own wait.
    OnWait(Duration),
    /// Any waiter searches the whole table, once in each such period, as in the paper.
    Every(Duration),
}

impl Default for Detect {
    /// After a millisecond: hundreds of times as long as a transaction holds a lock.
    fn default() -> Detect {
        Detect::OnWait(Duration::from_millis(1))
    }
}

/// Which transaction of a circle is the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Victim {
    /// The transaction that began last, so that an early transaction is not the victim for ever.
    #[default]
    Youngest,
    /// The transaction with the fewest locks.
    FewestLocks,
    /// The transaction that has logged the fewest bytes, and so has the least to undo.
    FewestLogBytes,
}

/// How long a call may wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The call does not wait; callers that hold a latch must use this.
    No,
    /// The call waits at most this long.
    For(Duration),
    /// The call waits without a limit; the search for deadlocks may end the wait.
    Forever,
}

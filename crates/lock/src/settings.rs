//! What can be chosen about locks. Nothing needs to be.

use std::time::Duration;

/// The lock manager's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Settings {
    /// When deadlocks are searched for.
    pub detect: Detect,
    /// Who gives way.
    pub victim: Victim,
    /// So many transactions at a time where it is crowded; as many as there are processors if unset, 64 at most.
    pub lanes: Option<u32>,
}

/// When deadlocks are searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// By whoever has waited that long, from its own wait on.
    OnWait(Duration),
    /// As in the paper: over the whole table, that often, by whoever waits then.
    Every(Duration),
}

impl Default for Detect {
    /// After a millisecond: hundreds of times what a transaction holds a lock for.
    fn default() -> Detect {
        Detect::OnWait(Duration::from_millis(1))
    }
}

/// Which transaction of a circle gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Victim {
    /// The one that began last: those that began early end at some time.
    #[default]
    Youngest,
    /// The one with the fewest locks.
    FewestLocks,
    /// The one that has written least to the log, and so has least to undo.
    FewestLogBytes,
}

/// How long a call may wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all: the only way while a latch is held.
    No,
    /// At most so long.
    For(Duration),
    /// As long as it takes; deadlocks are found.
    Forever,
}

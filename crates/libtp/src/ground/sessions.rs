//! Sessions and transactions as the environment shows them.

use std::fmt;
use std::time::Duration;

/// The name of a session: the number of its slot, and the number of the slot's tenant.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(libtp_process::SessionId);

impl SessionId {
    /// Returns the name as one number.
    pub fn raw(self) -> u64 {
        self.0.raw()
    }

    /// Makes a name from the number that [`SessionId::raw`] returned.
    pub fn from_raw(raw: u64) -> SessionId {
        SessionId(libtp_process::SessionId::from_raw(raw))
    }

    /// Returns the number of the slot, counted from one.
    pub fn index(self) -> u32 {
        self.0.index()
    }
}

impl From<libtp_process::SessionId> for SessionId {
    fn from(id: libtp_process::SessionId) -> SessionId {
        SessionId(id)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The state of a session's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No transaction.
    Idle,
    /// The transaction has begun, and does not commit or abort yet.
    Running,
    /// Its commit record is being written.
    Committing,
    /// Its changes are being undone.
    Aborting,
}

same_variants!(libtp_txn, State: Idle Running Committing Aborting);

/// The distribution of a duration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times(libtp_process::Times);

impl Times {
    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.0.count()
    }

    /// Returns the longest duration.
    pub fn max(&self) -> Duration {
        self.0.max()
    }

    /// Returns the duration that `percent` percent of the durations did not exceed. The exact duration is at most a
    /// fifth shorter than the result.
    pub fn percentile(&self, percent: u64) -> Duration {
        self.0.percentile(percent)
    }
}

/// The durations of a region's repairs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairTimes {
    /// The physical halves, for which other sessions may wait.
    pub physical: Times,
    /// The times from the report of each death until nothing of the dead session was left.
    pub total: Times,
}

impl RepairTimes {
    /// Adds the durations of another region.
    pub fn add(&mut self, other: &RepairTimes) {
        self.physical.0.add(&other.physical.0);
        self.total.0.add(&other.total.0);
    }
}

impl From<libtp_process::RepairTimes> for RepairTimes {
    fn from(times: libtp_process::RepairTimes) -> RepairTimes {
        RepairTimes { physical: Times(times.physical), total: Times(times.total) }
    }
}

//! A description of a failed wait for a lock: the object, the length of the wait, and the transactions in the way.

use std::fmt;
use std::time::Duration;

use libtp_lock::LockName;
use serde::Serialize;

use super::locks::Mode;
use super::process_state::ProcessState;

/// A lock that a call did not get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// The lock manager's name of the object.
    pub name: LockName,
    /// The requested mode.
    pub mode: Mode,
    /// The length of the wait; `None` if the wait did not end by its time limit.
    pub limit: Option<Duration>,
    /// The object in words: ``the record "apples" of database `stock` ``.
    pub object: String,
    /// The transactions that were in the way just after the call failed; empty if none was in the way any more.
    pub in_the_way: Vec<Blocker>,
}

/// A transaction in the way: it holds the lock, or waits for the lock ahead of the call that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// The transaction's number; `None` if it ended meanwhile.
    pub txn: Option<u64>,
    /// The pid of the transaction's process, in that process's own pid namespace; zero if unknown.
    pub pid: u32,
    /// Whether that process runs.
    pub process_state: ProcessState,
}

/// The largest number of transactions named in a message.
const NAMED: usize = 3;

impl LockWait {
    pub(crate) fn new(name: LockName, mode: libtp_lock::Mode, limit: Option<Duration>) -> Box<LockWait> {
        let (object, in_the_way) = (name.to_string(), Vec::new());
        Box::new(LockWait { name, mode: mode.into(), limit, object, in_the_way })
    }

    /// Returns the transactions in the way, as a part of a sentence.
    pub(crate) fn blockers(&self) -> String {
        let mut named: Vec<String> = self.in_the_way.iter().take(NAMED).map(ToString::to_string).collect();
        let more = self.in_the_way.len().saturating_sub(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        match &named[..] {
            [] => "no transaction is in the way any more".into(),
            [one] => format!("{one} is in the way"),
            several => format!("{} are in the way", several.join(" and ")),
        }
    }

    /// Returns the length of the wait, as a part of a sentence.
    pub(crate) fn within(&self) -> String {
        match self.limit {
            None => "at once".into(),
            Some(limit) => format!("within {limit:?}"),
        }
    }
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.txn {
            Some(txn) => write!(f, "transaction {txn}")?,
            None => f.write_str("a transaction")?,
        }
        match self.process_state {
            ProcessState::Alive => write!(f, " of process {}", self.pid),
            ProcessState::Stopped => write!(f, " of process {}, which is stopped,", self.pid),
            ProcessState::Dead => write!(f, " of process {}, which has ended and is about to be repaired,", self.pid),
        }
    }
}

//! Lock modes, and locks and waits as the environment shows them.

use std::fmt;

use libtp_lock::{LockName, LockerId};

use super::sessions::SessionId;

/// A lock mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Intends to read parts of the object, each under its own lock.
    IS,
    /// Intends to change parts of the object, each under its own lock.
    IX,
    /// Reads the whole object.
    S,
    /// Reads the whole object and intends to change parts of it.
    SIX,
    /// Reads the whole object and may ask for `X` later.
    U,
    /// Changes the whole object.
    X,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

same_variants!(libtp_lock, Mode: IS IX S SIX U X);

/// The purpose of a lock on a page, or on all keys of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLock {
    /// The page will be read. Other transactions may read it, too.
    Read,
    /// The page will be changed. No other transaction can have a lock on it.
    Write,
}

impl PageLock {
    /// Returns the mode of a lock on all pages or keys.
    pub(crate) fn mode(self) -> libtp_lock::Mode {
        match self {
            PageLock::Read => libtp_lock::Mode::S,
            PageLock::Write => libtp_lock::Mode::X,
        }
    }
}

same_variants!(libtp_record, PageLock: Read Write);

/// A request for a lock: granted, waiting, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The object.
    pub name: LockName,
    /// The locker of the request.
    pub locker: LockerId,
    /// The last session that made the locker, took it over, or waited with it.
    pub session: SessionId,
    /// The mode held.
    pub granted: Option<Mode>,
    /// The mode waited for.
    pub wanted: Option<Mode>,
}

impl From<libtp_lock::LockInfo> for LockInfo {
    fn from(info: libtp_lock::LockInfo) -> LockInfo {
        let libtp_lock::LockInfo { name, locker, session, granted, wanted } = info;
        let session = session.into();
        LockInfo { name, locker, session, granted: granted.map(Mode::from), wanted: wanted.map(Mode::from) }
    }
}

/// A locker that waits for another locker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The locker that waits.
    pub waiter: LockerId,
    /// The session that waits.
    pub session: SessionId,
    /// The locker waited for.
    pub holder: LockerId,
    /// The object.
    pub name: LockName,
    /// The mode waited for.
    pub wanted: Mode,
}

impl From<libtp_lock::Edge> for Edge {
    fn from(edge: libtp_lock::Edge) -> Edge {
        let libtp_lock::Edge { waiter, session, holder, name, wanted } = edge;
        Edge { waiter, session: session.into(), holder, name, wanted: wanted.into() }
    }
}

/// A deadlock that a search has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// Each member waits for the next member's lock, and the last member for the first member's lock.
    pub members: Vec<Edge>,
    /// The victim: the locker that must end its wait.
    pub victim: LockerId,
    /// Whether an earlier search had chosen the victim, and the victim has not ended its wait yet.
    pub was_known: bool,
}

impl From<libtp_lock::Deadlock> for Deadlock {
    fn from(found: libtp_lock::Deadlock) -> Deadlock {
        let libtp_lock::Deadlock { members, victim, was_known } = found;
        Deadlock { members: members.into_iter().map(Edge::from).collect(), victim, was_known }
    }
}

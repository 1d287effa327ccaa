//! Details of a failed wait for a lock: the object, the length of the wait, and the transactions in the way.
//!
//! Invariant: nothing here runs before a call has failed.

use std::fmt;
use std::time::Duration;

use libtp_lock::{LockName, Mode};
use libtp_record::{key_hash::key_hash, lock_names, Method};
use libtp_txn::{Managers, TxnSession};
use serde::Serialize;

use crate::admin::watching::ProcessState;
use crate::environment::{lock, Inner};
use crate::region::generation::Generation;
use crate::Error;

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
    /// The transactions in the way after the call had failed; empty if none was any more.
    pub in_the_way: Vec<Blocker>,
}

/// A transaction that holds a lock, or waits for one ahead of others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    /// Its number; `None` if it ended meanwhile.
    pub txn: Option<u64>,
    /// The number of its process in that process's own pid namespace; zero if unknown.
    pub pid: u32,
    /// Whether that process runs.
    pub process_state: ProcessState,
}

/// The largest number of transactions named in a message.
const NAMED: usize = 3;

impl LockWait {
    pub(crate) fn new(name: LockName, mode: Mode, limit: Option<Duration>) -> Box<LockWait> {
        let (object, in_the_way) = (name.to_string(), Vec::new());
        Box::new(LockWait { name, mode, limit, object, in_the_way })
    }

    /// Returns the transactions in the way, as a part of a sentence.
    pub(crate) fn blockers(&self) -> String {
        let mut named: Vec<String> = self.in_the_way.iter().take(NAMED).map(ToString::to_string).collect();
        let more = self.in_the_way.len().saturating_sub(NAMED);
        if more > 0 {
            named.push(format!("{more} more"));
        }
        match &named[..] {
            [] => "the way is free now".into(),
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

impl Error {
    /// Returns the lock that was not granted, if that is the error.
    pub fn lock_wait(&self) -> Option<&LockWait> {
        match self {
            Error::LockTimeout(wait) | Error::Cancelled(wait) | Error::OwnThread(wait) => Some(wait),
            _ => None,
        }
    }

    fn lock_wait_mut(&mut self) -> Option<&mut LockWait> {
        match self {
            Error::LockTimeout(wait) | Error::Cancelled(wait) | Error::OwnThread(wait) => Some(wait),
            _ => None,
        }
    }

    /// Adds the database and the transactions in the way to an error of a lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn with_blockers(mut self, env: &Inner, generation: &Generation, txn: &TxnSession) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            let name = wait.name;
            wait.object = words(env, name);
            let look = || Ok(in_the_way(&generation.managers, txn, name, wait.mode));
            // A failure here adds nothing to the first error.
            wait.in_the_way = generation.guarded(look).unwrap_or_default();
        }
        self
    }

    /// Adds the record's key, if the lock belongs to this key as the tree stores it.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_key(mut self, stored: &[u8], known: &[u8]) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            if wait.name.kind == lock_names::KIND_RECORD && wait.name.hash == key_hash(stored) {
                wait.object = wait.object.replacen("a record", &format!("the record \"{}\"", known.escape_ascii()), 1);
            }
        }
        self
    }

    /// Adds the database's name, if the wait was for the lock of a name.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_name(mut self, name: &str) -> Error {
        if let Some(wait) = self.lock_wait_mut().filter(|wait| wait.name.kind == lock_names::KIND_NAME) {
            wait.object = format!("the name of database `{name}`");
        }
        self
    }

    /// Adds the key, for a database where each value of a key is a record.
    #[cold]
    #[inline(never)]
    pub(crate) fn of_values(mut self, key: &[u8]) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            wait.object =
                wait.object.replacen("a record", &format!("a value of the key \"{}\"", key.escape_ascii()), 1);
        }
        self
    }
}

/// Returns a lock's name in words. A database that is not open is shown by its number.
fn words(env: &Inner, name: LockName) -> String {
    let open = lock(&env.databases).iter().find_map(|(known, database)| {
        let is_by_number = matches!(database.method(), Method::Recno { .. });
        (database.id().raw() == name.space).then(|| (format!("database `{known}`"), is_by_number))
    });
    let (of, is_by_number) = open.unwrap_or_else(|| (format!("database {}", name.space), false));
    match name.kind {
        lock_names::KIND_DATABASE => of,
        lock_names::KIND_PAGE => format!("page {} of {of}", name.hash),
        lock_names::KIND_RECORD if is_by_number => format!("record {} of {of}", name.hash),
        lock_names::KIND_RECORD => format!("a record of {of}"),
        lock_names::KIND_NAME => "the name of a database".into(),
        lock_names::KIND_GAP => format!("the place between two records of {of}"),
        _ => name.to_string(),
    }
}

fn in_the_way(managers: &Managers, txn: &TxnSession, name: LockName, mode: Mode) -> Vec<Blocker> {
    let lockers = managers.locks.in_the_way(txn.session(), txn.locker(), name, mode);
    let (transactions, sessions) = (managers.transactions(), managers.processes.sessions());
    let party = |locker: libtp_lock::LockerId| {
        let txn = transactions.iter().find(|txn| txn.locker == locker.0);
        let id = txn.map(|txn| txn.session).or_else(|| managers.session_of_locker(locker.0));
        let session = sessions.iter().find(|session| Some(session.id) == id);
        let process_state = match session {
            Some(session) if !session.alive => ProcessState::Dead,
            Some(session) if managers.processes.is_stopped(session.id) => ProcessState::Stopped,
            _ => ProcessState::Alive,
        };
        Blocker { txn: txn.map(|txn| txn.id.raw()), pid: session.map_or(0, |session| session.pid), process_state }
    };
    lockers.into_iter().map(party).collect()
}

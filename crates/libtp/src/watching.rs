//! Watching the others: who is here, in which state, what each waits for, who waits for whom.
//!
//! For people and tools. [`Env::sessions`] takes no latch, so that it answers also while a stopped process holds one; what
//! it says of a session may be of a moment ago.

use std::time::SystemTime;

use libtp_lock::{Deadlock, Edge, LockName, Mode, WAITS_FOR_LOCK};
use libtp_process::SessionId;
use libtp_txn::TxnInfo;
use serde::Serialize;

use crate::{Env, Result};

/// Whether a session's process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// It does, as far as can be seen from here.
    Alive,
    /// It was stopped by a signal or a debugger: what it holds is waited for until it goes on.
    Stopped,
    /// It ended, or panicked in the middle of a change; what it held has not been repaired yet.
    Dead,
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A lock, in a mode.
    Lock(LockName, Mode),
    /// Something else, in its manager's numbering: kind and subject.
    Other(u32, u64),
}

/// A session: one thread's handle to the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// Its name.
    pub id: SessionId,
    /// Its process, as that process's own pid namespace calls it; zero is not known.
    pub pid: u32,
    /// Whether it lives.
    pub life: Life,
    /// The transaction it runs.
    pub txn: Option<TxnInfo>,
    /// How many latches it holds.
    pub latches: usize,
    /// The log record whose change is not complete, if it is in the middle of one.
    pub append_lsn: Option<u64>,
    /// Tasks of the environment that it has at this moment, and that others wait for if it is stopped: `writes the log`.
    pub roles: Vec<&'static str>,
    /// What it waits for.
    pub waits_for: Option<WaitsFor>,
    /// Since when; none if it does not wait, has just begun to, or nobody noted it.
    pub waits_since: Option<SystemTime>,
}

/// What was repaired in the shared memory since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// Dead sessions whose traces were cleared away.
    pub sessions_repaired: u64,
    /// Times all of it was built anew from disk and log.
    pub rebuilds: u64,
}

impl Env {
    /// Every session of every process, dead ones that nobody has repaired yet included.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::open(dir.path())?;
    /// let txn = env.begin()?;
    /// let sessions = env.sessions();
    /// let own = sessions.iter().find(|session| session.txn.as_ref().is_some_and(|running| running.id.raw() == txn.id()));
    /// assert_eq!(own.map(|session| (session.pid, session.life)), Some((std::process::id(), libtp::Life::Alive)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sessions(&self) -> Vec<SessionState> {
        let managers = &self.0.newest().managers;
        let (transactions, waits, roles) = (managers.transactions(), managers.locks.waits(), managers.roles());
        let state = |info: libtp_process::SessionInfo| {
            let wait = waits.iter().find(|wait| wait.session == info.id);
            let waits_for = match (info.wait_kind, wait) {
                (0, _) | (WAITS_FOR_LOCK, None) => None,
                (WAITS_FOR_LOCK, Some(wait)) => Some(WaitsFor::Lock(wait.name, wait.wanted)),
                (kind, _) => Some(WaitsFor::Other(kind, info.wait_subject)),
            };
            SessionState {
                id: info.id,
                pid: info.pid,
                life: match info.alive {
                    false => Life::Dead,
                    true if managers.processes.is_stopped(info.id) => Life::Stopped,
                    true => Life::Alive,
                },
                txn: transactions.iter().find(|txn| txn.session == info.id).cloned(),
                latches: info.latches,
                append_lsn: Some(info.append_lsn).filter(|&lsn| lsn != 0),
                roles: roles.iter().filter(|(_, session)| *session == info.id).map(|(role, _)| *role).collect(),
                waits_since: wait.filter(|_| matches!(waits_for, Some(WaitsFor::Lock(..)))).and_then(|wait| wait.since),
                waits_for,
            }
        };
        managers.processes.sessions().into_iter().map(state).collect()
    }

    /// Who waits for whom: an edge for each holder of a lock that somebody waits for, and for each who waits before.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn waits_for(&self) -> Result<Vec<Edge>> {
        self.0.with_session(|managers, who| Ok(managers.locks.waits_for(who.session())))
    }

    /// Searches all waits for circles now and lets one of each give way. `None` if another session is searching.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn find_deadlocks(&self) -> Result<Option<Vec<Deadlock>>> {
        self.0.with_session(|managers, who| Ok(managers.locks.find_deadlocks(who.session())))
    }

    /// What was repaired in the shared memory since it was made.
    pub fn repairs(&self) -> Repairs {
        let processes = &self.0.newest().managers.processes;
        Repairs { sessions_repaired: processes.repaired_count(), rebuilds: processes.rebuild_count() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_waits_says_for_what_and_since_when() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open(dir.path()).unwrap();
        let stock = env.btree("stock").unwrap();
        let holder = env.begin().unwrap();
        stock.put(&holder, b"key", b"1").unwrap();
        std::thread::scope(|scope| {
            let (tell, id) = std::sync::mpsc::channel();
            let (env, stock) = (&env, &stock);
            scope.spawn(move || {
                let waiter = env.begin().unwrap();
                tell.send(waiter.id()).unwrap();
                stock.put(&waiter, b"key", b"2").unwrap();
                waiter.commit().unwrap();
            });
            let id = id.recv().unwrap();
            let waiting = loop {
                let all = env.sessions();
                let found = all.into_iter().find(|one| one.waits_since.is_some());
                if let Some(found) = found {
                    break found;
                }
                std::thread::yield_now();
            };
            assert_eq!(waiting.txn.map(|txn| txn.id.raw()), Some(id));
            assert!(matches!(waiting.waits_for, Some(WaitsFor::Lock(name, Mode::X)) if name.kind == 3));
            let edges = env.waits_for().unwrap();
            assert_eq!(edges.len(), 1);
            assert_eq!(edges[0].session, waiting.id);
            assert_eq!(env.find_deadlocks().unwrap(), Some(Vec::new()));
            holder.commit().unwrap();
        });
        assert!(env.sessions().iter().all(|one| one.waits_for.is_none()));
    }
}

//! Watching an environment: its sessions, their states, and the waits between them.
//!
//! These calls are for people and tools. [`Env::sessions`] takes no latch, so it returns even while a stopped process
//! holds a latch. The report of a session may be a moment old. [`crate::Builder::look`] opens an environment for
//! watching, and does not wait for other processes.

use std::time::SystemTime;

use libtp_lock::{LockName, WAITS_FOR_LOCK};
use libtp_log::{Lsn, WAITS_FOR_FLUSH, WAITS_FOR_LOG_SPACE};
use libtp_process::{SessionInfo, WAITS_FOR_LATCH};
use libtp_txn::Managers;
use serde::Serialize;

use crate::ground::process_state::ProcessState;
use crate::{Deadlock, Edge, Env, Mode, RepairTimes, Result, SessionId, State};

/// The subject of a session's wait. A wait for anything but a lock is shown only after some milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// A lock, in a mode.
    Lock(LockName, Mode),
    /// A latch, named by its subject.
    Latch(String),
    /// Another session's flush of the log up to this LSN.
    Flush(u64),
    /// Room in the log up to this LSN, which another session makes.
    LogSpace(u64),
    /// Another subject, as two numbers that the manager of the subject defines: kind and subject.
    Other(u32, u64),
}

/// A latch that a session holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLatch {
    /// The subject that the latch protects.
    pub name: String,
    /// Whether the latch is held exclusively.
    pub alone: bool,
    /// The time since which another session has waited for the latch; `None` if no session waits, or the wait is still
    /// short. The time when the latch was taken is not recorded.
    pub wanted_since: Option<SystemTime>,
}

/// A session: one thread's handle to the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    /// The session's name.
    pub id: SessionId,
    /// The pid of the session's process, in that process's own pid namespace; zero if unknown.
    pub pid: u32,
    /// Whether the session's process lives.
    pub process_state: ProcessState,
    /// The transaction that the session runs.
    pub txn: Option<TxnInfo>,
    /// The number of latches that the session holds.
    pub latches: usize,
    /// The latches that the session holds at this moment.
    pub held: Vec<HeldLatch>,
    /// The LSN of the log record whose change is not complete, if the session is in the middle of such a change.
    pub append_lsn: Option<u64>,
    /// The tasks that the session performs for the environment at this moment, for example `writes the log`. If the
    /// session is stopped, other sessions wait for these tasks.
    pub roles: Vec<&'static str>,
    /// The subject of the session's wait; `None` if it does not wait.
    pub waits_for: Option<WaitsFor>,
    /// The beginning of the session's wait; `None` if it does not wait, has just begun to wait, or the time was not
    /// recorded.
    pub waits_since: Option<SystemTime>,
}

/// A process that opens the environment, leaves it or rebuilds its memory. Other processes that want to do the same
/// wait for this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct OpeningProcess {
    /// The pid of the process, in its own pid namespace.
    pub pid: u32,
    /// Whether the process lives.
    pub process_state: ProcessState,
}

/// A segment of memory that was joined since the shared memory was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct JoinedSegment {
    /// The environment's number for the segment, as commit records name it.
    pub segment: u32,
    /// A committed transaction whose commit may not have reached the segment, because the process died between the
    /// commit record and the change of the segment. The next transaction that joins the segment completes the commit.
    /// Usually `None`.
    pub unresolved_txn: Option<u64>,
    /// The LSN of that transaction's commit record.
    pub unresolved_lsn: Option<u64>,
}

/// The repairs of the shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repairs {
    /// Dead sessions that were repaired since the memory was made or last rebuilt.
    pub sessions_repaired: u64,
    /// How often the whole memory was rebuilt from disk and log. A rebuild makes new memory, and keeps this count.
    pub rebuilds: u64,
}

/// A running transaction, for people and tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnInfo {
    /// The transaction's number ([`Txn::id`](crate::Txn::id)).
    pub id: u64,
    /// Its state.
    pub state: State,
    /// The session that runs it.
    pub session: SessionId,
    /// The log sequence number of its first log record; zero if it logged none.
    pub first_lsn: u64,
    /// The log sequence number of its last log record; zero if it logged none.
    pub last_lsn: u64,
    /// The number of its locker ([`LockerId`](crate::LockerId)).
    pub locker: u32,
    /// Whether the transaction was passed on, and waits until a session takes it over.
    pub is_offered: bool,
}

impl From<libtp_txn::TxnInfo> for TxnInfo {
    fn from(info: libtp_txn::TxnInfo) -> TxnInfo {
        TxnInfo {
            id: info.id.raw(),
            state: info.state.into(),
            session: info.session.into(),
            first_lsn: info.first_lsn.raw(),
            last_lsn: info.last_lsn.raw(),
            locker: info.locker,
            is_offered: info.is_offered,
        }
    }
}

impl Env {
    /// Returns every running transaction.
    pub fn transactions(&self) -> Vec<TxnInfo> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let generation = self.0.newest();
        let running = generation.guarded(|| Ok(generation.managers.transactions())).unwrap_or_default();
        running.into_iter().map(TxnInfo::from).collect()
    }

    /// Returns the segments of memory that transactions have joined since the shared memory was made.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let notes = env.segment("notes", 4096)?;
    /// env.run(|txn| txn.join(&notes)?.set_range(0, 1).map(|range| range.fill(1)))?;
    /// assert_eq!(env.joined_segments()[0].unresolved_txn, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn joined_segments(&self) -> Vec<JoinedSegment> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let generation = self.0.newest();
        let rows = generation.guarded(|| Ok(generation.managers.joined_segments())).unwrap_or_default().into_iter();
        let shown = rows.map(|row| {
            let is_unresolved = row.lsn != Lsn::NONE;
            JoinedSegment {
                segment: row.segment,
                unresolved_txn: is_unresolved.then(|| row.txn.raw()),
                unresolved_lsn: is_unresolved.then(|| row.lsn.raw()),
            }
        });
        shown.collect()
    }

    /// Returns every session of every process, including dead sessions that are not repaired yet.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// let env = libtp::Env::create(dir.path())?;
    /// let txn = env.begin()?;
    /// let sessions = env.sessions();
    /// let own = sessions.iter().find(|session| session.txn.as_ref().is_some_and(|running| running.id == txn.id()));
    /// assert_eq!(own.map(|session| (session.pid, session.process_state)), Some((std::process::id(), libtp::ProcessState::Alive)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sessions(&self) -> Vec<SessionState> {
        if self.0.check_process().is_err() {
            return Vec::new();
        }
        let generation = self.0.newest();
        // A broken region has nothing to report.
        generation.guarded(|| Ok(states(&generation.managers))).unwrap_or_default()
    }

    /// Returns the process that opens, leaves or rebuilds the environment at this moment, if it is another process.
    pub fn opening_process(&self) -> Option<OpeningProcess> {
        self.0.check_process().ok()?;
        let passer = self.0.newest().liveness().opening_process()?;
        let process_state = match () {
            () if passer.is_stopped() => ProcessState::Stopped,
            () if passer.has_ended() => ProcessState::Dead,
            () => ProcessState::Alive,
        };
        Some(OpeningProcess { pid: passer.pid(), process_state })
    }

    /// Returns the waits-for graph: an edge from each waiter to each other holder whose mode conflicts with the mode
    /// that the waiter wants. A waiter that does not hold the lock in any mode also has an edge to each earlier waiter,
    /// because waiters get the lock in order.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn waits_for(&self) -> Result<Vec<Edge>> {
        let edges = self.0.with_session(|managers, txn| Ok(managers.locks.waits_for(txn.session())))?;
        Ok(edges.into_iter().map(Edge::from).collect())
    }

    /// Searches all waits for deadlocks, and aborts a victim of each deadlock. Returns `None` if another session is
    /// searching at this moment.
    ///
    /// # Errors
    /// `Full` when shared memory cannot grow for one more session.
    pub fn find_deadlocks(&self) -> Result<Option<Vec<Deadlock>>> {
        let found = self.0.with_session(|managers, txn| Ok(managers.locks.find_deadlocks(txn.session())))?;
        Ok(found.map(|found| found.into_iter().map(Deadlock::from).collect()))
    }

    /// Returns how long the repairs of dead sessions took since the shared memory was made.
    pub fn repair_times(&self) -> RepairTimes {
        if self.0.check_process().is_err() {
            return RepairTimes::default();
        }
        let generation = self.0.newest();
        generation.guarded(|| Ok(generation.managers.processes.repair_times().into())).unwrap_or_default()
    }

    /// Returns the repairs of the shared memory.
    pub fn repairs(&self) -> Repairs {
        if self.0.check_process().is_err() {
            return Repairs::default();
        }
        let generation = self.0.newest();
        let processes = &generation.managers.processes;
        let count =
            || Ok(Repairs { sessions_repaired: processes.repaired_count(), rebuilds: processes.rebuild_count() });
        generation.guarded(count).unwrap_or_default()
    }
}

fn states(managers: &Managers) -> Vec<SessionState> {
    let (transactions, waits, roles) = (managers.transactions(), managers.locks.waits(), managers.roles());
    let sessions = managers.processes.sessions();
    let state = |info: &SessionInfo| {
        let wait = waits.iter().find(|wait| wait.session == info.id);
        let waits_for = match (info.wait_kind, wait) {
            (0, _) | (WAITS_FOR_LOCK, None) => None,
            (WAITS_FOR_LOCK, Some(wait)) => Some(WaitsFor::Lock(wait.name, wait.wanted.into())),
            (WAITS_FOR_LATCH, _) => Some(WaitsFor::Latch(managers.latch_name(info.wait_subject))),
            (WAITS_FOR_FLUSH, _) => Some(WaitsFor::Flush(info.wait_subject)),
            (WAITS_FOR_LOG_SPACE, _) => Some(WaitsFor::LogSpace(info.wait_subject)),
            (kind, _) => Some(WaitsFor::Other(kind, info.wait_subject)),
        };
        let lock_since = wait.filter(|_| matches!(waits_for, Some(WaitsFor::Lock(..)))).and_then(|wait| wait.since);
        SessionState {
            id: info.id.into(),
            pid: info.pid,
            process_state: match info.alive {
                false => ProcessState::Dead,
                true if managers.processes.is_stopped(info.id) => ProcessState::Stopped,
                true => ProcessState::Alive,
            },
            txn: transactions.iter().find(|txn| txn.session == info.id).cloned().map(TxnInfo::from),
            latches: info.latches,
            held: held(managers, info, &sessions),
            append_lsn: Some(info.append_lsn).filter(|&lsn| lsn != 0),
            roles: roles.iter().filter(|(_, session)| *session == info.id).map(|(role, _)| *role).collect(),
            waits_since: lock_since.or(info.wait_since),
            waits_for,
        }
    };
    sessions.iter().map(state).collect()
}

/// Returns the latches that a session holds. The session's notes may also name a latch that the session is about to
/// take. So for a latch that is noted as exclusive, the function also checks the latch's owner.
fn held(managers: &Managers, info: &SessionInfo, all: &[SessionInfo]) -> Vec<HeldLatch> {
    let owns = |place: u64| managers.processes.latch_owner(place) == Some(info.id);
    let notes = info.noted.iter().filter(|&&(place, alone)| !alone || owns(place));
    let waits_for =
        |other: &&SessionInfo, place: u64| other.wait_kind == WAITS_FOR_LATCH && other.wait_subject == place;
    let latch = |&(place, alone): &(u64, bool)| HeldLatch {
        name: managers.latch_name(place),
        alone,
        wanted_since: all.iter().filter(|other| waits_for(other, place)).filter_map(|other| other.wait_since).min(),
    };
    notes.map(latch).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_session_shows_its_lock_and_the_beginning_of_its_wait() {
        let dir = tempfile::tempdir().unwrap();
        let env = Env::open_or_create(dir.path()).unwrap();
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
            assert_eq!(waiting.txn.map(|txn| txn.id), Some(id));
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

//! Adds facts to the error of a failed wait for a lock: the database, and the transactions that hold or request the
//! lock.
//!
//! Invariant: this code runs only after a call has failed.

use libtp_lock::{LockName, Mode};
use libtp_record::{lock_names, Method};
use libtp_txn::{Managers, TxnSession};

use crate::ground::lock_wait::Blocker;
use crate::ground::mutex::lock;
use crate::ground::process_state::ProcessState;
use crate::region::generation::Generation;
use crate::region::inner::Inner;
use crate::Error;

impl Error {
    /// Adds the database and the transactions in the way to the error of a failed wait for a lock.
    #[cold]
    #[inline(never)]
    pub(crate) fn with_blockers(mut self, env: &Inner, generation: &Generation, txn: &TxnSession) -> Error {
        if let Some(wait) = self.lock_wait_mut() {
            let name = wait.name;
            wait.object = words(env, name);
            let look = || Ok(in_the_way(&generation.managers, txn, name, wait.mode.into()));
            // If the search fails, the error stays without these facts.
            wait.in_the_way = generation.guarded(look).unwrap_or_default();
        }
        self
    }
}

/// Returns a lock's name in words. A database that this handle has not opened is shown by its number.
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

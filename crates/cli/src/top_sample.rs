//! The state of an environment that `tp top` reads at one moment, and the rates between two moments.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use libtp::{Env, ProcessState, Stats};
use libtp_console::numbers::{nanos, per_second};
use serde::Serialize;

use crate::command_sessions::{shown, stopped_at_work, Session};
use crate::command_snapshots::Snapshot;
use crate::failure::Result;
use crate::lock_names::LockNames;
use crate::wait_graph::{read_on_a_thread, Wait, WaitGraph};

/// The longest wait for the lock table at each sample.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads an environment's state at intervals.
pub struct Watcher {
    directory: PathBuf,
    /// A read of the lock table that has not ended yet.
    unanswered: Option<Receiver<Result<Vec<Wait>>>>,
}

/// The environment at one moment.
pub struct Sample {
    at: Instant,
    /// The library's figures; `None` if no process has the environment open.
    pub stats: Option<Stats>,
    /// The sessions: first the waiting sessions, then the sessions with a transaction.
    pub sessions: Vec<Session>,
    /// The waits of transactions; `None` if the lock table could not be read in time.
    pub waits: Option<Vec<Wait>>,
    /// The stopped processes that make other processes wait.
    pub stopped_at_work: BTreeSet<u32>,
    /// The snapshots.
    pub snapshots: Vec<Snapshot>,
}

/// The work between two moments, and the state at the later moment.
#[derive(Serialize)]
pub struct Activity<'s> {
    /// Whether a process has the environment open.
    pub is_open: bool,
    pub seconds: f64,
    pub commits_per_second: u64,
    pub aborts_per_second: u64,
    pub log_bytes_per_second: u64,
    pub log_syncs_per_second: u64,
    pub pages_missed_per_second: u64,
    pub pages_read_per_second: u64,
    pub pages_written_per_second: u64,
    pub pages_evicted_per_second: u64,
    pub pages_dirty: usize,
    pub transactions: usize,
    pub sessions: &'s [Session],
    pub waits: Option<&'s [Wait]>,
    pub snapshots: &'s [Snapshot],
}

impl Watcher {
    /// Makes a watcher of the environment in a directory.
    pub fn new(directory: PathBuf) -> Watcher {
        Watcher { directory, unanswered: None }
    }

    /// Takes a sample.
    ///
    /// # Errors
    /// There is no environment in the directory.
    pub fn look(&mut self) -> Result<Sample> {
        let at = Instant::now();
        // Each sample opens the environment again: since the last sample, the processes may have ended, or may have
        // rebuilt the shared memory.
        let Some(env) = Env::builder().look(&self.directory)? else {
            let (sessions, snapshots) = (Vec::new(), Vec::new());
            let (waits, stopped_at_work) = (Some(Vec::new()), BTreeSet::new());
            return Ok(Sample { at, stats: None, sessions, waits, stopped_at_work, snapshots });
        };
        let (states, names) = (env.sessions(), LockNames::or_none(&env));
        let mut sessions: Vec<Session> = states.iter().map(|session| shown(session, &names)).collect();
        sessions.sort_by_key(|session| (std::cmp::Reverse(session.waits_ms), session.txn.is_none(), session.session));
        let is_waiting = sessions.iter().any(|session| session.wanted.is_some());
        Ok(Sample {
            at,
            stats: env.stats().ok(),
            waits: if is_waiting { self.waits() } else { Some(Vec::new()) },
            sessions,
            stopped_at_work: stopped_at_work(&states, env.opening_process()),
            snapshots: env.snapshots().iter().map(Snapshot::of).collect(),
        })
    }

    /// Reads the lock table. If an earlier read has not ended, waits for that read, because each read has a thread.
    fn waits(&mut self) -> Option<Vec<Wait>> {
        let begin = || {
            read_on_a_thread(self.directory.clone(), |env| Ok(WaitGraph::look(env)?.waits(&LockNames::or_none(env))))
        };
        let told = self.unanswered.take().unwrap_or_else(begin);
        match told.recv_timeout(PATIENCE) {
            Ok(read) => read.ok(),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                self.unanswered = Some(told);
                None
            }
        }
    }
}

impl Sample {
    /// Returns the number of sessions in a state.
    pub fn count(&self, state: ProcessState) -> usize {
        self.sessions.iter().filter(|session| session.process_state == state).count()
    }

    /// Returns the work since an earlier moment. If the shared memory was rebuilt meanwhile, its counts have begun at
    /// zero again, and a count that is below its earlier value gives the rate zero.
    pub fn since(&self, earlier: &Sample) -> Activity<'_> {
        let elapsed = self.at - earlier.at;
        let rate = |count: fn(&Stats) -> u64| match (&self.stats, &earlier.stats) {
            (Some(now), Some(before)) => per_second(count(now).saturating_sub(count(before)), nanos(elapsed)),
            _ => 0,
        };
        Activity {
            is_open: self.stats.is_some(),
            seconds: elapsed.as_secs_f64(),
            commits_per_second: rate(|stats| stats.commits),
            aborts_per_second: rate(|stats| stats.aborts),
            log_bytes_per_second: rate(|stats| stats.log_bytes_written),
            log_syncs_per_second: rate(|stats| stats.log_syncs),
            pages_missed_per_second: rate(|stats| stats.pools.iter().map(|pool| pool.misses).sum()),
            pages_read_per_second: rate(|stats| stats.pools.iter().map(|pool| pool.reads).sum()),
            pages_written_per_second: rate(|stats| stats.pools.iter().map(|pool| pool.writes).sum()),
            pages_evicted_per_second: rate(|stats| stats.pools.iter().map(|pool| pool.evictions).sum()),
            pages_dirty: self.stats.as_ref().map_or(0, |stats| stats.pages_dirty),
            transactions: self.stats.as_ref().map_or(0, |stats| stats.transactions),
            sessions: &self.sessions,
            waits: self.waits.as_deref(),
            snapshots: &self.snapshots,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_for_the_time_between_two_samples() {
        let directory = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::new(directory.path().to_path_buf());
        assert!(watcher.look().is_err(), "there is no environment");
        let env = Env::open_or_create(directory.path()).unwrap();
        let stock = env.btree("stock").unwrap();
        let earlier = watcher.look().unwrap();
        for number in 0..10_u32 {
            let txn = env.begin().unwrap();
            stock.put(&txn, &number.to_le_bytes(), b"1").unwrap();
            if number < 2 { txn.abort() } else { txn.commit() }.unwrap();
        }
        let mut later = watcher.look().unwrap();
        later.at = earlier.at + Duration::from_secs(2);
        let activity = later.since(&earlier);
        assert_eq!((activity.commits_per_second, activity.aborts_per_second, activity.seconds), (4, 1, 2.0));
        assert!(activity.is_open && activity.log_syncs_per_second > 0 && activity.log_bytes_per_second > 0);
        let mut backwards = watcher.look().unwrap();
        backwards.stats.as_mut().unwrap().commits = 0;
        assert_eq!(backwards.since(&earlier).commits_per_second, 0, "the shared memory was rebuilt");
        drop((stock, env));
        let closed = watcher.look().unwrap();
        assert!(!closed.since(&later).is_open && closed.sessions.is_empty());
    }
}

//! Group commit: many transactions share one sync of the log.
//!
//! Paper: LIBTP section 4.2. Departure: by default no commit waits for further commits; a commit that arrives while a
//! flush runs is part of the next flush, so groups form without a wait. The paper's three thresholds are settings
//! ([`LogManager::force_group`]).
//!
//! Invariants
//! 1. A caller gets the answer "durable" only if `durable` is beyond its LSN and the log is not poisoned.
//! 2. No waiter sleeps longer than [`SLICE`] without checking again (PROTOCOLS D8): a wake only saves time.
//!
//! The table of waiters, and the wakes, are in `waiters.rs`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libtp_process::{Session, SessionId};
use rio::planted;

use crate::stopped_leader::StoppedLeader;
use crate::{waiters, Error, FlushedTo, LogManager, Lsn, Result, TxnId};

/// The code, for tools, of a session's long wait for a flush that another session leads; the subject is the LSN.
pub const WAITS_FOR_FLUSH: u32 = 3;
/// The code for a wait for room in the log; the subject is the LSN up to which the session wants room.
pub const WAITS_FOR_LOG_SPACE: u32 = 4;

/// The longest time that a process which cannot write the log waits for another process to write it.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The longest time that a waiter sleeps without checking again.
pub(crate) const SLICE: Duration = Duration::from_millis(5);

impl LogManager {
    /// Appends a record and makes it durable: the paper's `log_commit`. The session's note of the append is cleared: a
    /// commit record describes no page.
    ///
    /// # Errors
    /// [`Error::Failed`]: whether the record is durable is not known; restart decides.
    pub fn log_commit(&self, session: &Session, kind: u16, txn: TxnId, prev: Lsn, body: &[&[u8]]) -> Result<Lsn> {
        let lsn = self.log(session, kind, txn, prev, body);
        session.clear_append();
        self.force(session, lsn)?;
        Ok(lsn)
    }

    /// Returns when the record at `lsn` is durable: leads a flush at once, or waits for the running flush.
    ///
    /// # Errors
    /// [`Error::Failed`] when a write or a sync failed, now or before. [`Error::SteppedBack`] when this process cannot
    /// write the log and no other process writes it within twice the bound of relaxed commits.
    /// [`Error::LeaderStopped`] when the leader's process is stopped and the session waits no longer.
    pub fn force(&self, session: &Session, lsn: Lsn) -> Result<FlushedTo> {
        let mut is_suspect = false;
        let mut noted_wait = None;
        let mut stopped = StoppedLeader::default();
        loop {
            self.check_poison()?;
            let flushed = self.flushed();
            if flushed.covers(lsn) {
                return Ok(flushed);
            }
            if lsn >= self.tail() {
                return Err(Error::PastEnd { lsn, end: self.tail() });
            }
            if let Some(leader) = self.try_lead(session, is_suspect) {
                // Another leader may have finished between the load of `durable` and the swap.
                if self.flushed().covers(lsn) {
                    // Another session may have gone to sleep while this session was the leader: wake it.
                    drop(leader);
                    self.wake_waiters(self.durable());
                } else {
                    match self.flush(session, leader) {
                        Err(Error::SteppedBack { cause }) => self.wait_for_another(session, lsn, cause)?,
                        done => drop(done?),
                    }
                }
                continue;
            }
            is_suspect = self.wait_for_flush(session, lsn, SLICE);
            if is_suspect && noted_wait.is_none() {
                noted_wait = Some(session.waits_since(WAITS_FOR_FLUSH, lsn.raw(), SLICE));
            }
            if is_suspect {
                stopped.check(self, session, SLICE)?;
            }
        }
    }

    /// Waits until another process has written the log beyond `lsn`, because this process could not write it.
    fn wait_for_another(&self, session: &Session, lsn: Lsn, cause: String) -> Result<()> {
        // After one wait without success there is probably no other process, so the call waits for one slice only.
        let patience = match self.no_other_writer.load(Ordering::Relaxed) {
            true => SLICE,
            false => (2 * self.relaxed_bound()).min(PATIENCE_MAX),
        };
        let begun = Instant::now();
        while !self.flushed().covers(lsn) {
            self.check_poison()?;
            if begun.elapsed() >= patience {
                self.no_other_writer.store(true, Ordering::Relaxed);
                return Err(Error::SteppedBack { cause });
            }
            self.sleep_in_table(session, lsn, SLICE, || false);
        }
        self.no_other_writer.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// As [`LogManager::force`], but waits for other commits by the paper's thresholds. If the number of active
    /// transactions reaches the group threshold, the call sleeps until one of three events: the waiting share of these
    /// transactions reaches the wait threshold, the unflushed bytes reach the logdelay threshold, or the longest wait
    /// is over. With the default settings it never waits for other commits.
    ///
    /// # Errors
    /// As [`LogManager::force`].
    pub fn force_group(&self, session: &Session, lsn: Lsn, active_txns: u32) -> Result<FlushedTo> {
        let settings = &self.settings;
        if settings.group_threshold == 0 || active_txns < settings.group_threshold {
            return self.force(session, lsn);
        }
        let wanted = u64::from(active_txns) * u64::from(settings.wait_threshold_percent);
        let patience = Duration::from_micros(settings.group_wait_micros_max);
        let begun = Instant::now();
        while !self.flushed().covers(lsn) {
            self.check_poison()?;
            let waiting = waiters::count(self) + 1;
            let unflushed = self.tail().since(self.durable());
            let left = patience.saturating_sub(begun.elapsed());
            if waiting * 100 >= wanted || unflushed >= settings.log_delay_bytes || left.is_zero() {
                break;
            }
            self.sleep_in_table(session, lsn, left.min(SLICE), || false);
        }
        self.force(session, lsn)
    }

    /// Waits until all records published so far are durable. Called at a checkpoint, and when the last process leaves.
    ///
    /// # Errors
    /// As [`LogManager::force`].
    pub fn force_all(&self, session: &Session) -> Result<FlushedTo> {
        // The last eight bytes belong to the last record: no record is shorter.
        self.force(session, self.tail().minus(8))
    }

    /// Sleeps until a flush that another session leads is over. Returns whether a whole slice passed without a wake.
    fn wait_for_flush(&self, session: &Session, lsn: Lsn, slice: Duration) -> bool {
        let begun = Instant::now();
        self.sleep_in_table(session, lsn, slice, || self.header.leader.load() == SessionId::NONE);
        begun.elapsed() >= slice
    }

    /// If there is something to wait for, sleeps at most `slice`. During the sleep the session has a place in the
    /// table, so that the leader can wake it.
    fn sleep_in_table(&self, session: &Session, lsn: Lsn, slice: Duration, is_over: impl Fn() -> bool) {
        let ticket = session.prepare_sleep();
        waiters::wait(self, session.id(), lsn, is_over, || {
            match planted("log: the sleep of a flush waiter has no bound") {
                true => session.sleep_long(ticket, Duration::from_secs(3600)),
                false => session.sleep_on(ticket, slice),
            };
        });
    }

    /// Wakes the sessions whose awaited records are below `durable`.
    pub(crate) fn wake_waiters(&self, durable: Lsn) {
        waiters::wake(self, durable);
    }

    /// Returns how old a relaxed commit of any process may become before it is on the disk: the least bound of the
    /// processes that have attached, because one process flushes for all. The bound of a process that has left stays
    /// until the region is rebuilt.
    pub fn relaxed_bound(&self) -> Duration {
        let own = self.settings.relaxed_micros_max;
        let least = match self.header.relaxed_bound.load() {
            0 => own,
            _ if planted("log: the bound of relaxed commits is not shared") => own,
            least => least.min(own),
        };
        Duration::from_micros(least)
    }

    /// Notes this process's bound of relaxed commits for all processes. Called when the process attaches, which is
    /// before its first commit.
    pub(crate) fn note_relaxed_bound(&self) {
        let (word, own) = (&self.header.relaxed_bound, self.settings.relaxed_micros_max.max(1));
        let mut known = word.load();
        while known == 0 || known > own {
            match word.compare_exchange(known, own) {
                Ok(_) => break,
                Err(newer) => known = newer,
            }
        }
    }

    /// Returns whether all records published at this moment are durable.
    pub fn is_all_durable(&self) -> bool {
        self.tail() == self.durable()
    }

    /// Flushes relaxed commits before they become older than their bound (PROTOCOLS L5). Returns whether it flushed. A
    /// background thread of any process calls this several times within the bound.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn background_flush(&self, session: &Session) -> Result<bool> {
        self.check_poison()?;
        let (tail, durable) = (self.tail(), self.durable());
        let is_old = self.relaxed.is_old(tail, durable, self.relaxed_bound() / 2);
        if tail == durable || !(is_old || tail.since(durable) >= self.settings.relaxed_bytes_max) {
            return Ok(false);
        }
        self.force_all(session)?;
        Ok(true)
    }
}

/// An upper bound for the age of the oldest unflushed record. It comes from occasional reads of the tail, because
/// appends read no clock.
#[derive(Debug, Default)]
pub(crate) struct RelaxedAge(std::sync::Mutex<Option<(Instant, Instant, Lsn)>>);

impl RelaxedAge {
    /// Returns whether an unflushed record may be older than `bound`.
    fn is_old(&self, tail: Lsn, durable: Lsn, bound: Duration) -> bool {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // The three values are the earliest time of an unflushed record, the time of the last call, and the tail at
        // that call.
        let (since, looked, tail_then) = seen.unwrap_or((now, now, durable));
        let since = if tail == durable {
            now
        } else if tail_then <= durable {
            looked
        } else {
            since
        };
        *seen = Some((since, now, tail));
        now.duration_since(since) >= bound
    }
}

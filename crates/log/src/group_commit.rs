//! Group commit: many transactions share one sync of the log.
//!
//! Paper: LIBTP section 4.2. Departure: by default nobody waits on purpose; whoever arrives while a flush runs is part
//! of the next one, so groups form by themselves. The paper's three thresholds are settings
//! ([`LogManager::force_group`]).
//!
//! Invariants
//! 1. Nobody is told "durable" before `durable` is beyond its LSN and the log is not poisoned.
//! 2. Nobody sleeps longer than [`SLICE`] without looking again (PROTOCOLS D8): a wake only saves time.
//!
//! Who waits, and who wakes whom, is in `waiters.rs`.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use libtp_process::{Session, SessionId};
use rio::planted;

use crate::{waiters, Error, FlushedTo, LogManager, Lsn, Result, TxnId};

/// What tools see a session wait for when it waits long for a flush that another leads, with the LSN as the subject.
pub const WAITS_FOR_FLUSH: u32 = 3;
/// What they see when it waits for room in the log, with the LSN up to which it wants it.
pub const WAITS_FOR_LOG_SPACE: u32 = 4;

/// The longest that a process which cannot write the log waits for another to write.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// The longest anyone sleeps without looking again.
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

    /// Returns when the record at `lsn` is durable: leads a flush at once, or waits for the one that runs.
    ///
    /// # Errors
    /// [`Error::Failed`] when a write or a sync failed, now or before. [`Error::SteppedBack`] when this process cannot write the
    /// log and no other does within twice the bound of relaxed commits.
    pub fn force(&self, session: &Session, lsn: Lsn) -> Result<FlushedTo> {
        let mut is_suspect = false;
        let mut said = None;
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
                // Another may have finished between our look and our swap.
                if self.flushed().covers(lsn) {
                    // Somebody may have gone to sleep because we led.
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
            if is_suspect && said.is_none() {
                said = Some(session.waits_since(WAITS_FOR_FLUSH, lsn.raw(), SLICE));
            }
        }
    }

    /// This process could not write the log: waits until another process has written it beyond `lsn`.
    fn wait_for_another(&self, session: &Session, lsn: Lsn, cause: String) -> Result<()> {
        // After a wait in vain there is probably no other process: then the error comes at once.
        let patience = match self.is_unaided.load(Ordering::Relaxed) {
            true => SLICE,
            false => (2 * self.relaxed_bound()).min(PATIENCE_MAX),
        };
        let begun = Instant::now();
        while !self.flushed().covers(lsn) {
            self.check_poison()?;
            if begun.elapsed() >= patience {
                self.is_unaided.store(true, Ordering::Relaxed);
                return Err(Error::SteppedBack { cause });
            }
            self.sleep_in_table(session, lsn, SLICE, || false);
        }
        self.is_unaided.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// As [`LogManager::force`], but waits for company by the paper's thresholds: with at least the group threshold of
    /// active transactions it sleeps until the wait threshold's share of them waits, the logdelay threshold is
    /// reached, or the longest wait is over. With the default settings it never waits on purpose.
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

    /// Returns when everything published so far is durable: at a checkpoint, and when the last process leaves.
    ///
    /// # Errors
    /// As [`LogManager::force`].
    pub fn force_all(&self, session: &Session) -> Result<FlushedTo> {
        // No record begins after the last one's first eight bytes, and none is shorter.
        self.force(session, self.tail().minus(8))
    }

    /// Sleeps until a flush that somebody else leads is over. Returns whether a whole slice passed without a wake.
    fn wait_for_flush(&self, session: &Session, lsn: Lsn, slice: Duration) -> bool {
        let begun = Instant::now();
        self.sleep_in_table(session, lsn, slice, || self.header.leader.load() == SessionId::NONE);
        begun.elapsed() >= slice
    }

    /// Sleeps at most `slice`, in the table so that the leader can wake us, unless there is nothing to wait for.
    fn sleep_in_table(&self, session: &Session, lsn: Lsn, slice: Duration, is_over: impl Fn() -> bool) {
        let ticket = session.prepare_sleep();
        waiters::wait(self, session.id(), lsn, is_over, || {
            match planted("log: who waits for a flush sleeps until woken") {
                true => session.sleep_long(ticket, Duration::from_secs(3600)),
                false => session.sleep_on(ticket, slice),
            };
        });
    }

    /// Wakes whoever waited for the log to be durable up to here.
    pub(crate) fn wake_waiters(&self, durable: Lsn) {
        waiters::wake(self, durable);
    }

    /// How old a relaxed commit may become before it is on the disk.
    pub fn relaxed_bound(&self) -> Duration {
        Duration::from_micros(self.settings.relaxed_micros_max)
    }

    /// Whether everything published at this moment is durable.
    pub fn is_all_durable(&self) -> bool {
        self.tail() == self.durable()
    }

    /// Flushes relaxed commits before they become older than their bound (PROTOCOLS L5). A background thread of any
    /// process calls it several times within the bound; it returns whether it flushed.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn background_flush(&self, session: &Session) -> Result<bool> {
        self.check_poison()?;
        let (tail, durable) = (self.tail(), self.durable());
        let is_old = self.relaxed.is_old(tail, durable, Duration::from_micros(self.settings.relaxed_micros_max / 2));
        if tail == durable || !(is_old || tail.since(durable) >= self.settings.relaxed_bytes_max) {
            return Ok(false);
        }
        self.force_all(session)?;
        Ok(true)
    }
}

/// How old the oldest unflushed record can be, without a clock in the append: one look at the tail now and then.
#[derive(Debug, Default)]
pub(crate) struct RelaxedAge(std::sync::Mutex<Option<(Instant, Instant, Lsn)>>);

impl RelaxedAge {
    /// Returns whether something unflushed may be older than `bound`.
    fn is_old(&self, tail: Lsn, durable: Lsn, bound: Duration) -> bool {
        let now = Instant::now();
        let mut seen = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // (everything unflushed is younger than this, when we looked last, the tail then)
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

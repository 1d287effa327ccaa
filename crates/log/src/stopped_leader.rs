//! The end of a wait for a flush whose leader's process is stopped, for example by `kill -STOP` (PROTOCOLS L3a).
//!
//! Not in the paper. A stopped process is alive (PROTOCOLS D9): no session takes the leader's role away, because the
//! process may continue in the middle of its write. So the wait ends only when the process continues or ends. A session
//! with a bound ([`Session::set_patience`]), or whose program cancels its waits, stops waiting earlier, with an error.
//!
//! The waiter leaves nothing behind: it has given its place in the table of waiters back, its record is in the ring,
//! and the flush needs no session but its leader. So the waiter's session can work on at once.
//!
//! The wait for a leader that runs has no bound here: a slow disk does not make the outcome of a commit unknown.

use std::time::{Duration, Instant};

use libtp_process::{Session, SessionId};
use rio::planted;

use crate::{Error, LogManager, Result};

/// A leader that is stopped for a shorter time ends no wait. A debugger stops a process for moments.
const STOPPED_LEAST: Duration = Duration::from_millis(50);
/// A session with a smaller bound waits this long. Many programs never wait for locks, and a process is often stopped
/// for a moment only.
const PATIENCE_LEAST: Duration = Duration::from_millis(250);

/// What one waiter has seen of its leader.
#[derive(Default)]
pub(crate) struct StoppedLeader {
    /// The time from which the wait counts.
    begun: Option<Instant>,
    /// The leader that was stopped at each look since this time.
    seen: Option<(SessionId, Instant)>,
}

impl StoppedLeader {
    /// Looks at the leader. Called after each `slice` without a wake.
    ///
    /// # Errors
    /// [`Error::LeaderStopped`]: the wait is over.
    pub(crate) fn check(&mut self, log: &LogManager, session: &Session, slice: Duration) -> Result<()> {
        let now = Instant::now();
        let waited = slice + now.duration_since(*self.begun.get_or_insert(now));
        let is_over = session.is_cancelled() || waited >= session.patience().max(PATIENCE_LEAST);
        if !is_over || planted("log: a wait for a stopped leader has no bound") {
            return Ok(());
        }
        let leader = log.header.leader.load();
        let pid = match planted("log: a leader with a slow disk counts as stopped") {
            true => Some(0),
            false => log.processes.stopped_pid(leader),
        };
        let Some(pid) = pid.filter(|_| leader != SessionId::NONE) else {
            self.seen = None;
            return Ok(());
        };
        let since = match self.seen {
            Some((same, since)) if same == leader => since,
            _ => now,
        };
        self.seen = Some((leader, since));
        match now.duration_since(since) >= STOPPED_LEAST {
            true => Err(Error::LeaderStopped { pid }),
            false => Ok(()),
        }
    }
}

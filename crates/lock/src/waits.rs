//! Who waits, read without a latch: for tools that must be able to look while a stopped process holds one.
//!
//! Invariant: nothing here waits. What is read may be of a moment ago, so it is for people only; `waits_for.rs` reads the
//! same under latches, for the search for deadlocks.

use std::time::SystemTime;

use libtp_process::{wall_time, SessionId};

use crate::object::LockName;
use crate::{LockManager, LockerId, Mode};

/// A wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    /// Who waits.
    pub locker: LockerId,
    /// The session it waits in.
    pub session: SessionId,
    /// For what.
    pub name: LockName,
    /// In which mode.
    pub wanted: Mode,
    /// Since when; none if it has just begun.
    pub since: Option<SystemTime>,
}

impl LockManager {
    /// Everybody who waits at this moment.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.lockers().filter_map(|locker| self.wait_of(locker)).collect()
    }

    fn wait_of(&self, locker: u32) -> Option<WaitInfo> {
        let slot = self.table.locker(locker);
        // Acquire, both times: what was stored before the wait began is read after the first look, and before the second.
        let waiting = slot.waiting.load();
        let request = self.table.request(waiting.request()?);
        let since = slot.waiting_since.load();
        let info = WaitInfo {
            locker: LockerId(locker),
            session: slot.session.load(),
            name: request.lock_name(),
            wanted: request.state.load().wanted()?,
            since: (since != 0).then(|| wall_time(since)),
        };
        (slot.waiting.load() == waiting).then_some(info)
    }
}

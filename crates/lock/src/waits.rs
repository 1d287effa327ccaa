//! The waits for locks, read without a latch: for tools that must work while a stopped process holds a latch.
//!
//! Invariant: the calls of this module never wait. The result may be out of date, so only people use it. The search for
//! deadlocks reads the waits under latches (`waits_for.rs`).

use std::time::SystemTime;

use libtp_process::{wall_time, SessionId};

use crate::name::LockName;
use crate::{LockManager, LockerId, Mode};

/// A wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitInfo {
    /// The locker that waits.
    pub locker: LockerId,
    /// The session that waits.
    pub session: SessionId,
    /// The object.
    pub name: LockName,
    /// The mode waited for.
    pub wanted: Mode,
    /// When the wait began; `None` for a wait that has just begun.
    pub since: Option<SystemTime>,
}

impl LockManager {
    /// Returns all waits of this moment.
    pub fn waits(&self) -> Vec<WaitInfo> {
        self.lockers().filter_map(|locker| self.wait_of(locker)).collect()
    }

    fn wait_of(&self, locker: u32) -> Option<WaitInfo> {
        let slot = self.table.locker(locker);
        // Acquire, for both loads of `waiting`: the words read between them were stored before the wait began.
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

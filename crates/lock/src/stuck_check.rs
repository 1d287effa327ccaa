//! A check, after a very long wait, that some session can still end the wait.
//!
//! A wild store can grant a lock to a locker that does not know of the grant, or hide a wait from the search for
//! deadlocks. Then no session would ever end the wait. The table changes while the waiter checks, so the region is
//! given up only after several doubtful checks in a row.

use std::time::Duration;

use libtp_process::SessionId;
use rio::planted;

use crate::acquire::Ask;
use crate::locker::Waiting;
use crate::request::{Place, Request};
use crate::{LockManager, LockerId};

/// The time after which a waiter checks, and the time between its further checks.
const PATIENCE: Duration = Duration::from_millis(250);
/// The number of doubts in a row after which the region is given up.
const DOUBTS: u32 = 4;

/// The doubts of one wait.
#[derive(Default)]
pub(crate) struct StuckCheck {
    looks: u32,
    in_a_row: u32,
}

impl LockManager {
    /// Checks the wait if a check is due. Unwinds when it is certain that no session will ever end the wait.
    pub(crate) fn check_stuck(
        &self,
        doubts: &mut StuckCheck,
        ask: &Ask<'_>,
        place: Place,
        number: u32,
        waited: Duration,
    ) {
        if waited < PATIENCE * (doubts.looks + 1) {
            return;
        }
        doubts.looks += 1;
        match self.unexplained(ask, place, number) {
            None => doubts.in_a_row = 0,
            Some(what) => {
                doubts.in_a_row += 1;
                if doubts.in_a_row == DOUBTS {
                    ask.session.processes().give_up(&format!("the wait for {} cannot end: {what}", ask.name));
                }
            }
        }
    }

    /// Returns a defect of the wait that no session can have caused.
    fn unexplained(&self, ask: &Ask<'_>, place: Place, number: u32) -> Option<&'static str> {
        if ask.slot.waiting.load() != Waiting::new(place, number) {
            return Some("its locker has no note of the wait");
        }
        let latched = self.table.latch(ask.session, ask.mixed);
        let Ok(queue) = self.table.find(latched.bucket, ask.name, ask.mixed) else { return Some("there is no queue") };
        let mut is_there = false;
        for (at, request) in queue.requests() {
            is_there |= at == place && request.locker.get() == ask.locker;
            if !request.is_for(ask.name) {
                return Some("the queue has a request for another object");
            }
            if at != place && !self.is_held(at, request) {
                return Some("the queue has a request that its locker does not have");
            }
        }
        (!is_there).then_some("the request is not in its queue")
    }

    /// Returns whether the request belongs to its locker, and the locker belongs to a session.
    fn is_held(&self, place: Place, request: &Request) -> bool {
        let number = request.locker.get();
        if number == 0 || number > self.table.header.locker_used.load() {
            return false;
        }
        let locker = self.table.locker(number);
        let session = locker.session.load();
        // A session that takes a locker over may be stopped before it stores its own name in the locker. Then the
        // locker names the former session, which may be gone.
        let is_kept_for = || {
            let keeps =
                self.keepers.get().filter(|_| !planted("lock: a transaction counts as ownerless during a takeover"));
            keeps.is_some_and(|keeps| keeps(LockerId(number))) || self.processes.exists(locker.session.load())
        };
        let is_owned = locker.in_use.load() != 0
            && session != SessionId::NONE
            && (self.processes.exists(session) || is_kept_for());
        let is_kept = || locker.all_kept(&self.table).any(|kept| kept.place == place);
        is_owned && (locker.requests(&self.table).any(|(own, _)| own == place) || is_kept())
    }
}

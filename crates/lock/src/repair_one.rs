//! Repairing the lockers of one dead session among living sessions (PROTOCOLS D5).
//!
//! The dead session's section was already rolled back and its latches were released, so the table's invariants hold.
//! Only the lockers still belong to the dead session. The repairer adopts each locker with one store, and then ends the
//! locker.
//!
//! If we die here: the adopted lockers belong to the dead repairer, and are repaired with its other lockers.

use libtp_process::{Session, SessionId};
use rio::{failpoint, planted};

use crate::locker::Waiting;
use crate::{LockManager, LockerId};

impl LockManager {
    /// Makes the locker belong to the session, and ends its wait. The request that waited is released with the locker's
    /// other requests.
    pub fn adopt_locker(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        slot.session.publish(session.id());
        failpoint("lock: locker adopted, still waiting");
        if !planted("lock: lock waits of dead sessions are not ended") {
            slot.waiting.publish(Waiting::NONE);
        }
        slot.victim.publish(0);
    }

    /// Returns a locker for which `is_wanted` returns true. `is_wanted` also gets a function that reads the locker's
    /// present owner.
    pub fn find_locker(&self, is_wanted: impl Fn(LockerId, &dyn Fn() -> SessionId) -> bool) -> Option<LockerId> {
        let mut numbers = 1..=self.table.header.locker_used.load();
        let found = |&number: &u32| {
            let slot = self.table.locker(number);
            // Returns no session for a locker that is no longer in use. A session that takes a locker stores its own id
            // before `in_use`.
            let owner = || if slot.in_use.load() == 0 { SessionId::NONE } else { slot.session.load() };
            is_wanted(LockerId(number), &owner)
        };
        numbers.find(found).map(LockerId)
    }

    /// Returns the lockers that `owner` has, or had when it died.
    pub fn lockers_of(&self, owner: SessionId) -> Vec<LockerId> {
        let numbers = 1..=self.table.header.locker_used.load();
        let is_its = |&number: &u32| {
            let slot = self.table.locker(number);
            slot.in_use.load() != 0 && slot.session.load() == owner
        };
        numbers.filter(is_its).map(LockerId).collect()
    }
}

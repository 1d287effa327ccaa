//! The lockers of one dead session, among living ones (PROTOCOLS D5).
//!
//! Its sections were rolled back and its latches given back before, so the table is whole: what is left is whose the lockers
//! are. Whoever repairs adopts each with one store, and ends it like one of its own.
//!
//! If we die here: the lockers adopted are the next dead session's.

use libtp_process::{Session, SessionId};
use rio::{failpoint, planted};

use crate::locker::Waiting;
use crate::{LockManager, LockerId};

impl LockManager {
    /// Makes the locker the session's. What it waited for, it waits for no longer; its request is given back with the rest.
    pub fn adopt_locker(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        slot.session.publish(session.id());
        failpoint("lock: locker adopted, still waiting");
        if !planted("lock: the dead wait on") {
            slot.waiting.publish(Waiting::NONE);
        }
        slot.victim.publish(0);
    }

    /// A locker in use of which, and of whose owner, which it can ask for again, `is_wanted` says yes.
    pub fn find_locker(&self, is_wanted: impl Fn(LockerId, &dyn Fn() -> SessionId) -> bool) -> Option<LockerId> {
        let mut numbers = 1..=self.table.header.locker_used.load();
        let found = |&number: &u32| {
            let slot = self.table.locker(number);
            // None when it is no longer in use: whoever takes a locker says whose it is first.
            let owner = || if slot.in_use.load() == 0 { SessionId::NONE } else { slot.session.load() };
            is_wanted(LockerId(number), &owner)
        };
        numbers.find(found).map(LockerId)
    }

    /// The lockers that `owner` has, or had when it died.
    pub fn lockers_of(&self, owner: SessionId) -> Vec<LockerId> {
        let numbers = 1..=self.table.header.locker_used.load();
        let is_its = |&number: &u32| {
            let slot = self.table.locker(number);
            slot.in_use.load() != 0 && slot.session.load() == owner
        };
        numbers.filter(is_its).map(LockerId).collect()
    }
}

//! The lockers of one dead session, among living ones (PROTOCOLS D5).
//!
//! Its sections were rolled back and its latches given back before, so the table is whole: what is left is whose the lockers
//! are. Whoever repairs adopts each with one store, and ends it like one of its own.
//!
//! If we die here: the lockers adopted are the next dead session's.

use libtp_process::{Session, SessionId};

use crate::locker::Waiting;
use crate::{LockManager, LockerId};

impl LockManager {
    /// Makes the locker the session's. What it waited for, it waits for no longer; its request is given back with the rest.
    pub fn adopt_locker(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        slot.session.publish(session.id());
        slot.waiting.publish(Waiting::NONE);
        slot.victim.publish(0);
    }

    /// Ends every locker that belongs to no living session, with its locks. Returns how many. Lockers of transactions were
    /// adopted before. The caller holds no latch.
    pub fn free_orphans(&self, session: &Session) -> u32 {
        let mut freed = 0;
        for number in 1..=self.table.header.locker_used.load() {
            let slot = self.table.locker(number);
            let owner = slot.session.load();
            let is_orphan = slot.in_use.load() != 0 && owner != SessionId::NONE && !self.processes.is_alive(owner);
            if is_orphan && slot.session.compare_exchange(owner, session.id()).is_ok() {
                self.adopt_locker(session, LockerId(number));
                self.free_locker(session, LockerId(number));
                freed += 1;
            }
        }
        freed
    }
}

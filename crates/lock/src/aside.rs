//! Before a transaction begins: who gave way in a deadlock stands aside, and where it is crowded a lane is needed.
//!
//! Who gave way would come back for the same locks at once, read beside the one it gave way to, and meet it in the next
//! deadlock. So its next transaction begins later, twice as late as the last time if that was not long ago; that of the one it
//! gave way to does not: one of them is to go on. It waits where it holds nothing: nobody waits for it, and no commit is told
//! late. For lanes see `lanes.rs`.

use std::time::Duration;

use libtp_process::{boot_micros, Session, SLEEP_MAX};

use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

/// The shortest pause, in microseconds.
const PAUSE: u64 = 500;
/// It is doubled so often at most: to 32 ms.
const DOUBLINGS: u32 = 6;
/// Who did not give way for so long after a pause, in microseconds, begins with the shortest one again.
const FORGOTTEN_AFTER: u64 = 250_000;

impl LockerSlot {
    /// It gave way in a deadlock, and it is `now`.
    pub(crate) fn note_gave_way(&self, now: u64) {
        if self.aside_due.get() == 0 {
            let is_recent = now < self.aside_until.get() + FORGOTTEN_AFTER;
            let doublings = if is_recent { (self.aside_doublings.get() + 1).min(DOUBLINGS) } else { 0 };
            self.aside_doublings.init(doublings);
            self.aside_due.init(1);
        }
        self.aside_until.init(now + (PAUSE << self.aside_doublings.get().min(DOUBLINGS)));
    }

    /// It begins a transaction: how long it stands aside first.
    fn pause(&self, now: u64) -> Duration {
        self.aside_due.init(0);
        // A clock that was set makes no pause longer than the longest.
        Duration::from_micros(self.aside_until.get().saturating_sub(now).min(PAUSE << DOUBLINGS))
    }
}

impl LockManager {
    /// To be called before a transaction begins, with nothing held.
    #[inline]
    pub fn stand_aside(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        if slot.aside_due.get() != 0 {
            stand_aside(session, slot);
        }
        if slot.crowded_until.get() != 0 {
            self.take_lane(session, locker, slot);
        }
    }
}

#[cold]
fn stand_aside(session: &Session, slot: &LockerSlot) {
    let mut left = slot.pause(boot_micros());
    while !left.is_zero() {
        // A wake meant for something else ends one of the sleeps early, which does not matter.
        let ticket = session.prepare_sleep();
        session.sleep_on(ticket, left);
        left = left.saturating_sub(SLEEP_MAX);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libtp_process::{boot_micros, ProcessManager};
    use rio::Region;

    use super::{DOUBLINGS, FORGOTTEN_AFTER, PAUSE};
    use crate::{LockManager, LockName, Mode, Settings, Wait};

    #[test]
    fn of_two_in_a_deadlock_only_the_one_that_gave_way_stands_aside() {
        let region = Region::anonymous(1 << 26).unwrap();
        ProcessManager::init(&region).unwrap();
        LockManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let locks = LockManager::attach(&region, &processes, Settings::default()).unwrap();
        let names = [7, 8].map(|hash| LockName { space: 1, kind: 3, hash });
        let both_hold = std::sync::Barrier::new(2);
        let one = |own: usize| {
            let session = processes.join().unwrap();
            let locker = locks.new_locker(&session).unwrap();
            locks.try_lock(&session, locker, names[own], Mode::X).unwrap();
            both_hold.wait();
            let is_granted = locks.lock(&session, locker, names[1 - own], Mode::X, Wait::Forever).is_ok();
            locks.unlock_all(&session, locker);
            (is_granted, locks.table.locker(locker.0).aside_due.get() != 0)
        };
        let mut ended = std::thread::scope(|scope| {
            let other = scope.spawn(|| one(1));
            [one(0), other.join().unwrap()]
        });
        ended.sort_unstable();
        assert_eq!(ended, [(false, true), (true, false)]);
    }

    #[test]
    fn pauses_grow_with_deadlocks_and_are_forgotten_later() {
        let region = Region::anonymous(1 << 26).unwrap();
        ProcessManager::init(&region).unwrap();
        LockManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let locks = LockManager::attach(&region, &processes, Settings::default()).unwrap();
        let session = processes.join().unwrap();
        let locker = locks.new_locker(&session).unwrap();
        let slot = locks.table.locker(locker.0);
        locks.stand_aside(&session, locker);
        slot.note_gave_way(boot_micros());
        assert_eq!(slot.aside_due.get(), 1);
        locks.stand_aside(&session, locker);
        assert_eq!(slot.aside_due.get(), 0, "once is enough");

        let mut now = 1 << 52;
        for round in 0..2 * DOUBLINGS {
            slot.note_gave_way(now);
            slot.note_gave_way(now);
            let pause = PAUSE << round.min(DOUBLINGS);
            assert_eq!(slot.pause(now), Duration::from_micros(pause));
            now += pause + FORGOTTEN_AFTER - 1;
        }
        slot.note_gave_way(now + 1);
        assert_eq!(slot.pause(now + 1), Duration::from_micros(PAUSE));
        assert_eq!(slot.pause(0), Duration::from_micros(PAUSE << DOUBLINGS), "the clock was set");
        assert_eq!(slot.pause(1 << 53), Duration::ZERO, "it did something else meanwhile");
    }
}

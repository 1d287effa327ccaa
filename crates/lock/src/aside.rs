//! Standing aside: whoever had to sleep for a lock begins its next transaction a little later.
//!
//! Departure from LIBTP, which lets in whoever comes. Where more processes run than there are processors, each loses its
//! processor in the middle of a transaction, with locks held; the others run into those and sleep, with locks held too, and
//! the more there are the less is free. Then fewer transactions at a time get more done. Nobody counts how many there are,
//! because whoever counts may die: each goes by what happens to itself. To sleep for a lock means that there are too many,
//! and the next transaction begins later: twice as late as the last time, if that was not long ago. So does who gave way in a
//! deadlock and would come back for the same locks at once, and not who it gave way to: one of them is to go on. It waits where it holds nothing: nobody waits for it, and no commit is
//! told late.
//!
//! Whoever sleeps for a lock once in a while pays the shortest pause, and only if its next transaction begins at once.

use std::time::Duration;

use libtp_process::{Session, SLEEP_MAX};

use crate::detector::now_micros;
use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

/// The shortest pause, in microseconds.
const PAUSE: u64 = 500;
/// It is doubled so often at most: to 32 ms.
const DOUBLINGS: u32 = 6;
/// Who did not sleep for a lock for so long after a pause, in microseconds, begins with the shortest one again.
const FORGOTTEN_AFTER: u64 = 250_000;

impl LockerSlot {
    /// It has slept for a lock, and it is `now`.
    pub(crate) fn note_crowded(&self, now: u64) {
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
    }
}

#[cold]
fn stand_aside(session: &Session, slot: &LockerSlot) {
    let mut left = slot.pause(now_micros());
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

    use libtp_process::ProcessManager;
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
    fn pauses_grow_while_it_is_crowded_and_are_forgotten_later() {
        let region = Region::anonymous(1 << 26).unwrap();
        ProcessManager::init(&region).unwrap();
        LockManager::init(&region).unwrap();
        let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
        let locks = LockManager::attach(&region, &processes, Settings::default()).unwrap();
        let session = processes.join().unwrap();
        let (holder, waiter) = (locks.new_locker(&session).unwrap(), locks.new_locker(&session).unwrap());
        let slot = locks.table.locker(waiter.0);
        let name = LockName { space: 1, kind: 3, hash: 7 };
        locks.try_lock(&session, holder, name, Mode::X).unwrap();
        locks.try_lock(&session, waiter, name, Mode::X).unwrap_err();
        assert_eq!(slot.aside_due.get(), 0, "who does not wait does not stand aside");
        let wait = Wait::For(Duration::from_millis(1));
        locks.lock(&session, waiter, name, Mode::X, wait).unwrap_err();
        assert_eq!(slot.aside_due.get(), 1);
        locks.stand_aside(&session, waiter);
        assert_eq!(slot.aside_due.get(), 0, "once is enough");

        let mut now = 1 << 52;
        for round in 0..2 * DOUBLINGS {
            slot.note_crowded(now);
            slot.note_crowded(now);
            let pause = PAUSE << round.min(DOUBLINGS);
            assert_eq!(slot.pause(now), Duration::from_micros(pause));
            now += pause + FORGOTTEN_AFTER - 1;
        }
        slot.note_crowded(now + 1);
        assert_eq!(slot.pause(now + 1), Duration::from_micros(PAUSE));
        assert_eq!(slot.pause(0), Duration::from_micros(PAUSE << DOUBLINGS), "the clock was set");
        assert_eq!(slot.pause(1 << 53), Duration::ZERO, "it did something else meanwhile");
    }
}

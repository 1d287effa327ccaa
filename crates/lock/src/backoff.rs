//! Pauses before a transaction begins: a victim of a deadlock pauses, and under contention a locker takes a lane.
//!
//! Without a pause, a victim would ask for the same locks at once, get shared locks together with the other locker of
//! the deadlock, and deadlock with that locker again. So the victim's next transaction begins after a pause. If the
//! victim's last pause was not long ago, the new pause is twice as long. The other locker does not pause, because one
//! of the two must continue. The victim holds nothing during the pause, so no other session waits for it, and no commit
//! is answered late. For lanes see `lanes.rs`.

use std::time::Duration;

use libtp_process::{boot_micros, Session, SLEEP_MAX};

use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

/// The shortest pause, in microseconds.
const PAUSE: u64 = 500;
/// The pause is doubled at most this number of times: to 32 ms.
const DOUBLINGS: u32 = 6;
/// If a locker is not a victim for this number of microseconds after a pause, its next pause is the shortest again.
const FORGOTTEN_AFTER: u64 = 250_000;

impl LockerSlot {
    /// Notes, at `now`, that the locker was the victim of a deadlock.
    pub(crate) fn note_was_victim(&self, now: u64) {
        if self.pause_due.get() == 0 {
            let is_recent = now < self.pause_until.get() + FORGOTTEN_AFTER;
            let doublings = if is_recent { (self.pause_doublings.get() + 1).min(DOUBLINGS) } else { 0 };
            self.pause_doublings.init(doublings);
            self.pause_due.init(1);
        }
        self.pause_until.init(now + (PAUSE << self.pause_doublings.get().min(DOUBLINGS)));
    }

    /// Returns how long the locker pauses before a transaction that begins now.
    fn pause(&self, now: u64) -> Duration {
        self.pause_due.init(0);
        // The bound holds even if the clock was changed.
        Duration::from_micros(self.pause_until.get().saturating_sub(now).min(PAUSE << DOUBLINGS))
    }
}

impl LockManager {
    /// Pauses if the locker was a victim, and takes a lane if the locker needs a lane. Called before a transaction
    /// begins, when the locker holds nothing.
    #[inline]
    pub fn pause_before_begin(&self, session: &Session, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        if slot.pause_due.get() != 0 {
            pause_before_begin(session, slot);
        }
        if slot.lanes_until.get() != 0 {
            self.take_lane(session, locker, slot);
        }
    }
}

#[cold]
fn pause_before_begin(session: &Session, slot: &LockerSlot) {
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

    use libtp_process::boot_micros;

    use super::{DOUBLINGS, FORGOTTEN_AFTER, PAUSE};
    use crate::scene::{open, region, Scene};
    use crate::{LockName, Mode, Settings, Wait};

    #[test]
    fn of_two_lockers_in_a_deadlock_only_the_victim_pauses() {
        let (processes, locks) = open(&region(), Settings::default());
        let names = [7, 8].map(|hash| LockName { space: 1, kind: 3, hash });
        let both_hold = std::sync::Barrier::new(2);
        let one = |own: usize| {
            let session = processes.join().unwrap();
            let locker = locks.new_locker(&session).unwrap();
            locks.try_lock(&session, locker, names[own], Mode::X).unwrap();
            both_hold.wait();
            let is_granted = locks.lock(&session, locker, names[1 - own], Mode::X, Wait::Forever).is_ok();
            locks.unlock_all(&session, locker);
            (is_granted, locks.table.locker(locker.0).pause_due.get() != 0)
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
        let scene = Scene::default();
        let (locks, session, locker) = (&scene.locks, &scene.session, scene.lockers[0]);
        let slot = locks.table.locker(locker.0);
        locks.pause_before_begin(session, locker);
        slot.note_was_victim(boot_micros());
        assert_eq!(slot.pause_due.get(), 1);
        locks.pause_before_begin(session, locker);
        assert_eq!(slot.pause_due.get(), 0, "the locker pauses once");

        let mut now = 1 << 52;
        for round in 0..2 * DOUBLINGS {
            slot.note_was_victim(now);
            slot.note_was_victim(now);
            let pause = PAUSE << round.min(DOUBLINGS);
            assert_eq!(slot.pause(now), Duration::from_micros(pause));
            now += pause + FORGOTTEN_AFTER - 1;
        }
        slot.note_was_victim(now + 1);
        assert_eq!(slot.pause(now + 1), Duration::from_micros(PAUSE));
        assert_eq!(slot.pause(0), Duration::from_micros(PAUSE << DOUBLINGS), "the clock was set back");
        assert_eq!(slot.pause(1 << 53), Duration::ZERO, "the pause is over");
    }
}

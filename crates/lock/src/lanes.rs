//! Lanes: where it is crowded, only as many transactions at a time as there are processors.
//!
//! Departure from LIBTP, which lets in whoever comes. Where more processes run than there are processors, each loses its
//! processor in the middle of a transaction, with locks held; the others run into those and sleep, with locks held too, and
//! the more there are the less is free. Then fewer at a time get more done: the multiprogramming level is restricted, as in
//! Dice and Kogan, "Avoiding scalability collapse by restricting concurrency" (2019).
//!
//! Nobody is in charge, because whoever is may die. To sleep for a lock means that it may be crowded, and then the session's
//! next transactions begin in a lane, of which there is one for each processor. Who has one keeps it for a turn of some
//! thousands of transactions, and then hands it to the one that has waited longest, and waits itself. When it has slept
//! neither for a lock nor for a lane for a while, it runs without.
//!
//! A lane is advice: nothing goes wrong if two are in it or nobody is. So a lane is one word, taken by a swap. Whoever looks
//! for one hands on those whose turn is over and those of who has gone away to think, to whose turn it is, which may be
//! another; and nobody waits longer than [`PATIENCE`]. It waits where it holds nothing: nobody waits for it, and no commit is
//! told late.
//!
//! If we die here: the lane is free when our turn is over.

mod words;

use std::time::Duration;

use libtp_process::{boot_micros, Session};
use rio::{failpoint, shared, Word};

use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

use words::LOCKER_BITS;
pub(crate) use words::{Begun, Taken, Wish};

/// Lanes there are room for. Machines with more processors have that many.
pub(crate) const LANES: u32 = 64;
/// How long a turn is, in microseconds: longer than what it costs to wake another, shorter than a process's time slice.
const TURN: u64 = 2_000;
/// Who has a lane, holds no lock and has begun nothing for so long has gone away to think, in microseconds.
const AWAY_AFTER: u64 = 100;
/// How long who waits for one sleeps before it looks for one that nobody handed on, because its holder died or thinks.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// Who has waited for one and not looked for so long is stopped, and is given none, in microseconds.
const STOPPED_AFTER: u64 = 100_000;
/// A turn that ends later than that, in microseconds, is no turn that anybody gave.
const CLOCK_SET: u64 = 1_000_000;
/// Who has slept neither for a lock nor for a lane for so long needs none, in microseconds.
const FORGOTTEN_AFTER: u64 = 250_000;
/// Who has waited so long begins without, in microseconds: so many that a thousand processes on two processors are not as many.
const PATIENCE: u64 = 1_000_000;
/// So many lockers are asked whether they wait, when a lane is handed on, and who asks; those with higher numbers look
/// for one by themselves.
const ASKED_MAX: u32 = 1024;

shared! {
    /// A lane: a cache line.
    pub(crate) struct Lane {
        /// Whose it is, and until when.
        pub(crate) taken: Word<Taken>,
        /// Zero, kept for later.
        pub(crate) spare: [Word<u64>; 7],
    } size 64
}

impl LockerSlot {
    /// It has slept for a lock, and it is `now`.
    pub(crate) fn note_crowded(&self, now: u64) {
        self.crowded_until.init(now + FORGOTTEN_AFTER);
    }
}

impl LockManager {
    /// To be called when the locker's session has slept for something else than a lock, as for the disk: what keeps so many
    /// from running is not the number of processors, so its next transaction needs no lane.
    #[inline]
    pub fn forget_crowd(&self, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        if slot.crowded_until.get() != 0 {
            slot.crowded_until.init(0);
        }
    }

    /// Takes a lane for the locker's next transaction, if it needs one.
    #[inline(never)]
    pub(crate) fn take_lane(&self, session: &Session, locker: LockerId, slot: &LockerSlot) {
        let now = boot_micros();
        let left = slot.crowded_until.get().wrapping_sub(now);
        if left == 0 || left > FORGOTTEN_AFTER || u64::from(locker.0) >> LOCKER_BITS != 0 {
            slot.crowded_until.init(0);
            return;
        }
        let lane = slot.lane.load().lane();
        let had = self.lane(lane);
        let seen = had.taken.load();
        if seen.locker() != locker.0 {
            return self.wait_for_lane(session, locker, slot, now);
        }
        if seen.is_over(now) {
            self.hand_on(locker, now);
            if had.taken.load() != seen {
                return self.wait_for_lane(session, locker, slot, now);
            }
            // Nobody waits. If another displaces us at this moment, both are in it for a turn.
            _ = had.taken.compare_exchange(seen, Taken::new(locker.0, now));
        }
        slot.lane.publish(Begun::new(lane, now));
    }

    /// Waits until it has a lane, or has waited long enough.
    fn wait_for_lane(&self, session: &Session, locker: LockerId, slot: &LockerSlot, started: u64) {
        let (mut now, mut bound) = (started, Duration::from_micros(TURN));
        slot.session.publish(session.id());
        while now.abs_diff(started) < PATIENCE {
            let ticket = session.prepare_sleep();
            slot.wants_lane.publish(Wish::new(started, now));
            failpoint("lock: wants a lane");
            if let Some(lane) = self.find_lane(locker, now) {
                slot.lane.publish(Begun::new(lane, now));
                break;
            }
            session.sleep_long(ticket, bound);
            bound = LOOK_AFTER;
            now = boot_micros();
            slot.note_crowded(now);
        }
        slot.wants_lane.publish(Wish::NONE);
    }

    /// The lane it was given, whose turn begins now, after those that nobody needs were handed on.
    fn find_lane(&self, locker: LockerId, now: u64) -> Option<u32> {
        self.lane_of(locker.0)
            .or_else(|| {
                self.hand_on(locker, now);
                self.lane_of(locker.0)
            })
            .inspect(|&number| {
                let taken = &self.lane(number).taken;
                let given = taken.load();
                if given.locker() == locker.0 {
                    // If it was displaced at this moment, both are in it for a turn.
                    _ = taken.compare_exchange(given, Taken::new(locker.0, now));
                }
            })
    }

    /// The lane it has. Who handed it on may know of more lanes than we do.
    fn lane_of(&self, locker: u32) -> Option<u32> {
        (0..LANES).find(|&number| self.lane(number).taken.load().locker() == locker)
    }

    /// Whether the lane is nobody's, or the turn is over, or who has it has gone away.
    fn is_unneeded(&self, taken: Taken, now: u64) -> bool {
        if taken.is_over(now) || taken.locker() > self.table.lockers.capacity() {
            return true;
        }
        let slot = self.table.locker(taken.locker());
        // Who waits was given it a moment ago and is not yet awake.
        slot.filter.load() == 0 && slot.wants_lane.load() == Wish::NONE && slot.lane.load().is_long_ago(now)
    }

    /// Gives each lane that is free to the one that has waited longest and has none, and wakes it, unless it is `locker`,
    /// who asks.
    fn hand_on(&self, locker: LockerId, now: u64) {
        for number in 0..self.lane_count {
            let taken = &self.lane(number).taken;
            let seen = taken.load();
            if self.is_unneeded(seen, now) {
                let Some(next) = self.longest_waiting(locker, now) else { return };
                if taken.compare_exchange(seen, Taken::new(next, now)).is_ok() && next != locker.0 {
                    self.processes.wake(self.table.locker(next).session.load());
                }
            }
        }
    }

    /// Of those who wait for a lane and have not been given one, who has done so longest.
    fn longest_waiting(&self, locker: LockerId, now: u64) -> Option<u32> {
        let used = self.table.header.locker_used.load().min(self.table.lockers.capacity()).min(ASKED_MAX);
        let waiting = (1..=used).chain([locker.0]).filter_map(|other| {
            let slot = self.table.locker(other);
            let wish = slot.wants_lane.load();
            let waits = wish.has_looked(now) && slot.in_use.load() != 0 && self.lane_of(other).is_none();
            waits.then(|| (wish.waited(now), other))
        });
        waiting.reduce(|longest, other| if other.0 > longest.0 { other } else { longest }).map(|(_, other)| other)
    }

    #[inline]
    fn lane(&self, number: u32) -> &Lane {
        &self.lanes[(number % LANES) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use libtp_process::{boot_micros, ProcessManager, Session};
    use rio::Region;

    use super::{Begun, Taken, Wish, AWAY_AFTER, CLOCK_SET, FORGOTTEN_AFTER, PATIENCE, STOPPED_AFTER, TURN};
    use crate::locker::LockerSlot;
    use crate::{LockManager, LockName, LockerId, Mode, Settings, Wait};

    const NAME: LockName = LockName { space: 1, kind: 3, hash: 7 };
    const NOW: u64 = (1 << 50) - 5;

    struct Scene {
        locks: LockManager,
        session: Session,
        lockers: [LockerId; 3],
    }

    impl Scene {
        fn new(lanes: u32) -> Scene {
            let region = Region::anonymous(1 << 26).unwrap();
            ProcessManager::init(&region).unwrap();
            LockManager::init(&region).unwrap();
            let processes = ProcessManager::attach(&region, &libtp_process::Settings::default()).unwrap();
            let settings = Settings { lanes: Some(lanes), ..Settings::default() };
            let locks = LockManager::attach(&region, &processes, settings).unwrap();
            let session = processes.join().unwrap();
            let lockers = std::array::from_fn(|_| locks.new_locker(&session).unwrap());
            Scene { locks, session, lockers }
        }

        fn hold(&self, locker: usize) {
            let own = LockName { hash: locker as u64, ..NAME };
            self.locks.try_lock(&self.session, self.lockers[locker], own, Mode::X).unwrap();
        }

        fn slot(&self, locker: usize) -> &LockerSlot {
            self.locks.table.locker(self.lockers[locker].0)
        }

        /// It has waited since then, and looks for a lane.
        fn wants(&self, locker: usize, since: u64, now: u64) -> Option<u32> {
            self.slot(locker).session.publish(self.session.id());
            self.slot(locker).wants_lane.publish(Wish::new(since, now));
            self.locks.find_lane(self.lockers[locker], now)
        }

        /// It has a lane and begins a transaction in it.
        fn begins(&self, locker: usize, now: u64) {
            self.slot(locker).wants_lane.publish(Wish::NONE);
            self.slot(locker).lane.publish(Begun::new(0, now));
        }

        fn holder(&self, lane: u32) -> u32 {
            self.locks.lane(lane).taken.load().locker()
        }
    }

    const MS: u64 = 1024;

    #[test]
    fn who_has_a_lane_keeps_it_for_a_turn() {
        let scene = Scene::new(1);
        scene.hold(0);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW), None, "it is taken");
        assert_eq!(scene.wants(1, NOW, NOW + TURN - 1), None, "its turn is not over");
        assert_eq!(scene.wants(1, NOW, NOW + TURN), Some(0));
    }

    #[test]
    fn who_has_gone_away_to_think_is_displaced() {
        let scene = Scene::new(1);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        let later = NOW + 2 * AWAY_AFTER;
        assert_eq!(scene.wants(1, NOW, later), None, "it was given the lane and is not yet awake");
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW + AWAY_AFTER / 2), None, "it began a moment ago");
        scene.hold(0);
        assert_eq!(scene.wants(1, NOW, later), None, "it is at work");
        scene.locks.unlock_all(&scene.session, scene.lockers[0]);
        assert_eq!(scene.wants(1, NOW, later), Some(0));
    }

    #[test]
    fn lanes_are_handed_to_those_who_have_waited_longest() {
        let scene = Scene::new(2);
        let number = |locker: usize| scene.lockers[locker].0;
        assert_eq!(scene.wants(1, NOW, NOW), Some(0));
        scene.begins(1, NOW);
        scene.locks.hand_on(scene.lockers[1], NOW + TURN);
        assert_eq!(scene.holder(0), number(1), "nobody waits");
        let now = NOW + TURN;
        assert_eq!(scene.wants(0, now - 2 * MS, now), Some(0), "nobody else waits");
        scene.slot(1).wants_lane.publish(Wish::new(now - 3 * MS, now));
        scene.locks.hand_on(scene.lockers[2], now);
        assert_eq!((scene.holder(0), scene.holder(1)), (number(0), number(1)), "the other lane was nobody's");
        scene.slot(2).wants_lane.publish(Wish::new(now, now));
        let now = now + TURN + 1;
        scene.locks.hand_on(scene.lockers[2], now);
        assert_eq!(scene.holder(0), number(2), "those who have not come yet have a lane each");
        assert_eq!(scene.holder(1), number(0), "and who had the first waits longest of the rest");
        scene.locks.free_locker(&scene.session, scene.lockers[1]);
        scene.locks.hand_on(scene.lockers[0], now + 2 * TURN);
        assert!(scene.holder(0) != number(1) && scene.holder(1) != number(1), "who has ended waits for nothing");
    }

    #[test]
    fn who_looks_hands_lanes_on_to_others() {
        let scene = Scene::new(1);
        scene.hold(0);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW), None);
        assert_eq!(scene.wants(2, NOW + 2 * MS, NOW + 3 * MS), None, "another has waited longer");
        assert_eq!(scene.holder(0), scene.lockers[1].0);
    }

    #[test]
    fn a_turn_begins_when_who_was_given_it_is_awake() {
        let scene = Scene::new(1);
        scene.slot(1).wants_lane.publish(Wish::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[0], NOW);
        assert_eq!(scene.wants(1, NOW, NOW + TURN - 1), Some(0));
        assert!(!scene.locks.lane(0).taken.load().is_over(NOW + 2 * TURN - 2));
    }

    #[test]
    fn who_is_stopped_while_it_waits_is_given_no_lane_and_keeps_nobody_from_one() {
        let scene = Scene::new(1);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        scene.slot(1).wants_lane.publish(Wish::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[0], NOW + TURN);
        assert_eq!(scene.holder(0), scene.lockers[1].0, "it has looked lately");
        let later = NOW + STOPPED_AFTER + 2 * MS;
        scene.slot(2).wants_lane.publish(Wish::new(later, later));
        scene.slot(0).wants_lane.publish(Wish::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[1], later);
        assert_eq!(scene.holder(0), scene.lockers[2].0, "the first has not for long");
    }

    #[test]
    fn who_knows_of_more_lanes_hands_them_to_those_who_know_of_fewer() {
        let scene = Scene::new(1);
        let elsewhere = scene.locks.lane(9);
        elsewhere.taken.publish(Taken::new(scene.lockers[1].0, NOW));
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        assert_eq!(scene.wants(1, NOW, NOW), Some(9));
    }

    #[test]
    fn who_sleeps_for_locks_sits_down_until_it_has_not_for_a_while() {
        let scene = Scene::new(1);
        let (locks, [holder, waiter, _]) = (&scene.locks, scene.lockers);
        let slot = locks.table.locker(waiter.0);
        locks.stand_aside(&scene.session, waiter);
        assert_eq!(scene.holder(0), 0, "who has not slept needs none");
        locks.try_lock(&scene.session, holder, NAME, Mode::X).unwrap();
        let wait = Wait::For(std::time::Duration::from_millis(1));
        locks.lock(&scene.session, waiter, NAME, Mode::X, wait).unwrap_err();
        locks.stand_aside(&scene.session, waiter);
        assert_eq!(scene.holder(0), waiter.0);
        locks.forget_crowd(waiter);
        assert_eq!(slot.crowded_until.get(), 0);
        slot.note_crowded(boot_micros() - FORGOTTEN_AFTER);
        locks.stand_aside(&scene.session, waiter);
        assert_eq!(slot.crowded_until.get(), 0, "long ago");
    }

    #[test]
    fn nobody_waits_for_a_lane_for_ever() {
        let scene = Scene::new(1);
        let (locks, [holder, waiter, _]) = (&scene.locks, scene.lockers);
        scene.hold(0);
        let slot = locks.table.locker(waiter.0);
        // A turn that ends long after the patience does.
        locks.lane(0).taken.publish(Taken::new(holder.0, boot_micros() + CLOCK_SET - TURN));
        slot.note_crowded(boot_micros());
        let started = Instant::now();
        locks.stand_aside(&scene.session, waiter);
        let waited = started.elapsed();
        assert!(waited >= Duration::from_micros(PATIENCE), "it began after {waited:?}: it did not wait");
        assert_eq!(slot.wants_lane.load(), Wish::NONE);
    }
}

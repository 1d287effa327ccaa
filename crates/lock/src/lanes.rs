//! Lanes: under contention, only as many transactions run at a time as there are processors.
//!
//! Departure from LIBTP, which admits every transaction. If more processes run than there are processors, each process
//! loses its processor in the middle of a transaction, with locks held. Other processes wait for these locks while they
//! hold locks themselves. With more processes, fewer locks are free. Then fewer concurrent transactions do more work:
//! the multiprogramming level is restricted, as in Dice and Kogan, "Avoiding scalability collapse by restricting
//! concurrency" (2019).
//!
//! No single session distributes the lanes, because it might die. A session that sleeps for a lock assumes contention,
//! so its next transactions begin in a lane. There is one lane for each processor. The session keeps
//! its lane for a turn of some thousands of transactions, then hands the lane to the session that has waited longest,
//! and waits itself. If a session has lately slept neither for a lock nor for a lane, it runs without a lane.
//!
//! A lane is advice: it does no harm if two sessions use one lane, or if a lane stays empty. So a lane is one word,
//! taken by a swap. Before a session takes a lane, it hands on each lane whose turn is over or whose holder is away.
//! The session that has waited longest gets the lane, even if another session hands it on. No session waits longer
//! than [`PATIENCE`]. A session has no locks while it waits for a lane, so no other session waits for it, and no commit
//! is answered late.
//!
//! If we die here: the lane is free when the dead session's turn is over.

use std::time::Duration;

use libtp_process::{boot_micros, Session};
use rio::failpoint;

use crate::lane::{Lane, LaneStart, LaneTurn, LaneWait, LANES, LOCKER_BITS, TURN};
use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

/// The time that a waiter sleeps before it searches for a lane that was not passed on, because its holder died or is
/// away.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// The time, in microseconds, after which a session that has slept neither for a lock nor for a lane needs no lane.
const FORGOTTEN_AFTER: u64 = 250_000;
/// The time, in microseconds, after which a session that waits for a lane begins without a lane: long enough for a
/// thousand processes to take turns on two processors.
const PATIENCE: u64 = 1_000_000;
/// The number of lockers, without the caller, that are considered when a lane is passed on. Lockers with higher
/// numbers get a lane only when they search for one themselves.
const ASKED_MAX: u32 = 1024;

impl LockerSlot {
    /// Notes, at `now`, that the locker has slept for a lock.
    pub(crate) fn note_contention(&self, now: u64) {
        self.lanes_until.init(now + FORGOTTEN_AFTER);
    }
}

impl LockManager {
    /// Notes that the locker's session has slept for something other than a lock, such as the disk. The number of
    /// processors is then not the limit, so the locker's next transaction needs no lane.
    #[inline]
    pub fn forget_crowd(&self, locker: LockerId) {
        let slot = self.table.locker(locker.0);
        if slot.lanes_until.get() != 0 {
            slot.lanes_until.init(0);
        }
    }

    /// Takes a lane for the locker's next transaction, if it needs one.
    #[inline(never)]
    pub(crate) fn take_lane(&self, session: &Session, locker: LockerId, slot: &LockerSlot) {
        let now = boot_micros();
        let left = slot.lanes_until.get().wrapping_sub(now);
        if left == 0 || left > FORGOTTEN_AFTER || u64::from(locker.0) >> LOCKER_BITS != 0 {
            slot.lanes_until.init(0);
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
            // No session waits for a lane. If another session displaces this session at this moment, both are in the
            // lane for a turn.
            _ = had.taken.compare_exchange(seen, LaneTurn::new(locker.0, now));
        }
        slot.lane.publish(LaneStart::new(lane, now));
    }

    /// Waits until the locker has a lane, or has waited long enough.
    fn wait_for_lane(&self, session: &Session, locker: LockerId, slot: &LockerSlot, started: u64) {
        let (mut now, mut bound) = (started, Duration::from_micros(TURN));
        slot.session.publish(session.id());
        while now.abs_diff(started) < PATIENCE {
            let ticket = session.prepare_sleep();
            slot.wants_lane.publish(LaneWait::new(started, now));
            failpoint("lock: wants a lane");
            if let Some(lane) = self.find_lane(locker, now) {
                slot.lane.publish(LaneStart::new(lane, now));
                break;
            }
            session.sleep_long(ticket, bound);
            bound = LOOK_AFTER;
            now = boot_micros();
            slot.note_contention(now);
        }
        slot.wants_lane.publish(LaneWait::NONE);
    }

    /// Hands unneeded lanes on if the locker has no lane yet. Returns the locker's lane, if it has a lane now; the turn
    /// begins now.
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
                    // If the locker is displaced at this moment, both are in the lane for a turn.
                    _ = taken.compare_exchange(given, LaneTurn::new(locker.0, now));
                }
            })
    }

    /// Returns the locker's lane. Reads all lanes of the region, because the session that handed the lane on may use
    /// more lanes than this process.
    fn lane_of(&self, locker: u32) -> Option<u32> {
        (0..LANES).find(|&number| self.lane(number).taken.load().locker() == locker)
    }

    /// Returns whether the lane is free, its turn is over, or its holder is away.
    fn is_unneeded(&self, taken: LaneTurn, now: u64) -> bool {
        if taken.is_over(now) || taken.locker() > self.table.lockers.capacity() {
            return true;
        }
        let slot = self.table.locker(taken.locker());
        // A holder that is still noted as waiting got the lane a moment ago and is not awake yet.
        slot.filter.load() == 0 && slot.wants_lane.load() == LaneWait::NONE && slot.lane.load().is_long_ago(now)
    }

    /// Gives each unneeded lane to the waiter that has waited longest and has no lane. Wakes that waiter, unless it is
    /// the caller's `locker`.
    fn hand_on(&self, locker: LockerId, now: u64) {
        for number in 0..self.lane_count {
            let taken = &self.lane(number).taken;
            let seen = taken.load();
            if self.is_unneeded(seen, now) {
                let Some(next) = self.longest_waiting(locker, now) else { return };
                if taken.compare_exchange(seen, LaneTurn::new(next, now)).is_ok() && next != locker.0 {
                    self.processes.wake(self.table.locker(next).session.load());
                }
            }
        }
    }

    /// Returns the locker that has waited longest for a lane and has been given none.
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

    use libtp_process::boot_micros;

    use super::{LaneStart, LaneTurn, LaneWait, FORGOTTEN_AFTER, PATIENCE, TURN};
    use crate::lane::{AWAY_AFTER, CLOCK_SET, STOPPED_AFTER};
    use crate::locker::LockerSlot;
    use crate::scene::{Scene, NAME};
    use crate::{LockName, Mode, Settings, Wait};

    const NOW: u64 = (1 << 50) - 5;

    fn with_lanes(lanes: u32) -> Scene<3> {
        Scene::new(Settings { lanes: Some(lanes), ..Settings::default() })
    }

    impl Scene<3> {
        fn hold(&self, locker: usize) {
            let own = LockName { hash: locker as u64, ..NAME };
            self.locks.try_lock(&self.session, self.lockers[locker], own, Mode::X).unwrap();
        }

        fn slot(&self, locker: usize) -> &LockerSlot {
            self.locks.table.locker(self.lockers[locker].0)
        }

        /// Lets the locker, which has waited since `since`, search for a lane.
        fn wants(&self, locker: usize, since: u64, now: u64) -> Option<u32> {
            self.slot(locker).session.publish(self.session.id());
            self.slot(locker).wants_lane.publish(LaneWait::new(since, now));
            self.locks.find_lane(self.lockers[locker], now)
        }

        /// Lets the locker, which has a lane, begin a transaction in it.
        fn begins(&self, locker: usize, now: u64) {
            self.slot(locker).wants_lane.publish(LaneWait::NONE);
            self.slot(locker).lane.publish(LaneStart::new(0, now));
        }

        fn holder(&self, lane: u32) -> u32 {
            self.locks.lane(lane).taken.load().locker()
        }
    }

    const MS: u64 = 1024;

    #[test]
    fn a_locker_keeps_its_lane_for_a_turn() {
        let scene = with_lanes(1);
        scene.hold(0);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW), None, "the lane is taken");
        assert_eq!(scene.wants(1, NOW, NOW + TURN - 1), None, "the holder's turn is not over");
        assert_eq!(scene.wants(1, NOW, NOW + TURN), Some(0));
    }

    #[test]
    fn a_holder_that_has_been_idle_for_long_loses_its_lane() {
        let scene = with_lanes(1);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        let later = NOW + 2 * AWAY_AFTER;
        assert_eq!(scene.wants(1, NOW, later), None, "the holder was given the lane and is not yet awake");
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW + AWAY_AFTER / 2), None, "the holder began a moment ago");
        scene.hold(0);
        assert_eq!(scene.wants(1, NOW, later), None, "the holder is at work");
        scene.locks.unlock_all(&scene.session, scene.lockers[0]);
        assert_eq!(scene.wants(1, NOW, later), Some(0));
    }

    #[test]
    fn lanes_are_handed_to_the_lockers_that_have_waited_longest() {
        let scene = with_lanes(2);
        let number = |locker: usize| scene.lockers[locker].0;
        assert_eq!(scene.wants(1, NOW, NOW), Some(0));
        scene.begins(1, NOW);
        scene.locks.hand_on(scene.lockers[1], NOW + TURN);
        assert_eq!(scene.holder(0), number(1), "no locker waits");
        let now = NOW + TURN;
        assert_eq!(scene.wants(0, now - 2 * MS, now), Some(0), "no other locker waits");
        scene.slot(1).wants_lane.publish(LaneWait::new(now - 3 * MS, now));
        scene.locks.hand_on(scene.lockers[2], now);
        assert_eq!((scene.holder(0), scene.holder(1)), (number(0), number(1)), "the other lane had no holder");
        scene.slot(2).wants_lane.publish(LaneWait::new(now, now));
        let now = now + TURN + 1;
        scene.locks.hand_on(scene.lockers[2], now);
        assert_eq!(scene.holder(0), number(2), "only locker 2 had no lane");
        assert_eq!(scene.holder(1), number(0), "locker 0 has lost its lane, and gets the lane of locker 1");
        scene.locks.free_locker(&scene.session, scene.lockers[1]);
        scene.locks.hand_on(scene.lockers[0], now + 2 * TURN);
        assert!(
            scene.holder(0) != number(1) && scene.holder(1) != number(1),
            "a locker that has ended waits for no lane"
        );
    }

    #[test]
    fn a_locker_that_looks_hands_lanes_to_other_lockers() {
        let scene = with_lanes(1);
        scene.hold(0);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        assert_eq!(scene.wants(1, NOW, NOW), None);
        assert_eq!(scene.wants(2, NOW + 2 * MS, NOW + 3 * MS), None, "another locker has waited longer");
        assert_eq!(scene.holder(0), scene.lockers[1].0);
    }

    #[test]
    fn a_turn_begins_when_its_locker_is_awake() {
        let scene = with_lanes(1);
        scene.slot(1).wants_lane.publish(LaneWait::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[0], NOW);
        assert_eq!(scene.wants(1, NOW, NOW + TURN - 1), Some(0));
        assert!(!scene.locks.lane(0).taken.load().is_over(NOW + 2 * TURN - 2));
    }

    #[test]
    fn a_stopped_waiter_gets_no_lane_and_blocks_no_other_waiter() {
        let scene = with_lanes(1);
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        scene.begins(0, NOW);
        scene.slot(1).wants_lane.publish(LaneWait::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[0], NOW + TURN);
        assert_eq!(scene.holder(0), scene.lockers[1].0, "locker 1 looked a moment ago");
        let later = NOW + STOPPED_AFTER + 2 * MS;
        scene.slot(2).wants_lane.publish(LaneWait::new(later, later));
        scene.slot(0).wants_lane.publish(LaneWait::new(NOW, NOW));
        scene.locks.hand_on(scene.lockers[1], later);
        assert_eq!(scene.holder(0), scene.lockers[2].0, "locker 0 has not looked for long");
    }

    #[test]
    fn a_locker_that_knows_of_more_lanes_hands_them_to_lockers_that_know_of_fewer() {
        let scene = with_lanes(1);
        let elsewhere = scene.locks.lane(9);
        elsewhere.taken.publish(LaneTurn::new(scene.lockers[1].0, NOW));
        assert_eq!(scene.wants(0, NOW, NOW), Some(0));
        assert_eq!(scene.wants(1, NOW, NOW), Some(9));
    }

    #[test]
    fn a_locker_that_slept_for_a_lock_needs_a_lane_for_a_while() {
        let scene = with_lanes(1);
        let (locks, [holder, waiter, _]) = (&scene.locks, scene.lockers);
        let slot = locks.table.locker(waiter.0);
        locks.pause_before_begin(&scene.session, waiter);
        assert_eq!(scene.holder(0), 0, "a locker that has not slept needs no lane");
        locks.try_lock(&scene.session, holder, NAME, Mode::X).unwrap();
        let wait = Wait::For(std::time::Duration::from_millis(1));
        locks.lock(&scene.session, waiter, NAME, Mode::X, wait).unwrap_err();
        locks.pause_before_begin(&scene.session, waiter);
        assert_eq!(scene.holder(0), waiter.0);
        locks.forget_crowd(waiter);
        assert_eq!(slot.lanes_until.get(), 0);
        slot.note_contention(boot_micros() - FORGOTTEN_AFTER);
        locks.pause_before_begin(&scene.session, waiter);
        assert_eq!(slot.lanes_until.get(), 0, "the sleep was long ago");
    }

    #[test]
    fn the_wait_for_a_lane_has_a_limit() {
        let scene = with_lanes(1);
        let (locks, [holder, waiter, _]) = (&scene.locks, scene.lockers);
        scene.hold(0);
        let slot = locks.table.locker(waiter.0);
        // The holder's turn ends long after the longest wait.
        locks.lane(0).taken.publish(LaneTurn::new(holder.0, boot_micros() + CLOCK_SET - TURN));
        slot.note_contention(boot_micros());
        let started = Instant::now();
        locks.pause_before_begin(&scene.session, waiter);
        let waited = started.elapsed();
        assert!(waited >= Duration::from_micros(PATIENCE), "the locker began after {waited:?}, before the limit");
        assert_eq!(slot.wants_lane.load(), LaneWait::NONE);
    }
}

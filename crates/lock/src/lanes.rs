//! Lanes: where it is crowded, only as many transactions at a time as there are processors.
//!
//! Departure from LIBTP, which lets in whoever comes. Where more processes run than there are processors, each loses its
//! processor in the middle of a transaction, with locks held; the others run into those and sleep, with locks held too, and
//! the more there are the less is free. Then fewer at a time get more done: the multiprogramming level is restricted, as in
//! Dice and Kogan, "Avoiding scalability collapse by restricting concurrency" (2019).
//!
//! Nobody is in charge, because whoever is may die. To sleep for a lock means that it may be crowded, and then the session's
//! next transactions begin in a lane, of which there is one for each processor. Who has one keeps it for a turn of some
//! thousands of transactions, and then wakes the next that waits for one, and waits itself. When it has slept neither for a
//! lock nor for a lane for a while, it runs without.
//!
//! A lane is advice: nothing goes wrong if two are in it or nobody is. So a lane is one word, taken by a swap; whose turn
//! is over may be displaced by anybody, as may who holds no lock at the moment, because it may have gone away to think; and
//! nobody waits longer than [`PATIENCE`]. It waits where it holds nothing: nobody waits for it, and no commit is told late.
//!
//! If we die here: the lane is free when our turn is over.

use std::time::Duration;

use libtp_process::Session;
use rio::{failpoint, shared, Word};

use crate::detector::now_micros;
use crate::locker::LockerSlot;
use crate::{LockManager, LockerId};

/// Lanes there are room for. Machines with more processors have that many.
pub(crate) const LANES: u32 = 64;
/// How long a turn is, in microseconds: longer than what it costs to wake another, shorter than a process's time slice.
const TURN: u64 = 2_000;
/// How long who waits for one sleeps before it looks for one that nobody handed on, because its holder died or thinks.
const LOOK_AFTER: Duration = Duration::from_millis(20);
/// Who has waited for one and not looked for so long is stopped, and is given none, in microseconds.
const STOPPED_AFTER: u64 = 100_000;
/// A turn that ends later than that was given before the clock was set, in microseconds.
const CLOCK_SET: u64 = 1_000_000;
/// Who has slept neither for a lock nor for a lane for so long needs none, in microseconds.
const FORGOTTEN_AFTER: u64 = 250_000;
/// Who has waited so long begins without.
const PATIENCE: Duration = Duration::from_millis(100);
/// So many lockers are asked whether they wait, when a lane is handed on.
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

/// A locker and the end of its turn. Zero is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken(u64);
rio::bits!(Taken: u64);

/// Bits of the time, in microseconds, which begins anew every twelve days; the rest are the locker's number.
const TIME_BITS: u32 = 40;
const LOCKER_BITS: u32 = u64::BITS - TIME_BITS;
const TIME: u64 = (1 << TIME_BITS) - 1;

impl Taken {
    fn new(locker: u32, now: u64) -> Taken {
        Taken(u64::from(locker) << TIME_BITS | (now + TURN) & TIME)
    }

    /// The rest of the turn, of another.
    fn given_to(self, locker: u32) -> Taken {
        Taken(u64::from(locker) << TIME_BITS | self.0 & TIME)
    }

    /// Whose it is. Lockers with longer numbers, beyond sixteen million, need no lanes.
    fn locker(self) -> u32 {
        u32::try_from(self.0 >> TIME_BITS).unwrap_or(0)
    }

    /// Whether the turn is over, or nobody's. It may have begun after `now` was read. A clock that was set ends it.
    fn is_over(self, now: u64) -> bool {
        let left = self.0.wrapping_sub(now) & TIME;
        left == 0 || left > CLOCK_SET || self.locker() == 0
    }
}

impl LockerSlot {
    /// It has slept for a lock, and it is `now`.
    pub(crate) fn note_crowded(&self, now: u64) {
        self.crowded_until.init(now + FORGOTTEN_AFTER);
    }
}

/// A moment as who waits for a lane notes it: a millisecond or so, and never zero.
fn seen_at(now: u64) -> u32 {
    u32::try_from(now >> 10 & u64::from(u32::MAX)).unwrap_or(0) | 1
}

/// Whether who noted `seen` waits for a lane and has looked for one lately.
fn has_looked(seen: u32, now: u64) -> bool {
    let ago = u64::from(seen_at(now).wrapping_sub(seen)) << 10;
    seen != 0 && (ago < STOPPED_AFTER || ago > u64::from(u32::MAX) << 9)
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
        let now = now_micros();
        let left = slot.crowded_until.get().wrapping_sub(now);
        if left == 0 || left > FORGOTTEN_AFTER || u64::from(locker.0) >> LOCKER_BITS != 0 {
            slot.crowded_until.init(0);
            return;
        }
        let had = self.lane(slot.lane.get());
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
    }

    /// Waits until it has a lane, or has waited long enough.
    fn wait_for_lane(&self, session: &Session, locker: LockerId, slot: &LockerSlot, started: u64) {
        let (mut now, mut bound) = (started, Duration::from_micros(TURN));
        slot.session.publish(session.id());
        while u128::from(now.abs_diff(started)) < PATIENCE.as_micros() {
            let ticket = session.prepare_sleep();
            slot.wants_lane.publish(seen_at(now));
            failpoint("lock: wants a lane");
            if let Some(lane) = self.find_lane(locker, now, now == started) {
                slot.lane.init(lane);
                break;
            }
            session.sleep_long(ticket, bound);
            bound = LOOK_AFTER;
            now = now_micros();
            slot.note_crowded(now);
        }
        slot.wants_lane.publish(0);
    }

    /// The lane it was given, or else takes one that nobody needs. Of those whose turn is not over, only one that has just
    /// come displaces who holds no lock: so those who run one transaction after another are not displaced all the time.
    fn find_lane(&self, locker: LockerId, now: u64, is_new: bool) -> Option<u32> {
        let find = |take: &dyn Fn(Taken) -> Option<Taken>| {
            (0..self.lane_count).find(|&number| {
                let taken = &self.lane(number).taken;
                let seen = taken.load();
                take(seen).is_some_and(|ours| taken.compare_exchange(seen, ours).is_ok())
            })
        };
        // Who handed it on may know of more lanes than we do.
        let own = (0..LANES).find(|&number| self.lane(number).taken.load().locker() == locker.0);
        own.or_else(|| find(&|seen| seen.is_over(now).then(|| Taken::new(locker.0, now))))
            // For what is left of the turn: else those who displace each other would keep those who wait waiting.
            .or_else(|| find(&|seen| (is_new && self.is_away(seen.locker())).then(|| seen.given_to(locker.0))))
    }

    /// Whether the locker that has a lane holds nothing, and was not given the lane a moment ago.
    fn is_away(&self, locker: u32) -> bool {
        if locker == 0 || locker > self.table.lockers.capacity() {
            return true;
        }
        let slot = self.table.locker(locker);
        slot.filter.load() == 0 && slot.wants_lane.load() == 0
    }

    /// Gives each lane of a turn that is over to another that waits, in the order of their numbers from `locker` on, so that
    /// each has its turn; and wakes it.
    fn hand_on(&self, locker: LockerId, now: u64) {
        let used = self.table.header.locker_used.load().min(self.table.lockers.capacity());
        let others = (locker.0 + 1..=used).chain(1..locker.0).take(ASKED_MAX as usize);
        let mut waiting = others.filter(|&other| {
            let slot = self.table.locker(other);
            slot.in_use.load() != 0 && has_looked(slot.wants_lane.load(), now)
        });
        for number in 0..self.lane_count {
            let taken = &self.lane(number).taken;
            let seen = taken.load();
            if seen.is_over(now) {
                let Some(next) = waiting.next() else { return };
                if taken.compare_exchange(seen, Taken::new(next, now)).is_ok() {
                    self.processes.wake(self.table.locker(next).session.load());
                }
            }
        }
    }

    #[inline]
    fn lane(&self, number: u32) -> &Lane {
        &self.lanes[(number % LANES) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use libtp_process::{ProcessManager, Session};
    use rio::Region;

    use super::{seen_at, Taken, CLOCK_SET, FORGOTTEN_AFTER, PATIENCE, STOPPED_AFTER, TURN};
    use crate::detector::now_micros;
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

        fn find(&self, locker: usize, now: u64, is_new: bool) -> Option<u32> {
            self.locks.find_lane(self.lockers[locker], now, is_new)
        }

        fn wants(&self, locker: usize) {
            let slot = self.locks.table.locker(self.lockers[locker].0);
            slot.session.publish(self.session.id());
            slot.wants_lane.publish(seen_at(NOW));
        }

        fn holder(&self, lane: u32) -> u32 {
            self.locks.lane(lane).taken.load().locker()
        }
    }

    #[test]
    fn who_has_a_lane_keeps_it_for_a_turn_while_it_holds_locks() {
        let scene = Scene::new(1);
        scene.hold(0);
        assert_eq!(scene.find(0, NOW, true), Some(0));
        assert_eq!(scene.find(1, NOW, true), None, "it is taken");
        assert_eq!(scene.find(0, NOW + 1, true), Some(0), "its own");
        assert_eq!(scene.find(1, NOW + TURN - 1, false), None, "its turn is not over");
        assert_eq!(scene.find(1, NOW + TURN, false), Some(0));
    }

    #[test]
    fn only_who_has_just_come_displaces_one_that_is_away() {
        let scene = Scene::new(1);
        assert_eq!(scene.find(0, NOW, true), Some(0));
        assert_eq!(scene.find(1, NOW, false), None);
        assert_eq!(scene.find(1, NOW + TURN / 2, true), Some(0), "it holds nothing");
        scene.hold(1);
        assert!(scene.locks.lane(0).taken.load().is_over(NOW + TURN), "it has what was left of the turn");
        assert_eq!(scene.find(2, NOW, true), None, "this one does");
    }

    #[test]
    fn lanes_are_handed_on_by_turns() {
        let scene = Scene::new(2);
        let number = |locker: usize| scene.lockers[locker].0;
        assert_eq!(scene.find(0, NOW, true), Some(0));
        scene.locks.hand_on(scene.lockers[0], NOW + TURN);
        assert_eq!(scene.holder(0), number(0), "nobody waits");
        scene.wants(2);
        scene.locks.hand_on(scene.lockers[0], NOW + TURN - 1);
        assert_eq!((scene.holder(0), scene.holder(1)), (number(0), number(2)), "the other was nobody's");
        scene.wants(0);
        scene.wants(1);
        scene.locks.hand_on(scene.lockers[2], NOW + 3 * TURN);
        assert_eq!(
            (scene.holder(0), scene.holder(1)),
            (number(0), number(1)),
            "both turns are over, also one of the dead"
        );
        assert_eq!(scene.find(2, NOW + 3 * TURN, true), None, "given a moment ago, and not yet awake");
        scene.locks.free_locker(&scene.session, scene.lockers[1]);
        scene.locks.hand_on(scene.lockers[0], NOW + 5 * TURN);
        assert_eq!((scene.holder(0), scene.holder(1)), (number(2), number(1)), "who has ended waits for nothing");
    }

    #[test]
    fn who_is_stopped_while_it_waits_is_given_no_lane_and_keeps_nobody_from_one() {
        let scene = Scene::new(1);
        assert_eq!(scene.find(0, NOW, true), Some(0));
        scene.wants(1);
        scene.locks.hand_on(scene.lockers[0], NOW + TURN);
        assert_eq!(scene.holder(0), scene.lockers[1].0, "it has looked lately");
        scene.wants(2);
        let later = NOW + STOPPED_AFTER + TURN;
        scene.locks.table.locker(scene.lockers[2].0).wants_lane.publish(seen_at(later));
        scene.locks.hand_on(scene.lockers[0], later);
        assert_eq!(scene.holder(0), scene.lockers[2].0, "the next but one has not for long");
    }

    #[test]
    fn who_knows_of_more_lanes_hands_them_to_those_who_know_of_fewer() {
        let scene = Scene::new(1);
        let elsewhere = scene.locks.lane(9);
        elsewhere.taken.publish(Taken::new(scene.lockers[1].0, NOW));
        scene.hold(0);
        assert_eq!(scene.find(0, NOW, true), Some(0));
        assert_eq!(scene.find(1, NOW, false), Some(9));
    }

    #[test]
    fn a_turn_ends_when_the_clock_is_set() {
        let taken = Taken::new(7, NOW);
        assert_eq!(taken.locker(), 7);
        assert!(!taken.is_over(NOW) && !taken.is_over(NOW + TURN - 1), "over the end of the time's bits, too");
        assert!(!taken.is_over(NOW - 1), "it began a moment after the clock was read");
        assert!(taken.is_over(NOW + TURN) && taken.is_over(NOW - CLOCK_SET) && taken.is_over(NOW - (1 << 30)));
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
        slot.note_crowded(now_micros() - FORGOTTEN_AFTER);
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
        locks.lane(0).taken.publish(Taken::new(holder.0, now_micros() + CLOCK_SET - TURN));
        slot.note_crowded(now_micros());
        let started = Instant::now();
        locks.stand_aside(&scene.session, waiter);
        let waited = started.elapsed();
        assert!(waited >= PATIENCE, "it began after {waited:?}: it did not wait");
        assert_eq!(slot.wants_lane.load(), 0);
    }
}

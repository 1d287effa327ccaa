//! Overtaking: taking a lock that was granted to a sleeping waiter which has not noticed the grant yet.
//!
//! Departure from LIBTP 3.2.3, whose queue is strictly first come, first served. If more processes run than there are
//! processors, strict order makes a convoy. Each released lock is granted at once to a process that must first be woken
//! and get a processor. Until that process runs, every running process that needs the lock begins to wait for it. With
//! ten hot records and sixteen processes, a transaction then costs a switch of processes, which takes longer than the
//! transaction.
//!
//! So a waiter's grant is *fresh* until the waiter has noticed it. A locker that asks for the lock meanwhile takes it,
//! and the waiter waits again, as the first waiter of the queue. A waiter that was woken and did not get the lock
//! becomes *firm*: no locker can take its next grant, however long the waiter sleeps. So a waiter is overtaken only
//! while it does not run, and never again after it was woken without the lock.
//!
//! If a locker's request is queued after an overtaken waiter, the locker waits for that waiter both before and after
//! the overtaking. So the overtaking hides no wait from `detector.rs`.
//!
//! Invariant: a request is overtaken only if no other request of its queue is granted, and never if it was granted as a
//! conversion.
//!
//! If we die here: while the section is open, the lock was not taken; after the section is closed, the dead session
//! holds the lock.

use rio::failpoint;

use crate::acquire::Ask;
use crate::change::Change;
use crate::queue::Queue;
use crate::request::{Place, Request, State, Summary};
use crate::table::Latched;
use crate::{LockManager, Mode};

impl Queue<'_> {
    /// Returns whether `mode` conflicts with the only grant of the queue, and the grant's locker has not noticed it
    /// yet.
    pub(crate) fn can_be_overtaken(self, mode: Mode) -> bool {
        let state = self.head.state.get();
        let is_alone = || self.requests().skip(1).all(|(_, other)| other.state.get().granted().is_none());
        state.is_fresh() && state.granted_bit() & mode.conflicts() != 0 && is_alone()
    }
}

impl LockManager {
    /// Adds a granted request as the new head of the queue; the old head waits again.
    pub(crate) fn overtake(&self, ask: &Ask<'_>, latched: &Latched<'_>, queue: Queue<'_>, place: Place) {
        let (request, head) = (self.table.request(place), queue.head);
        let wanted = head.state.get().granted().expect("the head of a queue is granted");
        request.fill(ask.name, ask.mixed, ask.locker, State::granted_in(ask.mode));
        request.summary.init(Summary::new(ask.mode.bit(), true));
        request.chain_next.init(head.chain_next.get());
        request.queue_next.init(queue.place);
        ask.slot.note_one_more(ask.mixed);
        let link = self.table.link_to(latched.bucket, ask.mixed, queue.place);
        let mut change = Change::open(ask.session);
        change.set(&head.state, State::waiting_for(wanted));
        failpoint("lock: overtake, no holder");
        change.set(&head.queue_prev, place);
        change.set(link, place);
        failpoint("lock: overtake, not on the stack");
        ask.slot.push(&mut change, place);
        change.close();
        failpoint("lock: overtaken");
    }
}

impl Request {
    /// Notes that the locker, which waited, has noticed the grant. The caller has the latch.
    #[inline]
    pub(crate) fn notice(&self) {
        self.state.init(self.state.get().noticed());
    }

    /// Makes the request firm: its locker was woken, and the request is not granted. The caller has the latch.
    #[inline]
    pub(crate) fn make_firm(&self) {
        self.state.init(self.state.get().firm());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::detector::Search;
    use crate::request::{Place, State};
    use crate::scene::{Scene, NAME};
    use crate::wait::Look;
    use crate::{Error, LockName, Mode, Wait};
    use Mode::{S, X};

    impl Scene {
        fn lock(&self, locker: usize, mode: Mode) -> Result<(), Error> {
            self.locks.try_lock(&self.session, self.lockers[locker], NAME, mode)
        }

        fn unlock(&self, locker: usize) {
            self.locks.unlock_all(&self.session, self.lockers[locker]);
            self.locks.check().unwrap();
        }

        /// Leaves the locker waiting, like a thread that has gone to sleep.
        fn wait(&self, locker: usize, mode: Mode) -> Place {
            self.wait_for(locker, NAME, mode)
        }

        /// Looks, like a thread that has woken up.
        fn look(&self, locker: usize, mode: Mode, place: Place, reason: Look) -> bool {
            let ask = self.locks.ask(&self.session, self.lockers[locker], NAME, mode);
            let is_granted = self.locks.look(&ask, place, reason);
            self.locks.check().unwrap();
            is_granted
        }

        fn state(&self, place: Place) -> State {
            self.locks.table.request(place).state.get()
        }
    }

    #[test]
    fn a_sleeping_waiter_is_overtaken_until_it_was_woken_without_a_grant() {
        let scene = Scene::default();
        scene.lock(0, X).unwrap();
        let place = scene.wait(1, X);
        for _ in 0..3 {
            scene.unlock(0);
            assert!(scene.state(place).is_fresh(), "the waiter is granted the lock and sleeps");
            scene.lock(0, X).unwrap();
            assert!(scene.state(place).waits(), "the waiter was overtaken");
            assert!(scene.lock(2, X).is_err(), "an overtaker has the lock");
        }
        assert!(!scene.look(1, X, place, Look::AfterWake));
        scene.unlock(0);
        assert!(scene.lock(0, X).is_err(), "the waiter is not overtaken again");
        assert!(scene.look(1, X, place, Look::AfterWake));
        scene.unlock(1);
        scene.lock(0, X).unwrap();
    }

    #[test]
    fn an_overtaken_waiter_no_longer_waits_for_its_former_holder() {
        let scene = Scene::default();
        let other = LockName { hash: 8, ..NAME };
        let [one, two] = [scene.lockers[0].0, scene.lockers[1].0];
        scene.lock(0, X).unwrap();
        scene.locks.try_lock(&scene.session, scene.lockers[1], other, X).unwrap();
        scene.wait(1, X);
        let mut search = Search::default();
        search.seen.insert(two, scene.locks.seen_wait(&scene.session, two));
        // Now the second locker is granted the lock, and overtaken by the third; the first locker wants the lock that
        // the second holds.
        scene.unlock(0);
        scene.lock(2, X).unwrap();
        scene.wait_for(0, other, X);
        let circle =
            scene.locks.find_circle(&scene.session, &mut search, one).expect("the waits seem to form a circle");
        scene.locks.resolve(&scene.session, &mut search, &circle);
        assert_eq!(scene.locks.stats().deadlocks, 0, "no waits form a circle");
        // When the third locker wants the lock that the first waits for, all three wait in a circle.
        scene.wait_for(2, other, X);
        assert_eq!(scene.locks.detect(&scene.session).unwrap(), 1);
    }

    #[test]
    fn a_waiter_that_has_noticed_its_grant_is_not_overtaken() {
        let scene = Scene::default();
        scene.lock(0, X).unwrap();
        let place = scene.wait(1, X);
        scene.unlock(0);
        assert!(scene.look(1, X, place, Look::Again));
        assert!(scene.lock(0, X).is_err());
    }

    #[test]
    fn two_waiters_that_were_granted_together_are_not_overtaken() {
        let scene = Scene::default();
        scene.lock(0, X).unwrap();
        let places = [scene.wait(1, S), scene.wait(2, S)];
        scene.unlock(0);
        assert!(places.iter().all(|&place| scene.state(place).is_fresh()));
        assert!(scene.lock(0, X).is_err());
        scene.lock(0, S).unwrap();
        scene.unlock(0);
        scene.unlock(1);
        // Now only the other request is granted. The requests after an overtaken waiter continue to wait.
        let third = scene.wait(1, X);
        scene.lock(0, X).unwrap();
        assert!(scene.state(places[1]).waits() && scene.state(third).waits());
        scene.unlock(0);
        assert!(scene.state(places[1]).is_fresh() && scene.state(third).waits(), "the order is as it was");
        let mut wait = Wait::For(Duration::from_millis(1));
        for _ in 0..2 {
            assert!(
                scene.locks.lock(&scene.session, scene.lockers[3], NAME, S, wait).is_err(),
                "a new request does not pass the queued waiter, even if it fits the grant"
            );
            wait = Wait::No;
        }
    }
}

//! Kills a rival before each store of an inflation. Then makes every call that can find the unfinished inflation.

use std::collections::HashMap;
use std::panic::{catch_unwind, AssertUnwindSafe};

use libtp_process::{ProcessManager, Session};

use crate::change::stop::{self, Stopped};
use crate::scene::{open, region};
use crate::table::LONG_CHAIN;
use crate::thin::{word_number, Thin};
use crate::{LockManager, LockName, LockerId, Mode, Settings, Wait};
use Mode::{IX, S, X};

/// An owner, a rival, and a second rival, each in its own session.
struct Scene {
    locks: LockManager,
    processes: ProcessManager,
    sessions: [Session; 3],
    lockers: [LockerId; 3],
}

fn name(hash: u64) -> LockName {
    LockName { space: 1, kind: 3, hash }
}

impl Scene {
    fn new() -> Scene {
        let (processes, locks) = open(&region(), Settings::default());
        let sessions = std::array::from_fn(|_| processes.join().unwrap());
        let lockers = std::array::from_fn(|at: usize| locks.new_locker(&sessions[at]).unwrap());
        Scene { locks, processes, sessions, lockers }
    }

    fn lock(&self, locker: usize, name: LockName, mode: Mode) -> bool {
        self.locks.try_lock(&self.sessions[locker], self.lockers[locker], name, mode).is_ok()
    }

    fn holds(&self, locker: usize, name: LockName) -> Option<Mode> {
        self.locks.holds(&self.sessions[locker], self.lockers[locker], name)
    }

    fn unlock(&self, locker: usize, name: LockName) {
        self.locks.unlock(&self.sessions[locker], self.lockers[locker], name).unwrap();
    }

    fn unlock_all(&self, locker: usize) {
        self.locks.unlock_all(&self.sessions[locker], self.lockers[locker]);
        self.locks.check().unwrap();
    }

    fn word(&self, name: LockName) -> Thin {
        self.locks.table.word(name.mixed()).get()
    }

    /// Kills `call`, of the locker, before its store number `stores`, and repairs its section and latches. Returns
    /// whether the call was killed.
    fn kill(&self, locker: usize, stores: u32, call: impl FnOnce(&Scene)) -> bool {
        stop::before(Some(stores));
        let outcome = catch_unwind(AssertUnwindSafe(|| call(self)));
        stop::before(None);
        let Err(cause) = outcome else { return false };
        assert!(cause.downcast_ref::<Stopped>().is_some(), "the call stopped for another reason");
        self.sessions[locker].undo().roll_back();
        let table = &self.locks.table;
        table.header.slab_latch.reset_alone();
        (0..table.buckets.capacity()).for_each(|number| table.bucket(number).latch.reset_alone());
        self.locks.check().unwrap_or_else(|broken| panic!("before store {stores}: {broken}"));
        true
    }

    /// Ends the lockers, each by a living session, as the repair of dead sessions does.
    fn end(&self) {
        let reaper = self.processes.join().unwrap();
        for locker in self.lockers {
            self.locks.adopt_locker(&reaper, locker);
            self.locks.free_locker(&reaper, locker);
            self.locks.check().unwrap();
        }
        assert_eq!(self.locks.dump(&reaper), []);
        let fresh = self.locks.new_locker(&reaper).unwrap();
        self.locks.try_lock(&reaper, fresh, name(1), X).unwrap();
        self.locks.free_locker(&reaper, fresh);
        self.locks.check().unwrap();
    }
}

/// The rival dies before each store of its call for a lock that the owner has in the mode `held`. Then `meet` runs on
/// the unfinished inflation.
fn with_each_death_of_the_rival(held: Mode, asked: Mode, meet: impl Fn(&Scene)) {
    for stores in 0.. {
        let scene = Scene::new();
        assert!(scene.lock(0, name(1), held));
        let is_killed = scene.kill(1, stores, |scene| {
            scene.lock(1, name(1), asked);
        });
        meet(&scene);
        scene.locks.check().unwrap_or_else(|broken| panic!("before store {stores}, then met: {broken}"));
        scene.end();
        if !is_killed {
            assert!(stores > 5, "an inflation has more stores");
            return;
        }
    }
}

#[test]
fn the_owner_releases_a_lock_that_a_dead_rival_has_half_inflated() {
    with_each_death_of_the_rival(X, X, |scene| {
        scene.unlock_all(0);
        assert!(scene.lock(2, name(1), X));
    });
    with_each_death_of_the_rival(X, X, |scene| scene.unlock(0, name(1)));
}

#[test]
fn the_owner_changes_the_mode_of_a_lock_that_a_dead_rival_has_half_inflated() {
    with_each_death_of_the_rival(S, IX, |scene| {
        assert!(scene.lock(0, name(1), X));
        assert_eq!(scene.holds(0, name(1)), Some(X));
        assert!(!scene.lock(2, name(1), S));
        scene.locks.downgrade(&scene.sessions[0], scene.lockers[0], name(1), S).unwrap();
        assert!(scene.lock(2, name(1), S));
    });
}

#[test]
fn every_call_finds_the_owner_of_a_lock_that_a_dead_rival_has_half_inflated() {
    with_each_death_of_the_rival(X, S, |scene| {
        let other = &scene.sessions[2];
        assert_eq!(scene.locks.dump(other).len(), 1);
        assert!(!scene.locks.is_free(other, name(1)));
        assert_eq!(scene.holds(0, name(1)), Some(X));
        assert_eq!(scene.locks.in_the_way(other, scene.lockers[2], name(1), S), [scene.lockers[0]]);
        assert!(scene.locks.instant(other, scene.lockers[2], name(1), IX, Wait::No).is_err());
        assert!(scene.locks.instant(&scene.sessions[0], scene.lockers[0], name(1), IX, Wait::No).is_ok());
        assert!(!scene.lock(2, name(1), S));
    });
}

#[test]
fn a_second_rival_dies_at_each_store_over_a_lock_that_the_first_rival_has_half_inflated() {
    for first in 0..8 {
        for second in 0.. {
            let scene = Scene::new();
            assert!(scene.lock(0, name(1), S));
            scene.kill(1, first, |scene| assert!(scene.lock(1, name(1), S)));
            let is_killed = scene.kill(2, second, |scene| assert!(scene.lock(2, name(1), S)));
            assert_eq!(scene.holds(0, name(1)), Some(S));
            scene.end();
            if !is_killed {
                break;
            }
        }
    }
}

#[test]
fn the_reaper_of_the_owner_dies_before_each_store() {
    for rival in 0..10 {
        for reaper in 0.. {
            let scene = Scene::new();
            assert!(scene.lock(0, name(1), X));
            assert!(scene.lock(0, name(2), X));
            scene.kill(1, rival, |scene| assert!(!scene.lock(1, name(1), S)));
            scene.locks.adopt_locker(&scene.sessions[2], scene.lockers[0]);
            let is_killed = scene.kill(2, reaper, |scene| scene.locks.unlock_all(&scene.sessions[2], scene.lockers[0]));
            scene.end();
            if !is_killed {
                break;
            }
        }
    }
}

#[test]
fn a_thin_lock_is_dropped_or_kept_when_all_are_dead() {
    for stores in 0..12 {
        for keeps in [true, false] {
            let scene = Scene::new();
            assert!(scene.lock(0, name(1), X));
            assert!(scene.lock(0, name(2), S));
            scene.kill(1, stores, |scene| assert!(!scene.lock(1, name(1), S)));
            let keep = if keeps { vec![scene.lockers[0]] } else { Vec::new() };
            for _ in 0..2 {
                scene.locks.repair_alone_keeping(&keep);
                scene.locks.check().unwrap();
                let held: Vec<_> = scene.locks.dump(&scene.sessions[2]).iter().map(|info| info.granted).collect();
                assert_eq!(held.len(), if keeps { 2 } else { 0 }, "{held:?}");
            }
        }
    }
}

/// Returns three names of one word: the first two have the same tag, and the third has another tag.
fn colliding() -> [LockName; 3] {
    let mut seen = HashMap::new();
    for hash in 0..10_000_000 {
        let mixed = name(hash).mixed();
        let word_and_tag = mixed & u64::from(u32::MAX);
        if let Some(other) = seen.insert(word_and_tag, hash) {
            let has_its_word = |hash: &u64| {
                let other = name(*hash).mixed();
                word_number(other) == word_number(mixed) && (other ^ mixed) & u64::from(u32::MAX) != 0
            };
            let third = (0..10_000_000).find(has_its_word).unwrap();
            return [name(other), name(hash), name(third)];
        }
    }
    panic!("no two names have the same word and tag")
}

#[test]
fn names_of_one_word_and_tag_are_different_locks() {
    let [one, alike, third] = colliding();
    let scene = Scene::new();
    assert!(scene.lock(0, one, X));
    assert!(scene.lock(0, alike, X), "the owner takes a second lock");
    assert!(!scene.lock(1, alike, S) && !scene.lock(1, one, S));
    assert!(scene.lock(1, third, X));
    assert_eq!([one, alike, third].map(|name| scene.holds(0, name)), [Some(X), Some(X), None]);
    scene.unlock(0, one);
    assert!(scene.lock(2, one, X) && !scene.lock(2, alike, S));
    scene.locks.check().unwrap();
    (0..3).for_each(|locker| scene.unlock_all(locker));
    assert_eq!(scene.word(one), Thin::FAT, "without a queue");
    assert!(scene.lock(2, alike, S));
    assert!(scene.word(one) != Thin::FAT, "the next lock is thin again");
    assert!(scene.lock(1, third, X), "another name of the word");
    assert_eq!([scene.holds(2, alike), scene.holds(1, third)], [Some(S), Some(X)]);
    scene.end();
}

#[test]
fn a_locker_finds_its_own_lock_after_the_inflation_by_a_rival() {
    let scene = Scene::new();
    assert!(scene.lock(0, name(1), S) && scene.lock(1, name(1), S));
    assert!(scene.lock(0, name(1), S), "again");
    assert!(!scene.lock(0, name(1), X), "the rival reads");
    scene.unlock_all(1);
    assert!(scene.lock(0, name(1), X), "a locker does not wait for its own lock");
    assert_eq!(scene.holds(0, name(1)), Some(X));
    scene.locks.downgrade(&scene.sessions[0], scene.lockers[0], name(1), S).unwrap();
    scene.locks.instant(&scene.sessions[0], scene.lockers[0], name(1), IX, Wait::No).unwrap();
    assert!(scene.lock(1, name(1), S));
    scene.end();
}

/// A lock that is tried with a latch held must never make the table grow (PROTOCOLS D11).
#[test]
fn an_inflation_takes_no_slot() {
    let scene = Scene::new();
    assert!(scene.lock(0, name(1), S));
    scene.locks.reserve(&scene.sessions[1], scene.lockers[1]).unwrap();
    let before = scene.locks.check().unwrap();
    assert!(!scene.lock(1, name(1), X));
    let refused = scene.locks.check().unwrap();
    assert_eq!((refused.reserved, refused.listed, refused.fresh), (before.reserved, before.listed, before.fresh));
    assert!(scene.lock(1, name(1), S));
    let joined = scene.locks.check().unwrap();
    assert_eq!((joined.reserved + 1, joined.listed, joined.fresh), (before.reserved, before.listed, before.fresh));
    scene.end();
}

#[test]
fn some_thin_locks_of_many_are_released() {
    for stores in 0.. {
        let scene = Scene::new();
        (0..40).for_each(|hash| assert!(scene.lock(0, name(hash), X)));
        (0..40).step_by(5).for_each(|hash| assert!(!scene.lock(1, name(hash), S)));
        let is_killed = scene.kill(0, stores, |scene| {
            let is_even = |name: LockName| name.hash % 2 == 0;
            assert_eq!(scene.locks.unlock_matching(&scene.sessions[0], scene.lockers[0], is_even), 20);
        });
        if !is_killed {
            assert_eq!(scene.locks.count(scene.lockers[0]), 20);
            (0..40).for_each(|hash| assert_eq!(scene.lock(2, name(hash), X), hash % 2 == 0, "{hash}"));
        }
        scene.end();
        if !is_killed {
            assert!(u64::from(stores) > u64::from(LONG_CHAIN));
            return;
        }
    }
}

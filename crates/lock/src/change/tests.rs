//! Stops every call that changes the table before each of its stores, as a kill does.
//!
//! A survivor's repair follows: the section of the dead session is rolled back, then its latches are released. Then
//! every invariant holds, the table has the contents from before the open section, and another session can release the
//! dead session's locks.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

use libtp_process::{ProcessManager, Session};

use super::stop::{self, Stopped};
use crate::scene::{open, region};
use crate::table::{FIRST_BUCKETS, LONG_CHAIN};
use crate::{LockInfo, LockManager, LockName, LockerId, Mode, Settings, Wait};
use Mode::{IX, S, U, X};

const DATABASE: LockName = LockName { space: 1, kind: LockName::DATABASE, hash: 0 };

/// A table with four lockers; the first is used by the session that is killed.
struct Scene {
    locks: LockManager,
    processes: ProcessManager,
    lockers: [LockerId; 4],
}

fn name(hash: u64) -> LockName {
    LockName { space: 1, kind: 3, hash }
}

impl Scene {
    fn new() -> Scene {
        let (processes, locks) = open(&region(), Settings::default());
        let session = processes.join().unwrap();
        let lockers = std::array::from_fn(|_| locks.new_locker(&session).unwrap());
        drop(session);
        Scene { locks, processes, lockers }
    }

    fn lock(&self, session: &Session, locker: usize, hash: u64, mode: Mode) {
        self.locks.try_lock(session, self.lockers[locker], name(hash), mode).unwrap();
    }

    /// Makes a queue of two readers. With a single reader the lock would be thin, and in no bucket.
    fn queue(&self, session: &Session, hash: u64) {
        (0..2).for_each(|locker| self.lock(session, locker, hash, S));
        self.locks.reserve(session, self.lockers[0]).unwrap();
    }

    fn lock_whole(&self, session: &Session, locker: usize, mode: Mode) -> bool {
        self.locks.try_lock(session, self.lockers[locker], DATABASE, mode).is_ok()
    }

    /// Leaves the locker waiting, like a thread that goes to sleep and never returns.
    fn wait_for(&self, session: &Session, locker: usize, hash: u64, mode: Mode) {
        self.wait_for_name(session, locker, name(hash), mode);
    }

    fn wait_for_name(&self, session: &Session, locker: usize, name: LockName, mode: Mode) {
        let ask = self.locks.ask(session, self.lockers[locker], name, mode);
        let place = self.locks.table.next_slot(session, ask.slot).unwrap();
        let latched = self.locks.table.latch(session, ask.mixed);
        self.locks.revoke(session, latched.bucket, name, ask.mixed, &mut crate::queue::Granted::new());
        let queue = self.locks.table.queue_of(session, latched.bucket, ask.name, ask.mixed).ok().unwrap();
        self.locks.enqueue(&ask, queue, place);
        self.locks.begin_wait(&ask, place);
    }

    /// Returns the table's contents, sorted.
    fn rows(&self, session: &Session) -> Vec<LockInfo> {
        let mut rows = self.locks.dump(session);
        rows.iter_mut().for_each(|info| info.session = libtp_process::SessionId::NONE);
        rows.sort_by_key(|info| (info.name, info.locker));
        rows
    }

    /// Repairs the table as a survivor does, to free the dead session's section and latches.
    fn repair(&self, dead: &Session) {
        // A session that stops between two swaps has no guard that would mark it as dead.
        dead.undo().roll_back();
        let table = &self.locks.table;
        table.header.slab_latch.reset_alone();
        (0..table.buckets.capacity()).for_each(|number| table.bucket(number).latch.reset_alone());
    }
}

/// Kills `call` before each of its stores. With `one_section`, the repaired table must have the contents from before
/// the call.
fn kill_everywhere(one_section: bool, before: fn(&Scene, &Session), call: fn(&Scene, &Session)) {
    let mut stores = 0;
    loop {
        let scene = Scene::new();
        let (victim, survivor) = (scene.processes.join().unwrap(), scene.processes.join().unwrap());
        before(&scene, &survivor);
        let message = scene.rows(&survivor);
        scene.locks.check().unwrap();
        stop::before(Some(stores));
        let outcome = catch_unwind(AssertUnwindSafe(|| call(&scene, &victim)));
        stop::before(None);
        let Err(why) = outcome else {
            scene.locks.check().unwrap();
            assert!(stores > 0, "nothing was stopped");
            return;
        };
        assert!(why.downcast_ref::<Stopped>().is_some(), "the call stopped for another reason");
        // A session that is stopped between two sections holds no latch, so nothing has marked it as dead yet.
        victim.mark_dead();
        scene.repair(&victim);
        scene.locks.check().unwrap_or_else(|broken| panic!("stopped before store {stores}: {broken}"));
        if one_section {
            assert!(
                scene.rows(&survivor) == message,
                "stopped before store {stores}, and the table has other contents than before the section"
            );
        }
        for locker in scene.lockers {
            // The repair of a dead session begins with this store.
            scene.locks.table.locker(locker.0).waiting.publish(crate::locker::Waiting::NONE);
            scene.locks.free_locker(&survivor, locker);
            scene
                .locks
                .check()
                .unwrap_or_else(|broken| panic!("repaired after a stop before store {stores}: {broken}"));
        }
        assert_eq!(scene.rows(&survivor), []);
        stores += 1;
    }
}

#[test]
fn stopped_while_taking_a_new_lock() {
    kill_everywhere(true, |_, _| {}, |scene, victim| scene.lock(victim, 0, 1, X));
    // The locker has a free slot, and the object's chain has other objects.
    let before = |scene: &Scene, survivor: &Session| {
        (0..31).for_each(|hash| scene.lock(survivor, 0, hash, X));
        (100..600).for_each(|hash| scene.queue(survivor, hash));
    };
    // The call may have two sections, because it may also split a bucket.
    kill_everywhere(false, before, |scene, victim| scene.lock(victim, 0, 50, X));
}

#[test]
fn stopped_while_taking_slots_that_other_lockers_returned() {
    let before = |scene: &Scene, survivor: &Session| {
        (0..250).for_each(|hash| scene.lock(survivor, 1, hash, X));
        scene.locks.unlock_all(survivor, scene.lockers[1]);
        (0..32).for_each(|hash| scene.lock(survivor, 0, hash, X));
    };
    kill_everywhere(true, before, |scene, victim| scene.lock(victim, 0, 50, X));
}

#[test]
fn stopped_while_overtaking_a_sleeping_waiter() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 3, 1, X);
        scene.wait_for(survivor, 1, 1, X);
        scene.wait_for(survivor, 2, 1, S);
        scene.locks.unlock_all(survivor, scene.lockers[3]);
    };
    kill_everywhere(true, before, |scene, victim| scene.lock(victim, 0, 1, X));
}

#[test]
fn stopped_while_joining_other_holders() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 0, 9, X);
        (1..4).for_each(|locker| scene.lock(survivor, locker, 1, Mode::IS));
    };
    kill_everywhere(true, before, |scene, victim| scene.lock(victim, 0, 1, IX));
}

#[test]
fn stopped_while_waiting_and_giving_up() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 1, 1, S);
        scene.lock(survivor, 2, 1, S);
        scene.wait_for(survivor, 3, 1, IX);
    };
    kill_everywhere(false, before, |scene, victim| {
        let outcome = scene.locks.lock(victim, scene.lockers[0], name(1), X, Wait::For(Duration::ZERO));
        assert!(outcome.is_err());
    });
}

#[test]
fn stopped_while_giving_up_a_wait_that_blocked_other_waiters() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 1, 1, S);
        scene.wait_for(survivor, 0, 1, X);
        scene.wait_for(survivor, 2, 1, S);
        scene.wait_for(survivor, 3, 1, S);
    };
    let give_up = |scene: &Scene, victim: &Session| scene.locks.unlock_all(victim, scene.lockers[0]);
    kill_everywhere(true, before, give_up);
}

#[test]
fn stopped_while_converting() {
    let before = |scene: &Scene, survivor: &Session| scene.lock(survivor, 0, 1, S);
    kill_everywhere(true, before, |scene, victim| scene.lock(victim, 0, 1, X));
    // The conversion is not granted, because another locker reads.
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 0, 1, U);
        scene.lock(survivor, 1, 1, S);
        scene.wait_for(survivor, 2, 1, X);
    };
    kill_everywhere(false, before, |scene, victim| {
        let outcome = scene.locks.lock(victim, scene.lockers[0], name(1), X, Wait::For(Duration::ZERO));
        assert!(outcome.is_err());
    });
}

#[test]
fn stopped_while_downgrading_for_waiters() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 0, 1, X);
        (1..4).for_each(|locker| scene.wait_for(survivor, locker, 1, S));
    };
    kill_everywhere(true, before, |scene, victim| {
        scene.locks.downgrade(victim, scene.lockers[0], name(1), S).unwrap();
    });
}

#[test]
fn stopped_while_releasing_one_lock() {
    // The released request is in the middle of the stack, at the head of a queue with holders and a waiter, inside a
    // queue, or on top of the stack.
    for hash in [2, 3, 4, 5] {
        let before = |scene: &Scene, survivor: &Session| {
            scene.lock(survivor, 1, 4, S);
            (1..6).for_each(|hash| scene.lock(survivor, 0, hash, S));
            scene.lock(survivor, 2, 3, S);
            scene.wait_for(survivor, 3, 3, X);
        };
        let call: fn(&Scene, &Session) = match hash {
            2 => |scene, victim| scene.locks.unlock(victim, scene.lockers[0], name(2)).unwrap(),
            3 => |scene, victim| scene.locks.unlock(victim, scene.lockers[0], name(3)).unwrap(),
            4 => |scene, victim| scene.locks.unlock(victim, scene.lockers[0], name(4)).unwrap(),
            _ => |scene, victim| scene.locks.unlock(victim, scene.lockers[0], name(5)).unwrap(),
        };
        // A thin lock is released before its request leaves the stack.
        kill_everywhere(matches!(hash, 3 | 4), before, call);
    }
}

#[test]
fn stopped_while_releasing_all_locks_and_granting_them() {
    let before = |scene: &Scene, survivor: &Session| {
        (1..5).for_each(|hash| scene.lock(survivor, 0, hash, X));
        scene.lock(survivor, 0, 5, S);
        scene.lock(survivor, 1, 5, S);
        scene.wait_for(survivor, 2, 2, S);
        scene.wait_for(survivor, 3, 2, S);
        scene.wait_for(survivor, 1, 4, X);
    };
    kill_everywhere(false, before, |scene, victim| scene.locks.unlock_all(victim, scene.lockers[0]));
}

#[test]
fn stopped_while_returning_slots() {
    let before = |scene: &Scene, survivor: &Session| {
        (0..100).for_each(|hash| scene.lock(survivor, 0, hash, X));
        // Nothing is held, and the slots still belong to the locker.
        (0..100).for_each(|hash| scene.locks.unlock(survivor, scene.lockers[0], name(hash)).unwrap());
    };
    kill_everywhere(true, before, |scene, victim| scene.locks.unlock_all(victim, scene.lockers[0]));
}

#[test]
fn stopped_while_splitting_a_bucket() {
    let before = |scene: &Scene, survivor: &Session| {
        (0..1000).for_each(|hash| scene.queue(survivor, hash));
        assert!(scene.locks.stats().buckets > FIRST_BUCKETS, "chains of {LONG_CHAIN} should have been met");
    };
    kill_everywhere(true, before, |scene, victim| {
        let buckets = scene.locks.stats().buckets;
        // The killed session still has the role; in this test no other session asks for it.
        scene.locks.table.header.splitter.publish(libtp_process::SessionId::NONE);
        scene.locks.table.split_one(victim);
        assert_eq!(scene.locks.stats().buckets, buckets + 1);
    });
}

#[test]
fn the_next_split_announces_a_bucket_that_was_not_announced() {
    let scene = Scene::new();
    let session = scene.processes.join().unwrap();
    (0..500).for_each(|hash| scene.queue(&session, hash));
    let buckets = scene.locks.stats().buckets;
    // As if the last session to split had been killed between its section and the announcement.
    scene.locks.table.header.bucket_count.publish(buckets - 1);
    (0..500).for_each(|hash| {
        assert_eq!(scene.locks.holds(&session, scene.lockers[0], name(hash)), Some(S));
    });
    scene.locks.table.split_one(&session);
    assert_eq!(scene.locks.stats().buckets, buckets);
    // A bucket that was announced and then rolled back, which cannot happen, would also be found.
    scene.locks.table.header.bucket_count.publish(buckets + 1);
    (0..500).for_each(|hash| {
        assert_eq!(scene.locks.holds(&session, scene.lockers[0], name(hash)), Some(S));
    });
}

#[test]
fn a_name_is_found_however_old_the_number_of_buckets_is() {
    let scene = Scene::new();
    let session = scene.processes.join().unwrap();
    let count = &scene.locks.table.header.bucket_count;
    for step in 0..60 {
        (step * 100..step * 100 + 100).for_each(|hash| scene.queue(&session, hash));
        let now = count.get();
        for old in [FIRST_BUCKETS, now / 2 + 1, now * 2 / 3].map(|old| old.max(FIRST_BUCKETS)) {
            count.publish(old);
            (0..step * 100 + 100).step_by(7).for_each(|hash| {
                assert_eq!(scene.locks.holds(&session, scene.lockers[0], name(hash)), Some(S));
            });
        }
        count.publish(now);
    }
    assert!(count.get() > 4 * FIRST_BUCKETS);
}

#[test]
fn stopped_while_making_and_ending_a_locker() {
    kill_everywhere(
        true,
        |_, _| {},
        |scene, victim| {
            scene.locks.new_locker(victim).unwrap();
        },
    );
    let before = |scene: &Scene, survivor: &Session| {
        let freed = scene.locks.new_locker(survivor).unwrap();
        scene.locks.free_locker(survivor, freed);
    };
    kill_everywhere(true, before, |scene, victim| {
        scene.locks.new_locker(victim).unwrap();
    });
    kill_everywhere(
        false,
        |_, _| {},
        |scene, victim| {
            let locker = scene.locks.new_locker(victim).unwrap();
            scene.locks.free_locker(victim, locker);
        },
    );
}

#[test]
fn stopped_while_keeping_an_intent_lock() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 0, 1, X);
        assert!(scene.lock_whole(survivor, 1, IX));
    };
    kill_everywhere(false, before, |scene, victim| assert!(scene.lock_whole(victim, 0, IX)));
}

#[test]
fn stopped_while_using_a_kept_intent_lock_that_other_lockers_want() {
    let before = |scene: &Scene, survivor: &Session| {
        assert!(scene.lock_whole(survivor, 0, IX));
        scene.locks.unlock_all(survivor, scene.lockers[0]);
    };
    kill_everywhere(false, before, |scene, victim| {
        let kept = scene.locks.lock_kept(victim, scene.lockers[0], DATABASE, IX).unwrap();
        scene.locks.unlock_all(victim, scene.lockers[0]);
        assert!(scene.locks.lock_again(scene.lockers[0], kept.index, kept.epoch.unwrap()));
        scene.locks.unlock_all(victim, scene.lockers[0]);
    });
}

#[test]
fn stopped_while_revoking_the_intent_locks_of_other_lockers() {
    let before = |scene: &Scene, survivor: &Session| {
        for locker in 1..4 {
            assert!(scene.lock_whole(survivor, locker, if locker == 2 { Mode::IS } else { IX }));
        }
        scene.locks.unlock_all(survivor, scene.lockers[3]);
        scene.locks.unlock_all(survivor, scene.lockers[1]);
    };
    kill_everywhere(true, before, |scene, victim| assert!(!scene.lock_whole(victim, 0, X)));
    kill_everywhere(false, before, |scene, victim| assert!(scene.lock_whole(victim, 0, S)));
}

#[test]
fn stopped_while_finding_a_revoked_intent_lock() {
    let before = |scene: &Scene, survivor: &Session| {
        assert!(scene.lock_whole(survivor, 0, IX));
        scene.locks.unlock_all(survivor, scene.lockers[0]);
        assert!(scene.lock_whole(survivor, 1, X));
        scene.locks.unlock_all(survivor, scene.lockers[1]);
    };
    kill_everywhere(false, before, |scene, victim| assert!(scene.lock_whole(victim, 0, IX)));
}

#[test]
fn stopped_while_trading_a_kept_intent_lock() {
    let before = |scene: &Scene, survivor: &Session| {
        scene.lock(survivor, 0, 1, X);
        assert!(scene.lock_whole(survivor, 0, IX));
        assert!(scene.lock_whole(survivor, 1, IX));
        scene.locks.unlock_all(survivor, scene.lockers[1]);
    };
    kill_everywhere(false, before, |scene, victim| assert!(scene.lock_whole(victim, 0, X)));
}

#[test]
fn stopped_while_releasing_a_kept_intent_lock_that_other_lockers_wait_for() {
    let before = |scene: &Scene, survivor: &Session| {
        assert!(scene.lock_whole(survivor, 0, IX));
        scene.wait_for_name(survivor, 1, DATABASE, S);
        scene.wait_for_name(survivor, 2, DATABASE, S);
    };
    kill_everywhere(false, before, |scene, victim| scene.locks.unlock_all(victim, scene.lockers[0]));
}

#[test]
fn stopped_while_a_locker_that_keeps_locks_ends() {
    let before = |scene: &Scene, survivor: &Session| {
        for space in 0..4 {
            let name = LockName { space, ..DATABASE };
            scene.locks.try_lock(survivor, scene.lockers[0], name, IX).unwrap();
        }
    };
    kill_everywhere(false, before, |scene, victim| scene.locks.unkeep_all(victim, scene.lockers[0]));
}

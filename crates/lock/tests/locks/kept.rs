//! Intent locks on databases outlive their transactions, without any visible effect.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::scope;
use std::time::Duration;

use libtp_lock::{Error, KeptLock, LockName, Mode, Settings, Wait};

use crate::{record, Scene};
use Mode::{IS, IX, S, SIX, U, X};

fn database(space: u32) -> LockName {
    LockName { space, kind: LockName::DATABASE, hash: 0 }
}

#[test]
fn an_intent_lock_of_an_ended_transaction_blocks_no_other_lock() {
    let scene = Scene::new(Settings::default());
    let (worker, whole) = (scene.actor(0), scene.actor(1));
    for mode in [S, SIX, U, X] {
        for intent in [IS, IX] {
            worker.lock(database(1), intent);
            worker.unlock_all();
            assert_eq!(worker.holds(database(1)), None);
            assert!(whole.locks.is_free(&whole.session, database(1)));
            assert!(whole.locks.dump(&whole.session).is_empty());
            assert!(whole.try_lock(database(1), mode), "{mode} is granted despite an idle {intent}");
            assert_eq!(worker.try_lock(database(1), intent), intent.is_compatible_with(mode), "{intent} beside {mode}");
            worker.unlock_all();
            whole.unlock_all();
        }
    }
    drop((worker, whole));
    scene.assert_empty();
}

#[test]
fn an_intent_lock_taken_again_is_in_force_again() {
    let scene = Scene::new(Settings::default());
    let (worker, whole) = (scene.actor(0), scene.actor(1));
    for _ in 0..3 {
        worker.lock(database(1), IX);
        worker.lock(database(1), IS);
        assert_eq!((worker.holds(database(1)), worker.locks.count(worker.locker)), (Some(IX), 1));
        assert!(!whole.locks.is_free(&whole.session, database(1)));
        assert_eq!(whole.locks.dump(&whole.session).len(), 1);
        assert!(!whole.try_lock(database(1), X));
        assert!(!whole.try_lock(database(1), S));
        assert!(whole.try_lock(database(1), IX), "intents do not exclude each other");
        worker.unlock_all();
        whole.unlock_all();
    }
    worker.lock(database(1), IS);
    worker.unlock_all();
    worker.lock(database(1), IX);
    assert!(!whole.try_lock(database(1), S), "the worker holds IX, although it kept IS");
    drop((worker, whole));
    scene.assert_empty();
}

#[test]
fn a_kept_lock_can_be_converted_and_released_like_any_other() {
    let scene = Scene::new(Settings::default());
    let actor = scene.actor(0);
    let (locks, session, locker) = (actor.locks, &actor.session, actor.locker);
    for (asked, held) in [(S, SIX), (X, X), (U, SIX), (SIX, SIX)] {
        actor.lock(database(1), IX);
        locks.upgrade(session, locker, database(1), asked, Wait::No).unwrap();
        assert_eq!((actor.holds(database(1)), locks.count(locker)), (Some(held), 1));
        actor.unlock_all();
    }
    actor.lock(database(1), IX);
    locks.downgrade(session, locker, database(1), IS).unwrap();
    assert_eq!(actor.holds(database(1)), Some(IS));
    actor.unlock_all();
    actor.lock(database(1), IX);
    locks.unlock(session, locker, database(1)).unwrap();
    assert_eq!((actor.holds(database(1)), locks.count(locker)), (None, 0));
    assert!(matches!(locks.unlock(session, locker, database(1)), Err(Error::NotHeld { .. })));
    assert!(matches!(locks.upgrade(session, locker, database(1), X, Wait::No), Err(Error::NotHeld { .. })));
    locks.check().unwrap();
    drop(actor);
    scene.assert_empty();
}

#[test]
fn a_lock_on_a_whole_database_waits_for_the_lockers_in_the_database() {
    let scene = Scene::new(Settings::default());
    let (first, second) = (scene.actor(0), scene.actor(1));
    for _ in 0..20 {
        first.lock(database(1), IX);
        second.lock(database(1), IS);
        scope(|scope| {
            scope.spawn(|| {
                let whole = scene.actor(0);
                whole.lock(database(1), X);
                assert_eq!(whole.holds(database(1)), Some(X));
            });
            scene.await_waiters(1);
            let edges = first.locks.waits_for(&first.session);
            assert_eq!(edges.len(), 2, "{edges:?}");
            first.unlock_all();
            assert!(!first.try_lock(database(1), IX), "a waiter is not overtaken");
            assert_eq!(first.locks.waits_for(&first.session).len(), 1);
            second.unlock_all();
        });
    }
    drop((first, second));
    scene.assert_empty();
}

#[test]
fn a_locker_can_lock_more_databases_than_it_can_keep() {
    let scene = Scene::new(Settings::default());
    let (worker, whole) = (scene.actor(0), scene.actor(1));
    for _ in 0..3 {
        (0..40).for_each(|space| worker.lock(database(space), IX));
        (0..40).for_each(|space| assert!(!whole.try_lock(database(space), S)));
        assert_eq!(worker.locks.count(worker.locker), 40);
        assert_eq!(worker.locks.check().unwrap().kept, 8);
        worker.unlock_all();
        (0..40).for_each(|space| assert!(whole.try_lock(database(space), X)));
        whole.unlock_all();
    }
    drop((worker, whole));
    scene.assert_empty();
}

#[test]
fn a_deadlock_through_a_kept_lock_is_found() {
    let scene = Scene::new(Settings::default());
    let whole = scene.actor(0);
    // The first rounds find an idle kept lock, the last rounds an active kept lock.
    for round in 0..5 {
        whole.locks.set_birth(whole.locker, 1000);
        whole.lock(record(1), X);
        scope(|scope| {
            scope.spawn(|| {
                let worker = scene.actor(1);
                for _ in 0..round {
                    worker.lock(database(1), IX);
                    worker.unlock_all();
                }
                worker.lock(database(1), IX);
                worker.lock(record(1), X);
            });
            scene.await_waiters(1);
            let outcome =
                whole.locks.lock(&whole.session, whole.locker, database(1), X, Wait::For(Duration::from_secs(8)));
            assert!(matches!(outcome, Err(Error::Deadlock { .. })), "{outcome:?}");
            whole.unlock_all();
        });
    }
    drop(whole);
    scene.assert_empty();
}

#[test]
fn an_intent_lock_and_a_lock_on_the_whole_database_are_never_in_force_together() {
    let scene = Scene::new(Settings::default());
    let (inside, whole, taken) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    scope(|scope| {
        scope.spawn(|| {
            let actor = scene.actor(1);
            while taken.load(Ordering::Relaxed) < 20_000 {
                actor.lock(database(1), X);
                whole.store(1, Ordering::SeqCst);
                assert_eq!(
                    inside.load(Ordering::SeqCst),
                    0,
                    "a locker works in a database that another locker has locked whole"
                );
                whole.store(0, Ordering::SeqCst);
                actor.unlock_all();
                taken.fetch_add(1, Ordering::Relaxed);
                // Gives the worker time to keep its lock again.
                (0..taken.load(Ordering::Relaxed) % 512).for_each(|_| std::hint::spin_loop());
            }
        });
        let actor = scene.actor(0);
        while taken.load(Ordering::Relaxed) < 20_000 && !std::thread::panicking() {
            actor.lock(database(1), IX);
            inside.store(1, Ordering::SeqCst);
            assert_eq!(whole.load(Ordering::SeqCst), 0, "a database is locked whole while another locker works in it");
            inside.store(0, Ordering::SeqCst);
            actor.unlock_all();
        }
    });
    scene.assert_empty();
}

#[test]
fn an_intent_lock_is_taken_again_by_its_bit_until_another_locker_wants_the_database() {
    let scene = Scene::new(Settings::default());
    let (worker, whole) = (scene.actor(0), scene.actor(1));
    let kept = |mode| worker.locks.lock_kept(&worker.session, worker.locker, database(1), mode);
    let again = |kept: KeptLock| worker.locks.lock_again(worker.locker, kept.index, kept.epoch.unwrap());
    assert_eq!(kept(IX), None, "nothing is kept yet");
    worker.lock(database(1), IX);
    worker.unlock_all();
    let learnt = kept(IS).unwrap();
    assert_eq!(learnt.mode, IX);
    worker.unlock_all();
    for _ in 0..3 {
        assert!(again(learnt));
        assert_eq!((worker.holds(database(1)), worker.locks.count(worker.locker)), (Some(IX), 1));
        worker.unlock_all();
        assert_eq!((worker.holds(database(1)), worker.locks.count(worker.locker)), (None, 0));
    }
    assert!(again(learnt));
    assert!(!whole.try_lock(database(1), X), "the worker has it");
    assert_eq!(kept(IX).unwrap().epoch, None, "a contended lock must not be taken without the latch");
    worker.unlock_all();
    assert!(!again(learnt), "the epoch is over");
    assert_eq!(worker.holds(database(1)), None);
    worker.lock(database(1), IX);
    worker.unlock_all();
    let learnt = kept(IX).unwrap();
    worker.unlock_all();
    assert!(whole.try_lock(database(1), X), "the kept lock is idle");
    assert!(!again(learnt) && kept(IX).is_none() && !worker.try_lock(database(1), IX));
    whole.unlock_all();
    worker.lock(database(1), IX);
    worker.unlock_all();
    let learnt = kept(IX).unwrap();
    // When the locker itself makes the lock weaker, the epoch that it has learnt is over.
    worker.locks.downgrade(&worker.session, worker.locker, database(1), IS).unwrap();
    worker.unlock_all();
    assert!(!again(learnt));
    drop((worker, whole));
    scene.assert_empty();
}

#[test]
fn an_intent_lock_taken_by_a_bit_excludes_a_lock_on_the_whole_database() {
    let scene = Scene::new(Settings::default());
    let (inside, is_over) = (AtomicU32::new(0), AtomicU32::new(0));
    scope(|scope| {
        for number in 0..2 {
            let (scene, inside, is_over) = (&scene, &inside, &is_over);
            scope.spawn(move || {
                let worker = scene.actor(number);
                let mut learnt = None;
                while is_over.load(Ordering::Relaxed) == 0 {
                    let is_taken = learnt.take().is_some_and(|kept: KeptLock| {
                        let is_taken =
                            kept.epoch.is_some_and(|epoch| worker.locks.lock_again(worker.locker, kept.index, epoch));
                        learnt = is_taken.then_some(kept);
                        is_taken
                    });
                    if !is_taken {
                        learnt = worker.locks.lock_kept(&worker.session, worker.locker, database(1), IX);
                        if learnt.is_none() {
                            worker.lock(database(1), IX);
                        }
                    }
                    let others = inside.fetch_add(1, Ordering::SeqCst);
                    assert!(others < 1000, "a worker is inside together with the locker of the whole database");
                    inside.fetch_sub(1, Ordering::SeqCst);
                    worker.unlock_all();
                }
            });
        }
        let whole = scene.actor(0);
        for _ in 0..2000 {
            whole.lock(database(1), X);
            assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), 0, "a worker is inside");
            std::thread::yield_now();
            assert_eq!(inside.fetch_sub(1000, Ordering::SeqCst), 1000, "a worker came in");
            whole.unlock_all();
        }
        is_over.store(1, Ordering::Relaxed);
    });
    scene.assert_empty();
}

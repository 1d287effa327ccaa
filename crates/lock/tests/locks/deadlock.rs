//! Circles of waiting lockers: each circle is found, and exactly one of its members is the victim.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Barrier;
use std::thread::scope;
use std::time::{Duration, Instant};

use libtp_lock::{Detect, Error, Mode, Settings, Victim, Wait};

use crate::{record, until, Scene};
use Mode::{S, X};

/// The longest wait: if a deadlock is not found, the test ends with an error.
const PATIENCE: Wait = Wait::For(Duration::from_secs(8));

/// Makes a circle of `count` lockers: each holds one record and wants the next locker's record. Returns which lockers
/// were granted their second record. The transaction of locker `n` has the birth `births(n)`, holds `extra(n)` further
/// locks and has logged `extra(n)` bytes.
fn ring(scene: &Scene, count: usize, births: fn(usize) -> u64, extra: fn(usize) -> u64) -> Vec<bool> {
    let all_hold = Barrier::new(count);
    let one = &|place: usize| {
        let actor = scene.actor(place);
        actor.locks.set_birth(actor.locker, births(place));
        actor.locks.set_log_bytes(actor.locker, extra(place));
        actor.lock(record(place as u64), X);
        (0..extra(place)).for_each(|n| actor.lock(record(1000 * (place as u64 + 1) + n), X));
        all_hold.wait();
        let next = record((place as u64 + 1) % count as u64);
        match actor.locks.lock(&actor.session, actor.locker, next, X, PATIENCE) {
            Ok(()) => true,
            Err(Error::Deadlock { name, .. }) if name == next => false,
            Err(other) => panic!("{other}"),
        }
    };
    scope(|scope| {
        let all: Vec<_> = (0..count).map(|place| scope.spawn(move || one(place))).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn in_a_circle_of_any_size_the_youngest_locker_is_the_victim() {
    for count in [2, 3, 4, 9, 16] {
        let scene = Scene::new(Settings::default());
        let start = Instant::now();
        let got = ring(&scene, count, |place| if place == 1 { 100 } else { place as u64 }, |_| 0);
        let expected: Vec<bool> = (0..count).map(|place| place != 1).collect();
        assert_eq!(got, expected, "of {count}");
        assert!(start.elapsed() < Duration::from_secs(5), "a deadlock lasts milliseconds: {:?}", start.elapsed());
        assert_eq!(scene.locks().stats().deadlocks, 1);
        scene.assert_empty();
    }
}

#[test]
fn the_setting_determines_which_locker_is_the_victim() {
    for victim in [Victim::FewestLocks, Victim::FewestLogBytes] {
        let mut settings = Settings::default();
        settings.victim = victim;
        let scene = Scene::new(settings);
        let got = ring(&scene, 3, |place| 10 - place as u64, |place| if place == 2 { 1 } else { 5 });
        assert_eq!(got, [true, true, false], "{victim:?}");
        scene.assert_empty();
    }
}

#[test]
fn two_readers_that_want_to_write_are_a_deadlock() {
    let scene = Scene::new(Settings::default());
    let both_read = Barrier::new(2);
    let one = &|place: usize| {
        let actor = scene.actor(place);
        actor.locks.set_birth(actor.locker, place as u64);
        actor.lock(record(1), S);
        both_read.wait();
        let outcome = actor.locks.lock(&actor.session, actor.locker, record(1), X, PATIENCE);
        if outcome.is_err() {
            assert_eq!(actor.holds(record(1)), Some(S), "the victim holds its locks until it aborts");
        }
        outcome.is_ok()
    };
    let got = scope(|scope| {
        let second = scope.spawn(move || one(1));
        (one(0), second.join().unwrap())
    });
    assert_eq!(got, (true, false));
    scene.assert_empty();
}

#[test]
fn a_circle_through_a_locker_that_only_waits_in_the_queue_is_found() {
    // Locker 0 holds A shared. Locker 1 waits for A exclusively, because locker 0 holds A. Locker 2 holds C and waits
    // for A shared: its mode is compatible with locker 0, but its request is queued after the request of locker 1. Then
    // locker 0 wants C, and the circle is 0 -> 2 -> 1 -> 0.
    let scene = Scene::new(Settings::default());
    let (a, c) = (record(1), record(3));
    let zero = scene.actor(0);
    zero.lock(a, S);
    let deadlocks = AtomicUsize::new(0);
    let want = &|actor: &crate::Actor<'_>, name, mode| {
        if actor.locks.lock(&actor.session, actor.locker, name, mode, PATIENCE).is_err() {
            deadlocks.fetch_add(1, Ordering::Relaxed);
        }
    };
    scope(|scope| {
        let scene = &scene;
        scope.spawn(move || want(&scene.actor(1), a, X));
        scene.await_waiters(1);
        scope.spawn(move || {
            let two = scene.actor(0);
            two.lock(c, X);
            want(&two, a, S);
        });
        scene.await_waiters(2);
        want(&zero, c, X);
        zero.unlock_all();
    });
    assert_eq!(deadlocks.load(Ordering::Relaxed), 1);
    drop(zero);
    scene.assert_empty();
}

#[test]
fn a_long_line_of_waiting_lockers_is_no_deadlock() {
    let scene = Scene::new(Settings::default());
    let first = scene.actor(0);
    first.lock(record(0), X);
    scope(|scope| {
        for place in 1..12_u64 {
            let scene = &scene;
            scope.spawn(move || {
                let actor = scene.actor(0);
                actor.lock(record(place), X);
                actor.lock(record(place - 1), X);
            });
            scene.await_waiters(usize::try_from(place).unwrap());
        }
        // Every waiter has searched several times meanwhile.
        std::thread::sleep(Duration::from_millis(30));
        let edges = first.locks.waits_for(&first.session);
        assert_eq!(edges.len(), 11);
        assert!(edges.iter().any(|edge| edge.holder == first.locker && edge.name == record(0) && edge.wanted == X));
        // A waiter is counted a moment before it notes when its wait began.
        until(|| first.locks.waits().iter().all(|wait| wait.since.is_some()));
        let waits = first.locks.waits();
        assert_eq!(waits.len(), 11);
        for wait in &waits {
            let edge = edges.iter().find(|edge| edge.waiter == wait.locker).unwrap();
            assert_eq!((wait.name, wait.wanted, wait.session), (edge.name, edge.wanted, edge.session));
            assert!(wait.since.unwrap() <= std::time::SystemTime::now(), "{wait:?}");
        }
        first.unlock_all();
        until(|| first.locks.waits().is_empty());
    });
    assert_eq!(scene.locks().stats().deadlocks, 0);
    drop(first);
    scene.assert_empty();
}

#[test]
fn with_the_papers_detector_the_whole_table_is_searched_periodically() {
    let mut settings = Settings::default();
    settings.detect = Detect::Every(Duration::from_millis(40));
    let scene = Scene::new(settings);
    let got = ring(&scene, 3, |place| place as u64, |_| 0);
    assert_eq!(got, [true, true, false]);
    scene.assert_empty();
}

#[test]
fn an_explicit_search_finds_every_circle() {
    let mut settings = Settings::default();
    settings.detect = Detect::Every(Duration::from_secs(3600));
    let scene = Scene::new(settings);
    let watcher = scene.actor(0);
    // The first wait starts the clock of the periodic search.
    assert_eq!(watcher.locks.detect(&watcher.session).unwrap(), 0);
    scope(|scope| {
        for circle in 0..3_u64 {
            for half in 0..2_u64 {
                let scene = &scene;
                scope.spawn(move || {
                    let actor = scene.actor(usize::try_from(half).unwrap());
                    actor.lock(record(circle * 2 + half), X);
                    while scene.locks().stats().lockers < 7 {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(20));
                    let other = record(circle * 2 + 1 - half);
                    let outcome = actor.locks.lock(&actor.session, actor.locker, other, X, PATIENCE);
                    assert!(outcome.is_ok() || matches!(outcome, Err(Error::Deadlock { .. })));
                });
            }
        }
        scene.await_waiters(6);
        let found = watcher.locks.find_deadlocks(&watcher.session).unwrap();
        assert_eq!(found.len(), 3);
        for deadlock in &found {
            let [one, two] = deadlock.members[..] else { panic!("{deadlock:?}") };
            assert_eq!((one.waiter, one.holder), (two.holder, two.waiter), "{deadlock:?}");
            assert_eq!((one.name.hash ^ two.name.hash, one.wanted), (1, X), "each wants what the other holds");
            assert!(deadlock.victim == one.waiter || deadlock.victim == two.waiter, "{deadlock:?}");
            assert!(!deadlock.was_known, "{deadlock:?}");
        }
    });
    drop(watcher);
    scene.assert_empty();
}

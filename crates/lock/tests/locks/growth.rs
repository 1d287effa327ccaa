//! A table that grows by itself, and a table that cannot grow any more.

use std::sync::Barrier;
use std::thread::scope;

use libtp_lock::{Error, Mode, Settings};
use libtp_process::{Latch, Rank};

use crate::{record, Scene};
use Mode::{S, X};

#[test]
fn one_locker_holds_a_million_locks_without_a_setting() {
    let scene = Scene::new(Settings::default());
    let actor = scene.actor(0);
    for round in 0..2 {
        (0..1_000_000).for_each(|hash| actor.lock(record(hash), X));
        assert_eq!(actor.locks.count(actor.locker), 1_000_000);
        assert!(!scene.actor(1).try_lock(record(777_777), X));
        if round == 0 {
            let census = actor.locks.check().unwrap();
            assert_eq!((census.objects, census.granted), (1_000_000, 1_000_000));
        }
        actor.unlock_all();
    }
    let stats = actor.locks.stats();
    assert!(stats.bytes < 160 << 20, "80 to 160 bytes a lock: {stats:?}");
    assert!(stats.buckets > 20_000, "chains would be long: {stats:?}");
    assert!(stats.buckets <= 1 << 16, "all names of one word must be in one bucket: {stats:?}");
    let census = actor.locks.check().unwrap();
    assert!(census.reserved < 200, "most of the million slots are returned: {census:?}");
    drop(actor);
    scene.assert_empty();
}

/// A scan tries a group of locks while it has a page latched. After each group, with no latch held, buckets are split,
/// even buckets that have become too large for the usual undo log.
#[test]
fn locks_taken_with_a_latch_held_make_the_table_grow_too() {
    let scene = Scene::new(Settings::default());
    let actor = scene.actor(0);
    let latch = actor.session.region().allocate::<Latch>(1).unwrap();
    for group in 0..200 {
        {
            let _page = actor.session.region().at(latch).shared(&actor.session, Rank::page(0));
            // The first group is very large.
            let each = if group == 0 { 50_000 } else { 500 };
            (0..each).for_each(|hash| assert!(actor.try_lock(record(group * 1_000_000 + hash), X)));
        }
        actor.locks.reserve(&actor.session, actor.locker).unwrap();
    }
    let stats = actor.locks.stats();
    assert!(stats.buckets > 4000, "chains are long: {stats:?}");
    assert_eq!(actor.locks.check().unwrap().granted, 149_500);
    actor.unlock_all();
    drop(actor);
    scene.assert_empty();
}

#[test]
fn buckets_are_split_while_other_sessions_use_them() {
    let (scene, all_hold) = (Scene::new(Settings::default()), Barrier::new(4));
    scope(|scope| {
        for place in 0..4 {
            let (scene, all_hold) = (&scene, &all_hold);
            scope.spawn(move || {
                let actor = scene.actor(place);
                for _ in 0..5 {
                    // All threads lock the same names: a lock of a single locker would be thin, and in no bucket.
                    (0..4000).for_each(|hash| actor.lock(record(hash), S));
                    (0..4000).for_each(|hash| assert_eq!(actor.holds(record(hash)), Some(S)));
                    all_hold.wait();
                    actor.unlock_all();
                }
            });
        }
    });
    assert!(scene.locks().stats().buckets > 300);
    scene.assert_empty();
}

#[test]
fn a_table_that_cannot_grow_returns_full_and_has_changed_nothing() {
    let scene = Scene::with_reserve(Settings::default(), 1 << 20);
    let actor = scene.actor(0);
    let mut held = 0;
    let error = loop {
        match actor.locks.try_lock(&actor.session, actor.locker, record(held), X) {
            Ok(()) => held += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert!(held > 1000, "a megabyte has room for more than {held} locks");
    assert_eq!(actor.locks.check().unwrap().granted, held);
    assert!(!scene.actor(1).try_lock(record(0), X), "the first locker still holds its locks");
    actor.unlock_all();
    (0..held).for_each(|hash| actor.lock(record(hash), X));
    drop(actor);
    scene.assert_empty();
}

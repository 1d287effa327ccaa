//! One object's queue: which requests are granted, and when.

use std::thread::scope;
use std::time::{Duration, Instant};

use libtp_lock::{Error, LockName, Mode, Settings, Wait};
use libtp_process::{Latch, Rank, Repairer, Session, SessionId};

use crate::{record, until, Scene, Story};
use Mode::{IS, IX, S, SIX, U, X};

const MODES: [Mode; 6] = [IS, IX, S, SIX, U, X];

#[test]
fn two_lockers_share_an_object_exactly_when_their_modes_are_compatible() {
    let scene = Scene::new(Settings::default());
    // Written by hand. The rows are the held modes, and the columns are the modes asked for, in the order of MODES.
    let table = ["+++++-", "++----", "+-+-+-", "+-----", "+-+---", "------"];
    let (first, second) = (scene.actor(0), scene.actor(1));
    for (row, held) in MODES.into_iter().enumerate() {
        for (column, asked) in MODES.into_iter().enumerate() {
            let expected = table[row].as_bytes()[column] == b'+';
            first.lock(record(1), held);
            assert_eq!(second.try_lock(record(1), asked), expected, "{asked} beside {held}");
            first.unlock_all();
            second.unlock_all();
        }
    }
    drop((first, second));
    scene.assert_empty();
}

#[test]
fn a_lock_in_a_mode_that_covers_the_new_mode_is_not_changed() {
    let scene = Scene::new(Settings::default());
    let actor = scene.actor(0);
    for (first, second, held) in [(S, S, S), (X, IS, X), (S, IX, SIX), (U, S, U), (IS, U, U), (IX, U, SIX)] {
        actor.lock(record(1), first);
        actor.lock(record(1), second);
        assert_eq!(actor.holds(record(1)), Some(held), "{first} and then {second}");
        assert_eq!(actor.locks.count(actor.locker), 1);
        actor.unlock_all();
        assert_eq!(actor.holds(record(1)), None);
    }
    drop(actor);
    scene.assert_empty();
}

#[test]
fn waiters_are_granted_in_the_order_they_came() {
    let (scene, story) = (Scene::new(Settings::default()), Story::default());
    let holder = scene.actor(0);
    holder.lock(record(1), X);
    scope(|scope| {
        for (place, name) in ["first", "second", "third", "fourth", "fifth"].into_iter().enumerate() {
            let (scene, story) = (&scene, &story);
            scope.spawn(move || {
                let actor = scene.actor(place);
                actor.lock(record(1), X);
                story.note(name);
                actor.unlock_all();
            });
            scene.await_waiters(place + 1);
        }
        holder.unlock_all();
    });
    assert_eq!(story.events(), ["first", "second", "third", "fourth", "fifth"]);
    drop(holder);
    scene.assert_empty();
}

#[test]
fn a_reader_does_not_overtake_a_writer_that_waits() {
    let (scene, story) = (Scene::new(Settings::default()), Story::default());
    let (holder, late) = (scene.actor(0), scene.actor(1));
    holder.lock(record(1), S);
    scope(|scope| {
        scope.spawn(|| {
            let writer = scene.actor(1);
            writer.lock(record(1), X);
            story.note("writer");
            writer.unlock_all();
        });
        scene.await_waiters(1);
        assert!(!late.try_lock(record(1), S), "the reader came after the writer");
        scope.spawn(|| {
            let reader = scene.actor(0);
            reader.lock(record(1), S);
            story.note("reader");
        });
        scene.await_waiters(2);
        holder.unlock_all();
    });
    assert_eq!(story.events(), ["writer", "reader"]);
    drop((holder, late));
    scene.assert_empty();
}

#[test]
fn waiters_with_compatible_modes_are_granted_together() {
    let scene = Scene::new(Settings::default());
    let holder = scene.actor(0);
    holder.lock(record(1), X);
    let together = std::sync::Barrier::new(3);
    scope(|scope| {
        for place in 0..3 {
            let (scene, together) = (&scene, &together);
            scope.spawn(move || {
                let reader = scene.actor(place);
                reader.lock(record(1), S);
                together.wait();
            });
        }
        scene.await_waiters(3);
        holder.unlock_all();
    });
    drop(holder);
    scene.assert_empty();
}

#[test]
fn a_conversion_is_granted_before_waiting_requests() {
    let (scene, story) = (Scene::new(Settings::default()), Story::default());
    let reader = scene.actor(0);
    reader.lock(record(1), S);
    scope(|scope| {
        scope.spawn(|| {
            let updater = scene.actor(1);
            updater.lock(record(1), U);
            story.note("read");
            scene.await_waiters(1);
            updater.locks.upgrade(&updater.session, updater.locker, record(1), X, Wait::Forever).unwrap();
            assert_eq!(updater.holds(record(1)), Some(X));
            story.note("converted");
            updater.unlock_all();
        });
        until(|| story.events() == ["read"]);
        scope.spawn(|| {
            let writer = scene.actor(0);
            writer.lock(record(1), X);
            story.note("writer");
        });
        scene.await_waiters(2);
        reader.unlock_all();
    });
    assert_eq!(story.events(), ["read", "converted", "writer"]);
    drop(reader);
    scene.assert_empty();
}

#[test]
fn no_locker_joins_the_holders_while_a_holder_waits_to_convert() {
    let scene = Scene::new(Settings::default());
    let (reader, late) = (scene.actor(0), scene.actor(1));
    reader.lock(record(1), S);
    scope(|scope| {
        scope.spawn(|| {
            let updater = scene.actor(1);
            updater.lock(record(1), U);
            updater.lock(record(1), X);
        });
        scene.await_waiters(1);
        assert!(!late.try_lock(record(1), S), "the updater would starve");
        reader.unlock_all();
    });
    drop((reader, late));
    scene.assert_empty();
}

#[test]
fn a_downgrade_admits_readers_and_needs_a_covered_mode() {
    let scene = Scene::new(Settings::default());
    let writer = scene.actor(0);
    writer.lock(record(1), X);
    scope(|scope| {
        let reader = scope.spawn(|| scene.actor(1).lock(record(1), S));
        scene.await_waiters(1);
        writer.locks.downgrade(&writer.session, writer.locker, record(1), S).unwrap();
        reader.join().unwrap();
    });
    let up = writer.locks.downgrade(&writer.session, writer.locker, record(1), IX);
    assert!(matches!(up, Err(Error::NotHeld { .. })));
    assert_eq!(writer.holds(record(1)), Some(S));
    drop(writer);
    scene.assert_empty();
}

#[test]
fn locks_are_released_one_by_one_in_any_order() {
    let scene = Scene::new(Settings::default());
    let (actor, other) = (scene.actor(0), scene.actor(1));
    for start in 0..6 {
        for hash in 0..6 {
            actor.lock(record(hash), X);
        }
        // 5 and 6 have no common divisor: every order visits all records.
        for step in 0..6 {
            let name = record((start + step * 5) % 6);
            actor.locks.unlock(&actor.session, actor.locker, name).unwrap();
            assert!(other.try_lock(name, X), "{name} was released");
            actor.locks.check().unwrap();
        }
        assert_eq!(actor.locks.count(actor.locker), 0);
        other.unlock_all();
    }
    let again = actor.locks.unlock(&actor.session, actor.locker, record(1));
    assert!(matches!(again, Err(Error::NotHeld { name }) if name == record(1)));
    drop((actor, other));
    scene.assert_empty();
}

#[test]
fn record_locks_are_released_when_the_whole_database_is_locked() {
    let scene = Scene::new(Settings::default());
    let database = LockName { space: 1, kind: 1, hash: 0 };
    let (actor, other) = (scene.actor(0), scene.actor(1));
    actor.lock(database, IX);
    (0..200).for_each(|hash| actor.lock(record(hash), X));
    assert_eq!([201, 202].map(|many| actor.locks.holds_at_least(actor.locker, many)), [true, false]);
    other.lock(database, IS);
    assert!(!actor.try_lock(database, X), "escalation is tried, not forced");
    other.unlock_all();
    assert!(actor.try_lock(database, X));
    assert_eq!(actor.locks.unlock_matching(&actor.session, actor.locker, |name| name.kind == 3), 200);
    assert_eq!((actor.locks.count(actor.locker), actor.holds(database)), (1, Some(X)));
    assert_eq!([1, 2].map(|many| actor.locks.holds_at_least(actor.locker, many)), [true, false]);
    drop((actor, other));
    scene.assert_empty();
}

#[test]
fn an_instant_lock_waits_for_holders_but_not_for_waiters_and_is_not_kept() {
    let scene = Scene::new(Settings::default());
    let gap = LockName { space: 1, kind: 4, hash: 9 };
    let (scanner, inserter) = (scene.actor(0), scene.actor(1));
    let instant = |wait| inserter.locks.instant(&inserter.session, inserter.locker, gap, IX, wait);
    instant(Wait::No).unwrap();
    inserter.lock(gap, S);
    instant(Wait::No).unwrap();
    assert_eq!(inserter.holds(gap), Some(S), "its own lock is no obstacle, and stays as it was");
    scanner.lock(gap, S);
    assert!(matches!(instant(Wait::No), Err(Error::WouldBlock { .. })));
    scope(|scope| {
        let waiting = scope.spawn(|| {
            let inserter = scene.actor(1);
            inserter.locks.instant(&inserter.session, inserter.locker, gap, IX, Wait::Forever).unwrap();
            assert_eq!(inserter.holds(gap), None);
        });
        scene.await_waiters(1);
        scanner.unlock_all();
        // The other inserter holds the gap in S, too.
        inserter.unlock_all();
        waiting.join().unwrap();
    });
    assert!(scanner.locks.is_free(&scanner.session, gap));
    // While one locker holds IX and another waits for X, the instant lock of a third locker is granted at once.
    scanner.lock(gap, IX);
    scope(|scope| {
        scope.spawn(|| scene.actor(0).lock(gap, X));
        scene.await_waiters(1);
        instant(Wait::No).unwrap();
        scanner.unlock_all();
    });
    drop((scanner, inserter));
    scene.assert_empty();
}

#[test]
fn an_instant_lock_that_had_to_wait_leaves_the_older_lock_as_it_was() {
    let scene = Scene::new(Settings::default());
    let (scanner, inserter) = (scene.actor(0), scene.actor(1));
    scanner.lock(record(1), S);
    scope(|scope| {
        let waiting = scope.spawn(|| {
            let inserter = inserter;
            inserter.lock(record(1), S);
            inserter.locks.instant(&inserter.session, inserter.locker, record(1), IX, Wait::Forever).unwrap();
            assert_eq!(inserter.holds(record(1)), Some(S));
        });
        scene.await_waiters(1);
        scanner.unlock_all();
        waiting.join().unwrap();
    });
    drop(scanner);
    scene.assert_empty();
}

#[test]
fn a_wait_ends_at_its_limit_and_the_waiters_after_it_are_granted() {
    let scene = Scene::new(Settings::default());
    let holder = scene.actor(0);
    holder.lock(record(1), S);
    scope(|scope| {
        let writer = scope.spawn(|| {
            let writer = scene.actor(1);
            let (start, limit) = (Instant::now(), Duration::from_millis(60));
            let outcome = writer.locks.lock(&writer.session, writer.locker, record(1), X, Wait::For(limit));
            assert!(matches!(outcome, Err(Error::Timeout { .. })), "{outcome:?}");
            assert!((limit..limit * 20).contains(&start.elapsed()), "{:?}", start.elapsed());
            assert_eq!(writer.locks.count(writer.locker), 0);
        });
        scene.await_waiters(1);
        let reader = scope.spawn(|| scene.actor(0).lock(record(1), S));
        scene.await_waiters(2);
        writer.join().unwrap();
        reader.join().unwrap();
    });
    // A conversion that gives up keeps the old mode.
    let other = scene.actor(1);
    other.lock(record(1), S);
    let outcome = other.locks.lock(&other.session, other.locker, record(1), X, Wait::For(Duration::from_millis(3)));
    assert!(matches!(outcome, Err(Error::Timeout { mode: X, .. })), "{outcome:?}");
    assert_eq!(other.holds(record(1)), Some(S));
    scene.locks().check().unwrap();
    drop((holder, other));
    scene.assert_empty();
}

#[test]
fn a_lock_may_be_tried_with_a_latch_held_but_not_waited_for() {
    let scene = Scene::new(Settings::default());
    let (holder, other) = (scene.actor(0), scene.actor(1));
    holder.lock(record(1), X);
    let latch = other.session.region().allocate::<Latch>(1).unwrap();
    let guard = other.session.region().at(latch).exclusive(&other.session, Rank::page(0));
    other.locks.reserve(&other.session, other.locker).unwrap();
    assert!(other.try_lock(record(2), X));
    assert!(!other.try_lock(record(1), X));
    let waits = std::panic::AssertUnwindSafe(|| other.lock(record(1), X));
    assert!(std::panic::catch_unwind(waits).is_err());
    drop(guard);
}

#[test]
fn the_error_of_a_refused_lock_names_the_object_and_the_mode() {
    let scene = Scene::new(Settings::default());
    let (holder, other) = (scene.actor(0), scene.actor(1));
    holder.lock(record(255), X);
    let error = other.locks.try_lock(&other.session, other.locker, record(255), S).unwrap_err().to_string();
    assert!(error.contains("record 0xff of database 1") && error.contains("mode S"), "{error}");
}

/// A repairer that never repairs a session.
struct Failed;

impl Repairer for Failed {
    fn free_latches(&self, _: &Session, _: SessionId) {}
    fn repair_all(&self, _: &Session) {}
    fn give_up(&self, _: &str) {}
    fn can_repair(&self) -> bool {
        false
    }
}

#[test]
fn a_wait_for_a_dead_session_that_cannot_be_repaired_fails() {
    let scene = Scene::new(Settings::default());
    let (dead, waiter) = (scene.actor(0), scene.actor(1));
    waiter.session.processes().set_repairer(Box::new(Failed));
    dead.lock(record(1), X);
    dead.session.mark_dead();
    let refused = waiter.locks.lock(&waiter.session, waiter.locker, record(1), S, Wait::For(Duration::from_secs(8)));
    assert!(matches!(refused, Err(Error::HeldForGood { .. })), "{refused:?}");
    assert_eq!(waiter.locks.count(waiter.locker), 0, "the locker has no request");
    // No session releases the dead session's locks.
    std::mem::forget(dead);
}

//! Eight threads in two mappings make random calls, which are compared with a model.
//!
//! The model is a list of holders for each object. A grant enters the model after it happens, and a release before it
//! happens. So if the model has two holders whose modes conflict, the lock table had both of them at one time, too.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread::scope;
use std::time::Duration;

use libtp_lock::{Error, LockName, LockerId, Mode, Settings, Wait};

use crate::{Actor, Scene};
use Mode::{IS, IX, S, SIX, U, X};

const THREADS: usize = 8;
const OBJECTS: u64 = 12;
const TRANSACTIONS: u32 = 4000;

/// The longest wait: if a deadlock is not found, the test ends with an error.
const PATIENCE_LIMIT: Duration = Duration::from_secs(8);
const PATIENCE: Wait = Wait::For(PATIENCE_LIMIT);

#[derive(Default)]
struct Model {
    holders: [Mutex<HashMap<LockerId, Mode>>; OBJECTS as usize],
    /// Changed only under X, with a load and a store.
    counters: [AtomicU64; OBJECTS as usize],
    added: [AtomicU64; OBJECTS as usize],
}

/// Returns the name of a record or, for every third object, the name of a database, because intent locks on databases
/// are kept.
fn name(object: u64) -> LockName {
    LockName { space: object as u32, kind: if object % 3 == 0 { LockName::DATABASE } else { 3 }, hash: 0 }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

impl Model {
    fn granted(&self, object: u64, locker: LockerId, mode: Mode) {
        let mut holders = self.holders[object as usize].lock().unwrap();
        let held = holders.get(&locker).map_or(mode, |held| held.join(mode));
        for (other, theirs) in holders.iter().filter(|(other, _)| **other != locker) {
            assert!(held.is_compatible_with(*theirs), "{locker} has {held}, {other} {theirs} on {object}");
        }
        holders.insert(locker, held);
        drop(holders);
        if held == X {
            let counter = &self.counters[object as usize];
            counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            self.added[object as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn released(&self, object: u64, locker: LockerId) {
        self.holders[object as usize].lock().unwrap().remove(&locker);
    }

    fn weakened(&self, object: u64, locker: LockerId, mode: Mode) {
        self.holders[object as usize].lock().unwrap().insert(locker, mode);
    }
}

fn transaction(actor: &Actor<'_>, model: &Model, random: &mut Random) -> bool {
    let locker = actor.locker;
    for _ in 0..random.below(6) {
        let object = random.below(OBJECTS);
        if random.below(8) == 0 {
            // Without this pause, transactions are so short that they hardly ever conflict.
            std::thread::yield_now();
        }
        let mode = [IS, IX, IS, IX, S, SIX, U, X, X][random.below(9) as usize];
        let wait = match random.below(8) {
            0 => Wait::No,
            1 => Wait::For(Duration::from_micros(random.below(3000))),
            _ => PATIENCE,
        };
        match random.below(12) {
            0 => match actor.locks.instant(&actor.session, locker, name(object), IX, wait) {
                Ok(()) | Err(Error::WouldBlock { .. }) => {}
                Err(Error::Timeout { limit, .. }) if limit < PATIENCE_LIMIT => {}
                Err(Error::Deadlock { .. }) => return false,
                Err(other) => panic!("{other}"),
            },
            1 => {
                model.released(object, locker);
                let _ = actor.locks.unlock(&actor.session, locker, name(object));
            }
            2 => {
                if actor.holds(name(object)).is_some_and(|held| held.covers(S)) {
                    model.weakened(object, locker, S);
                    actor.locks.downgrade(&actor.session, locker, name(object), S).unwrap();
                }
            }
            _ => match actor.locks.lock(&actor.session, locker, name(object), mode, wait) {
                Ok(()) => model.granted(object, locker, mode),
                Err(Error::WouldBlock { .. }) => {}
                Err(Error::Timeout { limit, .. }) if limit < PATIENCE_LIMIT => {}
                Err(Error::Deadlock { .. }) => return false,
                Err(other) => panic!("{other}"),
            },
        }
    }
    true
}

#[test]
fn no_two_of_eight_threads_ever_hold_conflicting_locks() {
    let (scene, model) = (Scene::new(Settings::default()), Model::default());
    let births = AtomicU64::new(1);
    let deadlocks = AtomicU64::new(0);
    scope(|scope| {
        for place in 0..THREADS {
            let (scene, model, births, deadlocks) = (&scene, &model, &births, &deadlocks);
            scope.spawn(move || {
                let actor = scene.actor(place);
                let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ (place as u64 + 1));
                for _ in 0..TRANSACTIONS {
                    actor.locks.set_birth(actor.locker, births.fetch_add(1, Ordering::Relaxed));
                    if !transaction(&actor, model, &mut random) {
                        deadlocks.fetch_add(1, Ordering::Relaxed);
                    }
                    (0..OBJECTS).for_each(|object| model.released(object, actor.locker));
                    actor.unlock_all();
                }
            });
        }
    });
    for object in 0..OBJECTS as usize {
        let (counted, added) = (&model.counters[object], &model.added[object]);
        assert_eq!(counted.load(Ordering::Relaxed), added.load(Ordering::Relaxed), "object {object}");
    }
    assert!(deadlocks.load(Ordering::Relaxed) > 0, "the test should cause deadlocks");
    scene.assert_empty();
}

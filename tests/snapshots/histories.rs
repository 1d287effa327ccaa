//! Snapshots of random histories, which are compared with a model, and sums of accounts while threads make transfers.
//!
//! A snapshot's state is computed from the current pages and the log, by comparisons of LSNs. With a wrong LSN or a
//! wrong comparison, a snapshot would silently show a state that was never committed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use libtp_lock::Wait;
use libtp_record::{Access, Database, Method, SnapshotHashCursor, SnapshotNumberCursor};
use libtp_tests::sizes;
use libtp_txn::{Durability, TxnSession};

use crate::held::{put, Held, Model};
use crate::world::{Place, Random, World};

/// A writer's open transaction, and its changes.
struct Writer {
    txn: TxnSession,
    is_open: bool,
    changed: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

fn value_of(random: &mut Random, method: Method) -> Vec<u8> {
    let length = match (method, random.below(12)) {
        (Method::Recno { record_bytes }, _) => record_bytes as usize,
        (_, 0) => 3000 + usize::try_from(random.below(9000)).unwrap(),
        (_, 1..4) => 0,
        _ => usize::try_from(random.below(200)).unwrap(),
    };
    let seed = random.next().to_le_bytes();
    seed.iter().copied().cycle().take(length).collect()
}

fn change(access: &Access<'_>, method: Method, key: &[u8], value: Option<&[u8]>) {
    let number = || u64::from_be_bytes(key.try_into().unwrap());
    match (method, value) {
        (Method::Btree | Method::Hash, Some(value)) => access.put(key, value).unwrap(),
        (_, Some(value)) => access.recno_put(number(), value).unwrap(),
        (Method::Btree | Method::Hash, None) => {
            access.delete(key).unwrap();
        }
        (_, None) => {
            access.recno_delete(number()).unwrap();
        }
    }
}

fn shown(held: &Held<'_>, database: &Database, backwards: bool) -> Model {
    match database.method() {
        Method::Btree if backwards => held.backwards(database),
        Method::Btree => held.forwards(database),
        Method::Hash => {
            let mut cursor = SnapshotHashCursor::new(held.of(database));
            let all: Vec<_> = std::iter::from_fn(|| cursor.next().unwrap()).collect();
            let (count, model) = (all.len(), all.into_iter().collect::<Model>());
            assert_eq!(count, model.len(), "a scan returned a record twice");
            model
        }
        Method::Recno { .. } => {
            let mut cursor = SnapshotNumberCursor::new(held.of(database));
            let step = || if backwards { cursor.prev().unwrap() } else { cursor.next().unwrap() };
            std::iter::from_fn(step).map(|(number, record)| (number.to_be_bytes().to_vec(), record)).collect()
        }
        Method::Pages => panic!("snapshots do not show a program's own pages"),
    }
}

fn random_history(seed: u64, method: Method) {
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let mut random = Random(seed);
    let database = world.database(&world.join(), "records", method, 4096);
    let mut committed = Model::new();
    let mut writers: Vec<Writer> =
        (0..3).map(|_| Writer { txn: world.join(), is_open: false, changed: BTreeMap::new() }).collect();
    let mut held: Vec<(Held<'_>, Model)> = Vec::new();
    for _ in 0..4000 {
        let number = random.below(writers.len() as u64);
        let writer = &mut writers[usize::try_from(number).unwrap()];
        match random.below(40) {
            0..30 => {
                if !writer.is_open {
                    writer.txn.begin(&world.managers);
                    writer.is_open = true;
                }
                // Each writer has its own keys, so that no writer waits.
                let key = (random.below(300) * 3 + number + 1).to_be_bytes().to_vec();
                let value = (random.below(3) != 0).then(|| value_of(&mut random, method));
                let access = Access::new(&world.managers, &writer.txn, &database, Wait::Forever);
                change(&access, method, &key, value.as_deref());
                writer.changed.insert(key, value);
            }
            30..36 if writer.is_open => {
                writer.is_open = false;
                if random.below(3) == 0 {
                    writer.changed.clear();
                    writer.txn.abort(&world.managers).unwrap();
                    continue;
                }
                let durability = if random.below(8) == 0 { Durability::Sync } else { Durability::Relaxed };
                writer.txn.commit(&world.managers, durability).unwrap();
                for (key, value) in std::mem::take(&mut writer.changed) {
                    match value {
                        Some(value) => drop(committed.insert(key, value)),
                        None => drop(committed.remove(&key)),
                    }
                }
            }
            36 if held.len() < 5 => held.push((Held::begin(&world), committed.clone())),
            37 if !held.is_empty() => {
                let at = usize::try_from(random.below(held.len() as u64)).unwrap();
                let (held, _) = held.swap_remove(at);
                held.end();
            }
            38 if random.below(10) == 0 => drop(world.managers.checkpoint(&writer.txn)),
            _ => {
                let Some((held, model)) = held.last() else { continue };
                let backwards = random.below(2) == 0;
                let shown = shown(held, &database, backwards);
                let other = model.keys().chain(shown.keys()).find(|key| model.get(*key) != shown.get(*key));
                if let Some(key) = other {
                    let lengths = [model.get(key), shown.get(key)].map(|value| value.map(Vec::len));
                    panic!(
                        "seed {seed}, {method:?}, backwards: {backwards}: {key:?} has these lengths, \
                         wanted and shown: {lengths:?}"
                    );
                }
            }
        }
    }
    for (held, model) in held {
        assert!(shown(&held, &database, false) == model, "seed {seed}");
        for key in (0..900_u64).map(u64::to_be_bytes) {
            let found = match method {
                Method::Btree | Method::Hash => held.get(&database, &key),
                Method::Recno { .. } => held.of(&database).recno_get(u64::from_be_bytes(key), <[u8]>::to_vec).unwrap(),
                Method::Pages => panic!("snapshots do not show a program's own pages"),
            };
            assert_eq!(found.as_ref(), model.get(&key[..]), "seed {seed}");
        }
        held.end();
    }
}

#[test]
fn snapshots_of_random_histories_show_the_committed_state_of_their_moment() {
    let first = sizes::first_seed();
    for seed in first..first + sizes::number("LIBTP_TEST_HISTORIES", 6) {
        random_history(seed, Method::Btree);
        random_history(seed, Method::Hash);
        random_history(seed, Method::Recno { record_bytes: 40 });
    }
}

#[test]
fn an_unchanged_sum_is_the_same_in_every_snapshot() {
    const ACCOUNTS: u64 = 40;
    let place = Place::new();
    let world = World::new(&place, 1 << 24);
    let txn = world.join();
    let database = world.database(&txn, "accounts", Method::Btree, 4096);
    for account in 0..ACCOUNTS {
        put(&world, &txn, &database, &account.to_be_bytes(), &1000_i64.to_le_bytes());
    }
    let is_over = AtomicBool::new(false);
    let transfer = |txn: &TxnSession, random: &mut Random| {
        txn.begin(&world.managers);
        let access = world.access(txn, &database);
        let mut two = [random.below(ACCOUNTS), random.below(ACCOUNTS)];
        two.sort_unstable();
        let moved = two.into_iter().zip([-1_i64, 1]).all(|(account, change)| {
            access
                .update(&account.to_be_bytes(), |value| {
                    let sum = i64::from_le_bytes((&*value).try_into().unwrap()) + change;
                    value.copy_from_slice(&sum.to_le_bytes());
                })
                .is_ok()
        });
        let durability = if random.below(10) == 0 { Durability::Sync } else { Durability::Relaxed };
        if moved && random.below(10) != 0 {
            txn.commit(&world.managers, durability).unwrap();
        } else {
            txn.abort(&world.managers).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for seed in 1..=3 {
            let (transfer, is_over, world) = (&transfer, &is_over, &world);
            scope.spawn(move || {
                let (txn, mut random) = (world.join(), Random(seed));
                // Relaxed: the flag publishes no other data.
                while !is_over.load(Ordering::Relaxed) {
                    transfer(&txn, &mut random);
                }
            });
        }
        for round in 0..400 {
            let held = Held::begin(&world);
            for _ in 0..2 {
                let all = held.forwards(&database);
                let sum: i64 = all.values().map(|value| i64::from_le_bytes(value[..].try_into().unwrap())).sum();
                assert_eq!((all.len() as u64, sum), (ACCOUNTS, 1000 * ACCOUNTS as i64), "round {round}");
            }
            held.end();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

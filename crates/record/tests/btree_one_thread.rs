//! One thread on the real managers: does a B-tree behave as a BTreeMap, despite splits, long values, aborts and
//! restarts?
//!
//! The cases: a first record, in-order and random loads through several levels; every kind of change followed by commit
//! or abort, compared with a model after each transaction; keys and values at their limits; a restart from the log
//! only.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;

use libtp_lock::{LockName, Mode, Wait};
use libtp_record::lock_names::KIND_APPLICATION;
use libtp_record::{BtreeCursor, Error, Method};
use libtp_txn::Durability;
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn assert_equal(world: &World, txn: &libtp_txn::TxnSession, database: &libtp_record::Database, model: &Model) {
    world.run(txn, database, |access| {
        let mut cursor = BtreeCursor::new(*access);
        for (key, value) in model {
            assert_eq!(cursor.next().unwrap().as_ref(), Some(&(key.clone(), value.clone())));
        }
        assert_eq!(cursor.next().unwrap(), None);
        // The cursor is still on the last record.
        for (key, value) in model.iter().rev().skip(1) {
            assert_eq!(cursor.prev().unwrap().as_ref(), Some(&(key.clone(), value.clone())));
        }
        assert_eq!(cursor.prev().unwrap(), None);
    });
}

/// The first record is taken again and again, and new ones are put at the end.
#[test]
fn a_queue_locks_few_deleted_records() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "queue", Method::Btree, 8192);
    let key = |number: u32| number.to_be_bytes();
    world.run(&txn, &database, |access| (0..1000).for_each(|number| access.put(&key(number), b"job").unwrap()));
    let mut most = 0;
    for number in 0..2000 {
        let locks = world.run(&txn, &database, |access| {
            let mut cursor = BtreeCursor::for_update(*access);
            assert_eq!(cursor.first().unwrap().unwrap().0, key(number));
            let locks = world.managers.locks.count(txn.locker());
            access.delete(&key(number)).unwrap();
            access.put(&key(number + 1000), b"job").unwrap();
            locks
        });
        most = most.max(locks);
    }
    // Each passed record has two locks; a walk passes at most 15 deleted records.
    assert!(most <= 2 * 16 + 1, "a walk to the first record took {most} locks");
    world.assert_sound(&txn, &database);
}

#[test]
fn a_first_record_is_found_again() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "first", Method::Btree, 8192);
    world.run(&txn, &database, |access| {
        access.put(b"alice", b"10").unwrap();
        assert_eq!(access.get(b"alice", <[u8]>::to_vec).unwrap().as_deref(), Some(&b"10"[..]));
        assert_eq!(access.get(b"bob", <[u8]>::to_vec).unwrap(), None);
        assert!(!access.put_new(b"alice", b"11").unwrap());
        assert!(access.delete(b"alice").unwrap());
        assert!(!access.delete(b"alice").unwrap());
        assert!(access.put_new(b"alice", b"12").unwrap());
        assert_eq!(access.update(b"alice", |value| value[1] = b'3').unwrap(), Some(()));
        assert_eq!(access.get(b"alice", <[u8]>::to_vec).unwrap().as_deref(), Some(&b"13"[..]));
    });
    world.assert_sound(&txn, &database);
}

#[test]
fn in_order_and_random_loads_are_read_back_in_order() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    for (name, in_order) in [("rising", true), ("random", false)] {
        let database = world.database(&txn, name, Method::Btree, 4096);
        let mut random = Random(88172645463325252);
        let mut model = Model::new();
        for chunk in 0..40u64 {
            world.run(&txn, &database, |access| {
                for number in 0..500 {
                    let number = if in_order { chunk * 500 + number } else { random.next() };
                    let (key, value) = (number.to_be_bytes().to_vec(), number.to_le_bytes().repeat(3));
                    access.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            });
        }
        assert_equal(&world, &txn, &database, &model);
        let verified = world.assert_sound(&txn, &database);
        assert_eq!(verified.records, model.len() as u64);
        world.run(&txn, &database, |access| {
            for (key, value) in model.iter().step_by(7) {
                assert_eq!(access.get(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
            }
        });
    }
}

fn random_key(random: &mut Random, page_bytes: u64) -> Vec<u8> {
    let number = random.below(600);
    match random.below(20) {
        0 => vec![u8::try_from(number % 7).unwrap(); usize::try_from(page_bytes / 4).unwrap()],
        1 => Vec::new(),
        2..6 => [&[b'p'; 70][..], &number.to_be_bytes()[6..]].concat(),
        _ => format!("customer {number}").into_bytes(),
    }
}

fn random_value(random: &mut Random, page_bytes: u64) -> Vec<u8> {
    let byte = u8::try_from(random.below(256)).unwrap();
    let bytes = match random.below(20) {
        0 => random.below(5 * page_bytes),
        1..4 => random.below(page_bytes / 3),
        _ => random.below(60),
    };
    vec![byte; usize::try_from(bytes).unwrap()]
}

fn one_change(access: &libtp_record::Access<'_>, model: &mut Model, random: &mut Random, page_bytes: u64) {
    let key = random_key(random, page_bytes);
    match random.below(10) {
        0..2 => assert_eq!(access.delete(&key).unwrap(), model.remove(&key).is_some()),
        2 => {
            let value = random_value(random, page_bytes);
            let is_new = !model.contains_key(&key);
            assert_eq!(access.put_new(&key, &value).unwrap(), is_new);
            model.entry(key).or_insert(value);
        }
        3 => {
            let changed = access.update(&key, |value| value.fill(7)).unwrap();
            assert_eq!(changed.is_some(), model.contains_key(&key));
            if let Some(value) = model.get_mut(&key) {
                value.fill(7);
            }
        }
        4 => assert_eq!(access.get(&key, <[u8]>::to_vec).unwrap().as_ref(), model.get(&key)),
        5 => {
            let mut cursor = BtreeCursor::new(*access);
            let expected = model.range(key.clone()..).next();
            assert_eq!(cursor.seek(&key).unwrap(), expected.map(|(key, value)| (key.clone(), value.clone())));
        }
        _ => {
            let value = random_value(random, page_bytes);
            access.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// Runs transactions of random changes, some aborted, some interrupted by a restart, and compares the tree with a
/// model.
fn random_transactions(seed: u64, page_bytes: u32, transactions: u32, paged: bool) {
    let place = Place::new();
    let mut world = World::new(&place, 4 << 20);
    let mut random = Random(seed);
    let mut model = Model::new();
    let mut txn = world.join();
    let open = |world: &World, txn: &libtp_txn::TxnSession| {
        if paged {
            world.paged(txn, "model", Method::Btree, page_bytes)
        } else {
            world.database(txn, "model", Method::Btree, page_bytes)
        }
    };
    let mut database = open(&world, &txn);
    for transaction in 0..transactions {
        let mut after = model.clone();
        txn.begin(&world.managers);
        for _ in 0..random.below(30) {
            one_change(&world.access(&txn, &database), &mut after, &mut random, page_bytes.into());
        }
        match random.below(6) {
            0 => txn.abort(&world.managers).unwrap(),
            1 if transaction % 20 == 19 => {
                world.managers.log.force(txn.session(), world.managers.log.tail().minus(8)).unwrap();
                drop((database, txn, world));
                world = World::restart(&place, 4 << 20).0;
                txn = world.join();
                database = open(&world, &txn);
            }
            _ => {
                txn.commit(&world.managers, Durability::Relaxed).unwrap();
                model = after;
            }
        }
        if transaction % 10 == 9 {
            assert_equal(&world, &txn, &database, &model);
            let verified = world.assert_sound(&txn, &database);
            assert_eq!(verified.records, model.len() as u64, "seed {seed}");
        }
    }
}

#[test]
fn random_transactions_agree_with_a_model_through_aborts_and_restarts() {
    for seed in 1..=seeds() {
        random_transactions(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), 4096, 120, false);
    }
}

#[test]
fn random_transactions_agree_with_a_model_on_large_pages() {
    random_transactions(0x1234_5678_9abc_def1, 65536, 60, false);
}

#[test]
fn random_transactions_agree_with_a_model_under_page_locks() {
    for seed in 1..=seeds() {
        random_transactions(0x2545_f491_4f6c_dd1d_u64.wrapping_mul(seed), 4096, 120, true);
    }
}

#[test]
fn keys_beyond_a_quarter_page_are_refused_and_nothing_is_changed() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "limits", Method::Btree, 4096);
    world.run(&txn, &database, |access| {
        assert!(access.put(&[1; 1024], b"fits").is_ok());
        let error = access.put(&[1; 1025], b"does not").unwrap_err();
        assert!(matches!(error, Error::KeyTooLong { bytes: 1025, limit: 1024, .. }), "{error}");
        assert!(matches!(access.recno_get(1, |_| ()), Err(Error::WrongMethod { .. })));
        assert!(access.put(b"", b"").is_ok());
        assert_eq!(access.get(b"", <[u8]>::len).unwrap(), Some(0));
    });
}

#[test]
fn the_pages_of_long_values_are_used_again() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "long", Method::Btree, 4096);
    for round in 0..30u8 {
        world.run(&txn, &database, |access| access.put(b"picture", &vec![round; 100_000]).unwrap());
    }
    let verified = world.assert_sound(&txn, &database);
    let pages = verified.tree_pages + verified.value_pages + verified.free_pages;
    assert!(pages < 4 * 100_000 / 4000, "{verified:?}");
    txn.begin(&world.managers);
    world.access(&txn, &database).put(b"picture", &vec![99; 300_000]).unwrap();
    txn.abort(&world.managers).unwrap();
    world.run(&txn, &database, |access| {
        let value = access.get(b"picture", <[u8]>::to_vec).unwrap().unwrap();
        assert!(value.len() == 100_000 && value.iter().all(|&byte| byte == 29));
    });
    world.assert_sound(&txn, &database);
}

/// Returns the number of seeds that a test tries: few, unless `LIBTP_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("LIBTP_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(4)
}

#[test]
fn an_insertion_before_very_many_empty_leaves_needs_little_memory() {
    let place = Place::new();
    let world = World::new(&place, 256 << 10);
    let (txn, other) = (world.join(), world.join());
    let database = world.database(&txn, "queue", Method::Btree, 4096);
    let key = |number: u32| number.to_be_bytes();
    world.run(&txn, &database, |access| {
        (0..20_000).for_each(|number| access.put(&key(number), &[7; 100]).unwrap());
    });
    // A session stays in the tree. So no unlinked page becomes free, and the neighbours of an unlinked page cannot be
    // unlinked.
    other.session().enter_tree();
    for chunk in 0..19 {
        world.run(&txn, &database, |access| {
            (0..1000).map(|number| 1 + chunk * 1000 + number).for_each(|number| {
                access.delete(&key(number)).unwrap();
            });
        });
    }
    for _ in 0..100 {
        world.run(&txn, &database, |access| {
            let mut cursor = BtreeCursor::new(*access);
            assert_eq!(cursor.seek(&key(1)).unwrap().unwrap().0, key(19_001));
        });
    }
    let left = world.assert_sound(&txn, &database);
    assert!(left.tree_pages > 150, "{left:?}: there is a long row of empty leaves");
    world.run(&txn, &database, |access| {
        for number in 0..100_u32 {
            access.put(&[&key(0)[..], &number.to_be_bytes()].concat(), &[8; 100]).unwrap();
        }
    });
    other.session().leave_tree();
    world.assert_sound(&txn, &database);
}

#[test]
fn a_split_without_memory_for_its_lock_returns_an_error() {
    let place = Place::new();
    let world = World::within(&place, 1 << 20, 16 << 20, Default::default());
    let txn = world.join();
    let database = world.paged(&txn, "full", Method::Btree, 4096).without_escalation();
    let access = world.access(&txn, &database);
    txn.begin(&world.managers);
    access.put(&[0], &[7; 100]).unwrap();
    // All memory is filled with locks; then one is released.
    let locks = &world.managers.locks;
    let name = |hash| LockName { space: 0, kind: KIND_APPLICATION, hash };
    let lock = |hash| locks.lock(txn.session(), txn.locker(), name(hash), Mode::S, Wait::No);
    let full = (0..).find_map(|hash| lock(hash).err());
    assert!(matches!(full, Some(libtp_lock::Error::Full(_))), "{full:?}");
    locks.unlock(txn.session(), txn.locker(), name(0)).unwrap();
    // The root's two halves need one lock each.
    let refused = (1..100).find_map(|at| access.put(&[at], &[7; 100]).err());
    assert!(matches!(refused, Some(Error::Lock(libtp_lock::Error::Full(_)))), "{refused:?}");
    locks.unlock_matching(txn.session(), txn.locker(), |name| name.kind == KIND_APPLICATION);
    (1..100).for_each(|at| access.put(&[at], &[7; 100]).unwrap());
    txn.commit(&world.managers, Durability::Relaxed).unwrap();
    assert_eq!(world.assert_sound(&txn, &database).records, 100);
}

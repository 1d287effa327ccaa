//! Tests of loads: sorted records fill an empty tree.
//!
//! Possible bugs: a page has one cell too many or a wrong fence (only keys of different lengths show this); an
//! interrupted load leaves unreachable pages, or a part of the records; a reader without locks sees a part of a load.
//! The cases: numbers of records from zero to three levels, several fill percentages, keys and values at their limits;
//! loads that are interrupted, or aborted after their end; restarts from the log only; snapshots from before and during
//! a load.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;

use libtp_record::{BtreeCursor, Database, Error, Method, Snapshot, SnapshotAccess, SnapshotCursor};
use libtp_txn::{Durability, TxnSession};
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn load(world: &World, txn: &TxnSession, database: &Database, model: &Model, fill: u8) {
    let loaded = world.run(txn, database, |access| {
        let mut loader = access.begin_load(fill).unwrap();
        model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
        loader.finish().unwrap()
    });
    assert_eq!(loaded, model.len() as u64);
}

fn assert_equal(world: &World, txn: &TxnSession, database: &Database, model: &Model) {
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
        for (key, value) in model.iter().step_by(17) {
            assert_eq!(access.get(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
        }
    });
    assert_eq!(world.assert_sound(txn, database).records, model.len() as u64);
}

fn numbered(count: u64, value_bytes: usize) -> Model {
    (0..count).map(|at| (format!("key/{at:09}").into_bytes(), vec![at.to_le_bytes()[0]; value_bytes])).collect()
}

/// Returns records with keys of all lengths and values of up to three pages. Many keys have the same beginning.
fn ragged(random: &mut Random, count: u64, limit: usize, page_bytes: usize) -> Model {
    let mut model = Model::new();
    for _ in 0..count {
        let number = random.next();
        let mut key = match number % 6 {
            0 => vec![b'k'; usize::try_from(number >> 8).unwrap() % limit],
            1 | 2 => [&b"many keys begin like this one/"[..], &(number >> 40).to_be_bytes()].concat(),
            3 => [vec![b'z'; limit - 9], number.to_be_bytes().to_vec()].concat(),
            _ => number.to_be_bytes().to_vec(),
        };
        key.truncate(limit);
        let bytes = match random.below(40) {
            0 => random.below(3 * page_bytes as u64),
            1..=5 => random.below(page_bytes as u64 / 4 + 40),
            _ => random.below(120),
        };
        model.insert(key, vec![number.to_le_bytes()[1]; usize::try_from(bytes).unwrap()]);
    }
    model
}

#[test]
fn a_load_of_any_size_makes_a_sound_tree() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    for (index, count) in [0, 1, 2, 30, 31, 32, 33, 60, 500, 2_000, 40_000].into_iter().enumerate() {
        for (page_bytes, fill) in [(4096, 100), (8192, 70), (65536, 10)] {
            let database = world.database(&txn, &format!("load{index}-{page_bytes}"), Method::Btree, page_bytes);
            let mut model = numbered(count, 90);
            load(&world, &txn, &database, &model, fill);
            assert_equal(&world, &txn, &database, &model);
            // The loaded tree can be changed.
            world.run(&txn, &database, |access| {
                for at in 0..200_u64 {
                    let key = format!("key/{:09}/between", at * 97 % count.max(1)).into_bytes();
                    access.put(&key, b"put").unwrap();
                    model.insert(key, b"put".to_vec());
                    let key = format!("key/{:09}", at * 31).into_bytes();
                    assert_eq!(access.delete(&key).unwrap(), model.remove(&key).is_some());
                }
            });
            assert_equal(&world, &txn, &database, &model);
        }
    }
}

#[test]
fn keys_and_values_at_their_limits_are_loaded_and_found_after_a_restart() {
    let place = Place::new();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut models = Vec::new();
    {
        let world = World::new(&place, 64 << 20);
        let txn = world.join();
        for (name, page_bytes, fill) in [("small", 4096, 100), ("middle", 8192, 55), ("large", 16384, 100)] {
            let database = world.database(&txn, name, Method::Btree, page_bytes);
            let model = ragged(&mut random, 3000, database.key_bytes_max(), page_bytes as usize);
            load(&world, &txn, &database, &model, fill);
            assert_equal(&world, &txn, &database, &model);
            models.push((name, page_bytes, model));
        }
        world.managers.log.force_all(txn.session()).unwrap();
    }
    let (world, _) = World::restart(&place, 64 << 20);
    let txn = world.join();
    for (name, page_bytes, model) in models {
        let database = world.database(&txn, name, Method::Btree, page_bytes);
        assert_equal(&world, &txn, &database, &model);
    }
}

#[test]
fn inner_pages_have_two_children_even_with_a_small_fill() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    for (page_bytes, fill, count) in [(8192, 10, 2), (8192, 10, 3), (8192, 10, 100), (4096, 10, 2), (4096, 49, 77)] {
        let name = format!("little{page_bytes}-{fill}-{count}");
        let database = world.database(&txn, &name, Method::Btree, page_bytes);
        // Keys of the maximum length that differ only at their ends.
        let begin = vec![b'x'; database.key_bytes_max() - 3];
        let model: Model =
            (0..count).map(|at| ([&begin[..], format!("{at:03}").as_bytes()].concat(), vec![7; 9])).collect();
        load(&world, &txn, &database, &model, fill);
        assert_equal(&world, &txn, &database, &model);
    }
}

#[test]
fn the_last_of_several_equal_keys_is_loaded_and_no_pages_of_long_values_are_lost() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "equal", Method::Btree, 4096);
    let loaded = world.run(&txn, &database, |access| {
        let mut loader = access.begin_load(100).unwrap();
        for at in 0..50_u8 {
            for byte in 0..4 {
                loader.push(&[at], &vec![byte; 10_000]).unwrap();
            }
        }
        loader.finish().unwrap()
    });
    assert_eq!(loaded, 50);
    let model: Model = (0..50_u8).map(|at| (vec![at], vec![3; 10_000])).collect();
    assert_equal(&world, &txn, &database, &model);
}

#[test]
fn an_interrupted_load_leaves_only_free_pages() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "broken", Method::Btree, 4096);
    let model = numbered(5000, 90);
    let mut pages = 0;
    for round in 0..3 {
        txn.begin(&world.managers);
        {
            let access = world.access(&txn, &database);
            let mut loader = access.begin_load(100).unwrap();
            model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
            loader.push(b"long", &vec![1; 50_000]).unwrap();
            let error = loader.push(b"key/1", b"").unwrap_err();
            assert!(matches!(error, Error::OutOfOrder { before: 5001, .. }), "{error}");
        }
        txn.abort(&world.managers).unwrap();
        let verified = world.assert_sound(&txn, &database);
        assert_eq!((verified.records, verified.tree_pages), (0, 1));
        // The pages of the previous round are used again.
        assert!(round == 0 || verified.free_pages == pages, "{} pages, then {}", pages, verified.free_pages);
        pages = verified.free_pages;
        assert!(pages > 100, "{pages}");
    }
    load(&world, &txn, &database, &model, 100);
    assert_equal(&world, &txn, &database, &model);
}

#[test]
fn a_finished_load_remains_when_its_transaction_aborts() {
    let place = Place::new();
    let model = numbered(3000, 90);
    {
        let world = World::new(&place, 32 << 20);
        let txn = world.join();
        let database = world.database(&txn, "ended", Method::Btree, 4096);
        txn.begin(&world.managers);
        {
            let access = world.access(&txn, &database);
            let mut loader = access.begin_load(100).unwrap();
            model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
            loader.finish().unwrap();
        }
        txn.abort(&world.managers).unwrap();
        assert_equal(&world, &txn, &database, &model);
        world.managers.log.force_all(txn.session()).unwrap();
    }
    let (world, _) = World::restart(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "ended", Method::Btree, 4096);
    assert_equal(&world, &txn, &database, &model);
}

#[test]
fn a_restart_undoes_an_unfinished_load() {
    let place = Place::new();
    let model = numbered(3000, 90);
    {
        let world = World::new(&place, 32 << 20);
        let txn = world.join();
        let database = world.database(&txn, "cut", Method::Btree, 4096);
        txn.begin(&world.managers);
        let access = world.access(&txn, &database);
        let mut loader = access.begin_load(100).unwrap();
        model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
        world.managers.log.force_all(txn.session()).unwrap();
        txn.session().mark_dead();
    }
    let (world, _) = World::restart(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "cut", Method::Btree, 4096);
    let verified = world.assert_sound(&txn, &database);
    assert_eq!((verified.records, verified.tree_pages), (0, 1));
    assert!(verified.free_pages > 50, "{verified:?}");
    load(&world, &txn, &database, &model, 100);
    assert_equal(&world, &txn, &database, &model);
}

#[test]
fn a_snapshot_shows_none_or_all_records_of_a_load() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let (txn, reader, late) = (world.join(), world.join(), world.join());
    let database = world.database(&txn, "seen", Method::Btree, 4096);
    let model = numbered(2000, 90);
    let settle = || world.managers.log.force_all(txn.session()).unwrap();
    settle();
    let shown = |txn: &TxnSession, snapshot: &Snapshot| {
        let access = SnapshotAccess::new(&world.managers, txn, &database, snapshot);
        let mut cursor = SnapshotCursor::new(access);
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        let got = access.get(b"key/000000500", <[u8]>::to_vec).unwrap();
        assert_eq!(got.is_some(), count != 0);
        count
    };
    let before = Snapshot::new(world.managers.begin_snapshot(&reader).unwrap());
    txn.begin(&world.managers);
    let access = world.access(&txn, &database);
    let mut loader = access.begin_load(100).unwrap();
    model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
    assert_eq!(shown(&reader, &before), 0);
    loader.finish().unwrap();
    settle();
    let during = Snapshot::new(world.managers.begin_snapshot(&late).unwrap());
    assert_eq!((shown(&reader, &before), shown(&late, &during)), (0, 0));
    txn.commit(&world.managers, Durability::Sync).unwrap();
    assert_eq!((shown(&reader, &before), shown(&late, &during)), (0, 0));
    world.managers.end_snapshot(&late);
    let after = Snapshot::new(world.managers.begin_snapshot(&late).unwrap());
    assert_eq!((shown(&reader, &before), shown(&late, &after)), (0, 2000));
    world.managers.end_snapshot(&late);
    world.managers.end_snapshot(&reader);
}

#[test]
fn a_load_needs_an_empty_or_emptied_database() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "there", Method::Btree, 4096);
    world.run(&txn, &database, |access| access.put(b"one", b"1").unwrap());
    world.run(&txn, &database, |access| {
        assert!(matches!(access.begin_load(100).err(), Some(Error::NotEmpty { .. })));
        assert!(matches!(access.begin_load(5).err(), Some(Error::Unsuitable { .. })));
    });
    world.run(&txn, &database, |access| assert!(access.delete(b"one").unwrap()));
    world.managers.log.force_all(txn.session()).unwrap();
    let model = numbered(100, 90);
    load(&world, &txn, &database, &model, 100);
    assert_equal(&world, &txn, &database, &model);
}

//! Tests of leaves that share their records with their left neighbours before they split.
//!
//! Possible bugs: leaves are not fuller than in a plain tree; moved records are lost or exist twice; an abort, a
//! snapshot or a restart does not find the moved records; merged pages are lost; threads that split and merge
//! concurrently block each other for ever. The cases: random keys, compared with the same keys in a plain tree; keys in
//! order; aborted transactions; threads of two processes; restarts from the log only.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;

use libtp_buffer::{PageId, PageNo};
use libtp_process::Rank;
use libtp_record::free_pages::FIRST_PAGE;
use libtp_record::page::node::Node;
use libtp_record::{BtreeCursor, Database, Granularity, Method, Verified};
use libtp_txn::{Durability, TxnSession};
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn dense(world: &World, txn: &TxnSession, name: &str) -> Database {
    world.database(txn, name, Method::Btree, 4096).with_dense_leaves(true)
}

/// Puts `count` random keys, a hundred in each transaction. Every eighth transaction aborts.
fn put_many(world: &World, txn: &TxnSession, database: &Database, count: u64, model: &mut Model) {
    let mut random = Random(count);
    for at in 0..count / 100 {
        txn.begin(&world.managers);
        let mut kept = Vec::new();
        for _ in 0..100 {
            let key = random.next().to_be_bytes().repeat(2);
            let value = vec![key[0]; 40 + usize::try_from(random.below(50)).unwrap()];
            world.access(txn, database).put(&key, &value).unwrap();
            kept.push((key, value));
        }
        if at % 8 == 7 {
            txn.abort(&world.managers).unwrap();
        } else {
            txn.commit(&world.managers, Durability::Relaxed).unwrap();
            model.extend(kept);
        }
    }
}

fn assert_equal(world: &World, txn: &TxnSession, database: &Database, model: &Model) -> Verified {
    world.run(txn, database, |access| {
        let mut cursor = BtreeCursor::new(*access);
        for (key, value) in model {
            assert_eq!(cursor.next().unwrap().as_ref(), Some(&(key.clone(), value.clone())));
        }
        assert_eq!(cursor.next().unwrap(), None);
    });
    world.assert_sound(txn, database)
}

#[test]
fn random_keys_fill_leaves_more_than_in_a_plain_tree() {
    let place = Place::new();
    let (mut model, mut same) = (Model::new(), Model::new());
    let pages;
    {
        let world = World::new(&place, 32 << 20);
        let txn = world.join();
        let (plain, database) = (world.database(&txn, "plain", Method::Btree, 4096), dense(&world, &txn, "dense"));
        put_many(&world, &txn, &plain, 40_000, &mut same);
        put_many(&world, &txn, &database, 40_000, &mut model);
        assert_eq!(model, same);
        let plain = assert_equal(&world, &txn, &plain, &same);
        let verified = assert_equal(&world, &txn, &database, &model);
        // The plain tree's leaves are 0.69 full on average, the dense tree's 0.81.
        assert!(verified.tree_pages * 100 < plain.tree_pages * 89, "{} of {}", verified.tree_pages, plain.tree_pages);
        assert!(verified.free_pages < 8, "{} pages were merged away and not used again", verified.free_pages);
        pages = verified.tree_pages;
        world.managers.log.force_all(txn.session()).unwrap();
    }
    let (world, _) = World::restart(&place, 32 << 20);
    let txn = world.join();
    assert_eq!(assert_equal(&world, &txn, &dense(&world, &txn, "dense"), &model).tree_pages, pages);
}

/// Returns the number of records of each leaf.
fn leaves(world: &World, txn: &TxnSession, database: &Database) -> Vec<usize> {
    let mut counts = Vec::new();
    let mut next = Some(FIRST_PAGE);
    while let Some(number) = next {
        let id = PageId::new(database.id(), PageNo::new(number));
        let page = world.managers.buffers.shared(txn.session(), id, Rank::page(0)).unwrap();
        let node = Node::over(&page).unwrap();
        next = if node.is_leaf() { node.right() } else { node.child(0) };
        if node.is_leaf() {
            counts.push(node.count());
        }
    }
    counts
}

#[test]
fn no_leaf_has_only_one_of_several_large_records() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    for value_bytes in [800, 1100, 1400, 1700, 1900] {
        let databases = ["plain", "dense"].map(|name| {
            let database = world.database(&txn, &format!("{name}{value_bytes}"), Method::Btree, 8192);
            database.with_dense_leaves(name == "dense")
        });
        let [plain, dense] = databases.map(|database| {
            let mut random = Random(5);
            for _ in 0..200 {
                world.run(&txn, &database, |access| {
                    (0..10).for_each(|_| access.put(&random.next().to_be_bytes(), &vec![1; value_bytes]).unwrap());
                });
            }
            world.assert_sound(&txn, &database);
            leaves(&world, &txn, &database)
        });
        assert!(dense.len() * 100 < plain.len() * 95, "{value_bytes}: {} leaves, not {}", dense.len(), plain.len());
        // The first and the last leaf do not share records.
        let alone = dense[1..dense.len() - 1].iter().filter(|&&count| count == 1).count();
        assert_eq!(alone, 0, "{value_bytes}: leaves with one record, of {}", dense.len());
    }
}

#[test]
fn pages_that_processes_unlinked_before_they_ended_are_used_again() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let (mut random, mut left_behind) = (Random(77), 0);
    let mut put = |world: &World, txn: &TxnSession, database: &Database, count: usize| {
        world.run(txn, database, |access| {
            for _ in 0..count {
                access.put(&random.next().to_be_bytes().repeat(2), &[1; 60]).unwrap();
            }
        });
    };
    for _ in 0..60 {
        let other = world.again();
        let txn = other.join();
        let database = dense(&other, &txn, "ended");
        put(&other, &txn, &database, 150);
        left_behind = other.assert_sound(&txn, &database).unlinked_pages;
        other.managers.leave(txn);
    }
    assert!(left_behind > 0, "the ended processes left no unlinked pages");
    let txn = world.join();
    let database = dense(&world, &txn, "ended");
    (0..60).for_each(|_| put(&world, &txn, &database, 150));
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, 2 * 60 * 150);
    assert!(verified.unlinked_pages < 4, "{} pages are neither in the tree nor free", verified.unlinked_pages);
}

#[test]
fn keys_in_order_fill_leaves_as_in_a_plain_tree() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    let databases = [world.database(&txn, "plain", Method::Btree, 4096), dense(&world, &txn, "dense")];
    let pages = databases.map(|database| {
        for part in 0..100u64 {
            world.run(&txn, &database, |access| {
                (part * 100..(part + 1) * 100).for_each(|at| access.put(&at.to_be_bytes(), &[1; 60]).unwrap());
            });
        }
        world.assert_sound(&txn, &database).tree_pages
    });
    assert_eq!(pages[0], pages[1]);
}

#[test]
fn leaves_share_records_when_a_record_grows_but_not_under_page_locks() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    for (name, granularity) in [("records", Granularity::Record), ("pages", Granularity::Page)] {
        let database = dense(&world, &txn, name).with_granularity(granularity);
        let mut model = Model::new();
        put_many(&world, &txn, &database, 5000, &mut model);
        let mut random = Random(9);
        for _ in 0..20 {
            world.run(&txn, &database, |access| {
                for (key, value) in model.iter_mut().filter(|_| random.below(40) == 0) {
                    value.resize(value.len() + 60, 7);
                    access.put(key, value).unwrap();
                }
            });
        }
        assert_equal(&world, &txn, &database, &model);
    }
}

#[test]
fn threads_whose_pages_share_records_lose_nothing_and_end() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    let database = dense(&world, &txn, "side");
    let other = world.again();
    let rounds = 150u64;
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            // Half of the threads work as another process: in another mapping, with handles of their own.
            let world = if thread % 2 == 0 { &world } else { &other };
            scope.spawn(move || {
                let txn = world.join();
                let database = &dense(world, &txn, "side");
                let mut random = Random(thread + 1);
                for round in 0..rounds {
                    txn.begin(&world.managers);
                    for _ in 0..10 {
                        // A key that only this thread uses: the last byte is the thread's number.
                        let mut key = random.next().to_be_bytes().to_vec();
                        key[7] = u8::try_from(thread).unwrap();
                        world.access(&txn, database).put(&key, &[key[0]; 90]).unwrap();
                    }
                    if round % 5 == 4 {
                        txn.abort(&world.managers).unwrap();
                    } else {
                        txn.commit(&world.managers, Durability::Relaxed).unwrap();
                    }
                }
                world.managers.leave(txn);
            });
        }
    });
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, 6 * rounds / 5 * 4 * 10);
    world.run(&txn, &database, |access| {
        for thread in 0..6u64 {
            let mut random = Random(thread + 1);
            for round in 0..rounds {
                for _ in 0..10 {
                    let mut key = random.next().to_be_bytes().to_vec();
                    key[7] = u8::try_from(thread).unwrap();
                    assert_eq!(access.get(&key, <[u8]>::len).unwrap().is_some(), round % 5 != 4);
                }
            }
        }
    });
}

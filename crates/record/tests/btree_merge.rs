//! Tests of compaction, which merges neighbouring leaves with few records.
//!
//! Possible bugs: a cursor between the two leaves misses keys or returns them twice; an abort does not find its record,
//! or has no room for it; a snapshot loses a version; the freed pages are lost. The cases: trees from which many
//! records were deleted, compacted without other sessions, during a transaction that aborts, during a snapshot, and
//! while other sessions read and write; restarts from the log only.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use libtp_record::{Access, BtreeCursor, Database, Method, Snapshot, SnapshotAccess, SnapshotCursor};
use libtp_txn::TxnSession;
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key/{number:07}").into_bytes()
}

fn filled(world: &World, txn: &TxnSession, database: &Database, count: u64) -> Model {
    let model: Model =
        (0..count).map(|at| (key(at), vec![at.to_le_bytes()[0]; 40 + usize::try_from(at % 60).unwrap()])).collect();
    world.run(txn, database, |access| {
        let mut loader = access.begin_load(100).unwrap();
        model.iter().for_each(|(key, value)| loader.push(key, value).unwrap());
        loader.finish().unwrap()
    });
    model
}

fn compact(world: &World, txn: &TxnSession, database: &Database) -> u64 {
    let (mut merged, mut from) = (0, Some(Vec::new()));
    while let Some(key) = from {
        let done = world.access(txn, database).compact(&key, 16, 100).unwrap();
        merged += done.merged;
        from = done.next;
    }
    merged
}

fn thin(world: &World, txn: &TxnSession, database: &Database, model: &mut Model, keep: u64) {
    let gone: Vec<Vec<u8>> = (0..model.len() as u64).filter(|at| at % keep != 0).map(key).collect();
    for part in gone.chunks(500) {
        world.run(txn, database, |access| {
            for key in part {
                assert!(access.delete(key).unwrap());
                model.remove(key);
            }
        });
    }
    world.managers.log.force_all(txn.session()).unwrap();
}

fn assert_equal(world: &World, txn: &TxnSession, database: &Database, model: &Model) -> libtp_record::Verified {
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
    });
    world.assert_sound(txn, database)
}

#[test]
fn a_compacted_tree_has_few_pages_also_after_a_restart() {
    let place = Place::new();
    let mut model;
    let pages;
    {
        let world = World::new(&place, 32 << 20);
        let txn = world.join();
        let database = world.database(&txn, "thin", Method::Btree, 4096);
        model = filled(&world, &txn, &database, 20_000);
        let before = world.assert_sound(&txn, &database).tree_pages;
        assert_eq!(compact(&world, &txn, &database), 0, "full pages stay");
        thin(&world, &txn, &database, &mut model, 10);
        let merged = compact(&world, &txn, &database);
        let after = assert_equal(&world, &txn, &database, &model);
        assert!(after.tree_pages * 6 < before, "{before} pages, then {}", after.tree_pages);
        assert_eq!((after.ghosts, after.free_pages), (0, merged));
        assert_eq!(after.tree_pages + after.free_pages, before);
        assert_eq!(compact(&world, &txn, &database), 0, "nothing is left to do");
        // The freed pages are used again.
        let more = filled(&world, &txn, &world.database(&txn, "other", Method::Btree, 4096), 10);
        assert_eq!(more.len(), 10);
        world.run(&txn, &database, |access| {
            for at in 0..2000 {
                access.put(&[&key(at)[..], b"/more"].concat(), &[7; 100]).unwrap();
                model.insert([&key(at)[..], b"/more"].concat(), vec![7; 100]);
            }
        });
        let again = assert_equal(&world, &txn, &database, &model);
        assert_eq!(again.tree_pages + again.free_pages, before);
        pages = again.tree_pages;
        world.managers.log.force_all(txn.session()).unwrap();
    }
    let (world, _) = World::restart(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "thin", Method::Btree, 4096);
    assert_eq!(assert_equal(&world, &txn, &database, &model).tree_pages, pages);
}

#[test]
fn an_abort_undoes_changes_on_records_that_a_compaction_has_moved() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let (txn, other) = (world.join(), world.join());
    let database = world.database(&txn, "undone", Method::Btree, 4096);
    let mut model = filled(&world, &txn, &database, 5000);
    thin(&world, &txn, &database, &mut model, 7);
    other.begin(&world.managers);
    {
        let access = world.access(&other, &database);
        for at in (0..5000).step_by(21) {
            access.put(&key(at), &[9; 5]).unwrap();
            access.put(&[&key(at)[..], b"/new"].concat(), &[9; 300]).unwrap();
        }
        for at in (7..5000).step_by(49) {
            access.delete(&key(at)).unwrap();
        }
    }
    assert!(compact(&world, &txn, &database) > 50);
    other.abort(&world.managers).unwrap();
    assert_equal(&world, &txn, &database, &model);
}

/// Checks an abort with page locks. A transaction makes room free, another session compacts, and other records use the
/// room. Then the transaction aborts, and all records must exist, also after a restart.
fn undone_under_page_locks(name: &str, count: u64, give_up: impl Fn(&Access<'_>), fill: impl Fn(&Access<'_>)) {
    let place = Place::new();
    let model: Model = (0..count).map(|at| (key(at), vec![at.to_le_bytes()[0]; 700])).collect();
    {
        let world = World::new(&place, 32 << 20);
        let (txn, other) = (world.join(), world.join());
        let database = world.paged(&txn, name, Method::Btree, 4096);
        world.run(&txn, &database, |access| model.iter().for_each(|(key, value)| access.put(key, value).unwrap()));
        world.managers.log.force_all(txn.session()).unwrap();
        other.begin(&world.managers);
        give_up(&world.access(&other, &database));
        compact(&world, &txn, &database);
        fill(&world.access(&other, &database));
        compact(&world, &txn, &database);
        other.abort(&world.managers).unwrap();
        assert_equal(&world, &txn, &database, &model);
        // A later compaction removes all ghosts, so no room is kept for ever.
        compact(&world, &txn, &database);
        assert_eq!(assert_equal(&world, &txn, &database, &model).ghosts, 0);
        world.managers.log.force_all(txn.session()).unwrap();
    }
    let (world, _) = World::restart(&place, 32 << 20);
    let txn = world.join();
    assert_equal(&world, &txn, &world.paged(&txn, name, Method::Btree, 4096), &model);
}

/// Returns a function that changes each of the first records.
fn of_the_first(change: impl Fn(&Access<'_>, &[u8])) -> impl Fn(&Access<'_>) {
    move |access| (0..5).for_each(|at| change(access, &key(at)))
}

#[test]
fn the_undo_of_a_transaction_with_page_locks_finds_room_for_its_records() {
    // Keys in order leave full leaves.
    let fill = |access: &Access<'_>| {
        (0..60).for_each(|at| access.put(&[&key(9)[..], &[b'/', at]].concat(), &[9; 100]).unwrap());
    };
    let shorten = |access: &Access<'_>, key: &[u8]| access.put(key, &[7; 10]).unwrap();
    let delete = |access: &Access<'_>, key: &[u8]| assert!(access.delete(key).unwrap());
    undone_under_page_locks("shorter", 5, of_the_first(shorten), fill);
    undone_under_page_locks("deleted", 5, of_the_first(delete), fill);
    let both = |access: &Access<'_>, key: &[u8]| {
        shorten(access, key);
        delete(access, key);
    };
    undone_under_page_locks("both", 5, of_the_first(both), fill);
}

#[test]
fn a_merge_does_not_use_the_room_of_a_locked_leaf() {
    let shorten = |access: &Access<'_>, key: &[u8]| access.put(key, &[7; 10]).unwrap();
    undone_under_page_locks("neighbour", 40, of_the_first(shorten), |_| ());
}

#[test]
fn a_compaction_does_not_change_the_records_of_a_snapshot() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let (txn, reader) = (world.join(), world.join());
    let database = world.database(&txn, "seen", Method::Btree, 4096);
    let before = filled(&world, &txn, &database, 3000);
    let mut model = before.clone();
    thin(&world, &txn, &database, &mut model, 3);
    let between = model.clone();
    let snapshot = Snapshot::new(world.managers.begin_snapshot(&reader).unwrap());
    for at in (0..3000).step_by(9) {
        world.run(&txn, &database, |access| access.delete(&key(at)).unwrap());
        model.remove(&key(at));
    }
    assert!(compact(&world, &txn, &database) > 10);
    let mut cursor = SnapshotCursor::new(SnapshotAccess::new(&world.managers, &reader, &database, &snapshot));
    for (key, value) in &between {
        assert_eq!(cursor.next().unwrap().as_ref(), Some(&(key.clone(), value.clone())));
    }
    assert_eq!(cursor.next().unwrap(), None);
    world.managers.end_snapshot(&reader);
    assert_equal(&world, &txn, &database, &model);
}

#[test]
fn readers_and_writers_continue_during_a_compaction() {
    let place = Place::new();
    let world = World::new(&place, 32 << 20);
    let txn = world.join();
    let database = world.database(&txn, "beside", Method::Btree, 4096);
    let count = 6000;
    let mut model = filled(&world, &txn, &database, count);
    // These records stay all the time.
    model.retain(|key, _| key.last().is_some_and(|last| *last == b'0'));
    let (is_over, world, database) = (AtomicBool::new(false), &world, &database);
    std::thread::scope(|scope| {
        for seed in 1..3_u64 {
            let is_over = &is_over;
            scope.spawn(move || {
                let txn = world.join();
                let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                while !is_over.load(Ordering::Relaxed) {
                    // Ranges of keys are inserted and deleted again and again.
                    let (first, put) = (random.below(count), random.below(2) == 0);
                    world.run(&txn, database, |access| {
                        for at in (first..first + 40).filter(|at| at % 10 == seed) {
                            match put {
                                true => {
                                    access.put(&key(at), &vec![1; usize::try_from(random.below(300)).unwrap()]).unwrap()
                                }
                                false => assert!(access.delete(&key(at)).is_ok()),
                            }
                        }
                    });
                }
                world.managers.leave(txn);
            });
        }
        let (is_over, model) = (&is_over, &model);
        scope.spawn(move || {
            let txn = world.join();
            let mut up = true;
            while !is_over.load(Ordering::Relaxed) {
                let view = world.managers.begin_snapshot(&txn).unwrap();
                let snapshot = Snapshot::new(view);
                let mut cursor = SnapshotCursor::new(SnapshotAccess::new(&world.managers, &txn, database, &snapshot));
                let (mut seen, mut last) = (0, None);
                while let Some((key, _)) = if up { cursor.next().unwrap() } else { cursor.prev().unwrap() } {
                    assert!(last.is_none_or(|last: Vec<u8>| if up { last < key } else { last > key }));
                    seen += usize::from(model.contains_key(&key));
                    last = Some(key);
                }
                assert_eq!(seen, model.len());
                up = !up;
                world.managers.end_snapshot(&txn);
            }
            world.managers.leave(txn);
        });
        for round in 0..30 {
            let first = round * 200 % count;
            world.run(&txn, database, |access| {
                for at in (first..first + 400).filter(|at| at % 10 > 2) {
                    access.delete(&key(at)).unwrap();
                }
            });
            world.managers.log.force_all(txn.session()).unwrap();
            compact(world, &txn, database);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    world.run(&txn, database, |access| {
        for (key, value) in &model {
            assert_eq!(access.get(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value));
        }
    });
    world.assert_sound(&txn, database);
}

//! One or several threads on a hash file: are all records found while buckets are split?
//!
//! Possible bugs: a record is lost between two buckets, or undone in the wrong place; a scan misses a moved record, or
//! returns it twice; threads wait for each other's latches for ever. The cases: threads insert, delete and abort
//! concurrently in a file that grows from one bucket; at the same time scans read records that no thread changes; links
//! are followed while records move.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use libtp_lock::Wait;
use libtp_record::{Access, HashCursor, Link, Method};
use libtp_txn::Durability;
use world::{Place, Random, World};

fn kept(number: u64) -> Vec<u8> {
    format!("no thread changes {number}").into_bytes()
}

/// Scans the file. Returns `None` after an error: a scan keeps gaps locked, so it may deadlock with inserting threads.
fn scan(world: &World, txn: &libtp_txn::TxnSession, database: &libtp_record::Database) -> Option<BTreeSet<Vec<u8>>> {
    txn.begin(&world.managers);
    let access = Access::new(&world.managers, txn, database, Wait::Forever);
    let mut cursor = HashCursor::new(access);
    let mut met = BTreeSet::new();
    loop {
        match cursor.next() {
            Ok(Some((key, _))) => assert!(met.insert(key), "met twice"),
            Ok(None) => break,
            Err(_) => {
                txn.abort(&world.managers).unwrap();
                return None;
            }
        }
    }
    txn.commit(&world.managers, Durability::Relaxed).unwrap();
    Some(met)
}

#[test]
fn threads_in_a_file_that_grows_find_all_their_records() {
    const THREADS: u64 = 4;
    const KEYS: u64 = 3000;
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    let database = world.database(&txn, "side", Method::Hash, 4096);
    world.run(&txn, &database, |access| (0..50).for_each(|number| access.put(&kept(number), &[1; 300]).unwrap()));
    let other = world.again();
    let is_over = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                // Half of the threads work as another process: in another mapping, with handles of their own.
                let world = if thread % 2 == 0 { &world } else { &other };
                scope.spawn(move || {
                    let txn = world.join();
                    let database = &world.database(&txn, "side", Method::Hash, 4096);
                    let mut random = Random(thread * 77 + 1);
                    let mut number = 0;
                    while number < KEYS {
                        txn.begin(&world.managers);
                        let access = world.access(&txn, database);
                        let is_kept = random.below(5) != 0;
                        let done = (0..10).try_for_each(|step| {
                            let key = ((number + step) * THREADS + thread).to_be_bytes();
                            access.put(&key, &key.repeat(1 + usize::try_from(random.below(40)).unwrap()))?;
                            access.put(&key, &key.repeat(4))?;
                            if step % 3 == 2 {
                                assert!(access.delete(&key)?);
                            }
                            Ok::<(), libtp_record::Error>(())
                        });
                        if done.is_ok() && is_kept {
                            txn.commit(&world.managers, Durability::Relaxed).unwrap();
                            number += 10;
                        } else {
                            txn.abort(&world.managers).unwrap();
                        }
                    }
                    world.managers.leave(txn);
                })
            })
            .collect();
        let scanner = scope.spawn(|| {
            let txn = world.join();
            let mut scans = 0;
            while !is_over.load(Ordering::Relaxed) {
                if let Some(met) = scan(&world, &txn, &database) {
                    scans += 1;
                    assert!((0..50).all(|number| met.contains(&kept(number))), "a scan missed a lasting record");
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            world.managers.leave(txn);
            scans
        });
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        scanner.join().unwrap()
    });
    println!("{scans} scans ran in parallel with the threads");
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, THREADS * KEYS / 10 * 7 + 50);
    assert!(verified.tree_pages > 100, "{verified:?}");
    world.run(&txn, &database, |access| {
        for number in 0..THREADS * KEYS {
            let found = access.get(&number.to_be_bytes(), <[u8]>::len).unwrap();
            assert_eq!(found, ((number / THREADS) % 10 % 3 != 2).then_some(32), "{number}");
        }
    });
}

#[test]
fn a_link_leads_to_its_record_or_nowhere() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    for method in [Method::Btree, Method::Hash] {
        let database = world.database(&txn, method.name(), method, 4096);
        let value = |number: u64| number.to_le_bytes().repeat(1 + usize::try_from(number % 20).unwrap());
        let mut links: Vec<Link> = Vec::new();
        let (mut hits, mut misses) = (0, 0);
        for number in 0..2000_u64 {
            world.run(&txn, &database, |access| {
                let key = number.to_be_bytes();
                access.put(&key, &value(number)).unwrap();
                links.push(access.link_of(&key).unwrap().unwrap());
                let old = number * 7919 % (number + 1);
                let link = links[usize::try_from(old).unwrap()];
                let copied = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
                match access.get_linked(link, copied).unwrap() {
                    Some(found) => {
                        assert_eq!(found, (old.to_be_bytes().to_vec(), value(old)));
                        hits += 1;
                    }
                    None => {
                        misses += 1;
                        links[usize::try_from(old).unwrap()] = access.link_of(&old.to_be_bytes()).unwrap().unwrap();
                    }
                }
            });
        }
        println!("{}: {hits} links led to their records, {misses} did not", method.name());
        assert!(hits > 1000, "{hits} of {}", hits + misses);
        world.run(&txn, &database, |access| {
            access.delete(&7_u64.to_be_bytes()).unwrap();
            assert_eq!(access.get_linked(links[7], |_, _| ()).unwrap(), None);
            assert_eq!(access.link_of(&7_u64.to_be_bytes()).unwrap(), None);
            for bytes in [[0; 16], [255; 16], [1; 16]] {
                assert_eq!(access.get_linked(Link::from_bytes(bytes), |_, _| ()).unwrap(), None, "{bytes:?}");
            }
        });
    }
}

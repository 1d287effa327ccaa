//! Several threads on one tree: do all threads find all records, despite splits, aborts and deadlocks?
//!
//! Possible bugs: a key is lost between two halves of a page; one thread undoes a record of another; a scan sees a part
//! of a transfer, or a phantom; threads wait for each other for ever. The cases: each thread has its own keys in one
//! tree; threads transfer money between accounts of a small bank while scans sum all accounts; the count of a range
//! must not change within a transaction.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use libtp_lock::Wait;
use libtp_record::{Access, BtreeCursor, Database, Error, Granularity, Method};
use libtp_txn::{Durability, TxnSession};
use world::{Place, Random, World};

/// Returns whether the error requires an abort and a retry.
fn is_deadlock(error: &Error) -> bool {
    matches!(error, Error::Lock(libtp_lock::Error::Deadlock { .. } | libtp_lock::Error::Timeout { .. }))
}

/// Runs `body` until it is not the victim of a deadlock. Returns the number of retries.
fn run(
    world: &World,
    txn: &TxnSession,
    database: &Database,
    mut body: impl FnMut(&Access<'_>) -> Result<(), Error>,
) -> u64 {
    let mut retries = 0;
    loop {
        txn.begin(&world.managers);
        let access = Access::new(&world.managers, txn, database, Wait::Forever);
        match body(&access) {
            Ok(()) => {
                txn.commit(&world.managers, Durability::Relaxed).unwrap();
                return retries;
            }
            Err(error) if is_deadlock(&error) => {
                txn.abort(&world.managers).unwrap();
                retries += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn threads_that_insert_and_delete_side_by_side_find_all_their_records() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    let database = world.database(&txn, "side", Method::Btree, 4096);
    let other = world.again();
    let keys_a_thread = 4000u64;
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            // Half of the threads work as another process: in another mapping, with handles of their own.
            let world = if thread % 2 == 0 { &world } else { &other };
            scope.spawn(move || {
                let txn = world.join();
                let database = &world.database(&txn, "side", Method::Btree, 4096);
                let mut random = Random(thread * 77 + 1);
                let mut number = 0;
                while number < keys_a_thread {
                    txn.begin(&world.managers);
                    let access = world.access(&txn, database);
                    let aborts = random.below(5) == 0;
                    for step in 0..10 {
                        // Neighbouring keys belong to different threads, so that the threads share every page.
                        let key = ((number + step) * 6 + thread).to_be_bytes();
                        access.put(&key, &key.repeat(4)).unwrap();
                        if step % 3 == 2 {
                            assert!(access.delete(&key).unwrap());
                        }
                    }
                    if aborts {
                        txn.abort(&world.managers).unwrap();
                    } else {
                        txn.commit(&world.managers, Durability::Relaxed).unwrap();
                        number += 10;
                    }
                }
                world.managers.leave(txn);
            });
        }
    });
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, 6 * keys_a_thread / 10 * 7);
    world.run(&txn, &database, |access| {
        for number in (0..6 * keys_a_thread).step_by(11) {
            let found = access.get(&number.to_be_bytes(), <[u8]>::len).unwrap();
            assert_eq!(found.is_some(), (number / 6) % 10 % 3 != 2, "{number}");
        }
    });
}

/// Moves money between few accounts in some threads while others sum all accounts.
fn bank(granularity: Granularity) {
    const ACCOUNTS: u64 = 40;
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "bank", Method::Btree, 4096).with_granularity(granularity);
    let key = |number: u64| format!("account {number:04}").into_bytes();
    world.run(&txn, &database, |access| {
        for number in 0..ACCOUNTS {
            access.put(&key(number), &100i64.to_le_bytes()).unwrap();
        }
    });
    let balance = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
    let (done, retries, sums) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..3u64)
            .map(|thread| {
                let (world, database, retries, sums) = (&world, &database, &retries, &sums);
                scope.spawn(move || {
                    let txn = world.join();
                    let mut random = Random(thread + 5);
                    // The summing threads may need more time than the moving threads.
                    let mut moved = 0;
                    while moved < 500 || (sums.load(Ordering::Relaxed) == 0 && moved < 50_000) {
                        moved += 1;
                        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
                        let amount = i64::try_from(random.below(20)).unwrap();
                        let times = run(world, &txn, database, |access| {
                            for (account, change) in [(from, -amount), (to, amount)] {
                                let key = key(account);
                                let now = access.get_for_update(&key, balance)?.unwrap();
                                access.put(&key, &(now + change).to_le_bytes())?;
                            }
                            Ok(())
                        });
                        retries.fetch_add(times, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (world, database, done, sums) = (&world, &database, &done, &sums);
            scope.spawn(move || {
                let txn = world.join();
                while !done.load(Ordering::Relaxed) {
                    run(world, &txn, database, |access| {
                        let mut cursor = BtreeCursor::new(*access);
                        let mut sum = 0;
                        while cursor.move_next()? {
                            sum += balance(cursor.record().unwrap().1);
                        }
                        assert_eq!(sum, 4000, "a scan saw half a transfer");
                        Ok(())
                    });
                    sums.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        for mover in movers {
            mover.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(sums.load(Ordering::Relaxed) > 0);
    world.assert_sound(&txn, &database);
}

#[test]
fn a_scan_never_sees_half_a_transfer() {
    bank(Granularity::Record);
}

#[test]
fn a_scan_never_sees_half_a_transfer_under_page_locks() {
    bank(Granularity::Page);
}

#[test]
fn a_second_count_of_a_range_in_a_transaction_is_the_same() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let txn = world.join();
    let database = world.database(&txn, "range", Method::Btree, 4096);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (world, database, done) = (&world, &database, &done);
            scope.spawn(move || {
                let txn = world.join();
                let mut random = Random(thread + 9);
                while !done.load(Ordering::Relaxed) {
                    run(world, &txn, database, |access| {
                        let key = random.below(3000).to_be_bytes();
                        if random.below(3) == 0 {
                            access.delete(&key)?;
                        } else {
                            access.put(&key, &[1; 60])?;
                        }
                        Ok(())
                    });
                }
            });
        }
        let count = |access: &Access<'_>, from: u64, to: u64| -> Result<u64, Error> {
            let mut cursor = BtreeCursor::new(*access);
            let mut count = 0;
            let mut found = cursor.move_to(&from.to_be_bytes())?;
            while found && cursor.record().unwrap().0 < &to.to_be_bytes()[..] {
                count += 1;
                found = cursor.move_next()?;
            }
            Ok(count)
        };
        let mut random = Random(4);
        for _ in 0..300 {
            let from = random.below(2900);
            run(&world, &txn, &database, |access| {
                let first = count(access, from, from + 100)?;
                std::thread::yield_now();
                assert_eq!(count(access, from, from + 100)?, first, "a phantom");
                Ok(())
            });
        }
        done.store(true, Ordering::Relaxed);
    });
    world.assert_sound(&txn, &database);
}

#[test]
fn a_key_that_was_absent_in_a_transaction_stays_absent() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let (reader, writer) = (world.join(), world.join());
    let database = world.database(&writer, "vain", Method::Btree, 4096);
    reader.begin(&world.managers);
    assert_eq!(world.access(&reader, &database).get(b"b", |_| ()).unwrap(), None);
    writer.begin(&world.managers);
    let impatient = Access::new(&world.managers, &writer, &database, Wait::No);
    assert!(impatient.put(b"b", b"").is_err());
    // A neighbouring key may be put.
    impatient.put(b"a", b"").unwrap();
    writer.commit(&world.managers, Durability::Relaxed).unwrap();
    assert_eq!(world.access(&reader, &database).get(b"b", |_| ()).unwrap(), None);
    reader.commit(&world.managers, Durability::Relaxed).unwrap();
}

#[test]
fn after_an_aborted_insertion_a_scanned_gap_is_still_locked() {
    let place = Place::new();
    let world = World::new(&place, 16 << 20);
    let (scanner, first, second) = (world.join(), world.join(), world.join());
    let database = world.database(&first, "gaps", Method::Btree, 4096);
    world.run(&first, &database, |access| access.put(b"z", b"").unwrap());
    first.begin(&world.managers);
    world.access(&first, &database).put(b"m", b"").unwrap();
    first.abort(&world.managers).unwrap();
    // The scan passes the ghost of "m", and locks the gaps below it and below "z".
    scanner.begin(&world.managers);
    let mut cursor = BtreeCursor::new(world.access(&scanner, &database));
    assert_eq!(cursor.next().unwrap(), Some((b"z".to_vec(), vec![])));
    second.begin(&world.managers);
    for key in [b"a", b"m", b"p"] {
        assert!(Access::new(&world.managers, &second, &database, Wait::No).put(key, b"").is_err(), "{key:?}");
    }
    second.abort(&world.managers).unwrap();
    scanner.commit(&world.managers, Durability::Relaxed).unwrap();
}

#[test]
fn a_queue_hands_out_each_record_once_and_frees_its_pages() {
    const RECORDS: u64 = 6000;
    // Consumers that find no record try again at once. This limit detects consumers that starve a producer.
    const STUCK: std::time::Duration = std::time::Duration::from_secs(60);
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    let database = world.database(&txn, "queue", Method::Btree, 4096);
    let (taken, sum) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        for producer in 0..2u64 {
            let (world, database) = (&world, &database);
            scope.spawn(move || {
                let txn = world.join();
                for number in 0..RECORDS / 2 {
                    let number = number * 2 + producer;
                    run(world, &txn, database, |access| access.put(&number.to_be_bytes(), &[7; 100]));
                }
            });
        }
        for _ in 0..2 {
            let (world, database, taken, sum) = (&world, &database, &taken, &sum);
            scope.spawn(move || {
                let txn = world.join();
                while taken.load(Ordering::Relaxed) < RECORDS && began.elapsed() < STUCK {
                    let mut number = None;
                    run(world, &txn, database, |access| {
                        let mut cursor = BtreeCursor::for_update(*access);
                        number = None;
                        if let Some((key, _)) = cursor.next()? {
                            assert!(access.delete(&key)?);
                            number = Some(u64::from_be_bytes(key.try_into().unwrap()));
                        }
                        Ok(())
                    });
                    if let Some(number) = number {
                        taken.fetch_add(1, Ordering::Relaxed);
                        sum.fetch_add(number, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!((taken.load(Ordering::Relaxed), sum.load(Ordering::Relaxed)), (RECORDS, RECORDS * (RECORDS - 1) / 2));
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, 0);
    assert!(verified.tree_pages < 60, "{verified:?}");
}

/// Takes the first record of a queue until the queue is empty.
fn drain(world: &World, txn: &TxnSession, database: &Database) {
    let mut is_empty = false;
    while !is_empty {
        run(world, txn, database, |access| {
            let first = BtreeCursor::for_update(*access).next()?;
            is_empty = first.is_none();
            first.map_or(Ok(true), |(key, _)| access.delete(&key)).map(|_| ())
        });
    }
}

#[test]
fn a_session_that_waits_for_a_lock_does_not_prevent_the_reuse_of_pages() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let (txn, holder) = (world.join(), world.join());
    let database = world.database(&txn, "queue", Method::Btree, 4096);
    let elsewhere = world.database(&txn, "elsewhere", Method::Btree, 4096);
    world.run(&txn, &elsewhere, |access| access.put(b"key", b"").unwrap());
    for waits_in in ["get", "next", "put"] {
        world.run(&txn, &database, |access| {
            (0..3000_u64).for_each(|number| access.put(&number.to_be_bytes(), &[7; 100]).unwrap())
        });
        holder.begin(&world.managers);
        world.access(&holder, &elsewhere).put(b"key", b"").unwrap();
        BtreeCursor::new(world.access(&holder, &elsewhere)).last().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let waiter = world.join();
                run(&world, &waiter, &elsewhere, |access| match waits_in {
                    "get" => access.get(b"key", |_| ()).map(|_| ()),
                    "next" => BtreeCursor::new(*access).next().map(|_| ()),
                    // The gap that this key enters is locked.
                    _ => access.put(b"kez", b""),
                });
            });
            while world.managers.locks.waits().is_empty() {
                std::thread::yield_now();
            }
            drain(&world, &txn, &database);
            holder.commit(&world.managers, Durability::Relaxed).unwrap();
        });
        let verified = world.assert_sound(&txn, &database);
        assert!(verified.tree_pages < 10, "{waits_in}: {verified:?}");
    }
}

#[test]
fn leaves_that_could_not_be_unlinked_when_emptied_are_unlinked_later() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let (txn, visitor) = (world.join(), world.join());
    let database = world.database(&txn, "queue", Method::Btree, 4096);
    world.run(&txn, &database, |access| {
        (0..3000_u64).for_each(|number| access.put(&number.to_be_bytes(), &[7; 100]).unwrap())
    });
    visitor.session().enter_tree();
    drain(&world, &txn, &database);
    visitor.session().leave_tree();
    let before = world.assert_sound(&txn, &database);
    assert!(before.tree_pages > 40, "the visitor prevented the unlinking: {before:?}");
    (0..20).for_each(|_| drain(&world, &txn, &database));
    let verified = world.assert_sound(&txn, &database);
    assert!(verified.tree_pages < 10, "{verified:?}");
}

#[test]
fn a_transaction_with_very_many_locks_locks_the_database_if_no_other_transaction_uses_it() {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let (writer, other) = (world.join(), world.join());
    let database = world.database(&writer, "many", Method::Btree, 8192);
    let elsewhere = world.database(&writer, "elsewhere", Method::Btree, 8192);
    for is_in_the_way in [false, true] {
        other.begin(&world.managers);
        if is_in_the_way {
            world.access(&other, &database).get(b"nothing", |_| ()).unwrap();
        }
        world.access(&other, &elsewhere).put(b"key", b"").unwrap();
        writer.begin(&world.managers);
        let access = world.access(&writer, &database);
        for number in 0..130_000u32 {
            access.put(&number.to_be_bytes(), &[u8::from(is_in_the_way)]).unwrap();
        }
        let locks = world.managers.locks.count(writer.locker());
        assert_eq!(locks > 100_000, is_in_the_way, "{locks}");
        if is_in_the_way {
            writer.abort(&world.managers).unwrap();
        } else {
            writer.commit(&world.managers, Durability::Relaxed).unwrap();
        }
        other.commit(&world.managers, Durability::Relaxed).unwrap();
    }
    let found = world.run(&writer, &database, |access| access.get(&7u32.to_be_bytes(), <[u8]>::to_vec).unwrap());
    assert_eq!(found, Some(vec![0]));
    world.assert_sound(&writer, &database);
}

//! One thread on the real managers: does a recno file behave as a BTreeMap of numbers?
//!
//! The cases: every kind of change followed by commit, abort or a restart from the log, compared with a model; numbers
//! far beyond the end; a page that one record fills; impossible lengths and numbers.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;

use libtp_lock::Wait;
use libtp_record::{Access, Database, Error, Method, NumberCursor};
use libtp_txn::{Durability, TxnSession};
use world::{Place, Random, World};

const RECORD: usize = 50;
const METHOD: Method = Method::Recno { record_bytes: 50 };

type Model = BTreeMap<u64, Vec<u8>>;

fn assert_equal(world: &World, txn: &TxnSession, database: &libtp_record::Database, model: &Model) {
    world.run(txn, database, |access| {
        let mut cursor = NumberCursor::new(*access);
        for (number, record) in model {
            assert_eq!(cursor.next().unwrap(), Some((*number, record.clone())));
        }
        assert_eq!(cursor.next().unwrap(), None);
        // The cursor is still on the last record.
        for (number, record) in model.iter().rev().skip(1) {
            assert_eq!(cursor.prev().unwrap(), Some((*number, record.clone())));
        }
        assert_eq!(cursor.prev().unwrap(), None);
    });
}

fn one_change(access: &Access<'_>, model: &mut Model, highest: &mut u64, random: &mut Random) {
    let record = vec![u8::try_from(random.below(256)).unwrap(); RECORD];
    let number = 1 + random.below(*highest + 3);
    match random.below(10) {
        0..4 => {
            let appended = access.recno_append(&record).unwrap();
            assert!(appended > *highest, "{appended} was used already");
            *highest = appended;
            model.insert(appended, record);
        }
        4..6 => {
            access.recno_put(number, &record).unwrap();
            *highest = number.max(*highest);
            model.insert(number, record);
        }
        6 => assert_eq!(access.recno_delete(number).unwrap(), model.remove(&number).is_some()),
        7 => {
            let mut cursor = NumberCursor::new(*access);
            let expected = model.range(number..).next().map(|(number, record)| (*number, record.clone()));
            assert_eq!(cursor.seek(number).unwrap(), expected);
        }
        8 if random.below(10) == 0 => {
            let far = *highest + 500;
            access.recno_put(far, &record).unwrap();
            *highest = far;
            model.insert(far, record);
        }
        _ => assert_eq!(access.recno_get(number, <[u8]>::to_vec).unwrap().as_ref(), model.get(&number)),
    }
}

fn random_transactions(seed: u64, paged: bool) {
    let place = Place::new();
    let mut world = World::new(&place, 4 << 20);
    let mut random = Random(seed);
    let mut txn = world.join();
    let open = |world: &World, txn: &TxnSession| {
        if paged {
            world.paged(txn, "numbers", METHOD, 4096)
        } else {
            world.database(txn, "numbers", METHOD, 4096)
        }
    };
    let mut database = open(&world, &txn);
    let (mut model, mut highest) = (Model::new(), 0);
    for transaction in 0..150 {
        let mut after = model.clone();
        txn.begin(&world.managers);
        for _ in 0..random.below(30) {
            one_change(&world.access(&txn, &database), &mut after, &mut highest, &mut random);
        }
        match random.below(6) {
            0 => txn.abort(&world.managers).unwrap(),
            1 if transaction % 10 == 9 => {
                let tail = world.managers.log.tail();
                world.managers.log.force(txn.session(), tail.minus(8)).unwrap();
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
            let verified = libtp_record::verify(&world.access(&txn, &database)).unwrap();
            assert!(verified.findings.is_empty(), "{:#?}", verified.findings);
            assert_eq!(verified.records, model.len() as u64, "seed {seed}");
        }
    }
}

#[test]
fn random_transactions_agree_with_a_model_through_aborts_and_restarts() {
    for seed in 1..=6 {
        random_transactions(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), false);
    }
}

#[test]
fn random_transactions_agree_with_a_model_under_page_locks() {
    for seed in 1..=3 {
        random_transactions(0x2545_f491_4f6c_dd1d_u64.wrapping_mul(seed), true);
    }
}

#[test]
fn records_of_another_length_and_impossible_numbers_are_refused() {
    let place = Place::new();
    let world = World::new(&place, 4 << 20);
    let txn = world.join();
    let database = world.database(&txn, "numbers", METHOD, 4096);
    world.run(&txn, &database, |access| {
        assert!(matches!(access.recno_append(&[1; 49]), Err(Error::RecordLength { bytes: 49, expected: 50, .. })));
        assert!(matches!(access.recno_put(1, &[1; 51]), Err(Error::RecordLength { .. })));
        assert!(matches!(access.recno_put(0, &[1; 50]), Err(Error::RecordNumber { number: 0, .. })));
        assert!(matches!(access.recno_put(u64::MAX, &[1; 50]), Err(Error::RecordNumber { .. })));
        assert!(matches!(access.put(b"key", b""), Err(Error::WrongMethod { .. })));
        assert_eq!(access.recno_get(0, |_| ()).unwrap(), None);
        assert_eq!(access.recno_get(u64::MAX, |_| ()).unwrap(), None);
        assert_eq!(access.recno_append(&[1; 50]).unwrap(), 1);
    });
}

/// Returns access that waits for no lock.
fn impatient<'a>(world: &'a World, txn: &'a TxnSession, database: &'a Database) -> Access<'a> {
    Access::new(&world.managers, txn, database, Wait::No)
}

fn count(access: Access<'_>) -> usize {
    let mut cursor = NumberCursor::new(access);
    std::iter::from_fn(|| cursor.next().unwrap()).count()
}

#[test]
fn after_a_scan_to_the_end_no_record_is_added_although_the_file_has_grown() {
    let place = Place::new();
    let world = World::new(&place, 4 << 20);
    let (reader, writer) = (world.join(), world.join());
    let database = world.database(&writer, "numbers", METHOD, 4096);
    world.run(&writer, &database, |access| assert_eq!(access.recno_append(&[1; RECORD]).unwrap(), 1));
    reader.begin(&world.managers);
    assert_eq!(count(impatient(&world, &reader, &database)), 1);
    let tries = |number| {
        writer.begin(&world.managers);
        let put = impatient(&world, &writer, &database).recno_put(number, &[2; RECORD]);
        writer.abort(&world.managers).unwrap();
        put.map_err(|error| assert!(matches!(error, Error::Lock(libtp_lock::Error::WouldBlock { .. })), "{error}"))
    };
    // The put is refused, but the file has grown, so this page is not the last page.
    tries(500).unwrap_err();
    for number in [2, 40, 200, 600] {
        tries(number).unwrap_err();
        assert_eq!(count(impatient(&world, &reader, &database)), 1, "a phantom");
    }
    // The lock on the passed record protects it.
    tries(1).unwrap_err();
    reader.commit(&world.managers, Durability::Relaxed).unwrap();
    for number in [2, 40, 200, 600] {
        tries(number).unwrap();
    }
}

#[test]
fn a_scan_to_the_end_after_an_append_that_waited_prevents_further_appends() {
    let place = Place::new();
    let world = World::new(&place, 4 << 20);
    let reader = world.join();
    let database = world.database(&reader, "numbers", METHOD, 4096);
    world.run(&reader, &database, |access| assert_eq!(access.recno_append(&[1; RECORD]).unwrap(), 1));
    reader.begin(&world.managers);
    assert_eq!(count(impatient(&world, &reader, &database)), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (waits, other) = (world.join(), world.join());
            waits.begin(&world.managers);
            assert_eq!(world.access(&waits, &database).recno_append(&[2; RECORD]).unwrap(), 2);
            assert_eq!(count(impatient(&world, &waits, &database)), 2);
            other.begin(&world.managers);
            impatient(&world, &other, &database).recno_append(&[3; RECORD]).unwrap_err();
            other.abort(&world.managers).unwrap();
            assert_eq!(count(impatient(&world, &waits, &database)), 2, "a phantom");
            waits.commit(&world.managers, Durability::Relaxed).unwrap();
        });
        // By then the thread probably waits for the end gap. If it does not wait yet, the test proves nothing, and
        // passes.
        std::thread::sleep(std::time::Duration::from_millis(200));
        reader.commit(&world.managers, Durability::Relaxed).unwrap();
    });
}

#[test]
fn a_transaction_that_scanned_to_the_end_and_adds_records_meets_no_phantom_before_them() {
    let place = Place::new();
    let world = World::new(&place, 4 << 20);
    let (reader, writer) = (world.join(), world.join());
    let database = world.database(&writer, "numbers", METHOD, 4096);
    world.run(&writer, &database, |access| assert_eq!(access.recno_append(&[1; RECORD]).unwrap(), 1));
    reader.begin(&world.managers);
    assert_eq!(count(impatient(&world, &reader, &database)), 1);
    impatient(&world, &reader, &database).recno_put(5, &[2; RECORD]).unwrap();
    writer.begin(&world.managers);
    assert!(impatient(&world, &writer, &database).recno_put(3, &[3; RECORD]).is_err());
    writer.abort(&world.managers).unwrap();
    assert_eq!(count(impatient(&world, &reader, &database)), 2, "a phantom");
    reader.commit(&world.managers, Durability::Relaxed).unwrap();

    // The writer holds the next number, and may put a record there later.
    reader.begin(&world.managers);
    writer.begin(&world.managers);
    assert_eq!(count(impatient(&world, &reader, &database)), 2);
    assert_eq!(impatient(&world, &writer, &database).recno_get(6, |_| ()).unwrap(), None);
    assert!(impatient(&world, &reader, &database).recno_append(&[4; RECORD]).is_err(), "number 6 would be skipped");
    writer.abort(&world.managers).unwrap();
    assert_eq!(impatient(&world, &reader, &database).recno_append(&[4; RECORD]).unwrap(), 6);
    assert_eq!(count(impatient(&world, &reader, &database)), 3);
    reader.commit(&world.managers, Durability::Relaxed).unwrap();
}

#[test]
fn an_append_skips_a_number_that_another_transaction_looked_up() {
    let place = Place::new();
    let world = World::new(&place, 4 << 20);
    let (reader, writer) = (world.join(), world.join());
    let database = world.database(&writer, "numbers", METHOD, 4096);
    world.run(&writer, &database, |access| assert_eq!(access.recno_append(&[1; 50]).unwrap(), 1));
    reader.begin(&world.managers);
    assert_eq!(world.access(&reader, &database).recno_get(2, |_| ()).unwrap(), None);
    world.run(&writer, &database, |access| assert_eq!(access.recno_append(&[3; 50]).unwrap(), 3));
    assert_eq!(world.access(&reader, &database).recno_get(2, |_| ()).unwrap(), None);
    reader.commit(&world.managers, Durability::Relaxed).unwrap();
    let found = world.run(&writer, &database, |access| access.recno_get(3, <[u8]>::to_vec).unwrap());
    assert_eq!(found, Some(vec![3; 50]));
}

//! Restart on one thread and on several threads: are the resulting files identical?
//!
//! Several threads repeat history concurrently, each on its own pages, and log records name pages of several threads.
//! The test has splits, unlinked pages, long values and records by number, and some transactions never commit. Every
//! file must be identical for any number of threads. With few frames, pages are written during the restart, and the
//! records must be the same.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use libtp_log::Lsn;
use libtp_record::btree::log_records::{ROOT_SPLIT, SPLIT, UNLINK};
use libtp_record::{BtreeCursor, Database, Method};
use libtp_txn::{Durability, Recovered, TxnSession};
use world::{Place, Random, World};

const LARGE_CACHE: u64 = 64 << 20;
/// Two dozen pages.
const SMALL_CACHE: u64 = 96 << 10;
const NUMBERED: Method = Method::Recno { record_bytes: 40 };

struct Bank {
    names: Database,
    numbers: Database,
}

impl Bank {
    fn open(world: &World, txn: &TxnSession) -> Bank {
        let names = world.database(txn, "names", Method::Btree, 4096);
        Bank { names, numbers: world.database(txn, "numbers", NUMBERED, 4096) }
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    [&random.below(3000).to_be_bytes()[..], &[b'k'; 60]].concat()
}

fn work(world: &World, txn: &TxnSession, bank: &Bank, random: &mut Random) {
    let names = world.access(txn, &bank.names);
    for _ in 0..8 {
        let bytes = if random.below(40) == 0 { 9000 } else { random.below(200) };
        names.put(&key(random), &vec![7; usize::try_from(bytes).unwrap()]).unwrap();
    }
    world.access(txn, &bank.numbers).recno_append(&[random.next().to_le_bytes()[0]; 40]).unwrap();
}

/// Makes an environment with a long log and one unfinished transaction. Its files lack the changes in the log.
fn story() -> Place {
    let place = Place::new();
    let world = World::new(&place, LARGE_CACHE);
    let txn = world.join();
    let bank = Bank::open(&world, &txn);
    let mut random = Random(11);
    for number in 0..700 {
        txn.begin(&world.managers);
        work(&world, &txn, &bank, &mut random);
        match number % 9 {
            8 => txn.abort(&world.managers).unwrap(),
            _ => drop(txn.commit(&world.managers, Durability::Relaxed).unwrap()),
        }
    }
    // A range of keys is deleted, so that pages are emptied and unlinked.
    for first in (500..2500_u64).step_by(100) {
        world.run(&txn, &bank.names, |access| {
            for number in first..first + 100 {
                access.delete(&[&number.to_be_bytes()[..], &[b'k'; 60]].concat()).unwrap();
            }
        });
    }
    // Scans pass the emptied pages, and unlink them.
    for _ in 0..2 {
        world.run(&txn, &bank.names, |access| {
            let mut cursor = BtreeCursor::new(*access);
            while cursor.move_next().unwrap() {}
        });
    }
    let other = world.join();
    other.begin(&world.managers);
    work(&world, &other, &bank, &mut random);
    let log = &world.managers.log;
    log.force(txn.session(), log.tail().minus(8)).unwrap();
    let kinds: Vec<u16> = log.roll(Lsn::FIRST).map(|record| record.unwrap().header.kind()).collect();
    let count = |kind| kinds.iter().filter(|&&one| one == kind).count();
    let counts = [ROOT_SPLIT, SPLIT, UNLINK].map(count);
    assert!(counts[0] > 0 && counts[1] > 50 && counts[2] > 5, "{counts:?}: too few records of some kinds for the test");
    other.abort(&world.managers).unwrap();
    place
}

fn copy(story: &Place) -> Place {
    let copy = Place::new();
    for entry in std::fs::read_dir(story.file("")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.file(entry.file_name().to_str().unwrap())).unwrap();
    }
    copy
}

/// Returns the two files after a restart, with every page written.
fn files(story: &Place, threads: u32) -> (Recovered, Vec<Vec<u8>>) {
    let place = copy(story);
    let (world, recovered) = World::restart_on(&place, LARGE_CACHE, Some(threads));
    let txn = world.join();
    world.managers.buffers.write_all(txn.session()).unwrap();
    let read = |name: &str| std::fs::read(place.file(name)).unwrap();
    (recovered, vec![read("names.tp"), read("numbers.tp")])
}

/// Returns every record after a restart.
fn records(story: &Place, budget_bytes: u64, threads: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let place = copy(story);
    let (world, recovered) = World::restart_on(&place, budget_bytes, Some(threads));
    assert_eq!(recovered.undone, 1);
    let txn = world.join();
    let bank = Bank::open(&world, &txn);
    world.assert_sound(&txn, &bank.names);
    world.assert_sound(&txn, &bank.numbers);
    world.run(&txn, &bank.names, |access| {
        let mut cursor = BtreeCursor::new(*access);
        let mut found = Vec::new();
        while cursor.move_next().unwrap() {
            let (key, value) = cursor.record().unwrap();
            found.push((key.to_vec(), value.to_vec()));
        }
        found
    })
}

#[test]
fn several_threads_make_the_same_files_as_one() {
    let story = story();
    let (alone, expected) = files(&story, 1);
    assert!(alone.redone > 5_000 && alone.undone == 1, "{alone:?}");
    for threads in [2, 3, 8] {
        let (recovered, found) = files(&story, threads);
        assert_eq!(recovered, alone, "{threads} threads");
        for (one, other) in expected.iter().zip(&found) {
            let pages = one.chunks(4096).zip(other.chunks(4096));
            let differs: Vec<usize> = pages.enumerate().filter(|(_, (a, b))| a != b).map(|(page, _)| page).collect();
            assert!(one.len() == other.len() && differs.is_empty(), "{threads} threads: pages {differs:?} differ");
        }
    }
}

#[test]
fn pages_written_during_recovery_change_nothing() {
    let story = story();
    let expected = records(&story, LARGE_CACHE, 1);
    assert!(expected.len() > 500);
    for threads in [1, 4] {
        assert!(records(&story, SMALL_CACHE, threads) == expected, "{threads} threads");
    }
}

//! A log that is truncated at a record: does a restart find all commits before the cut, and does the library still
//! work?
//!
//! The critical case is a change of several actions, above all a split, whose log ends between two actions. In the
//! test, transactions split leaves and inner pages, write long values, abort and clean up. Then the log is truncated at
//! each `POST` record and at every 23rd record. A restart must find every commit before the cut and nothing else, and
//! searches must find keys despite unposted splits.

#![allow(clippy::unwrap_used)] // in the functions that tests share

mod world;

use std::collections::BTreeMap;

use libtp_log::{Lsn, SEGMENT_HEADER_BYTES};
use libtp_record::btree::log_records::{POST, ROOT_SPLIT, SPLIT};
use libtp_record::{BtreeCursor, Method};
use libtp_txn::Durability;
use world::{Place, Random, World};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A log, and the states that it must restore.
struct Story {
    place: Place,
    /// After each commit or abort: the end of the log, and the committed records.
    commits: Vec<(Lsn, Model)>,
    /// The LSN and the kind of every record.
    records: Vec<(Lsn, u16)>,
}

fn key(random: &mut Random) -> Vec<u8> {
    // With long keys an inner page has few children, so the tree is high.
    [&random.below(400).to_be_bytes()[..], &[b'k'; 250]].concat()
}

fn write_story() -> Story {
    let place = Place::new();
    let world = World::new(&place, 64 << 20);
    let txn = world.join();
    let database = world.database(&txn, "cut", Method::Btree, 4096);
    let mut random = Random(7);
    let (mut model, mut commits) = (Model::new(), Vec::new());
    for transaction in 0..60u64 {
        let mut after = model.clone();
        txn.begin(&world.managers);
        let access = world.access(&txn, &database);
        for _ in 0..6 {
            let key = key(&mut random);
            if random.below(5) == 0 {
                assert_eq!(access.delete(&key).unwrap(), after.remove(&key).is_some());
                continue;
            }
            let bytes = if random.below(15) == 0 { 6000 } else { random.below(300) };
            let value = vec![transaction.to_le_bytes()[0]; usize::try_from(bytes).unwrap()];
            access.put(&key, &value).unwrap();
            after.insert(key, value);
        }
        if transaction % 7 == 6 {
            txn.abort(&world.managers).unwrap();
        } else {
            txn.commit(&world.managers, Durability::Relaxed).unwrap();
            model = after;
        }
        commits.push((world.managers.log.tail(), model.clone()));
    }
    let log = &world.managers.log;
    log.force(txn.session(), log.tail().minus(8)).unwrap();
    let record = |record: libtp_log::Result<libtp_log::Record>| record.map(|record| (record.lsn, record.header.kind()));
    let records: Vec<_> = log.roll(Lsn::FIRST).map(record).collect::<Result<_, _>>().unwrap();
    let _ = world.assert_sound(&txn, &database);
    Story { place, commits, records }
}

/// Returns a copy of the story's directory whose log ends where the record at `cut` begins.
fn cut(story: &Story, cut: Lsn) -> Place {
    let copy = Place::new();
    for entry in std::fs::read_dir(story.place.file("")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.file(entry.file_name().to_str().unwrap())).unwrap();
    }
    let first = copy.file("log.00000001");
    let mut log = std::fs::read(&first).unwrap();
    let at = usize::try_from(SEGMENT_HEADER_BYTES + cut.raw()).unwrap();
    assert!(at < log.len(), "the story fits the first segment");
    log[at..].fill(0);
    std::fs::write(&first, log).unwrap();
    copy
}

fn check(story: &Story, at: Lsn) {
    let committed = story.commits.iter().rev().find(|(end, _)| *end <= at).map(|(_, model)| model.clone());
    let model = committed.unwrap_or_default();
    let copy = cut(story, at);
    let world = World::restart(&copy, 64 << 20).0;
    let txn = world.join();
    let database = world.database(&txn, "cut", Method::Btree, 4096);
    let verified = world.assert_sound(&txn, &database);
    assert_eq!(verified.records, model.len() as u64, "cut at {at}");
    world.run(&txn, &database, |access| {
        for (key, value) in &model {
            assert_eq!(access.get(key, <[u8]>::to_vec).unwrap().as_ref(), Some(value), "cut at {at}");
        }
        let mut cursor = BtreeCursor::new(*access);
        let mut found = Model::new();
        while cursor.move_next().unwrap() {
            let (key, value) = cursor.record().unwrap();
            found.insert(key.to_vec(), value.to_vec());
        }
        assert!(found == model, "cut at {at}");
    });
    // Further changes succeed despite the unfinished actions.
    let mut random = Random(at.raw() | 1);
    world.run(&txn, &database, |access| {
        for _ in 0..60 {
            access.put(&key(&mut random), &[1; 200]).unwrap();
        }
    });
    world.assert_sound(&txn, &database);
}

#[test]
fn a_restart_finds_exactly_the_commits_before_the_cut() {
    let story = write_story();
    let kinds: Vec<u16> = story.records.iter().map(|(_, kind)| *kind).collect();
    let posts = kinds.iter().filter(|kind| **kind == POST).count();
    assert!(kinds.contains(&ROOT_SPLIT) && kinds.contains(&SPLIT) && posts > 20, "too few posts: {posts}");
    for (number, (lsn, kind)) in story.records.iter().enumerate() {
        if *kind == POST || number % 23 == 0 {
            check(&story, *lsn);
        }
    }
}

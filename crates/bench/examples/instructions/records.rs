//! Single calls of the record interface, and a transaction of recoverable memory. A transaction of records has ten
//! calls unless the path's name says otherwise. The count of a call includes a tenth of the transaction's begin and
//! commit.

use std::hint::black_box;
use std::ops::ControlFlow;

use libtp::{vista, Db, Env, Recno, Txn};

use crate::{Paths, Place, Random};

const RECORDS: u64 = 10_000;
const VALUE: [u8; 100] = [7; 100];
/// Number of calls in a transaction.
const CALLS: u64 = 10;
/// Number of transactions of a path.
const TXNS: u64 = 200;

pub fn run(paths: &Paths, place: &Place) {
    let env = place.env("tables");
    let tree = env.btree("tree").unwrap();
    let hash = env.hash("hash").unwrap();
    for db in [&tree, &hash] {
        env.run(|txn| (0..RECORDS).try_for_each(|number| db.put(txn, &number.to_be_bytes(), &VALUE))).unwrap();
    }
    env.checkpoint().unwrap();
    paths.run("begin and commit, nothing between", 1, CALLS * TXNS, &mut || env.begin().unwrap().commit().unwrap());
    reads(paths, &env, &tree, &hash);
    changes(paths, &env, &tree);
    let numbered = env.recno("numbered", 50).unwrap();
    appends(paths, &env, &numbered);
    memory(paths, place);
}

/// Runs a path whose operation is a call in a transaction of ten calls.
fn in_txns(paths: &Paths, name: &str, env: &Env, mut call: impl FnMut(&Txn<'_>)) {
    paths.run(name, CALLS, TXNS, &mut || {
        let txn = env.begin().unwrap();
        (0..CALLS).for_each(|_| call(&txn));
        txn.commit().unwrap();
    });
}

fn reads(paths: &Paths, env: &Env, tree: &Db, hash: &Db) {
    let mut random = Random::default();
    in_txns(paths, "get", env, |txn| {
        assert_eq!(tree.get_with(txn, &random.below(RECORDS).to_be_bytes(), <[u8]>::len).unwrap(), Some(VALUE.len()));
    });
    in_txns(paths, "get from a hash file", env, |txn| {
        assert_eq!(hash.get_with(txn, &random.below(RECORDS).to_be_bytes(), <[u8]>::len).unwrap(), Some(VALUE.len()));
    });
    let snapshot = env.snapshot().unwrap();
    paths.run("get from one snapshot", 1, CALLS * TXNS, &mut || {
        let found = tree.get_with(&snapshot, &random.below(RECORDS).to_be_bytes(), <[u8]>::len).unwrap();
        assert_eq!(found, Some(VALUE.len()));
    });
    paths.run("range of four records in a snapshot", 1, CALLS * TXNS, &mut || {
        let (from, mut count) = (random.below(RECORDS - 8), 0);
        let mut cursor = tree.range(&snapshot, from.to_be_bytes()..(from + 4).to_be_bytes()).unwrap();
        let walked = cursor.for_each(|key, value| {
            count += u64::from(!black_box(key).is_empty() && !black_box(value).is_empty());
            ControlFlow::<()>::Continue(())
        });
        walked.unwrap();
        assert_eq!(count, 4);
    });
    paths.run("scan of a snapshot, per record", RECORDS, 4, &mut || {
        let mut count = 0;
        let mut cursor = tree.cursor(&snapshot);
        let walked = cursor.for_each(|key, value| {
            count += u64::from(!black_box(key).is_empty() && !black_box(value).is_empty());
            ControlFlow::<()>::Continue(())
        });
        walked.unwrap();
        assert_eq!(count, RECORDS);
    });
    paths.run("cursor, per record (100 in a transaction)", 100, TXNS / CALLS, &mut || {
        let txn = env.begin().unwrap();
        let mut cursor = tree.cursor(&txn);
        let mut pair = cursor.seek(&random.below(RECORDS - 100).to_be_bytes()).unwrap();
        for _ in 0..99 {
            pair = black_box(cursor.next().unwrap());
        }
        assert!(pair.is_some());
        drop(cursor);
        txn.commit().unwrap();
    });
}

fn changes(paths: &Paths, env: &Env, tree: &Db) {
    let mut random = Random::default();
    in_txns(paths, "update_with, 8 bytes", env, |txn| {
        let key = random.below(RECORDS).to_be_bytes();
        let fresh = random.draw().to_le_bytes();
        tree.update_with(txn, &key, |value| value[..8].copy_from_slice(&fresh)).unwrap().unwrap();
    });
    in_txns(paths, "update_part, 8 bytes", env, |txn| {
        let key = random.below(RECORDS).to_be_bytes();
        assert!(tree.update_part(txn, &key, 0, &random.draw().to_le_bytes()).unwrap());
    });
    let mut value = VALUE;
    in_txns(paths, "put over a record", env, |txn| {
        let key = random.below(RECORDS).to_be_bytes();
        value[..8].copy_from_slice(&random.draw().to_le_bytes());
        tree.put(txn, &key, &value).unwrap();
    });
    let mut next = RECORDS;
    in_txns(paths, "insert, in order", env, |txn| {
        tree.put(txn, &next.to_be_bytes(), &VALUE).unwrap();
        next += 1;
    });
    in_txns(paths, "insert, random key", env, |txn| {
        let key = [&random.below(RECORDS).to_be_bytes()[..], &random.draw().to_be_bytes()].concat();
        tree.put(txn, &key, &VALUE).unwrap();
    });
    let mut last = RECORDS;
    in_txns(paths, "delete", env, |txn| {
        last -= 1;
        assert!(tree.delete(txn, &last.to_be_bytes()).unwrap());
    });
}

fn appends(paths: &Paths, env: &Env, numbered: &Recno) {
    in_txns(paths, "append to records by number", env, |txn| {
        numbered.append(txn, &[1; 50]).unwrap();
    });
}

fn memory(paths: &Paths, place: &Place) {
    let bytes = 1 << 20;
    let mut segment = vista::Segment::open(place.0.path().join("memory"), bytes).unwrap();
    let mut random = Random::default();
    paths.run("transaction of 8 bytes of recoverable memory", 1, CALLS * TXNS, &mut || {
        let mut txn = segment.begin();
        let at = random.below(bytes / 8) * 8;
        txn.set_range(at, 8).unwrap().copy_from_slice(&at.to_ne_bytes());
        txn.end().unwrap();
    });
}

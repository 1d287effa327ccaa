//! Cursors that are made anew in each transaction, and go on where another has stood.

use std::collections::BTreeMap;

use crate::order::AsciiCaseless;
use crate::{Db, Duplicates, Env};

fn name(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Walks with a transaction for each step, while records come, among them so many that the file is split, and go, among them that on
/// which the cursor stands. Returns how often each was met.
fn walked(env: &Env, db: &Db) -> BTreeMap<Vec<u8>, u32> {
    for number in 0..300 {
        env.run(|txn| db.put(txn, &name(number), b"")).unwrap();
    }
    let mut met = BTreeMap::new();
    let mut place = env.run(|txn| db.cursor(txn).first()).unwrap();
    let mut others = 300..4000;
    while let Some((key, _)) = place {
        *met.entry(key.clone()).or_default() += 1;
        env.run(|txn| {
            if met.len() % 3 == 0 {
                db.delete(txn, &key)?;
            }
            others.by_ref().take(10).try_for_each(|number| db.put(txn, &name(number), &[7; 200]))
        })
        .unwrap();
        place = env.run(|txn| db.cursor(txn).next_behind(&key)).unwrap();
        assert!(met.len() < 10_000, "the walk has no end");
    }
    met
}

#[test]
fn a_walk_in_many_transactions_meets_what_is_there_all_the_time_once() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    for db in [env.hash("hash").unwrap(), env.btree("tree").unwrap()] {
        let met = walked(&env, &db);
        assert!((0..300).all(|number| met.get(&name(number)) == Some(&1)), "{}", db.name());
        assert!(met.values().all(|count| *count == 1), "{}", db.name());
    }
}

#[test]
fn a_snapshot_is_walked_on_from_a_key_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    for db in [env.hash("hash").unwrap(), env.btree("tree").unwrap()] {
        for number in 0..100 {
            env.run(|txn| db.put(txn, &name(number), b"")).unwrap();
        }
        let snapshot = env.snapshot().unwrap();
        let mut at_once = db.cursor(&snapshot);
        let mut place = at_once.first().unwrap();
        while let Some((key, _)) = place {
            place = at_once.next().unwrap();
            assert_eq!(db.cursor(&snapshot).next_behind(&key).unwrap(), place);
        }
    }
}

#[test]
fn behind_a_key_is_behind_all_that_are_equal_in_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    let words = env.btree_ordered("words", AsciiCaseless).unwrap();
    env.run(|txn| {
        words.put(txn, b"apple", b"1")?;
        words.put(txn, b"pear", b"2")?;
        let mut cursor = words.cursor(txn);
        assert_eq!(cursor.next_behind(b"APPLE")?.unwrap().0, b"pear");
        assert_eq!(cursor.next_behind(b"Banana")?.unwrap().0, b"pear");
        assert_eq!(cursor.next_behind(b"Pear")?, None);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_pair_among_several_of_its_key_is_found_again_and_so_is_the_gap_it_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open(dir.path()).unwrap();
    for kind in [Duplicates::Sorted, Duplicates::AsTheyCame] {
        let tags = env.multi(&format!("{kind:?}"), kind).unwrap();
        let place = env.run(|txn| {
            tags.put(txn, b"pear", b"a")?;
            let place = tags.put_placed(txn, b"pear", b"b")?.unwrap();
            tags.put(txn, b"pear", b"c")?;
            Ok(place)
        });
        let place = place.unwrap();
        env.run(|txn| {
            let mut cursor = tags.cursor(txn);
            assert_eq!(cursor.go_to(&place)?.unwrap().1, b"b");
            assert_eq!(cursor.place(), Some(&place[..]));
            assert_eq!(cursor.next()?.unwrap().1, b"c");
            cursor.go_to(&place)?;
            assert!(tags.delete_at(txn, &cursor)?);
            Ok(())
        })
        .unwrap();
        env.run(|txn| {
            let mut cursor = tags.cursor(txn);
            assert_eq!(cursor.go_to(&place)?.unwrap().1, b"c");
            assert!(cursor.place().is_some_and(|other| other != place));
            assert_eq!(cursor.prev()?.unwrap().1, b"a");
            assert_eq!(tags.put_placed(txn, b"pear", b"a")?.is_none(), kind == Duplicates::Sorted);
            Ok(())
        })
        .unwrap();
    }
}

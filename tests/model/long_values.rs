//! Values that need more log than one reservation may have. They are put, replaced, rolled back and refused, and other
//! sessions can still append to the log.

use std::time::Duration;

use libtp::{Bytes, Env, Error, Txn};

/// The length of a value that is longer than the largest reservation of log.
const LONG: usize = 17 << 20;

fn value(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes / 8).flat_map(|at| (at * 31 + seed).to_le_bytes()).collect()
}

fn check(env: &Env, names: &[&str]) {
    for name in names {
        let found = env.verify(name).unwrap().findings;
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn a_value_longer_than_a_reservation_can_be_put_read_and_rolled_back() {
    let directory = tempfile::tempdir().unwrap();
    let settings = || Env::builder().memory(Bytes::mib(8));
    let env = settings().open(directory.path()).unwrap();
    let (tree, hash, list) = (env.btree("tree").unwrap(), env.hash("hash").unwrap(), env.list("list").unwrap());
    let (first, second) = (value(LONG, 1), value(LONG, 2));
    let put = |txn: &Txn<'_>, value: &[u8]| {
        tree.put(txn, b"k", value)?;
        hash.put(txn, b"k", value)?;
        list.put(txn, 1, value)
    };
    let found = |txn: &Txn<'_>| Ok([tree.get(txn, b"k")?, hash.get(txn, b"k")?, list.get(txn, 1)?]);
    let all = |value: &[u8]| [0; 3].map(|_| Some(value.to_vec()));

    env.run(|txn| put(txn, &first)).unwrap();
    assert!(env.run(found).unwrap() == all(&first));
    // Replaces the value twice. The rollback to the savepoint undoes the first change, and the abort the second.
    let txn = env.begin().unwrap();
    let savepoint = txn.savepoint();
    put(&txn, &second).unwrap();
    assert!(found(&txn).unwrap() == all(&second));
    savepoint.roll_back().unwrap();
    assert!(found(&txn).unwrap() == all(&first));
    put(&txn, &second).unwrap();
    txn.abort().unwrap();
    assert!(env.run(found).unwrap() == all(&first));
    env.run(|txn| put(txn, &second)).unwrap();
    drop((tree, hash, list, env));

    let env = settings().open(directory.path()).unwrap();
    let (tree, hash, list) = (env.btree("tree").unwrap(), env.hash("hash").unwrap(), env.list("list").unwrap());
    let there = env.run(|txn| Ok([tree.get(txn, b"k")?, hash.get(txn, b"k")?, list.get(txn, 1)?])).unwrap();
    assert!(there == all(&second));
    env.run(|txn| Ok((tree.delete(txn, b"k")?, hash.delete(txn, b"k")?, list.delete(txn, 1)?))).unwrap();
    check(&env, &["tree", "hash", "list"]);
}

#[test]
fn a_session_that_puts_a_long_value_leaves_room_in_the_log_for_other_sessions() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().memory(Bytes::mib(8)).open(directory.path()).unwrap();
    let tree = env.btree("tree").unwrap();
    let others: Vec<_> = (0..40).map(|_| env.begin().unwrap()).collect();
    for (at, txn) in others.iter().enumerate() {
        tree.put(txn, &at.to_be_bytes(), b"before").unwrap();
    }
    let long = value(8 << 20, 1);
    env.run(|txn| tree.put(txn, b"long", &long)).unwrap();
    for (at, txn) in others.into_iter().enumerate() {
        tree.put(&txn, &at.to_be_bytes(), b"behind").unwrap();
        if at % 2 == 0 {
            txn.commit().unwrap();
        } else {
            txn.abort().unwrap();
        }
    }
    let txn = env.begin().unwrap();
    assert_eq!(tree.count(&txn, ..).unwrap(), 21);
    assert!(tree.get(&txn, b"long").unwrap().as_deref() == Some(&long[..]));
}

#[test]
fn the_pages_of_a_long_value_are_freed_if_its_record_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::ZERO).open(directory.path()).unwrap();
    let (tree, hash) = (env.btree("tree").unwrap(), env.hash("hash").unwrap());
    env.run(|txn| tree.put(txn, b"a", b"").and_then(|()| tree.put(txn, b"z", b""))).unwrap();
    // This transaction holds locks on all gaps. A put writes the value's pages before it meets such a lock.
    let reader = env.begin().unwrap();
    for db in [&tree, &hash] {
        let mut cursor = db.cursor(&reader);
        while cursor.next().unwrap().is_some() {}
    }
    let long = value(100_000, 1);
    let txn = env.begin().unwrap();
    for db in [&tree, &hash] {
        let refused = db.put(&txn, b"m", &long);
        assert!(matches!(refused, Err(Error::LockTimeout(_))), "{refused:?}");
    }
    txn.commit().unwrap();
    drop(reader);
    check(&env, &["tree", "hash"]);
    env.run(|txn| tree.put(txn, b"m", &long).and_then(|()| hash.put(txn, b"m", &long))).unwrap();
    check(&env, &["tree", "hash"]);
}

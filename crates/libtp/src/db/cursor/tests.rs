//! Tests of cursors: their places, calls that fail or find nothing, and continuation in another transaction.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use crate::order::AsciiCaseless;
use crate::{Db, Duplicates, Env, Error, Reader};

fn name(number: u32) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Walks through the file, with a transaction for each step. Between the steps, inserts other records, enough to split
/// the file, and sometimes removes the record under the cursor. Returns how often each record was met.
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
        place = env.run(|txn| db.cursor(txn).next_after(&key)).unwrap();
        assert!(met.len() < 10_000, "the walk has no end");
    }
    met
}

#[test]
fn a_walk_in_many_transactions_meets_each_record_that_stays_once() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    for db in [env.hash("hash").unwrap(), env.btree("tree").unwrap()] {
        let met = walked(&env, &db);
        assert!((0..300).all(|number| met.get(&name(number)) == Some(&1)), "{}", db.name());
        assert!(met.values().all(|count| *count == 1), "{}", db.name());
    }
}

#[test]
fn a_walk_of_a_snapshot_continues_after_a_key_in_the_same_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    for db in [env.hash("hash").unwrap(), env.btree("tree").unwrap()] {
        for number in 0..100 {
            env.run(|txn| db.put(txn, &name(number), b"")).unwrap();
        }
        let snapshot = env.snapshot().unwrap();
        let mut at_once = db.cursor(&snapshot);
        let mut place = at_once.first().unwrap();
        while let Some((key, _)) = place {
            place = at_once.next().unwrap();
            assert_eq!(db.cursor(&snapshot).next_after(&key).unwrap(), place);
        }
    }
}

#[test]
fn next_after_passes_all_keys_that_are_equal_in_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let words = env.btree_ordered("words", AsciiCaseless).unwrap();
    env.run(|txn| {
        words.put(txn, b"apple", b"1")?;
        words.put(txn, b"pear", b"2")?;
        let mut cursor = words.cursor(txn);
        assert_eq!(cursor.next_after(b"APPLE")?.unwrap().0, b"pear");
        assert_eq!(cursor.next_after(b"Banana")?.unwrap().0, b"pear");
        assert_eq!(cursor.next_after(b"Pear")?, None);
        Ok(())
    })
    .unwrap();
}

#[test]
fn go_to_finds_one_of_several_pairs_of_a_key_and_the_gap_that_it_leaves() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
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

/// Returns all pairs in two ways. The first way is `for_each`, which breaks off after every `stretch` pairs and is then
/// called again. The second way is `next`.
fn both_ways(db: &Db, reader: &impl crate::Reader, stretch: usize) -> [Vec<crate::Pair>; 2] {
    let (mut shown, mut given) = (Vec::new(), Vec::new());
    let mut cursor = db.cursor(reader);
    loop {
        let before = shown.len();
        let broke = cursor.for_each(|key, value| {
            shown.push((key.to_vec(), value.to_vec()));
            if shown.len() - before == stretch {
                return ControlFlow::Break(shown.len());
            }
            ControlFlow::Continue(())
        });
        match broke.unwrap() {
            Some(count) => assert_eq!(count, shown.len()),
            None => break,
        }
    }
    // The cursor stays after the last pair.
    assert_eq!(cursor.next().unwrap(), None);
    let mut cursor = db.cursor(reader);
    while let Some(pair) = cursor.next().unwrap() {
        given.push(pair);
    }
    [shown, given]
}

#[test]
fn for_each_and_next_return_the_same_pairs() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let empty = env.btree("empty").unwrap();
    for db in
        [env.hash("hash").unwrap(), env.btree("tree").unwrap(), env.btree_ordered("spelled", AsciiCaseless).unwrap()]
    {
        let put = |txn: &crate::Txn<'_>, numbers: std::ops::Range<u32>, byte: u8| {
            // Some of the values are long.
            numbers.clone().try_for_each(|number| {
                db.put(txn, &name(number), &vec![byte; if number % 50 == 7 { 20_000 } else { 40 }])
            })
        };
        env.run(|txn| put(txn, 0..700, b'a')).unwrap();
        let snapshot = env.snapshot().unwrap();
        env.run(|txn| {
            put(txn, 300..400, b'b')?;
            (100..200).try_for_each(|number| db.delete(txn, &name(number)).map(|_| ()))?;
            put(txn, 700..900, b'c')
        })
        .unwrap();
        for stretch in [1, 13, 10_000] {
            let [shown, given] = both_ways(&db, &snapshot, stretch);
            assert_eq!(shown.len(), 700, "{}", db.name());
            assert!(shown == given && shown.iter().all(|(_, value)| value[0] == b'a'), "{}", db.name());
            let [shown, given] = env.run(|txn| Ok(both_ways(&db, txn, stretch))).unwrap();
            assert_eq!(shown.len(), 800, "{}", db.name());
            assert!(shown == given, "{}", db.name());
        }
        assert_eq!(both_ways(&empty, &snapshot, 1), [Vec::new(), Vec::new()]);
    }
}

#[test]
fn a_range_whose_end_is_before_its_beginning_has_no_keys() {
    use std::ops::Bound::{Excluded, Included};
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("tree").unwrap();
    // Enough for several leaves, so that the two bounds are on different leaves.
    env.run(|txn| (0..2000).try_for_each(|number| db.put(txn, &name(number), &[7; 100]))).unwrap();
    let (low, high) = (name(900), name(100));
    let inverted = [
        (Included(&low[..]), Included(&high[..])),
        (Included(&low[..]), Excluded(&high[..])),
        (Excluded(&low[..]), Included(&high[..])),
        (Excluded(&low[..]), Excluded(&low[..])),
        (Included(&low[..]), Excluded(&low[..])),
    ];
    for (low, high) in inverted {
        let keys = || crate::Keys::between(low, high);
        env.run(|txn| {
            let mut cursor = db.range(txn, keys())?;
            assert_eq!((cursor.first()?, cursor.last()?, cursor.next()?), (None, None, None));
            let mut cursor = db.range(txn, keys())?;
            assert_eq!((cursor.prev()?, cursor.seek(&name(500))?), (None, None));
            assert_eq!((db.count(txn, keys())?, db.delete_range(txn, keys())?), (0, 0));
            Ok(())
        })
        .unwrap();
        let snapshot = env.snapshot().unwrap();
        let mut cursor = db.range(&snapshot, keys()).unwrap();
        assert_eq!((cursor.first().unwrap(), cursor.last().unwrap(), cursor.prev().unwrap()), (None, None, None));
        assert_eq!(db.count(&snapshot, keys()).unwrap(), 0);
        let met = db.range(&snapshot, keys()).unwrap().for_each(|_, _| ControlFlow::Break(())).unwrap();
        assert_eq!(met, None);
    }
    let txn = env.begin().unwrap();
    assert_eq!(db.count(&txn, ..).unwrap(), 2000);
}

/// Removes the last value of a key in the way `way`, while two cursors are on the value. Then each cursor makes calls
/// that find nothing. Returns the value that the first cursor finds before the removed value, the value that the second
/// cursor finds after it, and whether the calls left the first cursor in its place.
fn last_removed(env: &Env, tags: &crate::Multi, way: usize) -> (Option<Vec<u8>>, Option<Vec<u8>>, bool) {
    let txn = env.begin().unwrap();
    for (key, value) in [(b"a", b"0"), (b"k", b"1"), (b"k", b"2"), (b"z", b"9")] {
        tags.put(&txn, key, value).unwrap();
    }
    let savepoint = txn.savepoint();
    tags.put(&txn, b"k", b"3").unwrap();
    let mut cursors = [tags.cursor(&txn), tags.cursor(&txn)];
    for cursor in &mut cursors {
        cursor.seek(b"k").unwrap();
        cursor.next_duplicate().unwrap();
        assert_eq!(cursor.next_duplicate().unwrap().unwrap().1, b"3");
    }
    match way {
        1 => assert!(tags.delete_at(&txn, &cursors[0]).unwrap()),
        2 => assert!(tags.delete_at(&txn, &cursors[1]).unwrap()),
        3 => assert!(tags.delete_value(&txn, b"k", b"3").unwrap()),
        _ => {}
    }
    match way {
        4 => savepoint.roll_back().unwrap(),
        _ => savepoint.keep(),
    }
    let place = cursors[0].place().map(<[u8]>::to_vec);
    assert_eq!(cursors[0].next_duplicate().unwrap(), None);
    assert_eq!(cursors[0].next_duplicate().unwrap(), None);
    let stays = cursors[0].place().map(<[u8]>::to_vec) == place;
    cursors[0].next_duplicate().unwrap();
    let [mut back, mut on] = cursors;
    on.next_duplicate().unwrap();
    (back.prev().unwrap().map(|pair| pair.1), on.next().unwrap().map(|pair| pair.1), stays)
}

#[test]
fn a_cursor_that_finds_no_further_value_stays_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    for kind in [Duplicates::Sorted, Duplicates::AsTheyCame] {
        let tags = env.multi(&format!("{kind:?}"), kind).unwrap();
        for way in 0..5 {
            let found = last_removed(&env, &tags, way);
            assert_eq!(found, (Some(b"2".to_vec()), Some(b"9".to_vec()), true), "{kind:?}, way {way}");
        }
    }
}

/// A call that needs the lock of a key that another transaction has changed.
type Call = fn(&mut crate::Cursor<'_>) -> crate::Result<Option<crate::Pair>>;

#[test]
fn a_call_that_fails_leaves_the_cursor_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    let tree = env.btree("tree").unwrap();
    env.run(|txn| (0..9).try_for_each(|number| tree.put(txn, &name(number), b""))).unwrap();
    let calls: [(u32, Call); 4] = [
        (8, |cursor| cursor.last()),
        (6, |cursor| cursor.seek(b"key 6")),
        (6, |cursor| cursor.next_after(b"key 5")),
        (0, |cursor| cursor.first()),
    ];
    for (held, call) in calls {
        let (other, txn) = (env.begin().unwrap(), env.begin().unwrap());
        tree.put(&other, &name(held), b"changed").unwrap();
        let mut cursor = tree.cursor(&txn);
        assert_eq!(cursor.seek(b"key 3").unwrap().unwrap().0, name(3));
        let failed = call(&mut cursor);
        assert!(matches!(failed, Err(crate::Error::LockTimeout(_))), "{held}: {failed:?}");
        assert_eq!(cursor.next().unwrap().map(|pair| pair.0), Some(name(4)), "{held}");
    }
    let hash = env.hash("hash").unwrap();
    env.run(|txn| (0..9).try_for_each(|number| hash.put(txn, &name(number), b""))).unwrap();
    let (other, txn) = (env.begin().unwrap(), env.begin().unwrap());
    let mut cursor = hash.cursor(&txn);
    let walked: Vec<_> = std::iter::from_fn(|| cursor.next().unwrap().map(|pair| pair.0)).collect();
    drop(cursor);
    drop(txn);
    hash.put(&other, &walked[0], b"changed").unwrap();
    let txn = env.begin().unwrap();
    let mut cursor = hash.cursor(&txn);
    assert_eq!(cursor.next_after(&walked[3]).unwrap().unwrap().0, walked[4]);
    assert!(matches!(cursor.first(), Err(crate::Error::LockTimeout(_))));
    assert_eq!(cursor.next().unwrap().unwrap().0, walked[5]);
}

#[test]
fn the_order_of_a_keys_values_is_locked_until_the_transaction_ends() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    let list = env.multi("list", Duplicates::AsTheyCame).unwrap();
    // First without other values of the keys, then with other values.
    for round in 0..2 {
        let (one, two) = (env.begin().unwrap(), env.begin().unwrap());
        list.put(&one, b"x", b"one").unwrap();
        list.put(&two, b"y", b"two").unwrap();
        for refused in [list.put(&two, b"x", b"two"), list.put(&one, b"y", b"one")] {
            assert!(matches!(refused, Err(crate::Error::LockTimeout(_))), "{round}: {refused:?}");
        }
        one.commit().unwrap();
        list.put(&two, b"x", b"two").unwrap();
        two.commit().unwrap();
    }
    let txn = env.begin().unwrap();
    assert_eq!(list.values(&txn, b"x").unwrap(), [b"one", b"two", b"one", b"two"]);
}

#[test]
fn a_cursor_of_an_index_stays_in_its_place_if_a_record_cannot_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    let people = env.btree("people").unwrap();
    let index = people.index("by town", |_, town, keys| keys.add(town)).unwrap();
    env.run(|txn| {
        [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")].iter().try_for_each(|(key, town)| people.put(txn, *key, *town))
    })
    .unwrap();
    for held in [b"a", b"b"] {
        let (other, txn) = (env.begin().unwrap(), env.begin().unwrap());
        people.put(&other, held, if held == b"a" { b"1" } else { b"2" }).unwrap();
        let mut cursor = index.cursor(&txn);
        if held == b"b" {
            assert_eq!(cursor.next().unwrap().unwrap().key, b"a");
        }
        assert!(matches!(cursor.next(), Err(crate::Error::LockTimeout(_))));
        other.commit().unwrap();
        assert_eq!(cursor.next().unwrap().unwrap().key, held);
    }
}

#[test]
fn a_key_is_removed_with_all_its_values_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    for kind in [Duplicates::Sorted, Duplicates::AsTheyCame] {
        let tags = env.multi(&format!("{kind:?}"), kind).unwrap();
        env.run(|txn| [b"1", b"2", b"3"].iter().try_for_each(|value| tags.put(txn, b"k", *value).map(drop))).unwrap();
        let (other, txn) = (env.begin().unwrap(), env.begin().unwrap());
        assert!(tags.delete_value(&other, b"k", b"3").unwrap());
        // With values in the order of insertion, the search for the value locks the other values, too.
        let failed = tags.delete(&txn, b"k");
        assert!(matches!(failed, Err(crate::Error::LockTimeout(_))), "{kind:?}: {failed:?}");
        other.abort().unwrap();
        assert_eq!(tags.values(&txn, b"k").unwrap(), [b"1", b"2", b"3"], "{kind:?}");
        assert_eq!(tags.delete(&txn, b"k").unwrap(), 3, "{kind:?}");
    }
}

/// Damages the pages of a file that contain these bytes; returns the number of these pages.
fn damage(path: &Path, bytes: &[u8]) -> usize {
    const PAGE: usize = 4096;
    let mut file = fs::read(path).unwrap();
    let mut damaged = 0;
    for page in file.chunks_exact_mut(PAGE).filter(|page| page.windows(bytes.len()).any(|window| window == bytes)) {
        page[PAGE / 2] ^= 1;
        damaged += 1;
    }
    fs::write(path, file).unwrap();
    damaged
}

/// Checks that a cursor stays in its place when a value cannot be read. `keys` has the only three keys, in the cursor's
/// order; the value of the second key cannot be read.
fn stays(env: &Env, db: &Db, reader: &impl Reader, keys: &[Vec<u8>]) {
    let pair = |at: usize| Some((keys[at].clone(), b"short".to_vec()));
    let mut cursor = db.cursor(reader);
    assert_eq!(cursor.first().unwrap(), pair(0));
    for _ in 0..2 {
        let outcome = cursor.next().unwrap_err();
        assert!(matches!(&outcome, Error::Corrupt(_)), "{}: {outcome:?}", env.path().display());
        assert!(cursor.next_after(&keys[0]).is_err());
    }
    if !db.is_hash() {
        assert_eq!(cursor.prev().unwrap(), None, "the cursor is on the first record");
    }
    assert_eq!(cursor.next_after(&keys[1]).unwrap(), pair(2));
    if !db.is_hash() {
        assert!(cursor.prev().is_err() && cursor.prev().is_err() && cursor.seek(&keys[1]).is_err());
    }
    assert_eq!(cursor.next().unwrap(), None, "the cursor is on the last record");
}

#[test]
fn a_cursor_whose_next_value_cannot_be_read_stays_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let order = [env.hash("hash").unwrap(), env.btree("tree").unwrap()].map(|db| {
        env.run(|txn| (0..3).try_for_each(|number| db.put(txn, &name(number), b"short"))).unwrap();
        let keys: Vec<Vec<u8>> = env
            .run(|txn| {
                let mut cursor = db.cursor(txn);
                std::iter::from_fn(|| cursor.next().transpose()).map(|found| Ok(found?.0)).collect()
            })
            .unwrap();
        env.run(|txn| db.put(txn, &keys[1], &[0x7b; 30_000])).unwrap();
        keys
    });
    drop(env);
    for name in ["hash", "tree"] {
        assert!(damage(&dir.path().join(format!("{name}.tp")), &[0x7b; 1000]) > 0, "the value is in no page of {name}");
    }
    let env = Env::open_or_create(dir.path()).unwrap();
    for (db, keys) in [env.hash("hash").unwrap(), env.btree("tree").unwrap()].iter().zip(&order) {
        stays(&env, db, &env.begin().unwrap(), keys);
        stays(&env, db, &env.snapshot().unwrap(), keys);
    }
}

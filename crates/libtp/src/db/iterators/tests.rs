//! Tests of iterators over every kind of database, in a transaction and in a snapshot.

use std::ops::Bound;
use std::time::Duration;

use crate::order::Descending;
use crate::{Duplicates, Env, Error, Pair, Reader, Result};

fn pair(number: u32) -> Pair {
    (format!("{number:04}").into_bytes(), number.to_le_bytes().to_vec())
}

/// Takes records from the front or the back, as `is_front` says for each step, until the iterator ends.
fn by_turns<T>(mut all: impl DoubleEndedIterator<Item = Result<T>>, mut is_front: impl FnMut(usize) -> bool) -> Vec<T> {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    for step in 0.. {
        match if is_front(step) { all.next() } else { all.next_back() } {
            Some(found) if is_front(step) => front.push(found.unwrap()),
            Some(found) => back.push(found.unwrap()),
            None => break,
        }
    }
    assert!(all.next().is_none() && all.next_back().is_none());
    front.into_iter().chain(back.into_iter().rev()).collect()
}

/// Checks an iterator against the records that it must show.
fn check<T: PartialEq + std::fmt::Debug, I: DoubleEndedIterator<Item = Result<T>>>(all: impl Fn() -> I, wanted: &[T]) {
    assert_eq!(by_turns(all(), |_| true), wanted);
    assert_eq!(by_turns(all(), |_| false), wanted);
    assert_eq!(by_turns(all(), |step| step % 2 == 0), wanted);
    assert_eq!(by_turns(all(), |step| step % 3 == 1), wanted);
}

#[test]
fn both_ends_of_a_tree_meet() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let tree = env.btree("tree").unwrap();
    let all: Vec<Pair> = (0..2000).map(pair).collect();
    env.run(|txn| all.iter().try_for_each(|(key, value)| tree.put(txn, key, value))).unwrap();
    fn look(reader: &impl Reader, tree: &crate::Db, all: &[Pair]) {
        check(|| tree.range(reader, ..).unwrap().into_iter(), all);
        check(|| tree.range(reader, "0100".."0200").unwrap().into_iter(), &all[100..200]);
        check(|| tree.range(reader, ..="0100").unwrap().into_iter(), &all[..=100]);
        check(|| tree.prefix(reader, b"01").unwrap().into_iter(), &all[100..200]);
        check(|| tree.range(reader, "3".."4").unwrap().into_iter(), &[]);
        let bounds = (Bound::Excluded("1990"), Bound::Unbounded);
        check(|| tree.range(reader, bounds).unwrap().into_iter(), &all[1991..]);
    }
    let snapshot = env.snapshot().unwrap();
    look(&snapshot, &tree, &all);
    env.run(|txn| {
        look(txn, &tree, &all);
        // The cursor's place does not matter.
        let mut cursor = tree.cursor(txn);
        cursor.seek(b"1000")?;
        assert_eq!(cursor.into_iter().next().transpose()?, Some(all[0].clone()));
        // Records that the loop removes do not disturb the loop.
        for pair in tree.range(txn, ..)?.into_iter().rev().step_by(2) {
            tree.delete(txn, &pair?.0)?;
        }
        assert_eq!(tree.range(txn, ..)?.into_iter().count(), 1000);
        Ok(())
    })
    .unwrap();
    look(&snapshot, &tree, &all);
}

#[test]
fn keys_in_another_order_and_several_values_of_a_key_keep_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let down = env.btree_ordered("down", Descending).unwrap();
    let multi = env.multi("multi", Duplicates::AsTheyCame).unwrap();
    let all: Vec<Pair> = (0..300).map(pair).collect();
    let of_keys: Vec<Pair> = (0..300_u32).map(|number| (pair(number / 3).0, pair(300 - number).1)).collect();
    env.run(|txn| {
        all.iter().try_for_each(|(key, value)| down.put(txn, key, value))?;
        of_keys.iter().try_for_each(|(key, value)| multi.put(txn, key, value).map(|_| ()))?;
        let reversed: Vec<Pair> = all.iter().rev().cloned().collect();
        check(|| down.cursor(txn).into_iter(), &reversed);
        check(|| multi.cursor(txn).into_iter(), &of_keys);
        check(|| multi.range(txn, "0010".."0012").unwrap().into_iter(), &of_keys[30..36]);
        Ok(())
    })
    .unwrap();
    let snapshot = env.snapshot().unwrap();
    check(|| multi.cursor(&snapshot).into_iter(), &of_keys);
}

#[test]
fn an_index_shows_its_records_from_both_ends() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let people = env.btree("people").unwrap();
    let by_value = people.index("by value", |_, value, keys| keys.add(value)).unwrap();
    let early = env.snapshot().unwrap();
    env.run(|txn| (0..100).map(pair).try_for_each(|(key, value)| people.put(txn, &key, &value))).unwrap();
    let snapshot = env.snapshot().unwrap();
    let keys = |found: crate::IndexEntry| found.key;
    let wanted: Vec<Vec<u8>> = (0..100).map(|number| pair(number).0).collect();
    check(|| by_value.cursor(&snapshot).into_iter().map(|found| found.map(keys)), &wanted);
    assert_eq!(by_value.cursor(&early).into_iter().count(), 0);
    let later = people.index("later", |_, value, keys| keys.add(value)).unwrap();
    let mut refused = later.cursor(&snapshot).into_iter();
    assert!(matches!(refused.next(), Some(Err(Error::Database { .. }))));
    assert!(refused.next().is_none() && refused.next_back().is_none(), "the iterator ends after an error");
}

#[test]
fn records_by_number_are_bounded_by_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let (recno, list) = (env.recno("recno", 4).unwrap(), env.list("list").unwrap());
    let record = |number: u64| (number, pair(u32::try_from(number).unwrap()).1);
    let all: Vec<_> = (1..=50).map(record).collect();
    env.run(|txn| {
        for (_, bytes) in &all {
            recno.append(txn, bytes)?;
            list.append(txn, bytes)?;
        }
        Ok(())
    })
    .unwrap();
    fn look<T: Reader>(reader: &T, recno: &crate::Recno, list: &crate::List, all: &[(u64, Vec<u8>)]) {
        check(|| recno.cursor(reader).into_iter(), all);
        check(|| list.cursor(reader).into_iter(), all);
        for bounds in [(0, 50), (10, 20), (20, 20), (40, 60), (51, 60)] {
            let (low, high) = bounds;
            let wanted = &all[usize::min(low.max(1) - 1, 50)..usize::min(high, 50)];
            let (low, high) = (low as u64, high as u64);
            check(|| recno.range(reader, low..=high), wanted);
            check(|| list.range(reader, low..=high), wanted);
            check(|| recno.range(reader, low..high + 1), wanted);
        }
        check(|| list.range(reader, (Bound::Excluded(u64::MAX), Bound::Unbounded)), &[]);
        check(|| recno.range(reader, ..0), &[]);
    }
    let snapshot = env.snapshot().unwrap();
    look(&snapshot, &recno, &list, &all);
    env.run(|txn| {
        look(txn, &recno, &list, &all);
        // The iterator skips numbers without a record.
        recno.delete(txn, 20)?;
        check(|| recno.range(txn, 19..=20), &all[18..19]);
        check(|| recno.range(txn, 20..=21), &all[20..21]);
        Ok(())
    })
    .unwrap();
}

#[test]
fn a_range_of_numbers_locks_its_own_numbers_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(Duration::ZERO).open(dir.path()).unwrap();
    let recno = env.recno("recno", 4).unwrap();
    let put = |txn: &crate::Txn<'_>, number: u64| recno.put(txn, number, &[7; 4]);
    env.run(|txn| [1, 2, 3, 4, 100_000].into_iter().try_for_each(|number| put(txn, number))).unwrap();
    // Each line has a range, the records in the range, numbers in the range, and numbers outside of the range. The last
    // range extends beyond the end of the file.
    let ranges = [
        (3..=10, vec![3, 4], vec![3, 5, 10], vec![2, 11, 99_999, 100_001]),
        (4..=4, vec![4], vec![4], vec![3, 5, 100_001]),
        (99_990..=100_000, vec![100_000], vec![99_990, 99_999], vec![99_989, 100_001]),
        (99_999..=100_009, vec![100_000], vec![99_999, 100_000, 100_005], vec![99_998, 5]),
    ];
    for (numbers, records, inside, outside) in ranges {
        for is_back in [false, true] {
            let what = format!("{numbers:?}, from the back: {is_back}");
            let (reader, writer) = (env.begin().unwrap(), env.begin().unwrap());
            let range = recno.range(&reader, numbers.clone());
            let mut found: Vec<u64> = match is_back {
                true => range.rev().map(|record| record.unwrap().0).collect(),
                false => range.map(|record| record.unwrap().0).collect(),
            };
            found.sort_unstable();
            assert_eq!(found, records, "{what}");
            let locks = env.locks().unwrap().len();
            assert!(locks <= 15, "{what}: {locks} locks");
            for &number in &inside {
                let refused = put(&writer, number);
                assert!(matches!(refused, Err(Error::LockTimeout(_))), "{what}: {number}: {refused:?}");
            }
            for &number in &outside {
                put(&writer, number).unwrap_or_else(|error| panic!("{what}: {number}: {error}"));
            }
        }
    }
}

#[test]
fn a_hash_file_has_no_last_pair() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let hash = env.hash("hash").unwrap();
    env.run(|txn| (0..100).map(pair).try_for_each(|(key, value)| hash.put(txn, &key, &value))).unwrap();
    env.run(|txn| {
        let mut found = hash.cursor(txn).into_iter().collect::<Result<Vec<_>>>()?;
        found.sort();
        assert_eq!(found, (0..100).map(pair).collect::<Vec<_>>());
        let mut back = hash.cursor(txn).into_iter();
        assert!(matches!(back.next_back(), Some(Err(Error::Database { .. }))));
        assert!(back.next().is_none(), "the iterator ends after an error");
        Ok(())
    })
    .unwrap();
}

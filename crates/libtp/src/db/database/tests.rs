//! Databases as seen by two handles to one environment: each handle has its own open files, like a separate process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::{Durability, Env, Error, Granularity, PageLock};

#[test]
fn each_database_number_is_given_out_once() {
    let dir = tempfile::tempdir().unwrap();
    let first = Env::open_or_create(dir.path()).unwrap();
    let ask = || {
        let env = Env::open_or_create(dir.path()).unwrap();
        let by = env.managers().processes.join().unwrap();
        (0..200).map(|_| env.managers().next_file_id(&by).unwrap()).collect::<Vec<u32>>()
    };
    let numbers: Vec<u32> = std::thread::scope(|scope| {
        let askers = [(); 4].map(|()| scope.spawn(ask));
        for _ in 0..20 {
            // A checkpoint writes the control file, which also has the next number.
            first.checkpoint().unwrap();
        }
        askers.into_iter().flat_map(|asker| asker.join().unwrap()).collect()
    });
    assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 800, "a number was given out twice");
}

#[test]
fn databases_are_made_by_several_handles_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let work = |prefix: &str| {
        let env = Env::open_or_create(dir.path()).unwrap();
        for number in 0..10 {
            env.btree(&format!("{prefix}{number}")).unwrap();
        }
    };
    std::thread::scope(|scope| {
        for prefix in ["one", "two", "three"] {
            scope.spawn(move || work(prefix));
        }
    });
    assert_eq!(Env::open_or_create(dir.path()).unwrap().databases().unwrap().len(), 30);
}

#[test]
fn all_handles_of_a_database_have_the_same_granularity_of_locks() {
    let dir = tempfile::tempdir().unwrap();
    let with = |granularity| Env::builder().granularity("stock", granularity).open(dir.path()).unwrap();
    let pages = with(Granularity::Page);
    pages.btree("stock").unwrap();
    let records = with(Granularity::Record);
    let Err(Error::Database { what, .. }) = records.btree("stock") else { panic!("two granularities at once") };
    assert!(what.contains("lock pages"), "{what}");
    // An opening without a preference follows the other openings.
    let any = Env::open_or_create(dir.path()).unwrap();
    any.btree("stock").unwrap();
    drop((pages, records, any));
    with(Granularity::Record).btree("stock").unwrap();
}

#[test]
fn a_function_that_reads_a_value_may_call_the_library() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let stock = env.btree("stock").unwrap();
    env.run(|txn| {
        stock.put(txn, b"pears", b"7")?;
        let read = stock.get_with(txn, b"pears", |pears| {
            stock.put(txn, b"apples", pears)?;
            stock.update_with(txn, b"pears", |pears| pears[0] = b'8')
        })?;
        read.expect("there are pears")?;
        assert_eq!(stock.get(txn, b"pears")?.as_deref(), Some(&b"8"[..]));
        assert_eq!(stock.get(txn, b"apples")?.as_deref(), Some(&b"7"[..]));
        Ok(())
    })
    .unwrap();
}

/// Orders keys by their bytes from the last to the first; the library itself has no such order.
struct ByTheEnd(&'static str);

impl crate::Order for ByTheEnd {
    fn name(&self) -> &str {
        self.0
    }

    fn encode(&self, key: &[u8], encoded: &mut Vec<u8>) {
        encoded.extend(key.iter().rev());
    }

    fn decode(&self, encoded: &[u8], key: &mut Vec<u8>) {
        key.extend(encoded.iter().rev());
    }
}

fn keys(db: &crate::Db, reader: &impl crate::Reader) -> Vec<Vec<u8>> {
    let mut cursor = db.cursor(reader);
    std::iter::from_fn(|| cursor.next().unwrap()).map(|pair| pair.0).collect()
}

#[test]
fn keys_are_in_the_order_that_the_file_names_and_another_order_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let words: [&[u8]; 4] = [b"ab", b"ba", b"ca", b"bc"];
    let open = |env: &Env| env.btree_ordered("words", ByTheEnd("by the end"));
    {
        let env = Env::open_or_create(dir.path()).unwrap();
        let db = open(&env).unwrap();
        env.run(|txn| words.iter().try_for_each(|word| db.put(txn, word, word))).unwrap();
        env.run(|txn| {
            assert_eq!(keys(&db, txn), [b"ba", b"ca", b"ab", b"bc"]);
            assert_eq!(db.get(txn, b"ca")?.as_deref(), Some(&b"ca"[..]));
            assert_eq!(db.cursor(txn).seek(b"cb")?.map(|pair| pair.0).as_deref(), Some(&b"bc"[..]));
            assert_eq!(db.count(txn, b"ca".as_slice()..=b"ab")?, 2);
            assert_eq!(db.count(txn, b"ab".as_slice()..b"ba")?, 0);
            assert!(db.prefix(txn, b"a").is_err());
            assert!(db.delete(txn, b"ba")?);
            Ok(())
        })
        .unwrap();
        assert_eq!(keys(&db, &env.snapshot().unwrap()), [b"ca", b"ab", b"bc"]);
        // Undo finds the record by its key.
        let txn = env.begin().unwrap();
        db.put(&txn, b"zz", b"").unwrap();
        txn.abort().unwrap();
        assert!(env.verify("words").unwrap().findings.is_empty());
    }
    let env = Env::open_or_create(dir.path()).unwrap();
    let refused = [
        env.btree("words").err(),
        env.btree_ordered("words", crate::order::Descending).err(),
        env.database("words").err(),
    ];
    for (refused, wanted) in refused.into_iter().zip(["of their bytes", "`descending`", "of their bytes"]) {
        let message = refused.expect("a database in another order was opened").to_string();
        assert!(message.contains("`by the end`") && message.contains(wanted), "{message}");
    }
    assert!(env.verify("words").unwrap().findings.is_empty());
    let db = open(&env).unwrap();
    env.run(|txn| db.put(txn, b"aa", b"")).unwrap();
    assert_eq!(env.run(|txn| Ok(keys(&db, txn))).unwrap(), [b"aa", b"ca", b"ab", b"bc"]);
    // A tree that was made without an order is refused if it is opened with an order, too.
    env.btree("plain").unwrap();
    let message = env.btree_ordered("plain", ByTheEnd("by the end")).err().unwrap().to_string();
    assert!(message.contains("of their bytes") && message.contains("`by the end`"), "{message}");
    assert!(env.btree_ordered("long", ByTheEnd("")).is_err());
}

#[test]
fn equal_keys_of_an_order_share_one_record_and_one_lock() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    let db = env.btree_ordered("names", crate::order::AsciiCaseless).unwrap();
    env.run(|txn| db.put(txn, b"Smith", b"1")).unwrap();
    let first = env.begin().unwrap();
    db.put(&first, b"SMITH", b"2").unwrap();
    let second = env.begin().unwrap();
    assert!(matches!(db.get(&second, b"smith"), Err(Error::LockTimeout(_))));
    second.abort().unwrap();
    first.commit().unwrap();
    env.run(|txn| {
        assert_eq!(db.get(txn, b"sMITh")?.as_deref(), Some(&b"2"[..]));
        assert_eq!(db.count(txn, ..)?, 1);
        Ok(())
    })
    .unwrap();
    // A tool that gives no order opens the tree with the order that the file names.
    let crate::Database::Btree(tool) = env.database("names").unwrap() else { panic!("it is a tree") };
    assert_eq!(env.run(|txn| tool.get(txn, b"SMITH")).unwrap().as_deref(), Some(&b"2"[..]));
}

#[test]
fn values_of_a_key_have_the_documented_length_limits() {
    use crate::Duplicates;
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    for kind in [Duplicates::Sorted, Duplicates::AsTheyCame] {
        let db = env.multi(&format!("{kind:?}"), kind).unwrap();
        let most = db.pair_bytes_max();
        let (key, value) = (vec![1; most - 10], [2; 10]);
        env.run(|txn| {
            assert!(db.put(txn, &key, &value)?);
            let long = vec![1; most + 1];
            let message = db.put(txn, &long, b"").unwrap_err().to_string();
            assert!(message.contains(&(most + 1).to_string()) && message.contains(&most.to_string()), "{message}");
            if kind == Duplicates::AsTheyCame {
                // Values have any length.
                assert!(db.put(txn, &key, &vec![3; 100_000])?);
                assert_eq!(db.values(txn, &key)?.iter().map(Vec::len).collect::<Vec<_>>(), [10, 100_000]);
            }
            Ok(())
        })
        .unwrap();
        let snapshot = env.snapshot().unwrap();
        assert_eq!(db.get(&snapshot, &key).unwrap().as_deref(), Some(&value[..]));
        assert_eq!(db.count(&snapshot, &key).unwrap(), if kind == Duplicates::Sorted { 1 } else { 2 });
    }
    assert!(env.btree("Sorted").err().unwrap().to_string().contains("several values a key, sorted"));
    assert!(env
        .multi("AsTheyCame", Duplicates::Sorted)
        .err()
        .unwrap()
        .to_string()
        .contains("in the order in which they came"));
    assert!(env.multi("none", Duplicates::None).is_err());
}

#[test]
fn ranges_of_keys_with_several_values_are_in_the_order_of_the_database() {
    use crate::order::Descending;
    use crate::Duplicates;

    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    for kind in [Duplicates::Sorted, Duplicates::AsTheyCame] {
        let db = env.multi_ordered(&format!("{kind:?}"), kind, Descending).unwrap();
        env.run(|txn| {
            for key in [&b"a"[..], b"ab", b"b", b"c"] {
                assert!(db.put(txn, key, b"1")? && db.put(txn, key, b"2")?);
            }
            let mut cursor = db.range(txn, &b"b"[..]..=&b"a"[..])?;
            let mut keys = Vec::new();
            while let Some((key, _)) = cursor.next()? {
                keys.push(key);
            }
            assert_eq!(keys, [&b"b"[..], b"b", b"ab", b"ab", b"a", b"a"]);
            assert_eq!(db.count_range(txn, ..)?, 8);
            let refused = db.prefix(txn, b"a").err().unwrap().to_string();
            assert!(refused.contains("with the same beginning"), "{refused}");
            assert_eq!(db.delete_range(txn, &b"c"[..]..&b"ab"[..])?, 4);
            assert_eq!((db.count(txn, b"b")?, db.count_range(txn, ..)?), (0, 4));
            Ok(())
        })
        .unwrap();
        assert_eq!(db.count_range(&env.snapshot().unwrap(), &b"ab"[..]..).unwrap(), 4);
    }
}

#[test]
fn a_replaced_long_value_is_freed_exactly_once() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().durability(Durability::Relaxed).open(dir.path()).unwrap();
    for db in [env.btree("tree").unwrap(), env.hash("hash").unwrap()] {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            // Pages that a held snapshot keeps from being freed may be freed a moment later: also between the steps of
            // a change.
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    drop(env.snapshot().unwrap());
                }
            });
            for round in 0..6_000_u32 {
                let bytes = vec![7; 5_000 + round as usize % 7 * 3_000];
                env.run(|txn| db.put(txn, b"key", &bytes)).unwrap();
                env.run(|txn| db.delete(txn, b"key").map(|_| ())).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        // If a page was freed twice, two values soon use it, or the list of free pages has it twice.
        for other in 0..200_u32 {
            env.run(|txn| db.put(txn, &other.to_be_bytes(), &[1; 9_000])).unwrap();
        }
        let verified = env.verify(db.name()).unwrap();
        assert_eq!(verified.findings, [], "{}", db.name());
    }
}

#[test]
fn a_record_that_was_read_does_not_change_until_its_reader_ends() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().lock_timeout(std::time::Duration::ZERO).open(dir.path()).unwrap();
    for db in [env.btree("tree").unwrap(), env.hash("hash").unwrap()] {
        env.run(|txn| db.put(txn, b"there", b"1")).unwrap();
        let reader = env.begin().unwrap();
        assert!(db.get(&reader, b"there").unwrap().is_some());
        assert!(db.get(&reader, b"missing").unwrap().is_none());
        let writer = env.begin().unwrap();
        for key in [&b"there"[..], b"missing"] {
            let refused = db.put(&writer, key, b"2");
            assert!(matches!(refused, Err(Error::LockTimeout(_))), "{}: {refused:?}", db.name());
        }
        writer.abort().unwrap();
        reader.commit().unwrap();
    }
}

#[test]
fn only_the_transaction_that_has_locked_a_whole_database_changes_it() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::create(dir.path()).unwrap();
    let db = env.btree("stock").unwrap();
    env.run(|txn| db.put(txn, b"pears", b"7")).unwrap();
    let (one, other) = (env.begin().unwrap(), env.begin().unwrap());
    other.set_lock_timeout(Some(Duration::from_millis(20)));
    db.lock_all(&one, PageLock::Read).unwrap();
    assert_eq!(db.get(&other, b"pears").unwrap().unwrap(), b"7");
    assert!(matches!(db.put(&other, b"apples", b"1"), Err(Error::LockTimeout(_))));
    other.abort().unwrap();
    db.lock_all(&one, PageLock::Write).unwrap();
    let locks = env.locks().unwrap().len();
    for number in 0..1000u32 {
        db.put(&one, &number.to_be_bytes(), b"1").unwrap();
    }
    assert_eq!(env.locks().unwrap().len(), locks);
    let other = env.begin().unwrap();
    other.set_lock_timeout(Some(Duration::from_millis(20)));
    assert!(matches!(db.get(&other, b"absent"), Err(Error::LockTimeout(_))));
    assert_eq!(db.count(&env.snapshot().unwrap(), ..).unwrap(), 1);
    one.commit().unwrap();
    assert_eq!(db.count(&other, ..).unwrap(), 1001);
}

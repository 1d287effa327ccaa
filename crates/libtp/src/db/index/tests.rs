//! Tests of indices in one process, with two handles and with threads. The suites `failpoints` and `model` test deaths
//! and power cuts.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

use crate::IndexKeys;
use crate::{Db, Env, Error, Index, Reader};

/// Indexes "town:profession" under the town.
fn town(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    keys.add(value.split(|&byte| byte == b':').next().unwrap_or_default());
}

/// Indexes a value under each of its letters.
fn letters(_key: &[u8], value: &[u8], keys: &mut IndexKeys) {
    value.iter().for_each(|letter| keys.add([*letter]));
}

fn people(env: &Env) -> (Db, Index) {
    let db = env.btree("people").unwrap();
    let index = db.index("by town", town).unwrap();
    (db, index)
}

fn all(index: &Index, reader: &impl Reader) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut cursor = index.cursor(reader);
    std::iter::from_fn(|| cursor.next().unwrap()).map(|entry| (entry.index_key, entry.key)).collect()
}

fn pair(index_key: &[u8], key: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (index_key.to_vec(), key.to_vec())
}

/// Checks that the index and its database have no faults.
fn check_whole(env: &Env, index: &Index) {
    assert_eq!(index.verify(&env.snapshot().unwrap()).unwrap(), Vec::<String>::new());
    let txn = env.begin().unwrap();
    assert_eq!(index.verify(&txn).unwrap(), Vec::<String>::new());
    txn.commit().unwrap();
    for name in [index.name(), index.database().name()] {
        assert_eq!(env.verify(name).unwrap().findings, [], "{name}");
    }
}

#[test]
fn every_way_to_change_a_record_changes_its_index() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let (db, index) = people(&env);
    let before = env.snapshot().unwrap();
    env.run(|txn| {
        db.put(txn, b"ada", b"London:countess")?;
        db.put_new(txn, b"alan", b"London:logician")?;
        assert!(matches!(db.put_new(txn, b"alan", b"Bletchley:logician"), Err(Error::Exists)));
        db.put(txn, b"kurt", b"Brno:logician")?;
        assert_eq!(all(&index, txn), [pair(b"Brno", b"kurt"), pair(b"London", b"ada"), pair(b"London", b"alan")]);
        db.update_with(txn, b"kurt", |value| value[..4].copy_from_slice(b"Wien"))?;
        assert_eq!(db.update_with(txn, b"alonzo", |_| ())?, None);
        db.put(txn, b"alan", b"Manchester:logician")?;
        Ok(())
    })
    .unwrap();
    let after = env.snapshot().unwrap();
    env.run(|txn| {
        assert_eq!(all(&index, txn), [pair(b"London", b"ada"), pair(b"Manchester", b"alan"), pair(b"Wien", b"kurt")]);
        assert!(db.delete(txn, b"ada")?);
        assert!(!db.delete(txn, b"ada")?);
        assert_eq!(index.count(txn, b"London")?, 0);
        db.put(txn, b"emmy", b"Erlangen:algebraist")?;
        assert_eq!(db.delete_range(txn, b"b".as_slice()..)?, 2);
        assert_eq!(all(&index, txn), [pair(b"Manchester", b"alan")]);
        assert_eq!(index.get(txn, b"Manchester")?, [pair(b"alan", b"Manchester:logician")]);
        let mut cursor = index.range(txn, b"L".as_slice()..);
        assert_eq!(cursor.last()?.unwrap().key, b"alan");
        assert_eq!(cursor.prev()?, None);
        assert_eq!(cursor.seek(b"M")?.unwrap().index_key, b"Manchester");
        assert_eq!(index.prefix(txn, b"Man").first()?.unwrap().value, b"Manchester:logician");
        assert_eq!(index.prefix(txn, b"X").first()?, None);
        Ok(())
    })
    .unwrap();
    // Index and records are of one moment.
    assert_eq!(all(&index, &before), []);
    assert_eq!(all(&index, &after), [pair(b"London", b"ada"), pair(b"Manchester", b"alan"), pair(b"Wien", b"kurt")]);
    assert_eq!(index.get(&after, b"Wien").unwrap(), [pair(b"kurt", b"Wien:logician")]);
    let txn = env.begin().unwrap();
    db.put(&txn, b"alan", b"Wilmslow:logician").unwrap();
    txn.abort().unwrap();
    assert_eq!(env.run(|txn| Ok(all(&index, txn))).unwrap(), [pair(b"Manchester", b"alan")]);
    check_whole(&env, &index);
}

#[test]
fn an_index_is_made_of_the_existing_records_and_found_again() {
    let dir = tempfile::tempdir().unwrap();
    {
        let env = Env::open_or_create(dir.path()).unwrap();
        for db in [env.btree("tree").unwrap(), env.hash("hash").unwrap()] {
            env.run(|txn| (0..300_u32).try_for_each(|key| db.put(txn, &key.to_be_bytes(), key.to_string().as_bytes())))
                .unwrap();
            let index = db.index(&format!("{} by letter", db.name()), letters).unwrap();
            assert_eq!(env.run(|txn| index.count(txn, b"7")).unwrap(), 57);
            check_whole(&env, &index);
        }
    }
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("tree").unwrap();
    let message = env.run(|txn| db.put(txn, b"k", b"77")).unwrap_err().to_string();
    assert!(message.contains("tree by letter") && message.contains("Db::index"), "{message}");
    let message = env.run(|txn| db.delete(txn, &7_u32.to_be_bytes())).unwrap_err().to_string();
    assert!(message.contains("tree by letter"), "{message}");
    // A handle without the function may read.
    assert!(env.run(|txn| db.get(txn, &7_u32.to_be_bytes())).unwrap().is_some());
    let index = db.index("tree by letter", letters).unwrap();
    env.run(|txn| db.put(txn, b"k", b"77")).unwrap();
    assert_eq!(env.run(|txn| index.count(txn, b"7")).unwrap(), 58);
    check_whole(&env, &index);
    assert!(db.drop_index("tree by letter").unwrap());
    assert!(!db.drop_index("tree by letter").unwrap());
    env.run(|txn| db.put(txn, b"k", b"nothing keeps this")).unwrap();
    let index = db.index("tree by letter", town).unwrap();
    assert_eq!(env.run(|txn| index.keys(txn, b"nothing keeps this")).unwrap(), [b"k"]);
    check_whole(&env, &index);
}

#[test]
fn an_index_opens_only_as_an_index_and_other_databases_do_not_open_as_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let (db, _index) = people(&env);
    let other = env.btree("other").unwrap();
    let refused = [
        env.btree("by town").err(),
        env.multi("by town", crate::Duplicates::Sorted).err(),
        other.index("by town", town).err(),
        db.index("other", town).err(),
        other.drop_index("by town").err(),
        db.drop_index("other").err(),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let message = refused.unwrap_or_else(|| panic!("call {number} was not refused")).to_string();
        assert!(message.contains("index"), "{number}: {message}");
    }
    assert!(matches!(db.drop_index("nothing"), Err(Error::NoDatabase { .. })));
    for number in 1..32 {
        db.index(&format!("index {number}"), letters).unwrap();
    }
    let message = db.index("one too many", letters).err().unwrap().to_string();
    assert!(message.contains("32"), "{message}");
    env.run(|txn| db.put(txn, b"k", b"v")).unwrap();
}

#[test]
fn a_change_that_its_index_cannot_follow_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("db").unwrap();
    let whole = db.index("whole", |_, value, keys| keys.add(value)).unwrap();
    let txn = env.begin().unwrap();
    db.put(&txn, b"a", b"short").unwrap();
    let long = vec![b'x'; 5000];
    let message = db.put(&txn, b"a", &long).unwrap_err().to_string();
    assert!(message.contains("whole"), "{message}");
    txn.commit().unwrap();
    assert_eq!(env.run(|txn| whole.keys(txn, b"short")).unwrap(), [b"a"]);
    // A function that returns different keys for the same record.
    let asked = AtomicU8::new(0);
    let fickle = db.index("fickle", move |_, _, keys| keys.add([asked.fetch_add(1, Ordering::Relaxed)])).unwrap();
    let txn = env.begin().unwrap();
    let message = db.put(&txn, b"a", b"other").unwrap_err().to_string();
    assert!(message.contains("fickle"), "{message}");
    // The program continues, and record and indices are unchanged.
    txn.commit().unwrap();
    assert_eq!(env.run(|txn| db.get(txn, b"a")).unwrap().as_deref(), Some(&b"short"[..]));
    assert_eq!(env.run(|txn| whole.keys(txn, b"short")).unwrap(), [b"a"]);
    assert_eq!(fickle.verify(&env.snapshot().unwrap()).unwrap().len(), 2);
}

#[test]
fn an_index_returns_the_programs_keys_of_a_database_with_its_own_order() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree_ordered("news", crate::order::Descending).unwrap();
    let by_key = db.index("news by key", |key, _, keys| keys.add(key)).unwrap();
    env.run(|txn| db.put(txn, b"2024", b"").and_then(|()| db.put(txn, b"2025", b""))).unwrap();
    env.run(|txn| {
        assert_eq!(by_key.keys(txn, b"2024")?, [b"2024"]);
        assert_eq!(all(&by_key, txn), [pair(b"2024", b"2024"), pair(b"2025", b"2025")]);
        Ok(())
    })
    .unwrap();
    check_whole(&env, &by_key);
}

#[test]
fn making_an_index_waits_for_writers_and_later_writers_update_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let writing = Env::builder().lock_timeout(Duration::from_secs(20)).open(dir.path()).unwrap();
    let making = Env::builder().lock_timeout(Duration::ZERO).open(dir.path()).unwrap();
    let (theirs, ours) = (writing.btree("people").unwrap(), making.btree("people").unwrap());
    writing.run(|txn| theirs.put(txn, b"ada", b"London:countess")).unwrap();
    let txn = writing.begin().unwrap();
    theirs.put(&txn, b"alan", b"London:logician").unwrap();
    let refused = {
        let env = making.clone();
        let ours = ours.clone();
        std::thread::spawn(move || {
            let txn = env.begin().unwrap();
            let refused = txn.guarded(|| Ok(ours.access(&txn).lock_database(libtp_lock::Mode::X)?)).is_err();
            drop(txn);
            refused
        })
    };
    assert!(refused.join().unwrap(), "the database was locked while a session writes");
    txn.commit().unwrap();
    let index = ours.index("by town", town).unwrap();
    // The session of the handle `theirs` kept its lock from its previous transaction; it must notice the new index.
    let message = writing.run(|txn| theirs.put(txn, b"kurt", b"Brno:logician")).unwrap_err().to_string();
    assert!(message.contains("by town"), "{message}");
    let same = theirs.index("by town", town).unwrap();
    writing.run(|txn| theirs.put(txn, b"kurt", b"Brno:logician")).unwrap();
    making.run(|txn| ours.put(txn, b"emmy", b"Erlangen:algebraist")).unwrap();
    for (env, index) in [(&making, &index), (&writing, &same)] {
        let found = env.run(|txn| Ok(all(index, txn))).unwrap();
        assert_eq!(found.len(), 4);
        check_whole(env, index);
    }
    assert!(theirs.drop_index("by town").unwrap());
    making.run(|txn| ours.put(txn, b"emmy", b"Princeton:algebraist")).unwrap();
    let message = making.run(|txn| index.count(txn, b"Brno")).unwrap_err().to_string();
    assert!(message.contains("was dropped"), "{message}");
}

#[test]
fn threads_change_records_while_an_index_is_made_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::builder().durability(crate::Durability::Relaxed).open(dir.path()).unwrap();
    let db = env.btree("db").unwrap();
    let is_over = AtomicBool::new(false);
    let index = std::thread::scope(|scope| {
        for thread in 0..3_u32 {
            let (env, db, is_over) = (&env, &db, &is_over);
            scope.spawn(move || {
                let mut at = thread;
                while !is_over.load(Ordering::Relaxed) {
                    at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let key = (at >> 8) % 200;
                    let done = env.run(|txn| match at >> 30 {
                        0 => db.delete(txn, &key.to_be_bytes()).map(|_| ()),
                        _ => db.put(txn, &key.to_be_bytes(), (at >> 4).to_string().as_bytes()),
                    });
                    done.unwrap();
                }
            });
        }
        for _ in 0..20 {
            let index = db.index("by letter", letters).unwrap();
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(index.verify(&env.snapshot().unwrap()).unwrap(), Vec::<String>::new());
            assert!(db.drop_index("by letter").unwrap());
        }
        let index = db.index("by letter", letters).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        is_over.store(true, Ordering::Relaxed);
        index
    });
    check_whole(&env, &index);
}

#[test]
fn a_session_that_takes_a_transaction_over_knows_the_indices() {
    let dir = tempfile::tempdir().unwrap();
    let (env, other) = (Env::open_or_create(dir.path()).unwrap(), Env::open_or_create(dir.path()).unwrap());
    let (db, index) = people(&env);
    let theirs = other.btree("people").unwrap();
    env.run(|txn| db.put(txn, b"ada", b"London:countess")).unwrap();
    for writes in [true, false] {
        let txn = env.begin().unwrap();
        db.put(&txn, b"kurt", b"Brno:logician").unwrap();
        let detached = txn.detach().unwrap();
        let txn = other.attach(&detached).unwrap();
        if writes {
            let message = theirs.put(&txn, b"alan", b"London:logician").unwrap_err().to_string();
            assert!(message.contains("by town"), "{message}");
        }
        txn.commit().unwrap();
        // The next transaction uses the session that the committed transaction had.
        let message = other.run(|txn| theirs.put(txn, b"alan", b"London:logician")).unwrap_err().to_string();
        assert!(message.contains("by town"), "{message}");
        check_whole(&env, &index);
    }
}

/// Returns the findings of `Env::verify` for a database and its index.
fn findings(env: &Env, names: [&str; 2]) -> [Vec<String>; 2] {
    names.map(|name| env.verify(name).unwrap().findings.into_iter().map(|finding| finding.what).collect())
}

#[test]
fn verify_finds_all_faults_of_an_index_only_if_it_has_the_function() {
    let dir = tempfile::tempdir().unwrap();
    {
        let env = Env::open_or_create(dir.path()).unwrap();
        let (db, index) = people(&env);
        env.run(|txn| {
            db.put(txn, b"ada", b"London:countess")?;
            db.put(txn, b"alan", b"London:logician")?;
            db.put(txn, b"kurt", b"Brno:logician")
        })
        .unwrap();
        check_whole(&env, &index);
        let entry = libtp_record::duplicates::sorted_entry;
        env.run(|txn| {
            txn.guarded(|| {
                let access = index.tree.access(txn);
                // A record without an entry, a record with a wrong entry, an entry without a record, and an invalid
                // entry.
                assert!(access.delete(&entry(b"London", b"alan"))?);
                access.put(&entry(b"Wien", b"kurt"), b"")?;
                access.put(&entry(b"Erlangen", b"emmy"), b"")?;
                Ok(access.put(b"nothing", b"")?)
            })
        })
        .unwrap();
        let [of_records, of_entries] = findings(&env, ["people", "by town"]);
        assert_eq!(of_records, ["the index `by town` does not lead to the record \"alan\" of `people`"]);
        assert_eq!(of_entries.len(), 3, "{of_entries:?}");
        for (finding, expected) in
            of_entries.iter().zip(["emmy", "function does not put it", "the form of an index entry"])
        {
            assert!(finding.contains(expected), "{finding}");
        }
        assert_eq!(index.verify(&env.begin().unwrap()).unwrap().len(), 4);
    }
    // A handle without the function.
    let env = Env::open_or_create(dir.path()).unwrap();
    let [of_records, of_entries] = findings(&env, ["people", "by town"]);
    assert_eq!((of_records.len(), of_entries.len()), (0, 2), "{of_entries:?}");
    // The list names a file that is no index of the database.
    let (db, other) = (env.btree("people").unwrap(), env.btree("other").unwrap());
    env.run(|txn| txn.guarded(|| Ok(db.access(txn).set_index(other.opened().id(), true)?))).unwrap();
    let [of_records, _] = findings(&env, ["people", "by town"]);
    assert!(of_records.len() == 1 && of_records[0].contains("names `other`, which is not an index"), "{of_records:?}");
    let message = env.run(|txn| db.put(txn, b"k", b"v")).unwrap_err().to_string();
    assert!(message.contains("Db::index"), "{message}");
}

#[test]
fn an_index_of_many_records_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("db").unwrap();
    let records =
        (0..20_000_u32).map(|number| (number.to_be_bytes(), (number.wrapping_mul(2_654_435_761)).to_be_bytes()));
    db.load(&crate::Load::sorted(), records).unwrap();
    let before = env.managers().log.tail();
    let index = db.index("by value", |_, value, keys| keys.add(value)).unwrap();
    // A separately put entry is a log record of more than a hundred bytes.
    let logged = env.managers().log.tail().since(before);
    assert!(logged < 20_000 * 50, "{logged} bytes were logged");
    check_whole(&env, &index);
    assert_eq!(env.run(|txn| index.tree.count(txn, ..)).unwrap(), 20_000);
    // The index is made again, in a tree that has pages already.
    assert!(db.drop_index("by value").unwrap());
    let index = db.index("by value", |_, value, keys| keys.add(&value[1..])).unwrap();
    assert_eq!(env.run(|txn| index.tree.count(txn, ..)).unwrap(), 20_000);
    check_whole(&env, &index);
}

#[test]
fn entries_of_a_maker_that_died_after_its_load_are_not_read_and_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let (db, index) = people(&env);
    assert!(db.drop_index("by town").unwrap());
    env.run(|txn| db.put(txn, b"kurt", b"Wien:logician")).unwrap();
    let left = libtp_record::duplicates::sorted_entry(b"Brno", b"kurt");
    index.tree.load(&crate::Load::sorted(), [(left, b"")]).unwrap();
    let message = env.run(|txn| index.keys(txn, b"Brno")).unwrap_err().to_string();
    assert!(message.contains("was dropped"), "{message}");
    assert_eq!(findings(&env, ["people", "by town"]), [Vec::<String>::new(), Vec::new()]);
    let again = db.index("by town", town).unwrap();
    assert_eq!(env.run(|txn| Ok(all(&again, txn))).unwrap(), [pair(b"Wien", b"kurt")]);
    check_whole(&env, &again);
}

#[test]
fn a_snapshot_refuses_an_index_that_was_made_later() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("people").unwrap();
    env.run(|txn| db.put(txn, b"ada", b"London:countess")).unwrap();
    let before = env.snapshot().unwrap();
    let index = db.index("by town", town).unwrap();
    assert_eq!(db.get(&before, b"ada").unwrap().as_deref(), Some(&b"London:countess"[..]));
    for message in [
        index.keys(&before, b"London").map(|_| ()),
        index.get(&before, b"London").map(|_| ()),
        index.count(&before, b"London").map(|_| ()),
        index.cursor(&before).last().map(|_| ()),
        index.verify(&before).map(|_| ()),
    ] {
        let message = message.unwrap_err().to_string();
        assert!(message.contains("made after the snapshot"), "{message}");
    }
    let after = env.snapshot().unwrap();
    assert_eq!(index.keys(&after, b"London").unwrap(), [b"ada"]);
    assert!(db.drop_index("by town").unwrap());
    let message = index.keys(&env.snapshot().unwrap(), b"London").unwrap_err().to_string();
    assert!(message.contains("was dropped"), "{message}");
}

#[test]
fn an_earlier_snapshot_reads_an_index_whose_drop_was_undone() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::open_or_create(dir.path()).unwrap();
    let db = env.btree("people").unwrap();
    env.run(|txn| db.put(txn, b"ada", b"London:countess")).unwrap();
    let index = db.index("by town", town).unwrap();
    let before = env.snapshot().unwrap();
    let txn = env.begin().unwrap();
    txn.guarded(|| Ok(db.access(&txn).set_index(index.kept.tree.id(), false)?)).unwrap();
    txn.abort().unwrap();
    assert_eq!(index.keys(&before, b"London").unwrap(), [b"ada"]);
}

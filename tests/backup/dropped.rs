//! A transaction drops, renames and empties databases. The changes take effect if and only if the transaction commits.

use std::fs;
use std::path::Path;
use std::time::Duration;

use libtp::{Backup, Duplicates, Env, Error, RestorePoint, Settings};

fn open(place: &Path) -> Env {
    let memory = place.join("memory");
    fs::create_dir_all(&memory).unwrap();
    let settings = Settings { region_directory: Some(memory), ..Settings::default() };
    Env::builder().settings(settings).open(place.join("env")).unwrap()
}

fn put(env: &Env, name: &str, value: &str) {
    let db = env.btree(name).unwrap();
    env.run(|txn| db.put(txn, b"key", value.as_bytes())).unwrap();
}

fn get(env: &Env, name: &str) -> String {
    let db = env.btree(name).unwrap();
    let value = env.run(|txn| db.get(txn, b"key")).unwrap();
    String::from_utf8(value.unwrap_or_default()).unwrap()
}

/// Returns the names of the databases. Panics if the names of the files differ from them.
fn names(env: &Env) -> Vec<String> {
    let names = env.databases().unwrap();
    let mut files: Vec<String> = fs::read_dir(env.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".tp").map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(names, files, "each database must have a file, and each file a database");
    names
}

/// Removes the shared memory, as a crash of the machine does.
fn crash(place: &Path) {
    for entry in fs::read_dir(place.join("memory")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn missing(error: Option<Error>, name: &str) {
    assert!(matches!(&error, Some(Error::NoDatabase { name: told, .. }) if told == name), "{error:?}");
}

#[test]
fn a_dropped_database_is_gone_with_the_commit_and_its_name_is_free() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    put(&env, "kv", "old");
    put(&env, "other", "other");
    let theirs = open(dir.path());
    let handle = theirs.btree("kv").unwrap();

    let txn = env.begin().unwrap();
    txn.drop_database("kv").unwrap();
    missing(txn.drop_database("kv").err(), "kv");
    let told = env.btree("none").err();
    assert!(told.is_none(), "other databases can be made while the drop is not committed: {told:?}");
    txn.abort().unwrap();
    assert_eq!(get(&theirs, "kv"), "old", "an abort must undo the drop");

    let txn = env.begin().unwrap();
    let part = txn.savepoint();
    txn.drop_database("kv").unwrap();
    part.roll_back().unwrap();
    txn.commit().unwrap();
    assert_eq!(get(&theirs, "kv"), "old", "a rollback to a savepoint must undo the drop, too");

    let before = theirs.snapshot().unwrap();
    env.run(|txn| txn.drop_database("kv")).unwrap();
    assert_eq!(names(&env), ["none", "other"]);
    for told in [
        theirs.run(|txn| handle.get(txn, b"key")).err(),
        handle.get(&before, b"key").err(),
        env.run(|txn| handle_of(&env, txn)).err(),
    ] {
        let told = told.expect("the database was dropped");
        assert!(matches!(&told, Error::Dropped { .. } | Error::NoDatabase { .. }), "{told:?}");
        assert!(told.to_string().contains("kv"), "{told}");
    }
    drop(before);
    missing(env.verify("kv").err(), "kv");
    // The name can be used at once, by any process.
    put(&theirs, "kv", "new");
    assert_eq!(get(&env, "kv"), "new");
    assert!(env.checkpoint().unwrap());
    drop((env, theirs, handle));
    crash(dir.path());
    let env = open(dir.path());
    assert_eq!((get(&env, "kv"), get(&env, "other")), ("new".into(), "other".into()));
    assert_eq!(names(&env), ["kv", "none", "other"]);
}

fn handle_of(env: &Env, txn: &libtp::Txn<'_>) -> libtp::Result<()> {
    match env.database("kv")? {
        libtp::Database::Btree(db) => db.get(txn, b"key").map(|_| ()),
        _ => panic!("the database was a B-tree"),
    }
}

#[test]
fn a_user_of_a_database_waits_for_the_end_of_its_drop() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    put(&env, "kv", "old");
    let db = env.btree("kv").unwrap();
    for is_kept in [false, true] {
        let txn = env.begin().unwrap();
        txn.drop_database("kv").unwrap();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| env.run(|txn| db.get(txn, b"key")));
            let maker = scope.spawn(|| env.btree("kv").map(|db| db.name().to_owned()));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!reader.is_finished());
            match is_kept {
                true => txn.commit().unwrap(),
                false => txn.abort().unwrap(),
            }
            let read = reader.join().unwrap();
            assert_eq!(read.is_err(), is_kept, "{read:?}");
            assert_eq!(maker.join().unwrap().unwrap(), "kv");
        });
    }
    assert_eq!(get(&env, "kv"), "", "the new database with this name must be empty");
}

#[cfg(feature = "failpoints")]
#[test]
fn opening_a_database_that_is_dropped_meanwhile_makes_a_new_database() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    for is_replaced in [false, true] {
        put(&env, "kv", "old");
        let theirs = open(dir.path());
        let awake = dir.path().join("awake");
        let place = format!("create: registered, not formatted!sleep={}", awake.display());
        std::thread::scope(|scope| {
            let opened =
                scope.spawn(|| rio::failpoint::armed_here(&place, || theirs.btree("kv").map(|_| get(&theirs, "kv"))));
            let asleep = dir.path().join("awake.asleep");
            while !asleep.exists() {
                assert!(!opened.is_finished(), "the opening did not stop at the failpoint");
                std::thread::sleep(Duration::from_millis(1));
            }
            env.run(|txn| txn.drop_database("kv")).unwrap();
            if is_replaced {
                put(&env, "kv", "new");
            }
            fs::write(&awake, "").unwrap();
            assert_eq!(opened.join().unwrap().unwrap(), if is_replaced { "new" } else { "" });
            fs::remove_file(&awake).unwrap();
            fs::remove_file(&asleep).unwrap();
        });
        env.run(|txn| txn.drop_database("kv")).unwrap();
    }
}

#[test]
fn a_renamed_database_is_used_under_its_new_name_and_by_older_handles() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    for name in ["a", "b", "c"] {
        put(&env, name, name);
    }
    let theirs = open(dir.path());
    let handle = theirs.btree("a").unwrap();
    let refused = |told: Option<Error>| assert!(matches!(&told, Some(Error::Database { .. })), "{told:?}");
    env.run(|txn| {
        refused(txn.rename_database("a", "b").err());
        refused(txn.rename_database("a", "bad/name").err());
        missing(txn.rename_database("x", "y").err(), "x");
        // Renames in one transaction may form a chain, but no circle.
        txn.rename_database("a", "t")?;
        txn.rename_database("b", "a")?;
        refused(txn.rename_database("t", "b").err());
        txn.rename_database("t", "s")
    })
    .unwrap();
    assert_eq!(names(&env), ["a", "c", "s"]);
    assert_eq!([get(&env, "a"), get(&env, "s"), get(&theirs, "s")], ["b", "a", "a"]);
    assert_eq!(theirs.run(|txn| handle.get(txn, b"key")).unwrap().unwrap(), b"a");
    // A database gets the name of a dropped database.
    env.run(|txn| {
        txn.drop_database("c")?;
        txn.rename_database("a", "c")
    })
    .unwrap();
    assert_eq!(names(&theirs), ["c", "s"]);
    assert_eq!(get(&theirs, "c"), "b");
    // A rename and its reversal have no effect.
    env.run(|txn| {
        txn.rename_database("c", "d")?;
        txn.rename_database("d", "c")
    })
    .unwrap();
    drop((handle, theirs, env));
    for round in 0..2 {
        let env = open(dir.path());
        assert_eq!(names(&env), ["c", "s"]);
        assert_eq!([get(&env, "c"), get(&env, "s")], ["b", "a"], "{round}");
        drop(env);
        crash(dir.path());
    }
}

#[test]
fn a_write_by_a_handle_that_is_older_than_a_rename_keeps_the_indices() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let before = env.btree("a").unwrap();
    env.run(|txn| before.put(txn, b"1", b"x")).unwrap();
    env.run(|txn| txn.rename_database("a", "b")).unwrap();
    let after = env.btree("b").unwrap();
    let index = after.index("by value", |_, value, keys| keys.add(value)).unwrap();
    // Both transactions use one session, which keeps its lock on the database from the first to the second.
    env.run(|txn| after.put(txn, b"2", b"y")).unwrap();
    env.run(|txn| before.put(txn, b"3", b"z")).unwrap();
    assert_eq!(["x", "y", "z"].map(|value| env.run(|txn| index.count(txn, value.as_bytes())).unwrap()), [1, 1, 1]);
    assert!(env.verify("b").unwrap().findings.is_empty());
}

#[test]
fn databases_of_every_kind_are_listed_counted_emptied_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let (tree, hash, recno) = (env.btree("tree").unwrap(), env.hash("hash").unwrap(), env.recno("recno", 8).unwrap());
    let (multi, list) = (env.multi("multi", Duplicates::Sorted).unwrap(), env.list("list").unwrap());
    env.pages("pages").unwrap();
    let index = tree.index("tree by end", |key, _, keys| keys.add(&key[key.len() - 1..])).unwrap();
    env.run(|txn| {
        for number in 0..500_u32 {
            let key = number.to_be_bytes();
            tree.put(txn, &key, b"value")?;
            hash.put(txn, &key, b"value")?;
            recno.append(txn, b"recordno")?;
            multi.put(txn, &key[..3], &key)?;
            list.append(txn, &key)?;
        }
        Ok(())
    })
    .unwrap();
    let kinds: Vec<(String, &str)> =
        env.list_databases().unwrap().into_iter().map(|it| (it.name, it.kind.unwrap())).collect();
    let kinds: Vec<(&str, &str)> = kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let all = [
        ("hash", "hash"),
        ("list", "list"),
        ("multi", "multi"),
        ("pages", "pages"),
        ("recno", "recno"),
        ("tree", "btree"),
        ("tree by end", "index"),
    ];
    assert_eq!(kinds, all);
    assert!(env.list_databases().unwrap().iter().all(|it| it.bytes >= 8192));
    let counts = |env: &Env| all.map(|(name, _)| env.count_records(name).unwrap().unwrap_or(7));
    assert_eq!(counts(&env), [500, 500, 500, 7, 500, 500, 500]);

    let before = env.snapshot().unwrap();
    for is_kept in [false, true] {
        let txn = env.begin().unwrap();
        for name in ["hash", "list", "multi", "recno", "tree"] {
            assert_eq!(txn.empty_database(name).unwrap(), 500, "{name}");
        }
        assert!(txn.empty_database("pages").is_err() && txn.empty_database("tree by end").is_err());
        // The transaction uses the emptied database at once.
        tree.put(&txn, b"after", b"it").unwrap();
        match is_kept {
            true => txn.commit().unwrap(),
            false => txn.abort().unwrap(),
        }
        assert_eq!(counts(&env), if is_kept { [0, 0, 0, 7, 0, 1, 1] } else { [500, 500, 500, 7, 500, 500, 500] });
    }
    assert_eq!(tree.count(&before, ..).unwrap(), 500, "an older snapshot must still show the records");
    drop(before);
    for (name, _) in all {
        let findings = env.verify(name).unwrap().findings;
        assert!(findings.is_empty(), "{name}: {findings:?}");
    }
    // One index is dropped by its name, another with its database.
    env.run(|txn| txn.drop_database("tree by end")).unwrap();
    drop(index);
    env.run(|txn| tree.put(txn, b"more", b"without index")).unwrap();
    tree.index("tree by end", |key, _, keys| keys.add(&key[key.len() - 1..])).unwrap();
    assert_eq!(env.count_records("tree by end").unwrap(), Some(2));
    env.run(|txn| {
        txn.drop_database("tree")?;
        ["hash", "list", "multi", "pages", "recno"].iter().try_for_each(|name| txn.drop_database(name))
    })
    .unwrap();
    assert!(names(&env).is_empty());
    assert!(env.list_databases().unwrap().is_empty());
}

#[test]
fn a_restored_incremental_backup_has_the_drops_and_renames() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    for name in ["dropped", "renamed", "kept"] {
        put(&env, name, name);
    }
    let backup = dir.path().join("backup");
    env.backup(&backup, &mut |_| {}).unwrap();
    let before = env.stats().unwrap().log_tail;
    put(&env, "kept", "later");
    let until = env.stats().unwrap().log_tail - 8;
    assert!(until > before);
    env.run(|txn| {
        txn.drop_database("dropped")?;
        txn.rename_database("renamed", "new name")
    })
    .unwrap();
    put(&env, "made", "made");
    env.backup_more(&backup, &mut |_| {}).unwrap();
    let restored = |to: &str, until: RestorePoint| {
        let place = dir.path().join(to);
        fs::create_dir(&place).unwrap();
        Backup::open(&backup).unwrap().restore(place.join("env"), until, &mut |_| {}).unwrap();
        open(&place)
    };
    let last = restored("last", RestorePoint::End);
    assert_eq!(names(&last), ["kept", "made", "new name"]);
    assert_eq!([get(&last, "new name"), get(&last, "kept"), get(&last, "made")], ["renamed", "later", "made"]);
    let then = restored("then", RestorePoint::Lsn(until));
    assert_eq!([get(&then, "dropped"), get(&then, "renamed"), get(&then, "kept")], ["dropped", "renamed", "later"]);
    // The backup has a file of the dropped database. So a new database with this name cannot be added to the backup.
    put(&env, "dropped", "another");
    let told = env.backup_more(&backup, &mut |_| {}).unwrap_err().to_string();
    assert!(told.contains("dropped") && told.contains("full backup"), "{told}");
    env.backup(dir.path().join("again"), &mut |_| {}).unwrap();
}

#[test]
fn a_drop_waits_for_a_backup_that_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    put(&env, "kv", "old");
    let (begun, waits) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            begun.wait();
            let dropping = scope.spawn(|| env.run(|txn| txn.drop_database("kv")));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!dropping.is_finished());
            waits.wait();
            dropping.join().unwrap().unwrap();
        });
        let mut is_first = true;
        env.backup(dir.path().join("backup"), &mut |_| {
            if std::mem::take(&mut is_first) {
                begun.wait();
                waits.wait();
            }
        })
        .unwrap();
        other.join().unwrap();
    });
    Backup::open(dir.path().join("backup"))
        .unwrap()
        .restore(dir.path().join("restored"), RestorePoint::End, &mut |_| {})
        .unwrap();
    assert_eq!(get(&Env::open_or_create(dir.path().join("restored")).unwrap(), "kv"), "old");
    assert!(names(&env).is_empty());
}

#[cfg(feature = "failpoints")]
mod deaths;

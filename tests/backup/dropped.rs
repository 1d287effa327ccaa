//! Databases that are dropped, renamed and emptied: if and only if the transaction commits.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

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

/// Returns the names of the databases, which must be those of their files.
fn names(env: &Env) -> Vec<String> {
    let names = env.databases().unwrap();
    let mut files: Vec<String> = fs::read_dir(env.path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().into_string().unwrap().strip_suffix(".tp").map(str::to_owned))
        .collect();
    files.sort();
    assert_eq!(names, files, "each database has its file, and each file its database");
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
    assert!(told.is_none(), "other names are free meanwhile: {told:?}");
    txn.abort().unwrap();
    assert_eq!(get(&theirs, "kv"), "old", "an abort takes the drop back");

    let txn = env.begin().unwrap();
    let part = txn.savepoint();
    txn.drop_database("kv").unwrap();
    part.roll_back().unwrap();
    txn.commit().unwrap();
    assert_eq!(get(&theirs, "kv"), "old", "so does a savepoint");

    let before = theirs.snapshot().unwrap();
    env.run(|txn| txn.drop_database("kv")).unwrap();
    assert_eq!(names(&env), ["none", "other"]);
    for told in [
        theirs.run(|txn| handle.get(txn, b"key")).err(),
        handle.get(&before, b"key").err(),
        env.run(|txn| handle_of(&env, txn)).err(),
    ] {
        let told = told.expect("it was dropped");
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
        _ => panic!("it was a B-tree"),
    }
}

#[test]
fn who_uses_a_database_that_is_being_dropped_waits_for_the_end_of_the_transaction() {
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
    assert_eq!(get(&env, "kv"), "", "it was made anew");
}

#[test]
fn a_renamed_database_is_used_under_its_new_name_and_by_handles_from_before() {
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
        // Renamings form a chain, but no circle.
        txn.rename_database("a", "t")?;
        txn.rename_database("b", "a")?;
        refused(txn.rename_database("t", "b").err());
        txn.rename_database("t", "s")
    })
    .unwrap();
    assert_eq!(names(&env), ["a", "c", "s"]);
    assert_eq!([get(&env, "a"), get(&env, "s"), get(&theirs, "s")], ["b", "a", "a"]);
    assert_eq!(theirs.run(|txn| handle.get(txn, b"key")).unwrap().unwrap(), b"a");
    // A database takes the name of a dropped one.
    env.run(|txn| {
        txn.drop_database("c")?;
        txn.rename_database("a", "c")
    })
    .unwrap();
    assert_eq!(names(&theirs), ["c", "s"]);
    assert_eq!(get(&theirs, "c"), "b");
    // A renaming there and back has no effect.
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
fn who_writes_by_a_handle_from_before_a_new_name_keeps_the_indices() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(dir.path());
    let before = env.btree("a").unwrap();
    env.run(|txn| before.put(txn, b"1", b"x")).unwrap();
    env.run(|txn| txn.rename_database("a", "b")).unwrap();
    let after = env.btree("b").unwrap();
    let index = after.index("by value", |_, value, keys| keys.add(value)).unwrap();
    // In one session, whose lock on the database is kept from one transaction to the next.
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
    assert_eq!(tree.count(&before, ..).unwrap(), 500, "a snapshot from before goes on");
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
fn a_backup_and_what_is_added_to_it_have_what_was_dropped_and_renamed() {
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
    // A backup of the dropped database has no room for another database with the same name.
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
mod deaths {
    use super::*;
    use libtp_tests::failpoints::{Scene, FAILPOINTS};
    use libtp_tests::process::Process;
    use libtp_tests::threads::on_threads;

    const PLACE: &str = "LIBTP_TEST_DROPPED_PLACE";
    /// Set if the child makes a database.
    const MAKES: &str = "LIBTP_TEST_DROPPED_MAKES";
    /// Longest time for others to finish the dead process's work.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// The process that finds the remains of the dead one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Successor {
        /// A process that has the environment open all the time.
        Survivor,
        /// The next process that opens it.
        Next,
        /// The next process that opens it, without its shared memory.
        Restart,
    }

    fn step(env: &Env) {
        let other = env.btree("other").unwrap();
        env.run(|txn| {
            other.put(txn, b"key", b"second")?;
            txn.drop_database("old")?;
            txn.rename_database("new", "old")
        })
        .unwrap();
    }

    /// The entry of the child, which dies at the failpoint in `LIBTP_FAILPOINT`.
    #[test]
    fn entry() {
        let Ok(place) = std::env::var(PLACE) else { return };
        let env = open(Path::new(&place));
        if let Ok(name) = std::env::var(MAKES) {
            return put(&env, &name, "first");
        }
        match env.database("missing").err() {
            Some(Error::Away { .. }) => env.drop_missing("missing").unwrap(),
            _ => step(&env),
        }
    }

    fn dies(place: &Path, failpoint: &str) -> bool {
        dies_of(place, failpoint, None)
    }

    fn dies_of(place: &Path, failpoint: &str, makes: Option<&str>) -> bool {
        use std::os::unix::process::ExitStatusExt;
        let mut variables = vec![(PLACE, place.display().to_string()), ("LIBTP_FAILPOINT", failpoint.to_owned())];
        variables.extend(makes.map(|name| (MAKES, name.to_owned())));
        Process::start("dropped::deaths::entry", &variables, |_| {}).wait().signal().is_some()
    }

    /// Checks that all of the step is there, or none of it. Returns which.
    fn is_whole(env: &Env) -> bool {
        let found = env.databases().unwrap();
        match get(env, "other").as_str() {
            "first" => {
                assert_eq!(found, ["new", "old", "other"]);
                assert_eq!([get(env, "old"), get(env, "new")], ["old", "new"]);
                false
            }
            _ => {
                assert_eq!(get(env, "old"), "new");
                assert_eq!(names(env), ["old", "other"]);
                true
            }
        }
    }

    fn play(name: &str, heir: Successor) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        let env = open(place);
        for (name, value) in [("old", "old"), ("new", "new"), ("other", "first")] {
            put(&env, name, value);
        }
        let mut kept = Some(env).filter(|_| heir == Successor::Survivor);
        assert!(dies(place, name), "nobody came to {name}");
        if heir == Successor::Restart {
            crash(place);
        }
        let env = kept.take().unwrap_or_else(|| open(place));
        let begun = Instant::now();
        // Waits for the dead process's locks.
        let done = is_whole(&env);
        assert!(begun.elapsed() < PATIENCE, "{name} {heir:?}");
        // Changes that are not on disk are lost with the shared memory.
        if heir != Successor::Restart || !name.starts_with("databases: committed") {
            assert_eq!(done, !name.starts_with("databases: said"), "{name} {heir:?}");
        }
        if !done {
            step(&env);
            assert!(is_whole(&env));
        }
        put(&env, "new", "newer");
        assert!(env.checkpoint().unwrap() || env.checkpoint().unwrap());
        drop(env);
        crash(place);
        let env = open(place);
        assert_eq!([get(&env, "new"), get(&env, "old"), get(&env, "other")], ["newer", "new", "second"], "{name}");
        assert_eq!(names(&env), ["new", "old", "other"]);
    }

    #[test]
    fn a_database_that_a_process_died_making_in_a_used_slot_is_found_and_can_be_dropped() {
        for point in ["buffer: file registered, not live", "buffer: file live, not counted"] {
            let dir = tempfile::tempdir().unwrap();
            let env = open(dir.path());
            put(&env, "first", "old");
            put(&env, "gone", "old");
            env.run(|txn| txn.drop_database("gone")).unwrap();
            assert!(dies_of(dir.path(), point, Some("fresh")), "nobody came to {point}");
            put(&env, "fresh", "second");
            env.run(|txn| txn.drop_database("fresh")).unwrap();
            // The next database gets a slot before that of the dead process.
            env.run(|txn| txn.drop_database("first")).unwrap();
            for value in ["third", "fourth"] {
                put(&env, "fresh", value);
                assert_eq!([get(&env, "fresh"), get(&open(dir.path()), "fresh")], [value, value], "{point}");
                assert!(env.checkpoint().unwrap() || env.checkpoint().unwrap());
                assert_eq!(names(&env), ["fresh"], "{point}");
                env.run(|txn| txn.drop_database("fresh")).unwrap();
            }
        }
    }

    /// A process dies while it gives up a database whose file is missing.
    fn gives_up(name: &str, heir: Successor) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        let env = open(place);
        put(&env, "missing", "old");
        put(&env, "other", "first");
        drop(env);
        fs::remove_file(place.join("env/missing.tp")).unwrap();
        let mut kept = Some(open(place)).filter(|_| heir == Successor::Survivor);
        assert!(dies(place, name), "nobody came to {name}");
        if heir == Successor::Restart {
            crash(place);
        }
        let env = kept.take().unwrap_or_else(|| open(place));
        // If the log has the drop, a restart does it; otherwise the call must be repeated.
        match env.drop_missing("missing") {
            Ok(()) => assert!(heir != Successor::Restart || name.ends_with("not on disk"), "{name} {heir:?}"),
            Err(Error::NoDatabase { .. }) => assert_eq!(heir, Successor::Restart, "{name}"),
            Err(error) => panic!("{name} {heir:?}: {error}"),
        }
        put(&env, "missing", "new");
        drop(env);
        crash(place);
        let env = open(place);
        assert_eq!([get(&env, "missing"), get(&env, "other")], ["new", "first"], "{name} {heir:?}");
    }

    /// A process dies while it undoes a transaction's changes to a file that is missing, or is back.
    fn takes_back(name: &str) {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path();
        let origin = Env::open_or_create(place.join("origin")).unwrap();
        put(&origin, "kv", "old");
        put(&origin, "other", "first");
        let txn = origin.begin().unwrap();
        for database in ["kv", "other"] {
            let db = origin.btree(database).unwrap();
            db.put(&txn, b"key", b"of the loser").unwrap();
            db.put(&txn, b"another key", b"of the loser").unwrap();
        }
        origin.flush().unwrap();
        fs::create_dir(place.join("env")).unwrap();
        for entry in fs::read_dir(origin.path()).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_file() && entry.file_name() != "region" {
                fs::copy(entry.path(), place.join("env").join(entry.file_name())).unwrap();
            }
        }
        let (there, away) = (place.join("env/kv.tp"), place.join("kv away"));
        fs::rename(&there, &away).unwrap();
        let is_back = name.ends_with("taken back");
        if is_back {
            assert_eq!(get(&open(place), "other"), "first");
            fs::rename(&away, &there).unwrap();
        }
        assert!(dies(place, name), "nobody came to {name}");
        if !is_back {
            assert_eq!(get(&open(place), "other"), "first", "{name}");
            fs::rename(&away, &there).unwrap();
        }
        for _ in 0..2 {
            let env = open(place);
            assert_eq!([get(&env, "kv"), get(&env, "other")], ["old", "first"], "{name}");
            let counts = ["kv", "other"].map(|name| env.count_records(name).unwrap());
            assert_eq!(counts, [Some(1), Some(1)], "{name}");
            drop(env);
            crash(place);
        }
    }

    #[test]
    fn who_dies_over_databases_leaves_all_of_it_or_nothing() {
        let chosen: Option<String> = libtp_tests::sizes::chosen("LIBTP_TEST_FAILPOINT");
        let points = FAILPOINTS.iter().filter(|point| point.scene == Scene::Databases);
        let points: Vec<_> = points.filter(|point| chosen.as_deref().is_none_or(|one| one == point.name)).collect();
        assert!(!points.is_empty());
        let heirs = |name| [Successor::Survivor, Successor::Next, Successor::Restart].map(|heir| (name, heir));
        let plays: Vec<(&str, Successor)> = points.iter().flat_map(|point| heirs(point.name)).collect();
        // Most of these runs wait most of the time.
        on_threads(4, &plays, |(name, heir)| match *name {
            name if name.starts_with("undo: ") => takes_back(name),
            name if name.starts_with("databases: given up") => gives_up(name, *heir),
            name => play(name, *heir),
        });
    }
}

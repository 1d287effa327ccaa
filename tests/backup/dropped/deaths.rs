//! A process dies while it drops, renames or makes databases. Its transaction must be carried out completely or not at
//! all.

use std::time::Instant;

use super::*;
use libtp_tests::failpoints::{self, Scene};
use libtp_tests::process::dies_at;
use libtp_tests::threads::on_threads;

const PLACE: &str = "LIBTP_TEST_DROPPED_PLACE";
/// The environment variable with the name of the database that the child makes.
const MAKES: &str = "LIBTP_TEST_DROPPED_MAKES";
/// The longest time in which other processes must finish the dead process's work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The process that repairs the dead process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Successor {
    /// A process that has the environment open all the time.
    Survivor,
    /// The next process that opens the environment.
    Next,
    /// The next process that opens the environment, after its shared memory was lost.
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
        Some(Error::FileMissing { .. }) => env.drop_missing("missing").unwrap(),
        _ => step(&env),
    }
}

fn dies(place: &Path, failpoint: &str) -> bool {
    dies_of(place, failpoint, None)
}

fn dies_of(place: &Path, failpoint: &str, makes: Option<&str>) -> bool {
    let mut variables = vec![(PLACE, place.display().to_string())];
    variables.extend(makes.map(|name| (MAKES, name.to_owned())));
    dies_at(failpoint, "dropped::deaths::entry", &variables)
}

/// Checks that the step was carried out completely or not at all. Returns whether it was carried out.
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
    assert!(dies(place, name), "no process reached {name}");
    if heir == Successor::Restart {
        crash(place);
    }
    let env = kept.take().unwrap_or_else(|| open(place));
    let begun = Instant::now();
    // Waits until the dead process's locks are released.
    let done = is_whole(&env);
    assert!(begun.elapsed() < PATIENCE, "{name} {heir:?}");
    // A commit that is not on disk may be lost with the shared memory.
    if heir != Successor::Restart || !name.starts_with("databases: committed") {
        assert_eq!(done, name != "databases: changes logged, not committed", "{name} {heir:?}");
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
fn an_unfinished_database_in_a_used_slot_is_found_and_can_be_dropped() {
    for point in ["buffer: file registered, not live", "buffer: file live, not counted"] {
        let dir = tempfile::tempdir().unwrap();
        let env = open(dir.path());
        put(&env, "first", "old");
        put(&env, "gone", "old");
        env.run(|txn| txn.drop_database("gone")).unwrap();
        assert!(dies_of(dir.path(), point, Some("fresh")), "no process reached {point}");
        put(&env, "fresh", "second");
        env.run(|txn| txn.drop_database("fresh")).unwrap();
        // The next database gets a slot with a lower index than the slot that the dead process took.
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

/// Lets a process die while it drops a database whose file is missing.
fn gives_up(name: &str, heir: Successor) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path();
    let env = open(place);
    put(&env, "missing", "old");
    put(&env, "other", "first");
    drop(env);
    fs::remove_file(place.join("env/missing.tp")).unwrap();
    let mut kept = Some(open(place)).filter(|_| heir == Successor::Survivor);
    assert!(dies(place, name), "no process reached {name}");
    if heir == Successor::Restart {
        crash(place);
    }
    let env = kept.take().unwrap_or_else(|| open(place));
    // If the log has the drop, a restart has done it; otherwise the call must be repeated.
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

/// Lets a process die while it undoes a transaction's changes to a file that is missing, or has returned.
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
    let is_back = name.ends_with("undone");
    if is_back {
        assert_eq!(get(&open(place), "other"), "first");
        fs::rename(&away, &there).unwrap();
    }
    assert!(dies(place, name), "no process reached {name}");
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
fn a_death_while_databases_are_dropped_or_renamed_leaves_all_of_the_change_or_nothing() {
    let chosen: Option<String> = libtp_tests::sizes::chosen("LIBTP_TEST_FAILPOINT");
    let points = failpoints::all().filter(|point| point.scene == Scene::Databases);
    let points: Vec<_> = points.filter(|point| chosen.as_deref().is_none_or(|one| one == point.name)).collect();
    assert!(!points.is_empty());
    let heirs = |name| [Successor::Survivor, Successor::Next, Successor::Restart].map(|heir| (name, heir));
    let plays: Vec<(&str, Successor)> = points.iter().flat_map(|point| heirs(point.name)).collect();
    // The runs wait most of the time, so several run concurrently.
    on_threads(4, &plays, |(name, heir)| match *name {
        name if name.starts_with("undo: ") => takes_back(name),
        "databases: cancelled, not on disk" | "databases: cancelled, not in the register" => gives_up(name, *heir),
        name => play(name, *heir),
    });
}

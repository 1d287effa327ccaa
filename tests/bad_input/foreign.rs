//! Other files in the place of an environment's files, and files of other versions and other environments. The
//! directory must stay unchanged. When the right file is back, the environment must open.

use std::fs;
use std::path::Path;

use libtp::{Env, OpenedBy};

use crate::error_texts::{check_value, key_of, refused, says, value_of};

const COUNT: u64 = 300;
const BYTES: usize = 200;

/// Makes an environment and closes it cleanly.
fn make(directory: &Path) {
    let env = Env::open_or_create(directory).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..COUNT).try_for_each(|one| table.put(txn, &key_of(one), &value_of(one, BYTES)))).unwrap();
}

/// Opens the environment, and checks that all records are there.
fn check(directory: &Path) {
    let env = Env::open_or_create(directory).unwrap();
    // A refused opening may have begun a restart.
    assert!([OpenedBy::Clean, OpenedBy::Restarted].contains(&env.opened().how), "{:?}", env.opened());
    let table = env.btree("table").unwrap();
    env.run(|txn| (0..COUNT).try_for_each(|one| check_value(&table, txn, one, BYTES))).unwrap();
}

/// Changes a file of an environment. The opening must fail with an error that has these words, and must not change the
/// file. With the right file back, it must succeed.
#[track_caller]
fn refuses(name: &str, words: &[&str], change: impl Fn(&mut Vec<u8>)) {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    let file = directory.path().join(name);
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    change(&mut bad);
    assert_ne!(good, bad, "the test changes nothing");
    fs::write(&file, &bad).unwrap();
    // Opens the environment twice, because a refused file must be refused again.
    for _ in 0..2 {
        let error = refused(directory.path());
        says(&error, words);
        says(&error, &[name]);
    }
    assert!(fs::read(&file).unwrap() == bad, "{name} was changed by a refused opening");
    fs::write(&file, &good).unwrap();
    check(directory.path());
}

/// Checks that a wrong file in the place of a database's file stops only this database. The error must have these
/// words, and the wrong file must stay unchanged.
#[track_caller]
fn stops_its_own(directory: &Path, name: &str, words: &[&str]) {
    let file = directory.join(format!("{name}.tp"));
    let before = fs::read(&file).unwrap();
    let env = Env::open_or_create(directory).unwrap();
    // Opens the database twice, because the first refusal must not leave the database open for the second call.
    for _ in 0..2 {
        says(&env.btree(name).map(drop).unwrap_err(), words);
    }
    let other = env.btree("other").unwrap();
    env.run(|txn| other.put(txn, b"key", b"value")).unwrap();
    drop((other, env));
    assert!(fs::read(&file).unwrap() == before, "{name}.tp was changed");
}

#[test]
fn a_foreign_file_in_the_control_files_place_is_refused_and_left_alone() {
    for text in ["", "x", "hello", "[Desktop Entry]\nName=Something else entirely\n", &"#".repeat(20_000)] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("control");
        fs::write(&file, text).unwrap();
        if text.is_empty() {
            // An empty control file counts as a missing one.
            assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Created);
            continue;
        }
        let error = refused(directory.path());
        says(&error, &["control", &directory.path().display().to_string()]);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}

#[test]
fn a_foreign_file_among_the_databases_stops_only_the_database_of_its_name() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    for content in ["", "a recipe for soup", &"soup ".repeat(10_000)] {
        let file = directory.path().join("recipe.tp");
        fs::write(&file, content).unwrap();
        stops_its_own(directory.path(), "recipe", &["recipe.tp"]);
        fs::remove_file(file).unwrap();
        check(directory.path());
    }
}

#[test]
fn files_of_other_kinds_in_the_directory_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    for name in ["notes.txt", "table.tp.bak", "log.old", "log.1", "tp", ".tp~"] {
        fs::write(directory.path().join(name), "another program's").unwrap();
    }
    fs::create_dir(directory.path().join("directory.tp")).unwrap();
    check(directory.path());
}

#[test]
fn an_unknown_version_of_the_environment_is_refused_and_named() {
    refuses("control", &["version 77", "version 1"], |bytes| bytes[8] = 77);
}

#[test]
fn an_unknown_version_of_a_database_file_is_refused_and_named() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    let file = directory.path().join("table.tp");
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[40] = 77;
    fs::write(&file, &bad).unwrap();
    stops_its_own(directory.path(), "table", &["table.tp", "version 77", "versions up to 3"]);
    fs::write(&file, &good).unwrap();
    check(directory.path());
}

#[test]
fn an_unknown_version_of_a_log_segment_is_refused_and_named() {
    refuses("log.00000001", &["version 77", "this build reads version 6"], |bytes| bytes[8] = 77);
    // Records had another layout of their bodies up to version 5, and another layout of their headers up to version 4.
    refuses("log.00000001", &["version 5", "this build reads version 6"], |bytes| bytes[8] = 5);
    refuses("log.00000001", &["version 4", "this build reads version 6"], |bytes| bytes[8] = 4);
}

#[test]
fn the_log_of_another_environment_is_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(one.path());
    make(other.path());
    let (mine, theirs) = (one.path().join("log.00000001"), other.path().join("log.00000001"));
    let good = fs::read(&mine).unwrap();
    fs::copy(theirs, &mine).unwrap();
    says(&refused(one.path()), &["log.00000001", "another environment"]);
    fs::write(&mine, good).unwrap();
    check(one.path());
    check(other.path());
}

#[test]
fn a_database_of_another_environment_is_refused_with_a_remedy() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(one.path());
    make(other.path());
    let visitor = one.path().join("visitor.tp");
    fs::copy(other.path().join("table.tp"), &visitor).unwrap();
    stops_its_own(one.path(), "visitor", &["visitor.tp", "another environment", "tp dump"]);
    fs::remove_file(visitor).unwrap();
    check(one.path());
}

#[test]
fn a_copy_of_a_database_under_another_name_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    let copy = directory.path().join("copy.tp");
    fs::copy(directory.path().join("table.tp"), &copy).unwrap();
    stops_its_own(directory.path(), "copy", &["copy.tp", "table.tp"]);
    fs::remove_file(copy).unwrap();
    check(directory.path());
}

#[test]
fn a_control_file_of_another_environment_is_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(one.path());
    make(other.path());
    let mine = one.path().join("control");
    let good = fs::read(&mine).unwrap();
    fs::copy(other.path().join("control"), &mine).unwrap();
    says(&refused(one.path()), &["another environment"]);
    fs::write(&mine, good).unwrap();
    check(one.path());
}

#[test]
fn without_its_control_file_an_environment_is_not_created_again() {
    let directory = tempfile::tempdir().unwrap();
    make(directory.path());
    let (control, away) = (directory.path().join("control"), directory.path().join("away"));
    fs::rename(&control, &away).unwrap();
    says(&refused(directory.path()), &["control", "log.00000001"]);
    // The refused opening must not have made a new environment.
    fs::rename(&away, &control).unwrap();
    check(directory.path());
}

#[test]
fn a_copy_of_an_environment_is_an_environment_of_its_own() {
    let (one, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make(one.path());
    for entry in fs::read_dir(one.path()).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    let (first, second) = (Env::open_or_create(one.path()).unwrap(), Env::open_or_create(copy.path()).unwrap());
    for (env, text) in [(&first, b"one"), (&second, b"two")] {
        let table = env.btree("table").unwrap();
        env.run(|txn| table.put(txn, b"which", text)).unwrap();
    }
    for (env, text) in [(&first, b"one"), (&second, b"two")] {
        let table = env.btree("table").unwrap();
        assert_eq!(env.run(|txn| table.get(txn, b"which")).unwrap().as_deref(), Some(&text[..]));
    }
    drop((first, second));
    check(one.path());
    check(copy.path());
}

#[test]
fn a_foreign_file_in_the_place_of_the_shared_memory_does_not_prevent_opening() {
    let directory = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("libtp.toml"), format!("region_directory = {:?}\n", memory.path())).unwrap();
    make(directory.path());
    let region = {
        let env = Env::open_or_create(directory.path()).unwrap();
        env.stats().unwrap().region
    };
    for garbage in [Vec::new(), vec![0xab; 100], vec![0xab; 3 << 20], vec![0; 3 << 20]] {
        fs::write(&region, &garbage).unwrap();
        check(directory.path());
    }
}

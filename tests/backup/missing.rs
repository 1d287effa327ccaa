//! A database whose file is missing, empty or foreign. Only this database cannot be used, and when its file returns, no
//! commit is lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use libtp::{Bytes, Env, Error, Settings};
use libtp_tests::sizes;

const COMMITS: u32 = 50;

fn open(path: &Path) -> Env {
    Env::builder().open(path).unwrap()
}

fn fill(env: &Env, name: &str, from: u32) {
    let db = env.btree(name).unwrap();
    for number in from..from + COMMITS {
        env.run(|txn| db.put(txn, &number.to_be_bytes(), name.as_bytes())).unwrap();
    }
}

fn count(env: &Env, name: &str) -> u64 {
    let db = env.btree(name).unwrap();
    assert!(env.verify(name).unwrap().findings.is_empty());
    env.run(|txn| db.count(txn, ..)).unwrap()
}

/// Copies the files of an environment in use, as a crash of the machine would leave them. No shared memory belongs to
/// the copies, so opening them is a restart.
fn crash(env: &Env, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(env.path()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() && entry.file_name() != "region" {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn assert_away(env: &Env, name: &str) {
    let told = env.btree(name).expect_err("the database cannot be opened");
    assert!(matches!(&told, Error::FileMissing { name: away, .. } if away == name), "{told:?}");
    assert!(told.to_string().contains(&format!("{name}.tp")), "{told}");
    assert!(env.verify(name).is_err(), "`verify` must report the missing file");
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// Makes a crashed environment, and moves the file of its database `kv` out of it. Returns the directory of both, the
/// environment's path, and the file's new path.
fn crashed_without_kv() -> (Place, PathBuf, PathBuf) {
    let place = Place::new();
    let env = open(&place.at("env"));
    fill(&env, "kv", 0);
    fill(&env, "other", 0);
    let path = place.at("crashed");
    crash(&env, &path);
    let away = place.at("away.tp");
    fs::rename(path.join("kv.tp"), &away).unwrap();
    (place, path, away)
}

#[test]
fn after_a_restart_a_missing_file_loses_nothing_and_stops_only_its_own_database() {
    let (_place, path, away) = crashed_without_kv();

    for round in 1..=2 {
        let env = open(&path);
        assert_away(&env, "kv");
        assert_eq!(count(&env, "other"), u64::from(round * COMMITS));
        fill(&env, "other", round * COMMITS);
        assert!(env.checkpoint().unwrap());
        assert!(!path.join("kv.tp").exists(), "the missing file must not be created");
        assert!(env.databases().unwrap().contains(&"kv".to_string()), "the database must stay in the list");
    }
    fs::rename(&away, path.join("kv.tp")).unwrap();
    let env = open(&path);
    assert_eq!(count(&env, "kv"), u64::from(COMMITS));
    assert_eq!(count(&env, "other"), u64::from(3 * COMMITS));
    assert!(env.checkpoint().unwrap());
}

/// The number of openings. Each begins an incarnation of the log; a slot of the control file lists fewer incarnations.
const OPENINGS: u64 = 300;

#[test]
fn an_environment_with_a_missing_file_can_be_opened_and_changed_any_number_of_times() {
    let (_place, path, away) = crashed_without_kv();
    let mut taken = 0;
    for opening in 0..OPENINGS {
        let env = open(&path);
        taken += env.stats().unwrap().checkpoints;
        assert_away(&env, "kv");
        let other = env.btree("other").unwrap();
        env.run(|txn| other.put(txn, b"opening", &opening.to_be_bytes())).unwrap();
    }
    assert_eq!(taken, 0, "an opening after a clean close must take no checkpoint");
    fs::rename(&away, path.join("kv.tp")).unwrap();
    for _ in 0..2 {
        let env = open(&path);
        assert_eq!(count(&env, "kv"), u64::from(COMMITS));
        let other = env.btree("other").unwrap();
        let last = env.run(|txn| other.get(txn, b"opening")).unwrap();
        assert_eq!(last, Some((OPENINGS - 1).to_be_bytes().to_vec()));
    }
}

#[test]
fn a_file_that_returns_while_the_environment_is_open_can_be_used_after_the_next_restart() {
    let place = Place::new();
    let env = open(&place.at("env"));
    fill(&env, "kv", 0);
    let path = place.at("crashed");
    crash(&env, &path);
    let away = place.at("away.tp");
    fs::rename(path.join("kv.tp"), &away).unwrap();
    let env = open(&path);
    assert_away(&env, "kv");
    fs::rename(&away, path.join("kv.tp")).unwrap();
    let told = env.btree("kv").expect_err("the file lacks changes that only a restart redoes").to_string();
    assert!(told.contains("open it again"), "{told}");
    drop(env);
    assert_eq!(count(&open(&path), "kv"), u64::from(COMMITS));
}

#[test]
fn after_a_clean_close_a_missing_file_is_not_created_again() {
    let place = Place::new();
    let path = place.at("env");
    fill(&open(&path), "kv", 0);
    let away = place.at("away.tp");
    fs::rename(path.join("kv.tp"), &away).unwrap();
    let env = open(&path);
    assert_away(&env, "kv");
    assert!(!path.join("kv.tp").exists());
    fill(&env, "other", 0);
    fs::rename(&away, path.join("kv.tp")).unwrap();
    assert_eq!(count(&env, "kv"), u64::from(COMMITS), "the file lacks no changes");
}

#[test]
fn a_missing_file_with_the_name_of_a_dropped_database_is_not_created_again() {
    let place = Place::new();
    let path = place.at("env");
    let env = open(&path);
    fill(&env, "kv", 0);
    fill(&env, "old", 0);
    env.run(|txn| {
        txn.drop_database("old")?;
        txn.rename_database("kv", "old")
    })
    .unwrap();
    assert_eq!(env.list_database("old").unwrap().name, "old");
    drop(env);
    let away = place.at("away.tp");
    fs::rename(path.join("old.tp"), &away).unwrap();
    let env = open(&path);
    assert_away(&env, "old");
    assert!(!path.join("old.tp").exists());
    fs::rename(&away, path.join("old.tp")).unwrap();
    assert_eq!(count(&env, "old"), u64::from(COMMITS));
}

#[test]
fn an_empty_truncated_or_foreign_file_stops_only_its_own_database() {
    let place = Place::new();
    let env = open(&place.at("env"));
    fill(&env, "kv", 0);
    fill(&env, "other", 0);
    // A database of another environment, with the same number and name.
    let theirs = place.at("theirs");
    fill(&open(&theirs), "kv", 0);
    let whole = fs::read(env.path().join("kv.tp")).unwrap();
    let others = [
        ("empty", Vec::new()),
        ("cut", whole[..5000].to_vec()),
        ("text", b"a letter to a friend".repeat(1000)),
        ("foreign", fs::read(theirs.join("kv.tp")).unwrap()),
    ];
    for (what, bytes) in others {
        let path = place.at(what);
        crash(&env, &path);
        let mine = fs::read(path.join("kv.tp")).unwrap();
        fs::write(path.join("kv.tp"), &bytes).unwrap();
        let env = open(&path);
        assert!(env.btree("kv").is_err(), "{what}");
        assert_eq!(count(&env, "other"), u64::from(COMMITS), "{what}");
        assert!(env.checkpoint().unwrap(), "{what}");
        drop(env);
        assert!(fs::read(path.join("kv.tp")).unwrap() == bytes, "{what}: the file was changed");
        fs::write(path.join("kv.tp"), &mine).unwrap();
        assert_eq!(count(&open(&path), "kv"), u64::from(COMMITS), "{what}");
    }
}

#[test]
fn a_directory_in_the_place_of_a_file_stops_only_its_own_database() {
    let (_place, path, away) = crashed_without_kv();
    fs::create_dir(path.join("kv.tp")).unwrap();
    let env = open(&path);
    assert_away(&env, "kv");
    assert_eq!(count(&env, "other"), u64::from(COMMITS));
    fill(&env, "other", COMMITS);
    assert!(env.checkpoint().unwrap());
    drop(env);
    fs::remove_dir(path.join("kv.tp")).unwrap();
    fs::rename(&away, path.join("kv.tp")).unwrap();
    let env = open(&path);
    assert_eq!(count(&env, "kv"), u64::from(COMMITS));
    assert_eq!(count(&env, "other"), u64::from(2 * COMMITS));
}

#[test]
fn a_database_file_may_be_a_symbolic_link() {
    let place = Place::new();
    let path = place.at("env");
    let env = open(&path);
    fill(&env, "kv", 0);
    drop(env);
    let there = place.at("elsewhere.tp");
    fs::rename(path.join("kv.tp"), &there).unwrap();
    std::os::unix::fs::symlink(&there, path.join("kv.tp")).unwrap();
    let env = open(&path);
    let before = fs::read(&there).unwrap();
    fill(&env, "kv", COMMITS);
    assert!(env.checkpoint().unwrap());
    assert!(fs::read(&there).unwrap() != before, "pages must be written to the linked file");
    drop(env);
    assert_eq!(count(&open(&path), "kv"), u64::from(2 * COMMITS));
}

#[test]
fn a_file_replaced_by_an_older_copy_while_it_is_open_loses_no_changes() {
    for is_back in [true, false] {
        let place = Place::new();
        let path = place.at("env");
        let settings = Settings { no_background: true, ..Settings::default() };
        let env = Env::builder().settings(settings).open(&path).unwrap();
        fill(&env, "kv", 0);
        fill(&env, "other", 0);
        assert!(env.checkpoint().unwrap());
        let (older, whole) = (path.join("kv older"), place.at("kv whole"));
        fs::copy(path.join("kv.tp"), &older).unwrap();
        let bytes = fs::read(&older).unwrap();
        let kv = env.btree("kv").unwrap();
        fill(&env, "kv", COMMITS);
        fs::hard_link(path.join("kv.tp"), &whole).unwrap();
        // Replaces the file as `rsync` and `cp --remove-destination` do: this process still has the old file open.
        fs::rename(&older, path.join("kv.tp")).unwrap();
        for round in 0..2 {
            env.run(|txn| kv.put(txn, &(2 * COMMITS + round).to_be_bytes(), b"kv")).unwrap();
            fill(&env, "other", (1 + round) * COMMITS);
            assert!(env.checkpoint().unwrap(), "pages that cannot be written must not stop the checkpoint");
            assert!(fs::read(path.join("kv.tp")).unwrap() == bytes, "the copy was changed");
        }
        drop((kv, env));
        if is_back {
            fs::rename(&whole, path.join("kv.tp")).unwrap();
        }
        // The log with the changes was kept, so a restart can redo them in the older copy, too.
        let env = open(&path);
        assert_eq!(count(&env, "kv"), u64::from(2 * COMMITS + 2), "{is_back}");
        assert_eq!(count(&env, "other"), u64::from(3 * COMMITS), "{is_back}");
    }
}

#[test]
fn a_file_that_is_missing_or_replaced_while_the_environment_is_open_stops_only_its_own_database() {
    let place = Place::new();
    let path = place.at("env");
    let env = open(&path);
    fill(&env, "kv", 0);
    fill(&env, "other", 0);
    let theirs = place.at("theirs");
    fill(&open(&theirs), "kv", 0);
    let bytes = fs::read(theirs.join("kv.tp")).unwrap();
    let away = place.at("away.tp");
    fs::rename(path.join("kv.tp"), &away).unwrap();
    // The second handle does not have the descriptors of the first handle.
    let second = open(&path);
    assert_away(&second, "kv");
    fill(&second, "other", COMMITS);
    assert!(second.checkpoint().unwrap(), "pages that cannot be written must not stop the checkpoint");
    fs::write(path.join("kv.tp"), &bytes).unwrap();
    assert!(second.btree("kv").is_err());
    assert!(second.checkpoint().unwrap());
    assert!(fs::read(path.join("kv.tp")).unwrap() == bytes, "the foreign file was changed");
    fs::rename(&away, path.join("kv.tp")).unwrap();
    assert_eq!(count(&second, "kv"), u64::from(COMMITS));
    assert_eq!(count(&second, "other"), u64::from(2 * COMMITS));
    drop((env, second));
    assert_eq!(count(&open(&path), "kv"), u64::from(COMMITS));
}

#[test]
fn a_database_whose_file_is_missing_is_dropped_on_request_and_its_name_is_free() {
    let place = Place::new();
    let env = open(&place.at("env"));
    fill(&env, "kv", 0);
    let told = env.drop_missing("kv").expect_err("its file is there").to_string();
    assert!(told.contains("kv.tp is not missing"), "{told}");
    assert!(matches!(env.drop_missing("nothing"), Err(Error::NoDatabase { .. })));
    let path = place.at("crashed");
    crash(&env, &path);
    let away = place.at("away.tp");
    fs::rename(path.join("kv.tp"), &away).unwrap();
    {
        let env = open(&path);
        assert_away(&env, "kv");
        env.drop_missing("kv").unwrap();
        assert!(matches!(env.verify("kv"), Err(Error::NoDatabase { .. })));
        fill(&env, "kv", 7);
    }
    let env = open(&path);
    assert_eq!(count(&env, "kv"), u64::from(COMMITS));
    assert!(env.run(|txn| Ok(env.btree("kv").unwrap().get(txn, &0_u32.to_be_bytes())?.is_none())).unwrap());
    drop(env);
    // The file of the dropped database must not be taken for the file of the new database.
    fs::rename(&away, path.join("kv.tp")).unwrap();
    let told = open(&path).btree("kv").expect_err("the database was dropped").to_string();
    assert!(told.contains("was dropped"), "{told}");
}

#[test]
fn an_unfinished_transaction_is_undone_in_a_missing_file_when_the_file_returns() {
    for (is_written, away_for) in [(false, 1), (true, 1), (true, 3)] {
        let place = Place::new();
        let env = open(&place.at("env"));
        for name in ["kv", "other", "third"] {
            fill(&env, name, 0);
        }
        let [kv, other, third] = ["kv", "other", "third"].map(|name| env.btree(name).unwrap());
        let txn = env.begin().unwrap();
        for number in [0_u32, 3, 90, 7] {
            for db in [&kv, &other, &third] {
                db.put(&txn, &number.to_be_bytes(), b"of the loser").unwrap();
            }
            kv.delete(&txn, &(number + 20).to_be_bytes()).unwrap();
        }
        if is_written {
            // The loser's changes are in the files, and redo begins after their log records.
            assert!(env.checkpoint().unwrap());
        }
        env.flush().unwrap();
        let mut path = place.at("crashed 0");
        crash(&env, &path);
        let away = ["kv", "third"].map(|name| (path.join(format!("{name}.tp")), place.at(&format!("{name} away"))));
        away.iter().for_each(|(from, to)| fs::rename(from, to).unwrap());
        for round in 1..=away_for {
            let env = open(&path);
            assert_away(&env, "kv");
            assert_eq!(
                count(&env, "other"),
                u64::from(round * COMMITS),
                "the loser's changes must be undone in this database"
            );
            fill(&env, "other", round * COMMITS);
            assert!(env.checkpoint().unwrap());
            path = place.at(&format!("crashed {round}"));
            crash(&env, &path);
        }
        // The two files return one after the other.
        for (name, (_, away)) in ["kv", "third"].iter().zip(&away) {
            fs::rename(away, path.join(format!("{name}.tp"))).unwrap();
            for again in ["first", "again"] {
                let env = open(&path);
                assert_eq!(count(&env, name), u64::from(COMMITS), "{name} {is_written} {away_for}");
                let db = env.btree(name).unwrap();
                let found = |number: u32| env.run(|txn| db.get(txn, &number.to_be_bytes())).unwrap();
                for number in [0, 3, 7, 20, 23, 27] {
                    assert_eq!(found(number).as_deref(), Some(name.as_bytes()), "{name} {number}");
                }
                assert_eq!(found(90), None);
                // The unfinished transaction has been undone. Another restart must not undo these later changes
                // instead.
                fill(&env, name, 0);
                assert!(env.checkpoint().unwrap());
                let next = place.at(&format!("{again} {name} is back"));
                crash(&env, &next);
                path = next;
            }
        }
    }
}

#[test]
fn the_log_of_a_dropped_missing_database_is_recycled_while_another_file_is_missing() {
    let place = Place::new();
    let settings = Settings {
        log_segment_first: Some(Bytes::kib(16)),
        log_segment_max: Some(Bytes::kib(16)),
        no_background: true,
        ..Settings::default()
    };
    let open = |path: &Path| Env::builder().settings(settings.clone()).open(path).unwrap();
    let env = open(&place.at("env"));
    for name in ["kv", "other", "third"] {
        fill(&env, name, 0);
    }
    assert!(env.checkpoint().unwrap());
    let kv = env.btree("kv").unwrap();
    let txn = env.begin().unwrap();
    kv.put(&txn, b"key", b"of the loser").unwrap();
    // There are several segments between the loser's change and the first change of the other missing file.
    (1..20).for_each(|round| fill(&env, "other", round * COMMITS));
    fill(&env, "third", COMMITS);
    env.flush().unwrap();
    let mut path = place.at("crashed 0");
    crash(&env, &path);
    fs::remove_file(path.join("kv.tp")).unwrap();
    let (third, away) = (path.join("third.tp"), place.at("third away"));
    fs::rename(third, &away).unwrap();
    for round in 1..5 {
        let env = open(&path);
        if round == 1 {
            env.drop_missing("kv").unwrap();
        }
        assert_away(&env, "third");
        fill(&env, "other", (20 + round) * COMMITS);
        assert!(env.checkpoint().unwrap());
        path = place.at(&format!("crashed {round}"));
        crash(&env, &path);
    }
    fs::rename(&away, path.join("third.tp")).unwrap();
    let env = open(&path);
    let first = env.log_files().unwrap()[0].name.clone();
    assert!(first.as_str() > "log.00000002", "the log of the loser's change is still kept");
    assert_eq!(count(&env, "third"), u64::from(2 * COMMITS));
}

#[test]
fn a_restart_finds_a_drop_in_the_log_if_the_register_is_damaged() {
    let place = Place::new();
    let env = open(&place.at("env"));
    fill(&env, "kv", 0);
    fill(&env, "other", 0);
    env.run(|txn| txn.drop_database("kv")).unwrap();
    fill(&env, "other", COMMITS);
    let path = place.at("crashed");
    crash(&env, &path);
    // Damages the slot of the first database, so that its drop cannot be read.
    let mut register = fs::read(path.join("databases")).unwrap();
    register[512 + 40] ^= 1;
    fs::write(path.join("databases"), &register).unwrap();
    let env = open(&path);
    assert_eq!(env.databases().unwrap(), ["other"]);
    assert_eq!(count(&env, "other"), u64::from(2 * COMMITS));
    assert!(env.checkpoint().unwrap());
    let again = place.at("again");
    crash(&env, &again);
    let env = open(&again);
    let log_bytes = env.opened().log_bytes;
    assert!(log_bytes < 5000, "the log is kept for the dropped database: {log_bytes} bytes");
    fill(&env, "kv", 0);
    assert_eq!(count(&env, "kv"), u64::from(COMMITS));
}

#[test]
fn the_reads_of_an_opening_do_not_grow_with_the_number_of_databases() {
    let place = Place::new();
    let path = place.at("env");
    let mut env = open(&path);
    let many = sizes::number("LIBTP_TEST_DATABASES", 300);
    let begun = Instant::now();
    for number in 0..many {
        // Opens the environment again from time to time, because a process has a limited number of descriptors.
        if number % 900 == 899 {
            drop(env);
            env = open(&path);
        }
        env.btree(&format!("db{number}")).unwrap();
    }
    println!("figures: {many} databases made in {:.1?}", begun.elapsed());
    assert_eq!(env.databases().unwrap().len() as u64, many);
    drop(env);
    let begun = Instant::now();
    let env = open(&path);
    let opened = begun.elapsed();
    let got = env.run(|txn| env.btree("db7").unwrap().get(txn, b"key")).unwrap();
    assert_eq!(got, None);
    println!("figures: opened among {many} databases in {opened:.1?}, with one get in {:.1?}", begun.elapsed());
    drop(env);
    // An opening does not need the databases' files: all files but one can be missing.
    let away = place.at("away");
    fs::create_dir(&away).unwrap();
    let is_one = |name: &str| name.ends_with(".tp") && name.starts_with("db") && name != "db7.tp";
    for entry in fs::read_dir(&path).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if is_one(&name) {
            fs::rename(path.join(&name), away.join(&name)).unwrap();
        }
    }
    let env = open(&path);
    fill(&env, "db7", 0);
    assert_eq!(env.databases().unwrap().len() as u64, many);
    assert_away(&env, "db299");
}

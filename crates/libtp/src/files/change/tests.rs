//! Tests of changes of plain files in a transaction, and of refusals.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::files::recovery::recover;
use crate::{Db, Durability, Env, Error};

/// An environment with a database, and a directory next to it.
struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
    env: Env,
    users: Db,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        // Background work would finish files that a test has left for later.
        let settings = crate::Settings { no_background: true, ..crate::Settings::default() };
        let builder = Env::builder().settings(settings).lock_timeout(Duration::from_millis(50));
        let env = builder.open(path.join("env")).unwrap();
        let users = env.btree("users").unwrap();
        fs::create_dir(path.join("etc")).unwrap();
        Place { _dir: dir, path, env, users }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join("etc").join(name)
    }

    fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.at(name)).ok()
    }

    /// Returns the names in the directory, including those of temporary files.
    fn names(&self) -> Vec<String> {
        names_in(&self.path.join("etc"))
    }

    fn rows(&self) -> usize {
        let txn = self.env.begin().unwrap();
        let rows = self.env.btree("plain-files").unwrap();
        let mut cursor = rows.prefix(&txn, b"f").unwrap();
        let mut count = 0;
        while cursor.next().unwrap().is_some() {
            count += 1;
        }
        count
    }

    /// Commits while two readers wait for the row of file `a`. Both readers keep the row's lock for some time, so the
    /// row stays. With a single reader, the committing session could delete the row before the reader has the lock.
    fn commit_before_readers(&self, writer: crate::Txn<'_>, text: Option<&[u8]>) {
        let read = || {
            let reader = self.env.begin().unwrap();
            reader.set_lock_timeout(Some(Duration::from_secs(60)));
            assert_eq!(reader.read_file(self.at("a")).unwrap().as_deref(), text);
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(reader.read_file(self.at("a")).unwrap().as_deref(), text);
        };
        let waiters = || self.env.waits_for().unwrap().iter().map(|edge| edge.waiter.0).collect::<BTreeSet<_>>().len();
        std::thread::scope(|scope| {
            scope.spawn(read);
            scope.spawn(read);
            while waiters() < 2 {
                std::thread::sleep(Duration::from_millis(1));
            }
            writer.commit().unwrap();
            assert_eq!(self.text("a").as_deref().map(str::as_bytes), text);
        });
        assert_eq!(self.rows(), 1);
    }
}

fn names_in(path: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn assert_says(error: &Error, what: &str) {
    assert!(error.to_string().contains(what), "{error}");
}

#[test]
fn files_are_there_when_the_transaction_commits_and_not_before() {
    let place = Place::new();
    fs::write(place.at("shadow"), "old").unwrap();
    fs::write(place.at("group"), "wheel").unwrap();
    fs::write(place.at("motd"), "hello").unwrap();
    fs::set_permissions(place.at("shadow"), fs::Permissions::from_mode(0o640)).unwrap();
    let txn = place.env.begin_with(Durability::Relaxed).unwrap();
    place.users.put(&txn, b"margo", b"1001").unwrap();
    txn.create_file(place.at("passwd"), b"margo").unwrap();
    txn.replace_file(place.at("shadow"), b"new").unwrap();
    txn.rename_file(place.at("group"), place.at("group-")).unwrap();
    txn.remove_file(place.at("motd")).unwrap();
    assert_eq!(place.text("passwd"), None);
    assert_eq!(place.text("shadow").as_deref(), Some("old"));
    assert_eq!(txn.read_file(place.at("passwd")).unwrap().unwrap(), b"margo");
    assert_eq!(txn.read_file(place.at("shadow")).unwrap().unwrap(), b"new");
    assert_eq!(txn.read_file(place.at("group")).unwrap(), None);
    assert_eq!(txn.read_file(place.at("group-")).unwrap().unwrap(), b"wheel");
    assert_eq!(txn.read_file(place.at("motd")).unwrap(), None);
    txn.commit().unwrap();
    assert_eq!(place.names(), ["group-", "passwd", "shadow"]);
    assert_eq!(place.text("shadow").as_deref(), Some("new"));
    assert_eq!(fs::metadata(place.at("shadow")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(place.rows(), 0);
    // A `commit_async` puts files in their places, too.
    let txn = place.env.begin().unwrap();
    txn.replace_file(place.at("passwd"), b"").unwrap();
    txn.commit_async().unwrap();
    assert_eq!(place.text("passwd").as_deref(), Some(""));
}

#[test]
fn an_aborted_transaction_leaves_nothing() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    for by_drop in [true, false] {
        let txn = place.env.begin().unwrap();
        txn.replace_file(place.at("a"), b"2").unwrap();
        txn.create_file(place.at("b"), b"2").unwrap();
        txn.rename_file(place.at("b"), place.at("c")).unwrap();
        assert_eq!(place.names().len(), 4);
        if by_drop {
            drop(txn);
        } else {
            txn.abort().unwrap();
        }
        assert_eq!(place.names(), ["a"]);
        assert_eq!((place.text("a").as_deref(), place.rows()), (Some("1"), 0));
    }
}

#[test]
fn of_many_changes_of_one_path_the_last_is_kept() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    place
        .env
        .run(|txn| {
            txn.remove_file(place.at("a"))?;
            txn.create_file(place.at("a"), b"2")?;
            txn.replace_file(place.at("a"), b"3")?;
            txn.create_file(place.at("b"), b"4")?;
            txn.remove_file(place.at("b"))?;
            txn.rename_file(place.at("a"), place.at("c"))?;
            txn.rename_file(place.at("c"), place.at("c"))?;
            txn.create_file(place.at("a"), b"5")
        })
        .unwrap();
    assert_eq!(place.names(), ["a", "c"]);
    assert_eq!((place.text("a").as_deref(), place.text("c").as_deref()), (Some("5"), Some("3")));
    assert_eq!(place.rows(), 0);
    // Two names of one file.
    fs::hard_link(place.at("a"), place.at("b")).unwrap();
    place.env.run(|txn| txn.rename_file(place.at("a"), place.at("b"))).unwrap();
    assert_eq!(place.names(), ["b", "c"]);
}

#[test]
fn a_rollback_to_a_savepoint_undoes_changes_of_files() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.replace_file(place.at("a"), b"2").unwrap();
    let part = txn.savepoint();
    txn.replace_file(place.at("a"), b"3").unwrap();
    txn.create_file(place.at("b"), b"3").unwrap();
    part.roll_back().unwrap();
    assert_eq!(txn.read_file(place.at("a")).unwrap().unwrap(), b"2");
    let nested = txn.nested(|part| {
        part.remove_file(place.at("a"))?;
        part.create_file(place.at("a"), b"4")?;
        part.create_file(place.at("a"), b"5")
    });
    assert_says(&nested.unwrap_err(), "it exists already");
    txn.commit().unwrap();
    assert_eq!((place.names(), place.text("a").as_deref()), (vec!["a".to_string()], Some("2")));
}

#[test]
fn impossible_changes_are_refused_with_a_sentence() {
    let place = Place::new();
    fs::create_dir(place.at("dir")).unwrap();
    fs::write(place.at("a"), "1").unwrap();
    symlink("a", place.at("link")).unwrap();
    symlink("dir", place.at("way")).unwrap();
    let txn = place.env.begin().unwrap();
    let cases: [(&str, &str); 7] = [
        ("dir", "it is a directory, and a transaction changes only files"),
        ("link", "it is a symbolic link, and links are not followed"),
        ("way/x", "leads through a symbolic link"),
        ("none/x", "its directory is missing; nothing was changed. Make the directory first"),
        ("a/x", "it is a file, not a directory"),
        ("../etc/a", "contains `..`"),
        (".libtp-x", "begins like the names of temporary files"),
    ];
    for (name, why) in cases {
        let path = place.at(name);
        for refused in [
            txn.create_file(&path, b"x"),
            txn.replace_file(&path, b"x"),
            txn.remove_file(&path),
            txn.rename_file(place.at("a"), &path),
            txn.rename_file(&path, place.at("b")),
            txn.read_file(&path).map(|_| ()),
        ] {
            assert_says(&refused.unwrap_err(), why);
        }
    }
    assert_says(&txn.create_file(place.at("a"), b"").unwrap_err(), "it exists already");
    for missing in [txn.replace_file(place.at("x"), b""), txn.remove_file(place.at("x"))] {
        assert_says(&missing.unwrap_err(), "there is no such file");
    }
    assert_says(&txn.rename_file(place.at("x"), place.at("y")).unwrap_err(), "there is no such file");
    assert_says(&txn.create_file(place.path.join("env/x"), b"").unwrap_err(), "a directory of the environment");
    assert_says(&txn.create_file("/", b"").unwrap_err(), "it is a directory");
    let long = "x/".repeat(2000);
    assert_says(&txn.create_file(place.at(&long).join("x"), b"").unwrap_err(), "a key of");
    // Nothing was changed.
    txn.commit().unwrap();
    assert_eq!((place.names(), place.rows()), (["a", "dir", "link", "way"].map(String::from).to_vec(), 0));
}

#[test]
fn another_filesystem_is_refused_before_the_commit() {
    let elsewhere = Path::new("/dev/shm");
    let place = Place::new();
    if elsewhere.metadata().map_or(true, |there| there.dev() == place.path.metadata().unwrap().dev()) {
        eprintln!("SKIPPED: no second filesystem");
        return;
    }
    let other = tempfile::tempdir_in(elsewhere).unwrap();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    assert_says(&txn.rename_file(place.at("a"), other.path().join("a")).unwrap_err(), "on another filesystem");
    // One transaction may change files on both filesystems.
    txn.create_file(other.path().join("b"), b"2").unwrap();
    txn.replace_file(place.at("a"), b"2").unwrap();
    txn.commit().unwrap();
    assert_eq!((place.names(), names_in(other.path())), (vec!["a".to_string()], vec!["b".to_string()]));
}

#[test]
fn a_change_by_another_program_is_not_lost() {
    let place = Place::new();
    let change = |how: u32| match how {
        0 => fs::write(place.at("a"), "theirs, longer").unwrap(),
        1 => fs::remove_file(place.at("a")).unwrap(),
        _ => {
            fs::write(place.at("tmp"), "1").unwrap();
            fs::rename(place.at("tmp"), place.at("a")).unwrap();
        }
    };
    for how in 0..3 {
        for reads in [true, false] {
            fs::write(place.at("a"), "1").unwrap();
            let txn = place.env.begin().unwrap();
            place.users.put(&txn, b"how", &[1]).unwrap();
            if reads {
                assert_eq!(txn.read_file(place.at("a")).unwrap().unwrap(), b"1");
                change(how);
                if how == 1 {
                    assert_says(&txn.replace_file(place.at("a"), b"2").unwrap_err(), "no such file");
                    txn.create_file(place.at("a"), b"2").unwrap();
                } else {
                    txn.replace_file(place.at("a"), b"2").unwrap();
                }
            } else {
                txn.replace_file(place.at("a"), b"2").unwrap();
                change(how);
            }
            let theirs = place.text("a");
            assert_says(&txn.commit().unwrap_err(), "another program has changed it");
            assert_eq!(place.text("a"), theirs);
            assert_eq!(place.env.run(|txn| place.users.get(txn, b"how")).unwrap(), None);
            assert!(place.names().len() <= 1, "{:?}", place.names());
        }
    }
    // Other programs may change a file that was only read.
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.read_file(place.at("a")).unwrap();
    txn.create_file(place.at("b"), b"1").unwrap();
    change(0);
    txn.commit().unwrap();
}

#[test]
fn rights_that_another_program_has_changed_are_kept() {
    let place = Place::new();
    for name in ["a", "b"] {
        fs::write(place.at(name), "1").unwrap();
    }
    let txn = place.env.begin().unwrap();
    txn.replace_file(place.at("a"), b"2").unwrap();
    txn.remove_file(place.at("b")).unwrap();
    fs::set_permissions(place.at("a"), fs::Permissions::from_mode(0o600)).unwrap();
    assert_says(&txn.commit().unwrap_err(), "mode, owner or group");
    assert_eq!((place.names(), place.text("a").as_deref()), (["a", "b"].map(String::from).to_vec(), Some("1")));
    place.env.run(|txn| txn.replace_file(place.at("a"), b"2")).unwrap();
    assert_eq!(fs::metadata(place.at("a")).unwrap().permissions().mode() & 0o777, 0o600);
    // A removal ignores the rights.
    let txn = place.env.begin().unwrap();
    txn.remove_file(place.at("b")).unwrap();
    fs::set_permissions(place.at("b"), fs::Permissions::from_mode(0o600)).unwrap();
    txn.commit().unwrap();
    assert_eq!(place.names(), ["a"]);
}

#[test]
fn two_transactions_take_turns_over_a_file() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    let first = place.env.begin().unwrap();
    first.replace_file(place.at("a"), b"2").unwrap();
    let second = place.env.begin().unwrap();
    assert!(matches!(second.read_file(place.at("a")), Err(Error::LockTimeout(_))));
    assert!(matches!(second.replace_file(place.at("a"), b"3"), Err(Error::LockTimeout(_))));
    second.create_file(place.at("b"), b"another path").unwrap();
    first.commit().unwrap();
    second.replace_file(place.at("a"), b"3").unwrap();
    second.commit().unwrap();
    assert_eq!(place.text("a").as_deref(), Some("3"));
    let add = |_| {
        for _ in 0..10 {
            let add = |txn: &crate::Txn<'_>| {
                let mut text = txn.read_file(place.at("a"))?.unwrap();
                text.push(b'x');
                txn.replace_file(place.at("a"), &text)
            };
            // Together the other threads may take longer than the environment's lock timeout.
            place.env.try_run::<_, Error>(&crate::Run::new().lock_timeout(Duration::from_secs(60)), add).unwrap();
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| drop(scope.spawn(move || add(thread)))));
    assert_eq!(place.text("a").unwrap().len(), 41);
    assert_eq!((place.names(), place.rows()), (["a", "b"].map(String::from).to_vec(), 0));
}

#[test]
fn a_reading_transaction_does_not_keep_files_from_their_places() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    let writer = place.env.begin().unwrap();
    writer.replace_file(place.at("a"), b"2").unwrap();
    place.commit_before_readers(writer, Some(b"2"));
    // A leftover row is deleted when the readers have ended.
    place.env.background_step().unwrap();
    assert_eq!(place.rows(), 0);
    place.env.run(|txn| txn.replace_file(place.at("a"), b"3")).unwrap();
    assert_eq!((place.text("a").as_deref(), place.rows()), (Some("3"), 0));
}

#[test]
fn a_file_that_was_removed_and_put_back_by_another_program_stays() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    fs::hard_link(place.at("a"), place.at("aside")).unwrap();
    let writer = place.env.begin().unwrap();
    writer.remove_file(place.at("a")).unwrap();
    place.commit_before_readers(writer, None);
    // The same file comes back: its inode, length and time are unchanged.
    fs::rename(place.at("aside"), place.at("a")).unwrap();
    assert_eq!(place.env.run(|txn| txn.read_file(place.at("a"))).unwrap().as_deref(), Some(&b"1"[..]));
    place.env.background_step().unwrap();
    assert_eq!((place.text("a").as_deref(), place.rows()), (Some("1"), 0));
    assert_eq!(place.names(), ["a"]);
    place.env.run(|txn| txn.remove_file(place.at("a"))).unwrap();
    assert_eq!((place.names(), place.rows()), (Vec::new(), 0));
}

#[test]
fn a_file_that_could_not_be_put_in_its_place_is_reported_and_tried_again() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("d/x"), b"2").unwrap();
    txn.replace_file(place.at("a"), b"2").unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    // Another program makes a directory meanwhile.
    fs::create_dir(place.at("d/x")).unwrap();
    let error = group.finish(&place.env.0).unwrap_err();
    assert!(matches!(error, Error::FilesWaiting { .. }) && !error.is_retryable());
    assert_says(&error, "another program has made a directory in its place. The change is kept; move the directory away, and the library puts the file in its place");
    assert_eq!(place.text("a").as_deref(), Some("2"), "the other file is in its place");
    assert_eq!(place.env.run(|txn| txn.read_file(place.at("d/x"))).unwrap().unwrap(), b"2");
    fs::remove_dir(place.at("d/x")).unwrap();
    let Place { env, users, path, _dir } = place;
    drop((env, users));
    drop(Env::open_or_create(path.join("env")).unwrap());
    assert_eq!(names_in(&path.join("etc/d")), ["x"]);
}

#[test]
fn a_change_in_a_missing_directory_waits_for_the_directory() {
    let place = Place::new();
    let (disk, elsewhere) = (place.at("disk"), place.path.join("elsewhere"));
    fs::create_dir(&disk).unwrap();
    fs::write(place.at("disk/old"), "1").unwrap();
    fs::write(place.at("beside"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("disk/x"), b"2").unwrap();
    txn.remove_file(place.at("disk/old")).unwrap();
    txn.remove_file(place.at("beside")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    let number = txn.id();
    txn.commit_records().unwrap();
    // The machine stops here, and after its restart the disk is not mounted.
    fs::rename(&disk, &elsewhere).unwrap();
    let error = group.finish(&place.env.0).unwrap_err();
    assert_says(&error, "is missing");
    let waiting: Vec<_> = place.env.waiting_files().unwrap();
    assert_eq!(waiting.iter().map(|file| file.is_removed).collect::<Vec<_>>(), [true, true, false]);
    assert!(waiting.iter().all(|file| file.txn == number) && waiting[2].path == place.at("disk/x"));
    // Another directory is in the disk's place.
    fs::create_dir(&disk).unwrap();
    recover(&place.env.0);
    for refused in [
        place.env.run(|txn| txn.read_file(place.at("disk/x")).map(drop)),
        place.env.run(|txn| txn.create_file(place.at("disk/x"), b"3")),
        place.env.run(|txn| txn.replace_file(place.at("beside"), b"3")),
    ] {
        assert_says(&refused.unwrap_err(), "was replaced by another directory");
    }
    assert_eq!((place.text("beside").as_deref(), place.env.waiting_files().unwrap().len()), (Some("1"), 3));
    // Other transactions can change other files, also in that directory.
    place.env.run(|txn| txn.create_file(place.at("disk/y"), b"3")).unwrap();
    place.env.run(|txn| txn.remove_file(place.at("disk/y"))).unwrap();
    // The disk is back.
    fs::remove_dir(&disk).unwrap();
    fs::rename(&elsewhere, &disk).unwrap();
    recover(&place.env.0);
    assert_eq!((names_in(&disk), place.text("disk/x").as_deref()), (vec!["x".to_string()], Some("2")));
    assert_eq!((place.text("beside"), place.rows()), (None, 0));
}

#[test]
fn a_change_that_waits_for_a_removed_directory_can_be_given_up() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("d/x"), b"2").unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    fs::remove_dir_all(place.at("d")).unwrap();
    assert_says(&group.finish(&place.env.0).unwrap_err(), "`tp files --forget`");
    fs::create_dir(place.at("d")).unwrap();
    assert!(place.env.forget_file(place.at("d/x")).unwrap());
    assert!(!place.env.forget_file(place.at("d/x")).unwrap());
    assert_eq!(place.env.waiting_files().unwrap(), []);
    place.env.run(|txn| txn.create_file(place.at("d/x"), b"3")).unwrap();
    assert_eq!(place.text("d/x").as_deref(), Some("3"));
}

#[test]
fn a_file_that_was_renamed_into_a_directory_that_is_gone_keeps_its_old_name() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.rename_file(place.at("a"), place.at("d/x")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    fs::remove_dir_all(place.at("d")).unwrap();
    assert!(group.finish(&place.env.0).is_err());
    assert!(place.env.forget_file(place.at("d/x")).unwrap());
    recover(&place.env.0);
    assert_eq!((place.text("a").as_deref(), place.rows()), (Some("1"), 0));
}

#[test]
fn a_change_that_can_be_carried_out_is_not_given_up() {
    let place = Place::new();
    fs::write(place.at("gone"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("a"), b"2").unwrap();
    txn.remove_file(place.at("gone")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    for name in ["a", "gone"] {
        assert!(!place.env.forget_file(place.at(name)).unwrap(), "{name}");
    }
    group.finish(&place.env.0).unwrap();
    assert_eq!((place.text("a").as_deref(), place.text("gone"), place.rows()), (Some("2"), None, 0));
}

#[test]
fn files_of_dead_sessions_are_swept_while_another_file_waits() {
    let place = Place::new();
    fs::create_dir(place.at("d")).unwrap();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("a"), b"2").unwrap();
    txn.create_file(place.at("d/x"), b"2").unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    fs::remove_dir_all(place.at("d")).unwrap();
    assert!(group.finish(&place.env.0).is_err());
    let door = super::Door::of(&place.env.0).unwrap();
    let dead = place.at(&door.temporary(super::Owner { incarnation: 0, txn: 1 }, 1));
    fs::write(&dead, "").unwrap();
    recover(&place.env.0);
    assert!(!dead.exists(), "{:?}", place.names());
    assert_eq!(place.env.waiting_files().unwrap().len(), 1);
}

#[test]
fn a_row_that_an_older_build_wrote_is_carried_out() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.remove_file(place.at("a")).unwrap();
    let (rows, key) = (super::rows(&place.env.0).unwrap(), super::row::key(place.at("a").to_str().unwrap()));
    let row = super::Row::decode(&key, &rows.get(&txn, &key).unwrap().unwrap()).unwrap();
    txn.abort().unwrap();
    let older = super::Row { directory: None, witness: None, ..row };
    place.env.run(|txn| rows.put(txn, &key, &older.encode())).unwrap();
    recover(&place.env.0);
    assert_eq!((place.text("a"), place.rows()), (None, 0));
    // A file of that name that is made later stays.
    fs::write(place.at("a"), "1").unwrap();
    recover(&place.env.0);
    assert_eq!(place.text("a").as_deref(), Some("1"));
}

#[test]
fn a_file_that_another_program_made_after_the_commit_is_kept_under_another_name() {
    let place = Place::new();
    for name in ["a", "gone"] {
        fs::write(place.at(name), "1").unwrap();
    }
    let txn = place.env.begin().unwrap();
    let number = txn.id();
    txn.replace_file(place.at("a"), b"2").unwrap();
    txn.create_file(place.at("new"), b"2").unwrap();
    txn.remove_file(place.at("gone")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    for name in ["a", "gone", "new"] {
        fs::write(place.at(name), "theirs").unwrap();
    }
    group.finish(&place.env.0).unwrap();
    assert_eq!(place.names(), ["a", &format!("a.kept-{number}-1"), "gone", "new", &format!("new.kept-{number}-1")]);
    let texts: Vec<_> = place.names().iter().map(|name| place.text(name).unwrap()).collect();
    assert_eq!(texts, ["2", "theirs", "theirs", "2", "theirs"]);
}

#[test]
fn a_copy_of_the_environment_touches_no_file_of_the_original() {
    let place = Place::new();
    fs::write(place.at("a"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.replace_file(place.at("a"), b"2").unwrap();
    fs::write(place.at("b"), "gone").unwrap();
    txn.remove_file(place.at("b")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    place.env.checkpoint().unwrap();
    let copy = place.path.join("copy");
    fs::create_dir(&copy).unwrap();
    for name in names_in(&place.path.join("env")).iter().filter(|name| *name != "region") {
        fs::copy(place.path.join("env").join(name), copy.join(name)).unwrap();
    }
    let copied = Env::open_or_create(&copy).unwrap();
    assert_eq!(place.text("a").as_deref(), Some("1"));
    assert_eq!(place.names().len(), 4, "the temporary file and the witness are the original's");
    assert_eq!(copied.run(|txn| txn.read_file(place.at("a"))).unwrap().unwrap(), b"1");
    drop(copied);
    group.finish(&place.env.0).unwrap();
    assert_eq!((place.names(), place.text("a").as_deref()), (vec!["a".to_string()], Some("2")), "b is removed");
}

#[test]
fn a_transaction_with_files_is_not_passed_on() {
    let place = Place::new();
    let txn = place.env.begin().unwrap();
    txn.create_file(place.at("a"), b"1").unwrap();
    assert_says(&txn.detach().unwrap_err(), "it has read or changed plain files");
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn temporary_files_of_living_sessions_stay_and_those_of_dead_sessions_are_removed() {
    let place = Place::new();
    let living = place.env.begin().unwrap();
    living.create_file(place.at("a"), b"1").unwrap();
    let dead = place.env.begin().unwrap();
    dead.create_file(place.at("b"), b"1").unwrap();
    fs::write(place.at(".libtp-of-another"), "").unwrap();
    recover(&place.env.0);
    assert_eq!(place.names().len(), 3);
    dead.die();
    place.env.0.newest().managers.reap().unwrap();
    recover(&place.env.0);
    assert_eq!(place.names().len(), 2);
    living.commit().unwrap();
    assert_eq!(place.names(), [".libtp-of-another", "a"]);
}

#[test]
fn one_transaction_creates_thousands_of_files() {
    let place = Place::new();
    let txn = place.env.begin().unwrap();
    for number in 0..3000_u32 {
        txn.create_file(place.at(&format!("{number:04}")), &number.to_le_bytes()).unwrap();
    }
    txn.commit().unwrap();
    let names = place.names();
    assert_eq!((names.len(), place.rows()), (3000, 0));
    for (number, name) in names.iter().enumerate() {
        assert_eq!(fs::read(place.at(name)).unwrap(), u32::try_from(number).unwrap().to_le_bytes());
    }
}

/// A session finishes its files long after its commit; another process has put them in their places since, and a later
/// transaction has reversed that change.
#[test]
fn a_late_finish_undoes_no_change_of_a_later_transaction() {
    let place = Place::new();
    fs::write(place.at("p"), "1").unwrap();
    let txn = place.env.begin().unwrap();
    txn.rename_file(place.at("p"), place.at("q")).unwrap();
    let group = txn.files().prepare(&txn).unwrap().unwrap();
    txn.commit_records().unwrap();
    place.env.run(|txn| txn.rename_file(place.at("q"), place.at("p"))).unwrap();
    assert_eq!((place.names(), place.text("p").as_deref()), (vec!["p".to_string()], Some("1")));
    group.finish(&place.env.0).unwrap();
    assert_eq!((place.names(), place.text("p").as_deref()), (vec!["p".to_string()], Some("1")));
}

#[test]
fn a_commit_that_is_not_waited_for_is_on_the_disk_before_its_files_are_seen() {
    let place = Place::new();
    let txn = place.env.begin().unwrap();
    place.users.put(&txn, b"a", b"1").unwrap();
    txn.create_file(place.at("a"), b"1").unwrap();
    let lsn = txn.commit_async().unwrap();
    assert_eq!(place.text("a").as_deref(), Some("1"));
    place.env.wait_durable(lsn).unwrap();
    assert_eq!(place.rows(), 0);
}

#[test]
fn commit_and_commit_async_put_files_in_their_places_after_the_memory_was_given_up() {
    for waits in [true, false] {
        let place = Place::new();
        let txn = place.env.begin().unwrap();
        place.users.put(&txn, b"a", b"1").unwrap();
        txn.create_file(place.at("a"), b"1").unwrap();
        place.env.managers().region.mark_broken();
        match waits {
            true => txn.commit().unwrap(),
            false => txn.commit_async().map(drop).unwrap(),
        }
        assert_eq!((place.text("a").as_deref(), place.rows()), (Some("1"), 0), "waits: {waits}");
    }
}

#[test]
fn files_can_be_made_with_very_many_locks_held_and_with_page_locks() {
    let mut place = Place::new();
    let mut other = Place::new();
    for (place, locks) in [(&mut place, 99_960), (&mut other, 0)] {
        if locks == 0 {
            let plain = crate::ground::settings::DatabaseSettings {
                granularity: Some(crate::Granularity::Page),
                ..Default::default()
            };
            let settings = crate::Settings {
                no_background: true,
                database: [("plain-files".to_owned(), plain)].into(),
                ..crate::Settings::default()
            };
            let path = place.path.join("with pages");
            place.env = Env::builder().settings(settings).lock_timeout(Duration::from_millis(50)).open(path).unwrap();
            place.users = place.env.btree("users").unwrap();
        }
        for directory in 0..9 {
            fs::create_dir(place.at(&format!("{directory}"))).unwrap();
        }
        let txn = place.env.begin().unwrap();
        let count = || txn.generation().managers.locks.count(txn.session().locker());
        let mut next = 0_u32;
        while count() < locks {
            place.users.put(&txn, &next.to_be_bytes(), b"").unwrap();
            next += 1;
        }
        for directory in 0..9 {
            for name in 0..9 {
                txn.create_file(place.at(&format!("{directory}/{name}")), b"new").unwrap();
            }
        }
        assert!(locks == 0 || count() > 100_000, "{} locks", count());
        txn.commit().unwrap();
        assert_eq!(place.text("8/8").as_deref(), Some("new"));
    }
}

//! Single rules of plain files: another program's change is kept, files of living processes are not swept, and a copy
//! of an environment changes no files of the original.

use std::fs;
use std::path::{Path, PathBuf};

use libtp::Env;

use crate::business::names_in;

fn place() -> (tempfile::TempDir, PathBuf, Env) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap();
    fs::create_dir(path.join("etc")).unwrap();
    let env = Env::open_or_create(path.join("env")).unwrap();
    (dir, path, env)
}

/// Opens without background threads, which would finish work that a test has left for later.
fn idle(path: &Path) -> Env {
    let settings = libtp::Settings { no_background: true, ..libtp::Settings::default() };
    Env::builder().settings(settings).open(path.join("env")).unwrap()
}

#[test]
fn a_file_that_another_program_changed_is_not_replaced() {
    let (_dir, path, env) = place();
    let file = path.join("etc/passwd");
    fs::write(&file, "one").unwrap();
    let txn = env.begin().unwrap();
    txn.replace_file(&file, b"two").unwrap();
    fs::write(&file, "theirs").unwrap();
    let refused = txn.commit().unwrap_err().to_string();
    assert!(refused.contains("another program has changed it") && refused.contains("etc/passwd"), "{refused}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    assert_eq!(names_in(&path.join("etc")), ["passwd"]);
}

#[test]
fn a_removed_file_that_was_restored_is_kept() {
    let (_dir, path, env) = place();
    drop(env);
    let env = idle(&path);
    let file = path.join("etc/passwd");
    fs::write(&file, "one").unwrap();
    let (rows, key) = (env.btree("plain-files").unwrap(), [b"f", file.to_str().unwrap().as_bytes()].concat());
    let txn = env.begin().unwrap();
    txn.remove_file(&file).unwrap();
    let value = rows.get(&txn, &key).unwrap().unwrap();
    txn.abort().unwrap();
    assert_eq!(names_in(&path.join("etc")), ["passwd"]);
    // Makes the state in which the file was removed, and another program has put the same file back. The row of the
    // removal still exists, as if another transaction were reading it.
    env.run(|txn| rows.put(txn, &key, &value)).unwrap();
    assert_eq!(env.run(|txn| txn.read_file(&file)).unwrap().as_deref(), Some(&b"one"[..]));
    drop((rows, env));
    let env = Env::open_or_create(path.join("env")).unwrap();
    assert_eq!((fs::read_to_string(&file).ok().as_deref(), env.waiting_files().unwrap()), (Some("one"), Vec::new()));
}

#[test]
fn an_opener_sweeps_no_files_of_running_transactions() {
    let (_dir, path, env) = place();
    let living = env.begin().unwrap();
    living.create_file(path.join("etc/a"), b"1").unwrap();
    let dead = env.begin().unwrap();
    dead.create_file(path.join("etc/b"), b"1").unwrap();
    dead.die();
    // The process that repairs the dead process also sweeps.
    let start = std::time::Instant::now();
    while names_in(&path.join("etc")).len() > 1 {
        assert!(start.elapsed().as_secs() < 10, "{:?}", names_in(&path.join("etc")));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    living.commit().unwrap();
    assert_eq!(names_in(&path.join("etc")), ["a"]);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for name in names_in(from).iter().filter(|name| *name != "region") {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

/// Replaces a file, and makes the state of a death between the commit and the finish: the row exists, and so does a
/// temporary file. Returns the path of the temporary file.
fn replace_half(env: &Env, file: &Path, contents: &[u8]) -> PathBuf {
    let (rows, directory) = (env.btree("plain-files").unwrap(), file.parent().unwrap());
    let txn = env.begin().unwrap();
    txn.replace_file(file, contents).unwrap();
    let key = [b"f", file.to_str().unwrap().as_bytes()].concat();
    let value = rows.get(&txn, &key).unwrap().unwrap();
    let waiting: Vec<_> = names_in(directory).into_iter().filter(|name| name.starts_with(".libtp-")).collect();
    let [waiting] = &waiting[..] else { panic!("{waiting:?}") };
    let (waiting, kept) = (directory.join(waiting), directory.join("../kept"));
    fs::hard_link(&waiting, &kept).unwrap();
    txn.abort().unwrap();
    env.run(|txn| rows.put(txn, &key, &value)).unwrap();
    env.checkpoint().unwrap();
    fs::rename(&kept, &waiting).unwrap();
    waiting
}

#[test]
fn a_file_on_an_unmounted_disk_waits_for_the_disk() {
    let (_dir, path, env) = place();
    drop(env);
    let (disk, file) = (path.join("etc/d"), path.join("etc/d/passwd"));
    fs::create_dir(&disk).unwrap();
    let env = idle(&path);
    env.run(|txn| txn.create_file(&file, b"two")).unwrap();
    replace_half(&env, &file, b"three");
    drop(env);
    let away = path.join("away");
    fs::rename(&disk, &away).unwrap();
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(&disk).unwrap();
        }
        let env = Env::open_or_create(path.join("env")).unwrap();
        assert_eq!(env.waiting_files().unwrap().len(), 1, "another directory has the disk's path: {is_there}");
    }
    fs::remove_dir(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    let env = Env::open_or_create(path.join("env")).unwrap();
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), names_in(&disk)), ("three", vec!["passwd".to_owned()]));
    assert_eq!(env.waiting_files().unwrap(), []);
}

#[test]
fn a_copied_environment_does_not_finish_files_of_the_original() {
    let (_dir, path, env) = place();
    drop(env);
    let env = idle(&path);
    let file = path.join("etc/d/passwd");
    fs::create_dir(path.join("etc/d")).unwrap();
    env.run(|txn| txn.create_file(&file, b"two")).unwrap();
    let waiting = replace_half(&env, &file, b"three");
    let copied = path.join("copy");
    copy(&path.join("env"), &copied);
    drop(Env::open_or_create(&copied).unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    assert!(waiting.exists(), "the waiting file belongs to the original");
    // The original then finishes the waiting file.
    drop(env);
    drop(Env::open_or_create(path.join("env")).unwrap());
    assert_eq!(fs::read_to_string(&file).unwrap(), "three");
}

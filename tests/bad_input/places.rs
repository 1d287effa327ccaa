//! Paths at which an environment cannot be opened or made.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use libtp::{Env, Error, OpenedBy, Settings, SharedMemory};
use libtp_io::Directory;
use libtp_sim::SimDisk;

use crate::error_texts::{refused, says};
use libtp_tests::small_disk::{alone, as_nobody, SmallDisk};
use libtp_tests::versions::platform;

#[test]
fn a_file_is_no_directory() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("letter");
    fs::write(&file, "Dear Sir").unwrap();
    for path in [file.clone(), file.join("env"), file.join("env/deeper")] {
        let error = refused(&path);
        assert!(matches!(error, Error::Environment { .. }), "{error}");
        says(&error, &["letter"]);
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "Dear Sir");
}

#[test]
fn impossible_paths_are_refused() {
    for path in ["", "a\0b"] {
        assert!(Env::open_or_create(path).is_err(), "{path:?}");
    }
    let long = PathBuf::from("/tmp").join("n".repeat(300));
    says(&refused(&long), &["nnn"]);
}

#[test]
fn a_missing_directory_is_made_only_on_request() {
    let place = tempfile::tempdir().unwrap();
    let deep = place.path().join("one/two/three");
    let error = Env::builder().create(false).open(&deep).unwrap_err();
    says(&error, &["three"]);
    assert!(!place.path().join("one").exists());
    assert_eq!(Env::open_or_create(&deep).unwrap().opened().how, OpenedBy::Created);
    assert_eq!(Env::builder().create(false).open(&deep).unwrap().opened().how, OpenedBy::Clean);
    // The directory exists and has no environment: a request for an existing environment must make none.
    let empty = place.path().join("empty");
    fs::create_dir(&empty).unwrap();
    says(&Env::builder().create(false).open(&empty).unwrap_err(), &["empty"]);
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_link_to_nowhere_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let link = place.path().join("link");
    std::os::unix::fs::symlink(place.path().join("nowhere"), &link).unwrap();
    says(&refused(&link), &["link"]);
}

#[test]
fn a_directory_or_a_pipe_is_no_control_file() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    fs::create_dir_all(one.join("control")).unwrap();
    says(&refused(&one), &["control"]);
    fs::create_dir(&two).unwrap();
    let made = Command::new("mkfifo").arg(two.join("control")).status().unwrap();
    assert!(made.success());
    says(&refused(&two), &["control"]);
}

#[test]
fn a_read_only_disk_is_refused_and_named() {
    alone("places::a_read_only_disk_is_refused_and_named", || {
        let disk = SmallDisk::mount(64 << 20);
        let path = disk.path().join("env");
        let env = Env::open_or_create(&path).unwrap();
        let table = env.btree("table").unwrap();
        env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
        drop((table, env));
        disk.make_read_only();
        says(&refused(&path), &["read-only", "env"]);
        says(&refused(&disk.path().join("new")), &["read-only", "new"]);
    });
}

#[test]
fn a_directory_that_may_not_be_written_is_refused_and_named() {
    as_nobody("places::a_directory_that_may_not_be_written_is_refused_and_named", || {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("env");
        drop(Env::open_or_create(&path).unwrap());
        let set_mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        // First, no file can be made in the directory. Below, an existing file cannot be written.
        let empty = place.path().join("empty");
        fs::create_dir(&empty).unwrap();
        set_mode(&empty, 0o555);
        says(&refused(&empty), &["empty", "denied"]);
        says(&refused(&empty.join("deeper")), &["deeper", "denied"]);
        set_mode(&path.join("control"), 0o444);
        says(&refused(&path), &["env", "control", "denied"]);
        set_mode(&path.join("control"), 0o644);
        assert_eq!(Env::open_or_create(&path).unwrap().opened().how, OpenedBy::Clean);
        set_mode(&empty, 0o755);
    });
}

/// Opens an environment on a simulated disk.
fn open_simulated(process: &libtp_sim::SimProcess) -> libtp::Result<Env> {
    let directory: Arc<dyn Directory> = process.directory();
    let platform = platform(directory, &SharedMemory::new());
    let settings = Settings { no_background: true, ..Settings::default() };
    Env::builder().settings(settings).open_on(platform, &mut |_| {})
}

#[test]
fn a_disk_that_turns_read_only_is_refused_and_opens_when_it_is_writable_again() {
    let disk = SimDisk::new(1);
    let process = disk.process_view();
    let env = open_simulated(&process).unwrap();
    let table = env.btree("table").unwrap();
    env.run(|txn| table.put(txn, b"key", b"value")).unwrap();
    drop((table, env));
    disk.set_read_only(true);
    says(&open_simulated(&process).unwrap_err(), &["read-only", "control"]);
    disk.set_read_only(false);
    let env = open_simulated(&process).unwrap();
    let table = env.btree("table").unwrap();
    assert_eq!(env.run(|txn| table.get(txn, b"key")).unwrap().as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_network_filesystem_is_refused_with_a_remedy() {
    let disk = SimDisk::new(1);
    let process = disk.process_view();
    disk.set_network(true);
    let error = open_simulated(&process).unwrap_err();
    says(&error, &["network filesystem", "local disk", "sim:"]);
    assert!(disk.paths().is_empty(), "files were made on the network filesystem: {:?}", disk.paths());
    disk.set_network(false);
    assert_eq!(open_simulated(&process).unwrap().opened().how, OpenedBy::Created);
}

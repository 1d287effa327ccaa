//! Copies of an environment in use, and backups restored into its directory while its shared memory still exists.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtp::{Env, Error, Keep, OpenedBy};
use tempfile::TempDir;

#[cfg(feature = "failpoints")]
use libtp_tests::process::Heard;

use crate::crew::Member;

/// Copies a directory with `cp -a`. Existing files are overwritten and keep their inodes.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success(), "cp: {status}");
}

fn get(env: &Env, key: &str) -> Option<String> {
    let table = env.btree("table").unwrap();
    let value = env.run(|txn| table.get(txn, key.as_bytes())).unwrap();
    value.map(|value| String::from_utf8(value).unwrap())
}

#[test]
fn a_copy_of_a_live_environment_is_a_separate_environment() {
    let (directory, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut one, mut two) = (Member::start(directory.path(), 1), Member::start(directory.path(), 2));
    one.ask("put key original");
    two.ask("begin");
    two.ask("put key unfinished");
    copy(directory.path(), copied.path());
    let mut three = Member::start(copied.path(), 3);
    assert_eq!(three.how, "Restarted", "a process of the copy must not use the shared memory of the original");
    assert_ne!(three.ask("region"), one.ask("region"));
    assert_eq!(
        three.ask("get key"),
        "original",
        "the copy has the synced commit, and no change of the unfinished transaction"
    );
    assert_eq!(three.ask("put key copy"), "put");
    assert_eq!(two.ask("commit"), "committed");
    assert_eq!(one.ask("get key"), "unfinished");
    // The death of the copy's process does not affect the original, and later deaths of the original's processes do not
    // affect the copy.
    three.kill();
    assert_eq!(one.ask("put key on"), "put");
    one.kill();
    two.kill();
    let copy = Env::open_or_create(copied.path()).unwrap();
    let original = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((get(&copy, "key").as_deref(), get(&original, "key").as_deref()), (Some("copy"), Some("on")));
}

/// The time at which a backup is copied.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// While the same processes work. They die afterwards.
    SameIncarnation,
    /// After earlier processes have closed the environment in good order.
    EarlierIncarnation,
}

/// The way in which a backup replaces the files.
#[derive(Clone, Copy, Debug)]
enum Restored {
    /// The backup is copied over the existing files, which keep their inodes.
    Over,
    /// The files are removed, and then the backup is copied.
    Substitute,
}

const ALL: [(Of, Restored); 4] = [
    (Of::SameIncarnation, Restored::Over),
    (Of::SameIncarnation, Restored::Substitute),
    (Of::EarlierIncarnation, Restored::Over),
    (Of::EarlierIncarnation, Restored::Substitute),
];

/// Makes a directory for an environment, and a directory of its own for its shared memory. In the usual directory of
/// shared memory, another test's process could remove the region as left over while the environment is replaced.
fn apart() -> (TempDir, TempDir) {
    let (directory, memory) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // The segments are so small that a few hundred commits fill several.
    let settings = format!("region_directory = \"{}\"\nlog_segment_first = \"16KiB\"\n", memory.path().display());
    std::fs::write(directory.path().join("libtp.toml"), settings).unwrap();
    (directory, memory)
}

/// Removes the directory and puts the backup in its place.
fn replace_directory(backup: &TempDir, directory: &TempDir) {
    std::fs::remove_dir_all(directory.path()).unwrap();
    std::fs::create_dir(directory.path()).unwrap();
    copy(backup.path(), directory.path());
}

/// Makes an environment whose processes died and left their shared memory, and replaces its files by a backup. Returns
/// its directory and the directory of its shared memory.
fn restored(of: Of, how: Restored) -> (TempDir, TempDir) {
    restored_after(50, of, how)
}

/// Makes an environment as [`restored`] does; the shared memory has `commits` commits that the backup lacks.
fn restored_after(commits: u32, of: Of, how: Restored) -> (TempDir, TempDir) {
    let ((directory, memory), backup) = (apart(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key backup");
    match of {
        Of::SameIncarnation => copy(directory.path(), backup.path()),
        Of::EarlierIncarnation => {
            one.leave();
            copy(directory.path(), backup.path());
            one = Member::start(directory.path(), 2);
        }
    }
    for number in 0..commits {
        one.ask(&format!("put key later{number}"));
    }
    one.kill();
    one.wait();
    match how {
        Restored::Over => copy(backup.path(), directory.path()),
        Restored::Substitute => replace_directory(&backup, &directory),
    }
    (directory, memory)
}

#[test]
fn surviving_memory_and_a_restored_backup_are_refused_with_the_choices() {
    for (of, how) in ALL {
        let (directory, _memory) = restored(of, how);
        for _ in 0..2 {
            let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
            assert!(error.contains("--keep-files") && error.contains("--keep-region"), "{of:?} {how:?}: {error}");
            let numbers = error.split("LSN ").skip(1).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
            assert_eq!(
                numbers.count(),
                2,
                "{of:?} {how:?}: the error must name the LSNs of the files and of the memory: {error}"
            );
        }
    }
}

#[test]
fn the_choice_of_the_files_keeps_the_backup() {
    for (of, how) in ALL {
        let (directory, _memory) = restored(of, how);
        let env = Env::builder().keep(Keep::Files).open(directory.path()).unwrap();
        assert_eq!(get(&env, "key").as_deref(), Some("backup"), "{of:?} {how:?}");
        drop(env);
        assert_eq!(Env::open_or_create(directory.path()).unwrap().opened().how, OpenedBy::Clean, "{of:?} {how:?}");
    }
}

#[test]
fn the_choice_of_the_memory_keeps_the_later_changes() {
    for (of, how) in ALL {
        let (directory, _memory) = restored(of, how);
        let env = Env::builder().keep(Keep::Region).open(directory.path()).unwrap();
        assert_eq!(
            env.opened().how,
            OpenedBy::Restarted,
            "the data files are those of the backup, so the log must be replayed"
        );
        assert_eq!(get(&env, "key").as_deref(), Some("later49"), "{of:?} {how:?}");
        drop(env);
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!(env.opened().how, OpenedBy::Clean, "{of:?} {how:?}");
        assert_eq!(get(&env, "key").as_deref(), Some("later49"), "{of:?} {how:?}");
        assert!(env.verify("table").unwrap().findings.is_empty());
    }
}

/// A process appends the memory's log to the log of the files, and then restarts from both. It dies at each of these
/// failpoints.
#[cfg(feature = "failpoints")]
const DEATHS: [&str; 7] = [
    "rescue: a piece written, not synced",
    "rescue: a piece synced, its name not durable",
    "control: slot written, not synced",
    "restart: log's end found",
    "restart: region made",
    "restart: replayed",
    "restart: session left, region not ready",
];

#[cfg(feature = "failpoints")]
#[test]
fn the_choice_of_the_memory_can_be_repeated_after_a_death() {
    for (at, point) in DEATHS.into_iter().enumerate() {
        let (of, how) = ALL[at % ALL.len()];
        let (directory, _memory) = restored_after(300, of, how);
        let (keep, death) = (format!("{}=region", crate::child::KEEP), format!("LIBTP_FAILPOINT={point}"));
        let member = Member::launch_under(&["env", &keep, &death], directory.path(), 3, "record");
        let heard = member.hear_within(std::time::Duration::from_secs(60));
        assert_eq!(heard, Heard::End, "{of:?} {how:?}: the process does not reach {point:?}");
        drop(member);
        let env = Env::builder().keep(Keep::Region).open(directory.path()).unwrap();
        assert_eq!(get(&env, "key").as_deref(), Some("later299"), "{of:?} {how:?}, after a death at {point:?}");
        assert!(env.verify("table").unwrap().findings.is_empty());
        drop(env);
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!((env.opened().how, get(&env, "key").as_deref()), (OpenedBy::Clean, Some("later299")), "{point:?}");
    }
}

#[test]
fn broken_memory_and_a_restored_backup_are_refused_with_the_choices() {
    let restored = || {
        let ((directory, memory), backup) = (apart(), tempfile::tempdir().unwrap());
        let mut one = Member::start(directory.path(), 1);
        one.ask("put key backup");
        copy(directory.path(), backup.path());
        for number in 0..50 {
            one.ask(&format!("put key later{number}"));
        }
        one.order("break-and-abort");
        one.wait();
        copy(backup.path(), directory.path());
        (directory, memory)
    };
    let (directory, _memory) = restored();
    let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
    assert!(error.contains("--keep-files") && error.contains("--keep-region"), "{error}");
    for (keep, value) in [(Keep::Files, "backup"), (Keep::Region, "later49")] {
        let (directory, _memory) = restored();
        let env = Env::builder().keep(keep).open(directory.path()).unwrap();
        assert_eq!((env.opened().how, get(&env, "key").as_deref()), (OpenedBy::Restarted, Some(value)));
        drop(env);
        let env = Env::open_or_create(directory.path()).unwrap();
        assert_eq!((env.opened().how, get(&env, "key").as_deref()), (OpenedBy::Clean, Some(value)));
        assert!(env.verify("table").unwrap().findings.is_empty());
    }
}

#[test]
fn a_backup_that_has_all_that_the_memory_has_is_opened_without_a_question() {
    let ((directory, memory), backup) = (apart(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    one.kill();
    one.wait();
    copy(directory.path(), backup.path());
    replace_directory(&backup, &directory);
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((env.opened().how, get(&env, "key").as_deref()), (OpenedBy::Restarted, Some("value")));
    drop(env);
    assert_eq!(std::fs::read_dir(memory.path()).unwrap().count(), 0, "the old region must be removed");
}

#[test]
fn a_backup_restored_while_processes_have_the_former_files_open_is_refused() {
    let ((directory, _memory), backup) = (apart(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key backup");
    copy(directory.path(), backup.path());
    one.ask("put key later");
    let region = one.ask("region");
    replace_directory(&backup, &directory);
    let error = Env::open_or_create(directory.path()).unwrap_err().to_string();
    assert!(error.contains(&region) && error.contains("--keep-files"), "{error}");
    let error = Env::builder().keep(Keep::Region).open(directory.path()).unwrap_err().to_string();
    assert!(error.contains("end them first"), "{error}");
    // The processes that work in the former files continue, and the restored files do not affect them.
    let env = Env::builder().keep(Keep::Files).open(directory.path()).unwrap();
    assert_eq!((one.ask("get key").as_str(), get(&env, "key").as_deref()), ("later", Some("backup")));
    assert!(Path::new(&region).exists(), "the region of the processes must not be removed");
    one.kill();
    one.wait();
    std::fs::remove_file(region).unwrap();
}

#[test]
fn a_copied_region_file_is_not_trusted() {
    let (directory, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key value");
    let (region, aside) = (PathBuf::from(one.ask("region")), kept.path().join("region"));
    one.kill();
    one.wait();
    std::fs::copy(&region, &aside).unwrap();
    // The original file still exists under another name, so that the copy cannot get its inode number by chance.
    let other = region.with_file_name(format!("{}-aside", region.file_name().unwrap().to_string_lossy()));
    std::fs::rename(&region, &other).unwrap();
    std::fs::copy(&aside, &region).unwrap();
    let env = Env::open_or_create(directory.path()).unwrap();
    assert_eq!((env.opened().how, get(&env, "key").as_deref()), (OpenedBy::Restarted, Some("value")));
    drop(std::fs::remove_file(other));
}

#[test]
fn a_backup_restored_under_working_processes_is_noticed() {
    let (directory, backup) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut one = Member::start(directory.path(), 1);
    one.ask("put key before");
    copy(directory.path(), backup.path());
    one.ask("put key after");
    copy(backup.path(), directory.path());
    // A process that joins now sees the state of the running processes, or gets an error. It must not begin to use the
    // files without the region of the running processes.
    match Env::open_or_create(directory.path()) {
        Ok(env) => {
            assert_eq!(env.opened().how, OpenedBy::Joined);
            assert_eq!(get(&env, "key").as_deref(), Some("after"));
        }
        Err(error) => {
            assert!(matches!(error, Error::Environment { .. } | Error::Corrupt(_)), "{error}");
        }
    }
    assert_eq!(one.ask("get key"), "after");
}
